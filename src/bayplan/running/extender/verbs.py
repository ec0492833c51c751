"""Processes requests about nodes: filter, prioritize, preempt.

Each request is processed on one state of the cluster, without waiting. Plugins run in a new cycle that starts with
PreFilter, so their cycle state ends with the request. The counterpart of pkg/scheduler/extender.go. Raises
Unanswerable, and PluginError if a plugin fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np

from bayplan.core.cluster.columns import Int64, Rows
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.runner import PreFilterOutcome, run_filter, run_pre_filter, run_pre_score, run_score
from bayplan.core.framework.status import Code, Status
from bayplan.core.framework.verdicts import Verdicts
from bayplan.core.framework.what_if import filter_changed
from bayplan.running.client.answers import Identity
from bayplan.running.extender.plugins import ExtenderProfiles, best_score
from bayplan.running.extender.problems import NotYet, Unanswerable
from bayplan.running.extender.sent_nodes import RequestedNodes
from bayplan.running.extender.wire import (
    MAX_EXTENDER_PRIORITY,
    NULL,
    ExtenderArgs,
    ExtenderFilterResult,
    ExtenderPreemptionArgs,
    ExtenderPreemptionResult,
    HostPriority,
    MetaPod,
    MetaVictims,
    Victims,
)

NOT_KNOWN = "node(s) not known to the extender"
"""The reason for a node that is not in the state (yet, or any more). It is never reported as feasible."""


class NodeSource(Protocol):
    """The source of the nodes."""

    @property
    def ready(self) -> bool:
        """Whether requests can be processed."""

    def requested(self, args: ExtenderArgs) -> RequestedNodes:
        """The nodes of a request. The known ones are in the state after the call."""


class Verbs:
    """Runs the plugins of the pod's profile on the nodes of a request."""

    def __init__(self, profiles: ExtenderProfiles, state: ClusterState, known: NodeSource) -> None:
        self._profiles = profiles
        self._state = state
        self._known = known

    def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """The feasible nodes, in the order and form of the request, and the reasons for the others."""
        pod = pod_of(args.Pod)
        profile = self._profiles.of(pod)
        requested = self._known.requested(args)
        found = self._find(requested)
        cycle = CycleState()
        outcome = run_pre_filter(profile, cycle, pod, self._state.nodes)
        failed, unresolvable = found.unusable, dict[str, str]()
        passed: list[int] = []
        if outcome.refusal is not None:
            out = unresolvable if outcome.refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else failed
            out.update(dict.fromkeys(found.names, _reason(outcome.refusal)))
        else:
            found = found.narrowed(outcome, unresolvable)
            verdicts = run_filter(profile, cycle, pod, found.nodes)
            verdicts.raise_error()
            passed = _partition(verdicts, found, failed, unresolvable)
        result = ExtenderFilterResult(FailedNodes=failed, FailedAndUnresolvableNodes=unresolvable)
        if args.Nodes is None:
            result.NodeNames = [requested.names[index] for index in passed]
        else:
            result.Nodes = msgspec.structs.replace(args.Nodes, items=[args.Nodes.items[index] for index in passed])
        return result

    def prioritize(self, args: ExtenderArgs) -> list[HostPriority]:
        """The scores of the nodes, 0 to 10, in the order of the request; 0 for an unknown node.

        The sum of the weighted scores is scaled so that the highest possible sum is 10, and rounded half up.
        """
        pod = pod_of(args.Pod)
        profile = self._profiles.of(pod)
        requested = self._known.requested(args)
        found = self._find(requested)
        scores = np.zeros(len(requested.names), dtype=np.int64)
        best = best_score(profile)
        if best and len(found.nodes):
            total = _total(profile, pod, self._state.nodes, found.nodes)
            scores[found.index] = (2 * MAX_EXTENDER_PRIORITY * total + best) // (2 * best)
        return [
            HostPriority(Host=name, Score=score) for name, score in zip(requested.names, scores.tolist(), strict=True)
        ]

    def preempt(self, args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        """The candidates on which the pod is feasible without the victims. The victims are unchanged."""
        pod = pod_of(args.Pod)
        profile = self._profiles.of(pod)
        candidates = _candidates(args)
        if not self._known.ready:
            raise NotYet
        found = self._find(RequestedNodes(list(candidates)))
        cycle = CycleState()
        outcome = run_pre_filter(profile, cycle, pod, self._state.nodes)
        if outcome.refusal is not None and outcome.refusal.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ExtenderPreemptionResult(NodeNameToMetaVictims={})
        found = found.narrowed(outcome, {})
        changes = {
            position: PodChanges(removed=self._present(candidates[name], name))
            for position, name in enumerate(found.names)
        }
        verdicts = filter_changed(profile, cycle, pod, found.nodes.changed(changes))
        verdicts.raise_error()
        kept = {found.names[position]: candidates[found.names[position]] for position in verdicts.feasible().tolist()}
        return ExtenderPreemptionResult(NodeNameToMetaVictims=kept)

    def _find(self, requested: RequestedNodes) -> _Found:
        """The known nodes of a request, and the reasons for the others."""
        table = self._state.table
        row_of = table.row_of
        rows = np.array([row_of.get(name, -1) for name in requested.names], dtype=np.intp)
        usable = rows >= 0
        usable[usable] = table.live[rows[usable]]
        if usable.all() and not requested.unusable:
            return _Found(requested.names, Nodes(table, rows), np.arange(len(rows)), {})
        reasons = {requested.names[index]: NOT_KNOWN for index in np.flatnonzero(~usable).tolist()} | requested.unusable
        index = np.array([place for place, name in enumerate(requested.names) if name not in reasons], dtype=np.intp)
        return _Found([requested.names[place] for place in index.tolist()], Nodes(table, rows[index]), index, reasons)

    def _present(self, victims: MetaVictims, node_name: str) -> tuple[PodInfo, ...]:
        """The victims that are on the node in this state; others are already deleted, or not seen yet."""
        pods = (self._state.pod(victim.UID) for victim in victims.Pods)
        return tuple(pod for pod in pods if pod is not None and pod.node_name == node_name)


@dataclass(frozen=True, slots=True)
class _Found:
    """The known nodes of a request, with their positions in it (`index`). `unusable` has the reasons for the others."""

    names: list[str]
    nodes: Nodes
    index: Rows
    unusable: dict[str, str]

    def narrowed(self, outcome: PreFilterOutcome, out: dict[str, str]) -> _Found:
        """Only the nodes that PreFilter returned. Adds the reason for the others to `out`."""
        if outcome.names is None:
            return self
        plugins = " ".join(sorted(outcome.narrowed_by))
        out.update(
            {name: f"node(s) didn't satisfy plugin(s) [{plugins}]" for name in self.names if name not in outcome.names}
        )
        kept = np.array([place for place, name in enumerate(self.names) if name in outcome.names], dtype=np.intp)
        names = [self.names[place] for place in kept.tolist()]
        return _Found(names, self.nodes.at(kept), self.index[kept], self.unusable)


def pod_of(raw: msgspec.Raw) -> PodInfo:
    """The pod of a request. Raises Unanswerable."""
    if raw == NULL:
        raise Unanswerable("the request has no Pod")
    try:
        return PodInfo.from_raw(bytes(raw))
    except ValueError as error:
        raise Unanswerable(f"Pod is invalid: {error}") from error


def _total(profile: Profile, pod: PodInfo, known: Nodes, nodes: Nodes) -> Int64:
    """The sums of the weighted scores; zeros for a pod that PreFilter rejects."""
    total: Int64 = np.zeros(len(nodes), dtype=np.int64)
    cycle = CycleState()
    if run_pre_filter(profile, cycle, pod, known).refusal is None:
        run_pre_score(profile, cycle, pod, nodes)
        for scores in run_score(profile, cycle, pod, nodes).values():
            total += scores
    return total


def _partition(verdicts: Verdicts, found: _Found, failed: dict[str, str], unresolvable: dict[str, str]) -> list[int]:
    """Add the rejected nodes to the mappings. Returns the positions of the feasible ones in the request."""
    answers = [(_reason(status), status.code) for status in verdicts.table]
    for place, code in zip(
        np.flatnonzero(verdicts.codes).tolist(), verdicts.codes[verdicts.codes > 0].tolist(), strict=True
    ):
        reason, kind = answers[code]
        (unresolvable if kind is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else failed)[found.names[place]] = reason
    passed: list[int] = found.index[verdicts.feasible_mask].tolist()
    return passed


def _reason(status: Status) -> str:
    return status.message or f"rejected by plugin {status.plugin}"


def _candidates(args: ExtenderPreemptionArgs) -> dict[str, MetaVictims]:
    """The victims by node, as uids. A request has them in one of two forms."""
    if args.NodeNameToMetaVictims is not None:
        return args.NodeNameToMetaVictims
    if args.NodeNameToVictims is None:
        raise Unanswerable("the request has neither NodeNameToVictims nor NodeNameToMetaVictims")
    return {name: _by_uid(victims, name) for name, victims in args.NodeNameToVictims.items()}


def _by_uid(victims: Victims, node: str) -> MetaVictims:
    pods = [MetaPod(UID=_uid(raw, node)) for raw in victims.Pods]
    return MetaVictims(Pods=pods, NumPDBViolations=victims.NumPDBViolations)


def _uid(raw: msgspec.Raw, node: str) -> str:
    uid = Identity.of(raw).uid
    if not uid:
        raise Unanswerable(f"NodeNameToVictims[{node!r}] has an item that is not a pod with a uid")
    return uid
