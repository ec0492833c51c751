"""PodTopologySpread: nodes are out where one more pod would make the domains too uneven; the others score by evenness.

Mirrors plugins/podtopologyspread/{plugin,filtering,scoring}.go.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from lightkube.models.core_v1 import Node

from bayplan.api.kinds import Kind
from bayplan.api.labels import InvalidSelector
from bayplan.cluster.columns import Bool, Int32, Int64
from bayplan.cluster.domains import Domains
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from bayplan.framework.interface import MAX_NODE_SCORE, CycleState, Handle, Plugin
from bayplan.framework.status import SKIP, Status
from bayplan.framework.verdicts import Rejections
from bayplan.plugins.arguments import PodTopologySpreadArgs
from bayplan.plugins.pod_topology_spread.constraints import (
    HARD,
    SOFT,
    SOURCES,
    SYSTEM_DEFAULTS,
    Constraint,
    DefaultConstraints,
    eligible,
    has_all_keys,
    own_constraints,
)

UNEVEN = Status.unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = Status.unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
HOSTNAME = "kubernetes.io/hostname"

_DEFAULT_ARGUMENTS = PodTopologySpreadArgs()


@dataclass(frozen=True, slots=True)
class HardSpread:
    """A constraint that must hold, with how things are now.

    `matching`: pods by domain, int64, one a code; `counted`: which domains count, `eligible` which rows do.
    """

    constraint: Constraint
    domains: Domains
    matching: Int64
    counted: Bool
    eligible: Bool

    def least(self, domain: int = 0, change: int = 0) -> int:
        """The fewest pods in a domain that counts, if one domain changed by so many."""
        matching = self.matching[self.counted]
        if len(matching) < self.constraint.min_domains or not len(matching):
            return 0
        if change and self.counted[domain]:
            changed = self.matching.copy()
            changed[domain] += change
            matching = changed[self.counted]
        return int(matching.min())


@dataclass(frozen=True, slots=True)
class SoftSpread:
    """A constraint to be kept to as far as possible. `scores`: float64, one a node that is scored."""

    scores: np.ndarray[Any, np.dtype[np.float64]]
    ignored: Bool


class PodTopologySpread(Plugin):
    """Spreads pods; those that say nothing about it by defaults, as far as they belong to something."""

    name = "PodTopologySpread"
    arguments = PodTopologySpreadArgs

    def __init__(self, handle: Handle, args: PodTopologySpreadArgs = _DEFAULT_ARGUMENTS) -> None:
        self._system = args.defaultingType == "System"
        self._defaults = DefaultConstraints(SYSTEM_DEFAULTS if self._system else args.defaultConstraints, handle)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Count matching pods by domain, over the nodes that the constraints want counted."""
        try:
            constraints = self._constraints(pod, HARD)
        except InvalidSelector as error:
            return Status.error(f"obtaining pod's hard topology spread constraints: {error}")
        if not constraints:
            return SKIP
        masks = eligible(constraints, pod, nodes, all_keys=True)
        cycle.data[self.name] = [
            _hard(constraint, mask, pod, nodes) for constraint, mask in zip(constraints, masks, strict=True)
        ]
        return None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Out is who lacks a label, or whose domain would have too many more than the one with the fewest."""
        spreads: list[HardSpread] = cycle.data[self.name]
        index: Int32 = np.zeros(len(nodes), dtype=np.int32)
        for spread in spreads:
            domains = spread.domains.at(nodes)
            itself = spread.constraint.matches(pod.labels)
            skew = spread.matching[domains] + (int(itself) - spread.least())
            for position in nodes.changes:
                skew[position] = _skew_if_changed(spread, pod, nodes, position) + int(itself)
            standing = index == 0
            index[standing & (skew > spread.constraint.max_skew)] = 1
            index[standing & (domains == 0)] = 2
        return Rejections(index, (UNEVEN, NO_LABEL)) if index.any() else None

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Count matching pods by domain, as far as a node that is scored lies in it."""
        try:
            constraints = self._constraints(pod, SOFT)
        except InvalidSelector as error:
            return Status.error(f"obtaining pod's soft topology spread constraints: {error}")
        if not constraints:
            return SKIP
        all_keys = bool(pod.spec.topologySpreadConstraints) or not self._system
        ignored = ~has_all_keys(constraints, nodes) if all_keys else np.zeros(len(nodes), dtype=np.bool_)
        everywhere = Nodes(nodes.table)
        masks = eligible(constraints, pod, everywhere, all_keys=all_keys)
        scores = np.zeros(len(nodes))
        for constraint, mask in zip(constraints, masks, strict=True):
            scores += _soft(constraint, mask, pod, nodes, everywhere, ignored)
        cycle.data[self.name, "score"] = SoftSpread(scores, ignored)
        return None

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """The pods in the node's domains, weighted so that many small domains do not drown few large ones."""
        spread: SoftSpread = cycle.data[self.name, "score"]
        return np.where(spread.ignored, 0, np.floor(spread.scores + 0.5)).astype(np.int64)

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64:
        """The fewer the better; a node that lacks a label gets nothing."""
        spread: SoftSpread = cycle.data[self.name, "score"]
        scored = scores[~spread.ignored]
        if not len(scored):
            return np.zeros_like(scores)
        least, most = int(scored.min()), int(scored.max())
        if most == 0:
            normalized = np.full_like(scores, MAX_NODE_SCORE)
        else:
            normalized = MAX_NODE_SCORE * (most + least - scores) // most
        return np.where(spread.ignored, 0, normalized)

    def looks_up(self) -> Iterable[Kind]:
        """What pods belong to."""
        return SOURCES

    def events(self) -> Iterable[EventHint]:
        """Pods that count come, go or change; nodes come, go or change their domain."""
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        yield EventHint(ClusterEvent(POD, pods), self.after_pod_change)
        yield EventHint(ClusterEvent(NODE, nodes), self.after_node_change)

    def sign(self, pod: PodInfo) -> Hashable:
        """What defaults rest on; pods with constraints of their own depend on where others are."""
        if pod.spec.topologySpreadConstraints:
            return None
        owners = tuple((owner.apiVersion, owner.kind, owner.name) for owner in pod.metadata.ownerReferences or ())
        return pod.namespace, tuple(sorted(pod.labels.items())), owners

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """What pods belong to; nothing can be shared between pods that are spread."""
        if self._constraints(pod, HARD) or self._constraints(pod, SOFT):
            return None
        return self._defaults.version

    def after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        """A pod helps that counts for a constraint and came or went, or began or ceased to count."""
        if any(other is not None and not _involved(other, pod) for other in (old, new)):
            return Hint.SKIP
        constraints = self._constraints(pod, HARD)
        if old is not None and new is not None:
            tolerates_more = new.uid == pod.uid and new.tolerations != old.tolerations
            if tolerates_more and any(constraint.honor_taints for constraint in constraints):
                return Hint.QUEUE
            changed = any(each.matches(old.labels) != each.matches(new.labels) for each in constraints)
            return Hint.QUEUE if changed else Hint.SKIP
        other = new or old
        counts = other is not None and any(each.matches(other.labels) for each in constraints)
        return Hint.QUEUE if counts else Hint.SKIP

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        """A node helps that has the labels of all constraints and came, went, or moved to another domain."""
        keys = {constraint.topology_key for constraint in self._constraints(pod, HARD)}
        was, now = _labels(old), _labels(new)
        had, has = old is not None and keys <= was.keys(), new is not None and keys <= now.keys()
        if old is None or new is None:
            return Hint.QUEUE if had or has else Hint.SKIP
        moved = any(was.get(key) != now.get(key) for key in keys) or _taints(old) != _taints(new)
        return Hint.QUEUE if had != has or (has and moved) else Hint.SKIP

    def _constraints(self, pod: PodInfo, action: str) -> tuple[Constraint, ...]:
        if pod.spec.topologySpreadConstraints:
            return own_constraints(pod, action)
        return self._defaults.of(pod, action)


