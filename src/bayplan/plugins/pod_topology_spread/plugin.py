"""PodTopologySpread: nodes are out where one more pod would make the domains too uneven; the others score by evenness.

Mirrors plugins/podtopologyspread/{plugin,filtering,scoring}.go.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from lightkube.models.core_v1 import Node
from numpy.typing import NDArray

from bayplan.api.labels import InvalidSelector
from bayplan.cluster.columns import Int32, Int64
from bayplan.cluster.domains import Domains
from bayplan.cluster.nodes import Count, Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.selector_groups import pod_counter
from bayplan.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint
from bayplan.framework.handle import Handle
from bayplan.framework.interface import MAX_NODE_SCORE, CycleState, Plugin
from bayplan.framework.status import SKIP, Status
from bayplan.framework.verdicts import Rejections
from bayplan.plugins.arguments import PodTopologySpreadArgs
from bayplan.plugins.pod_topology_spread.constraints import (
    HARD,
    SOFT,
    SYSTEM_DEFAULTS,
    Constraint,
    DefaultConstraints,
    own_constraints,
)
from bayplan.plugins.pod_topology_spread.eligibility import Eligibility, EligibleDomains, has_all, valued

UNEVEN = Status.unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = Status.unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
HOSTNAME = "kubernetes.io/hostname"
Float64 = NDArray[np.float64]

_NO_OTHER = 2**62
"""More pods than any domain has."""

_DEFAULT_ARGUMENTS = PodTopologySpreadArgs()


@dataclass(frozen=True, slots=True)
class HardSpread:
    """A constraint that must hold, with how things are now. `matching`: pods by domain, int64, one a code."""

    constraint: Constraint
    eligible: EligibleDomains
    matching: Int64
    itself: int
    """1 where the pod counts itself."""
    count: Count
    """How many of some pods count that come or go in thought; those that are being deleted do, as upstream has it."""

    def verdicts(self, nodes: Nodes) -> Int32:
        """The verdict of each node as it is: 0 for pass, 1 for uneven, 2 for one without the label."""
        skew = self.matching + (self.itself - self._least())
        verdicts = (skew > self.constraint.max_skew).astype(np.int32)
        verdicts[0] = 2
        by_node: Int32 = verdicts[self.eligible.domains.at(nodes)]
        return by_node

    def verdicts_if(self, nodes: Nodes) -> Int32:
        """The verdict of each node under its what-if."""
        domain = self.eligible.domains.at(nodes)
        counted = self.eligible.codes[nodes.rows] == domain
        matching = self.matching[domain] + np.where(counted, nodes.counted(self.count), 0)
        lowest: Int64 | int = 0
        if not self._too_few_domains():
            least, least_elsewhere, where = self._two_least()
            lowest = np.where(domain == where, least_elsewhere, least)
            lowest = np.where(counted, np.minimum(matching, lowest), least)
        verdicts = (matching + self.itself - lowest > self.constraint.max_skew).astype(np.int32)
        verdicts[domain == 0] = 2
        return verdicts

    def _least(self) -> int:
        """The fewest pods in a domain."""
        return 0 if self._too_few_domains() else int(self.matching[self.eligible.present].min())

    def _two_least(self) -> tuple[int, int, int]:
        """The fewest pods in a domain, the fewest in any other, and which domain that one is."""
        present = np.flatnonzero(self.eligible.present)
        matching = self.matching[present]
        where = int(matching.argmin())
        others = np.delete(matching, where)
        return int(matching[where]), int(others.min()) if len(others) else _NO_OTHER, int(present[where])

    def _too_few_domains(self) -> bool:
        number = np.count_nonzero(self.eligible.present)
        return bool(number < max(1, self.constraint.min_domains))


@dataclass(frozen=True, slots=True)
class SoftSpread:
    """A constraint to be kept to as far as possible.

    `pods`: those that count, int64, by domain or, where each node is one, by row; `weight` of each.
    """

    constraint: Constraint
    domains: Domains
    pods: Int64
    weight: float

    def scores(self, nodes: Nodes) -> Float64:
        """What the constraint adds to the score of each node: nothing where the label is missing."""
        here = self.domains.at(nodes)
        pods = self.pods[nodes.rows] if self.constraint.topology_key == HOSTNAME else self.pods[here]
        return np.where(here > 0, pods * self.weight + float(self.constraint.max_skew - 1), 0.0)


@dataclass(frozen=True, slots=True)
class SoftSpreads:
    """What PreScore found. Nodes that lack one of the `keys` are not scored."""

    spreads: Sequence[SoftSpread]
    keys: frozenset[str]


class PodTopologySpread(Plugin):
    """Spreads pods; those that say nothing about it by defaults, as far as they belong to something."""

    name = "PodTopologySpread"
    arguments = PodTopologySpreadArgs

    def __init__(self, handle: Handle, args: PodTopologySpreadArgs = _DEFAULT_ARGUMENTS) -> None:
        self._system = args.defaultingType == "System"
        self._defaults = DefaultConstraints(SYSTEM_DEFAULTS if self._system else args.defaultConstraints, handle)
        self._eligibility = Eligibility()

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Count matching pods by domain, over the nodes that the constraints want counted."""
        try:
            constraints = self._constraints(pod, HARD)
        except InvalidSelector as error:
            return Status.error(f"obtaining pod's hard topology spread constraints: {error}")
        if not constraints:
            return SKIP
        eligible = self._eligibility.of(constraints, pod, nodes, all_keys=True)
        cycle.data[self.name] = [_hard(*each, pod, nodes) for each in zip(constraints, eligible, strict=True)]
        return None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Out is who lacks a label, or whose domain would have too many more than the one with the fewest."""
        spreads: list[HardSpread] = cycle.data[self.name]
        index: Int32 = np.zeros(len(nodes), dtype=np.int32)
        for spread in spreads:
            verdicts = spread.verdicts_if(nodes) if nodes.changes else spread.verdicts(nodes)
            index = verdicts if spread is spreads[0] else np.where(index == 0, verdicts, index)
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
        keys = {each.topology_key for each in constraints} if all_keys else set()
        eligible = self._eligibility.of(constraints, pod, nodes, all_keys=all_keys)
        scored = nodes if not keys or (has := has_all(keys, nodes)).all() else nodes.at(np.flatnonzero(has))
        spreads = [_soft(*each, pod, scored, all_keys=all_keys) for each in zip(constraints, eligible, strict=True)]
        cycle.data[self.name, "score"] = SoftSpreads(spreads, frozenset(keys))
        return None

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """The pods in the node's domains, weighted so that many small domains do not drown few large ones."""
        soft: SoftSpreads = cycle.data[self.name, "score"]
        total = np.zeros(len(nodes))
        for spread in soft.spreads:
            total += spread.scores(nodes)
        total[~has_all(soft.keys, nodes)] = 0
        return np.floor(total + 0.5).astype(np.int64)

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64:
        """The fewer the better; a node that lacks a label gets nothing."""
        soft: SoftSpreads = cycle.data[self.name, "score"]
        has = has_all(soft.keys, nodes)
        scored = scores[has]
        if not len(scored):
            return np.zeros_like(scores)
        least, most = int(scored.min()), int(scored.max())
        if most == 0:
            normalized = np.full_like(scores, MAX_NODE_SCORE)
        else:
            normalized = MAX_NODE_SCORE * (most + least - scores) // most
        return np.where(has, normalized, 0)

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
        if pod.spec.topologySpreadConstraints or self._defaults.concern(pod):
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


