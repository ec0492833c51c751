"""PodTopologySpread: filters out nodes on which the pod would exceed a maximum skew, and scores the others by skew.

Mirrors plugins/podtopologyspread/{plugin,filtering,scoring}.go.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from lightkube.models.core_v1 import Node
from numpy.typing import NDArray

from bayplan.core.api.labels import InvalidSelector
from bayplan.core.api.objects import encode
from bayplan.core.api.tolerations import heeded
from bayplan.core.api.well_known_labels import HOSTNAME
from bayplan.core.cluster.columns import Int32, Int64
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.pod_selectors import labels_key
from bayplan.core.cluster.selector_index import anchors_in, narrowest_anchors
from bayplan.core.framework.capabilities import PodsByDomain
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint, Topics
from bayplan.core.framework.giving_way import ManySteps
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.hints import labels_of, requeue_if_invalid
from bayplan.core.framework.interface import MAX_NODE_SCORE, CycleState, OnlyNow
from bayplan.core.framework.remedies import Details
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import SKIP, Status
from bayplan.core.framework.verdicts import Rejections
from bayplan.core.plugins.arguments import PodTopologySpreadArgs
from bayplan.core.plugins.pod_topology_spread.constraints import (
    HARD,
    SOFT,
    SYSTEM_DEFAULTS,
    DefaultConstraints,
    SpreadConstraint,
    constraints_json,
    own_constraints,
)
from bayplan.core.plugins.pod_topology_spread.eligibility import Eligibility, EligibleDomains, has_all
from bayplan.core.plugins.pod_topology_spread.explaining import Counts, explain
from bayplan.core.plugins.pod_topology_spread.hard_spread import HardSpread
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

UNEVEN = Status.unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = Status.unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
Float64 = NDArray[np.float64]

_INPUTS = object()
"""The key of what constraints read, in the caches of pods."""
_DEFAULT_ARGUMENTS = PodTopologySpreadArgs()


@dataclass(frozen=True, slots=True)
class SoftSpread:
    """A ScheduleAnyway constraint, with the current counts.

    `pods`: the matching pods of each domain: int64, shape (domains.count,). For the topology key HOSTNAME: of each row,
    shape (table.size,). `weight`: the topology's normalizing weight.
    """

    constraint: SpreadConstraint
    eligible: EligibleDomains
    pods: Int64
    weight: float

    def scores(self, nodes: Nodes) -> Float64:
        """Return the constraint's part of the score: float64, shape (len(nodes),); 0 if the label is missing."""
        domains, hostname = self.eligible.domains, self.constraint.topology_key == HOSTNAME
        scores = (self.pods[nodes.rows] if hostname else self.pods).astype(np.float64)
        scores *= self.weight
        scores += float(self.constraint.max_skew - 1)
        if not hostname:
            scores[0] = 0.0
            return scores.take(domains.at(nodes))
        return scores if domains.everywhere else np.where(domains.at(nodes) > 0, scores, 0.0)

    def kinds(self, nodes: Nodes) -> Int64:
        """Return numbers, equal for nodes with equal scores: int64, shape (len(nodes),)."""
        here = self.eligible.domains.at(nodes)
        return np.where(here > 0, self.pods[nodes.rows], -1) if self.constraint.topology_key == HOSTNAME else here

    def count(self, row: int) -> None:
        """Count one more matching pod on a row."""
        if self.constraint.topology_key == HOSTNAME:
            self.pods[row] += 1
        elif (domain := self.eligible.codes.item(row)) < len(self.pods):
            self.pods[domain] += 1


@dataclass(frozen=True, slots=True)
class SoftSpreads:
    """The data that PreScore computes. Nodes that lack one of the `keys` are not scored; others may lack no key."""

    spreads: Sequence[SoftSpread]
    keys: frozenset[str]