def _hard(constraint: Constraint, mask: Bool, pod: PodInfo, nodes: Nodes) -> HardSpread:
    table = nodes.table
    domains = Domains.of(constraint.topology_key, nodes)
    active = table.group(constraint.group(pod.namespace)).active[: table.size]
    return HardSpread(constraint, domains, domains.sum(active, mask), domains.present(mask), mask)


def _skew_if_changed(spread: HardSpread, pod: PodInfo, nodes: Nodes, position: int) -> int:
    """The skew of a node's domain under its own what-if, without the pod itself."""
    row = nodes.row(position)
    domain = spread.domains.of_row(row)
    change = 0
    if spread.eligible[row]:
        change = sum(
            sign
            for other, sign in nodes.changes[position].signed()
            if other.namespace == pod.namespace and spread.constraint.matches(other.labels)
        )
    return int(spread.matching[domain]) + change - spread.least(domain, change)


def _soft(
    constraint: Constraint, mask: Bool, pod: PodInfo, nodes: Nodes, everywhere: Nodes, ignored: Bool
) -> np.ndarray[Any, np.dtype[np.float64]]:
    """What one constraint adds to the score of each node."""
    table = nodes.table
    domains = Domains.of(constraint.topology_key, everywhere)
    here = domains.at(nodes)
    active = table.group(constraint.group(pod.namespace)).active[: table.size]
    if constraint.topology_key == HOSTNAME:
        size = len(nodes) - int(np.count_nonzero(ignored))
        counts = active[nodes.rows].astype(np.int64)
    else:
        candidates = np.zeros(domains.count, dtype=np.bool_)
        candidates[here[~ignored]] = True
        size = int(np.count_nonzero(candidates))
        counts = np.where(candidates, domains.sum(active, mask), 0)[here]
    score = counts * math.log(size + 2) + float(constraint.max_skew - 1)
    return np.where(here > 0, score, 0.0)


def _involved(other: PodInfo, pod: PodInfo) -> bool:
    """Whether another pod, or an earlier self, can count for a pod's constraints."""
    if other.uid == pod.uid:
        return True
    return bool(other.node_name or other.nominated_node_name) and other.namespace == pod.namespace


def _labels(node: Node | None) -> dict[str, str]:
    return (node.metadata.labels if node is not None and node.metadata else None) or {}


def _taints(node: Node) -> list[Any]:
    return list((node.spec.taints if node.spec else None) or ())