def _hard(constraint: Constraint, eligible: EligibleDomains, pod: PodInfo, nodes: Nodes) -> HardSpread:
    active = nodes.table.group(constraint.group(pod.namespace)).active
    count = pod_counter(lambda other: other.namespace == pod.namespace and constraint.matches(other.labels))
    return HardSpread(constraint, eligible, eligible.sum(active), int(constraint.matches(pod.labels)), count)


def _soft(
    constraint: Constraint, eligible: EligibleDomains, pod: PodInfo, scored: Nodes, *, all_keys: bool
) -> SoftSpread:
    """`scored`: the nodes that get a score."""
    active = scored.table.group(constraint.group(pod.namespace)).active
    if constraint.topology_key == HOSTNAME:
        pods = active.rows[: scored.table.size].astype(np.int64)
        return SoftSpread(constraint, eligible.domains, pods, math.log(len(scored) + 2))
    domains, pods = eligible.domains, eligible.sum(active)
    here = domains.at(scored) if all_keys else valued(domains, domains.at(scored))
    number = int(np.count_nonzero(np.bincount(here, minlength=1)))
    return SoftSpread(constraint, domains, pods, math.log(number + 2))


def _involved(other: PodInfo, pod: PodInfo) -> bool:
    """Whether another pod, or an earlier self, can count for a pod's constraints."""
    if other.uid == pod.uid:
        return True
    return bool(other.node_name or other.nominated_node_name) and other.namespace == pod.namespace


def _labels(node: Node | None) -> dict[str, str]:
    return (node.metadata.labels if node is not None and node.metadata else None) or {}


def _taints(node: Node) -> list[Any]:
    return list((node.spec.taints if node.spec else None) or ())