class PodTopologySpread(OnlyPlaces):
    """Spreads pods by their own constraints, or else by the default constraints."""

    name = "PodTopologySpread"
    arguments = PodTopologySpreadArgs

    def __init__(
        self, handle: Handle, args: PodTopologySpreadArgs = _DEFAULT_ARGUMENTS, gates: FeatureGates = DEFAULT_GATES
    ) -> None:
        self._comparisons = gates.enabled("TaintTolerationComparisonOperators")
        self._system = args.defaultingType == "System"
        self._defaults = DefaultConstraints(SYSTEM_DEFAULTS if self._system else args.defaultConstraints, handle)
        self._eligibility = Eligibility(comparisons=self._comparisons)
        self._steps = ManySteps(partial(handle.give_way, long=True))

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Count the matching pods on eligible nodes, by domain."""
        try:
            constraints = self._constraints(pod, HARD)
        except InvalidSelector as error:
            return Status.error(f"obtaining pod's hard topology spread constraints: {error}")
        if not constraints:
            return SKIP
        self._steps.begin(len(constraints))
        eligible = self._eligibility.of(constraints, pod, nodes, all_keys=True)
        cycle.data[self.name] = spreads = []
        for each in zip(constraints, eligible, strict=True):
            spreads.append(HardSpread.of(*each, pod, nodes))
            self._steps.check(pod.uid, len(spreads))
        return None

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that lack a topology key, or whose domain would exceed the maximum skew."""
        spreads: list[HardSpread] = cycle.data[self.name]
        index: Int32 | None = None
        for spread in spreads:
            verdicts = spread.verdicts_if(nodes) if nodes.changes else spread.verdicts(nodes)
            if verdicts is not None:
                index = verdicts if index is None else np.where(index == 0, verdicts, index)
        return Rejections(index, (UNEVEN, NO_LABEL)) if index is not None and np.count_nonzero(index) else None

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Status | None:
        """Count the matching pods by domain, and compute the weights from the nodes to be scored."""
        try:
            constraints = self._constraints(pod, SOFT)
        except InvalidSelector as error:
            return Status.error(f"obtaining pod's soft topology spread constraints: {error}")
        if not constraints:
            return SKIP
        self._steps.begin(len(constraints))
        all_keys = bool(pod.spec.topologySpreadConstraints) or not self._system
        eligible = self._eligibility.of(constraints, pod, nodes, all_keys=all_keys)
        keys = {each.domains.key for each in eligible if not each.domains.everywhere} if all_keys else set()
        scored = nodes if not keys or (has := has_all(keys, nodes)).all() else nodes.at(np.flatnonzero(has))
        spreads = []
        for each in zip(constraints, eligible, strict=True):
            spreads.append(_soft(*each, pod, scored))
            self._steps.check(pod.uid, len(spreads))
        cycle.data[self.name, "score"] = SoftSpreads(spreads, frozenset(keys))
        return None

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Sum the weighted numbers of matching pods in the node's domains. Weights grow with the number of domains."""
        soft: SoftSpreads = cycle.data[self.name, "score"]
        total = soft.spreads[0].scores(nodes)
        for spread in soft.spreads[1:]:
            total += spread.scores(nodes)
        if soft.keys:
            total[~has_all(soft.keys, nodes)] = 0
        total += 0.5
        return np.floor(total, out=total).astype(np.int64)

    def replica_kinds(self, cycle: CycleState, nodes: Nodes) -> list[Int64]:
        """Return arrays of numbers, one per node. Nodes that are equal in all of them have equal scores."""
        soft: SoftSpreads = cycle.data[self.name, "score"]
        return [spread.kinds(nodes) for spread in soft.spreads]

    def count_replica(self, cycle: CycleState, pod: PodInfo, row: int) -> None:
        """Count a pod with the same namespace and labels, which was added to a row, in the data of PreScore."""
        soft: SoftSpreads = cycle.data[self.name, "score"]
        for spread in soft.spreads:
            if spread.constraint.counts(pod.labels):
                spread.count(row)

    def normalize_scores(self, cycle: CycleState, pod: PodInfo, scores: Int64, nodes: Nodes) -> Int64:
        """Give the fewest pods the highest score. A node that lacks a topology key gets 0."""
        soft: SoftSpreads = cycle.data[self.name, "score"]
        has = has_all(soft.keys, nodes) if soft.keys else None
        scored = scores if has is None else scores[has]
        if not len(scored):
            return np.zeros_like(scores)
        least, most = scored.item(scored.argmin()), scored.item(scored.argmax())  # `min` takes several times as long
        if most == 0:
            normalized = np.full_like(scores, MAX_NODE_SCORE)
        else:
            normalized = most + least - scores
            normalized *= MAX_NODE_SCORE
            normalized //= most
        return normalized if has is None else np.where(has, normalized, 0)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """The pods of each domain, and what would make the node's domain acceptable."""
        if node is None:
            return None
        spreads: list[HardSpread] = cycle.data[self.name]
        counts = cycle.data.get((self.name, "counts"))
        if counts is None:
            tolerations = heeded(pod.tolerations, comparisons=self._comparisons)
            counts = cycle.data[self.name, "counts"] = [Counts(spread, tolerations, node.among) for spread in spreads]
        return explain(spreads, counts, pod, node)

    def pods_by_domain(self, pod: PodInfo, nodes: Nodes) -> Iterator[PodsByDomain]:
        """Yield how the pods of each hard constraint are spread. Raises InvalidSelector."""
        constraints = self._constraints(pod, HARD)
        eligible = self._eligibility.of(constraints, pod, nodes, all_keys=True) if constraints else ()
        for constraint, domains in zip(constraints, eligible, strict=True):
            spread = HardSpread.of(constraint, domains, pod, nodes)
            counts = Counts(spread, heeded(pod.tolerations, comparisons=self._comparisons), nodes).by_domain
            if counts:
                skew = max(counts.values()) - spread.minimum()
                yield PodsByDomain(constraint.topology_key, constraint.max_skew, counts, skew)

    def events(self) -> Iterable[EventHint]:
        """Register changes of pods, and of the labels and taints of nodes."""
        pods = Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        yield EventHint(ClusterEvent(POD, pods), self.after_pod_change, Topics(_topics_of_pod, _topics_of_change))
        yield EventHint(ClusterEvent(NODE, nodes), self.after_node_change)

    def sign(self, pod: PodInfo) -> Hashable:
        """Nothing: pods without constraints are alike."""
        return ()

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Nothing, for pods without constraints. The results of others depend on all nodes, so they are not shared."""
        own = bool(pod.spec.topologySpreadConstraints)
        if not own and not self._defaults.apply_to(pod):
            return ()
        key: OnlyNow | None = pod.cache.get(_INPUTS)
        if key is None:
            owners = () if own else _owners(pod)
            inputs = pod.of_spec(PodTopologySpread, _inputs), pod.tolerations
            key = pod.cache[_INPUTS] = OnlyNow((labels_key(pod), owners, *inputs))
        return key

    @requeue_if_invalid
    def after_pod_change(self, pod: PodInfo, old: PodInfo | None, new: PodInfo | None) -> Hint:
        """Requeue for a matching pod that was added or deleted, or that starts or stops matching a constraint."""
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

    @requeue_if_invalid
    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node | None) -> Hint:
        """Requeue for a node with all topology keys that was added or deleted, or whose domain or taints changed."""
        keys = {constraint.topology_key for constraint in self._constraints(pod, HARD)}
        was, now = labels_of(old), labels_of(new)
        had, has = old is not None and keys <= was.keys(), new is not None and keys <= now.keys()
        if old is None or new is None:
            return Hint.QUEUE if had or has else Hint.SKIP
        moved = any(was.get(key) != now.get(key) for key in keys) or _taints(old) != _taints(new)
        return Hint.QUEUE if had != has or (has and moved) else Hint.SKIP

    def _constraints(self, pod: PodInfo, action: str) -> tuple[SpreadConstraint, ...]:
        if pod.spec.topologySpreadConstraints:
            return own_constraints(pod, action)
        return self._defaults.of(pod, action)


def _inputs(pod: PodInfo) -> Hashable:
    """The pod's own constraints, and the nodes that it allows."""
    spec = pod.spec
    node_affinity = spec.affinity.nodeAffinity if spec.affinity else None
    allowed = encode((spec.nodeSelector, node_affinity)) if spec.nodeSelector or node_affinity else b""
    return constraints_json(pod), allowed


def _owners(pod: PodInfo) -> Hashable:
    return tuple([(owner.apiVersion, owner.kind, owner.name) for owner in pod.metadata.ownerReferences or ()])


def _soft(constraint: SpreadConstraint, eligible: EligibleDomains, pod: PodInfo, scored: Nodes) -> SoftSpread:
    """Count the pods for a soft constraint. `scored`: the nodes to be scored."""
    active = scored.table.group(constraint.group(pod.namespace)).active
    if constraint.topology_key == HOSTNAME:
        pods = active.dense(scored.table.size)
        return SoftSpread(constraint, eligible, pods, math.log(len(scored) + 2))
    number = eligible.number_among(scored)
    return SoftSpread(constraint, eligible, eligible.sum(active), math.log(number + 2))


def _topics_of_pod(pod: PodInfo) -> Collection[Hashable]:
    """Return what a pod waits for: a change of itself, and of pods that one of its constraints may count."""
    if not pod.spec.topologySpreadConstraints:  # default constraints change with services and controllers
        return pod.uid, (pod.namespace,)
    try:
        constraints = own_constraints(pod, HARD)
    except InvalidSelector:
        return pod.uid, (pod.namespace,)
    topics: list[Hashable] = [pod.uid]
    for constraint in constraints:
        if constraint.selector is not None:
            topics.extend(narrowest_anchors(pod.namespace, constraint.selector.requirements))
    return topics


def _topics_of_change(old: PodInfo | None, new: PodInfo | None) -> Collection[Hashable]:
    topics: list[Hashable] = []
    for pod in (old, new):
        if pod is not None:
            topics += [pod.uid, *anchors_in(pod.namespace, pod.labels)]
    return topics


def _involved(other: PodInfo, pod: PodInfo) -> bool:
    """Whether another pod, or another version of the same pod, may count for a pod's constraints."""
    if other.uid == pod.uid:
        return True
    return bool(other.node_name or other.nominated_node_name) and other.namespace == pod.namespace


def _taints(node: Node) -> list[Any]:
    return list((node.spec.taints if node.spec else None) or ())
