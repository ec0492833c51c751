"""The answers to a scheduler's questions about nodes: filter, prioritize, preempt.

Each question is answered from one state of the cluster, without waiting. The plugins are asked as in a cycle of their
own, which begins with PreFilter: what they remember does not outlast the request. Mirrors, from the other side,
pkg/scheduler/extender.go. Raises Unanswerable, and PluginError for a plugin that fails.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import msgspec
import numpy as np

from bayplan.client.answers import Identity
from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.nodes import Nodes, PodChanges
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.extender.plugins import ExtenderProfiles, best_score
from bayplan.extender.problems import NotYet, Unanswerable
from bayplan.extender.sent_nodes import Asked
from bayplan.extender.wire import (
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
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Profile
from bayplan.framework.runner import PreFilterOutcome, run_filter, run_pre_filter, run_pre_score, run_score
from bayplan.framework.status import Code, Status
from bayplan.framework.verdicts import Verdicts
from bayplan.framework.what_if import filter_changed

NOT_KNOWN = "node(s) not known to the extender"
"""Why a node is out that has not been seen yet, or not any more: what is not known is not said to fit."""


class KnowsNodes(Protocol):
    """Where the state comes from."""

    @property
    def ready(self) -> bool:
        """Whether questions can be answered."""

    def asked(self, args: ExtenderArgs) -> Asked:
        """The nodes that a request is about, which the state has from now on, if they are known at all."""


class Verbs:
    """Asks the plugins of the pod's profile about the nodes that a request names."""

    def __init__(self, profiles: ExtenderProfiles, state: ClusterState, known: KnowsNodes) -> None:
        self._profiles = profiles
        self._state = state
        self._known = known

    def filter(self, args: ExtenderArgs) -> ExtenderFilterResult:
        """Which nodes the plugins leave, in the order and form of the question, and why the others are out."""
        pod = pod_of(args.Pod)
        profile = self._profiles.of(pod)
        asked = self._known.asked(args)
        found = self._find(asked)
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
            passed = _sort_out(verdicts, found, failed, unresolvable)
        result = ExtenderFilterResult(FailedNodes=failed, FailedAndUnresolvableNodes=unresolvable)
        if args.Nodes is None:
            result.NodeNames = [asked.names[index] for index in passed]
        else:
            result.Nodes = msgspec.structs.replace(args.Nodes, items=[args.Nodes.items[index] for index in passed])
        return result

    def prioritize(self, args: ExtenderArgs) -> list[HostPriority]:
        """How good the nodes are, 0 to 10, in the order of the question; 0 for one that is not known.

        The weighted scores are added and scaled so that 10 is what the plugins can give at most, rounded to the
        nearest, halves up.
        """
        pod = pod_of(args.Pod)
        profile = self._profiles.of(pod)
        asked = self._known.asked(args)
        found = self._find(asked)
        scores = np.zeros(len(asked.names), dtype=np.int64)
        best = best_score(profile)
        if best and len(found.nodes):
            total = _total(profile, pod, self._state.nodes, found.nodes)
            scores[found.index] = (2 * MAX_EXTENDER_PRIORITY * total + best) // (2 * best)
        return [HostPriority(Host=name, Score=score) for name, score in zip(asked.names, scores.tolist(), strict=True)]

    def preempt(self, args: ExtenderPreemptionArgs) -> ExtenderPreemptionResult:
        """The candidates that the filters would take the pod on, were the victims gone; with the victims unchanged."""
        pod = pod_of(args.Pod)
        profile = self._profiles.of(pod)
        candidates = _candidates(args)
        if not self._known.ready:
            raise NotYet
        found = self._find(Asked(list(candidates)))
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

    def _find(self, asked: Asked) -> _Found:
        """The nodes of a question that are known, and why the others cannot be decided about."""
        table = self._state.table
        row_of = table.row_of
        rows = np.array([row_of.get(name, -1) for name in asked.names], dtype=np.intp)
        usable = rows >= 0
        usable[usable] = table.live[rows[usable]]
        if usable.all() and not asked.unusable:
            return _Found(asked.names, Nodes(table, rows), np.arange(len(rows)), {})
        reasons = {asked.names[index]: NOT_KNOWN for index in np.flatnonzero(~usable).tolist()} | asked.unusable
        index = np.array([place for place, name in enumerate(asked.names) if name not in reasons], dtype=np.intp)
        return _Found([asked.names[place] for place in index.tolist()], Nodes(table, rows[index]), index, reasons)

    def _present(self, victims: MetaVictims, node_name: str) -> tuple[PodInfo, ...]:
        """The victims that count on the node here: others have gone, or have not come yet."""
        pods = (self._state.pod(victim.UID) for victim in victims.Pods)
        return tuple(pod for pod in pods if pod is not None and pod.node_name == node_name)


@dataclass(frozen=True, slots=True)
class _Found:
    """The known nodes of a question. `index`: where in the question each is. `unusable`: the others, and why."""

    names: list[str]
    nodes: Nodes
    index: Rows
    unusable: dict[str, str]

    def narrowed(self, outcome: PreFilterOutcome, out: dict[str, str]) -> _Found:
        """Only the nodes to which PreFilter has narrowed the question; the others go to `out`."""
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
        raise Unanswerable(f"Pod cannot be read: {error}") from error


def _total(profile: Profile, pod: PodInfo, known: Nodes, nodes: Nodes) -> Int64:
    """The weighted scores of nodes, added; nothing for a pod that PreFilter turns down."""
    total: Int64 = np.zeros(len(nodes), dtype=np.int64)
    cycle = CycleState()
    if run_pre_filter(profile, cycle, pod, known).refusal is None:
        run_pre_score(profile, cycle, pod, nodes)
        for scores in run_score(profile, cycle, pod, nodes).values():
            total += scores
    return total


def _sort_out(verdicts: Verdicts, found: _Found, failed: dict[str, str], unresolvable: dict[str, str]) -> list[int]:
    """Enter the nodes that were turned down; returns where in the question those are that were not."""
    answers = [(_reason(status), status.code) for status in verdicts.table]
    for place, code in zip(
        np.flatnonzero(verdicts.codes).tolist(), verdicts.codes[verdicts.codes > 0].tolist(), strict=True
    ):
        reason, kind = answers[code]
        (unresolvable if kind is Code.UNSCHEDULABLE_AND_UNRESOLVABLE else failed)[found.names[place]] = reason
    passed: list[int] = found.index[verdicts.standing].tolist()
    return passed


def _reason(status: Status) -> str:
    return status.message or f"turned down by plugin {status.plugin}"


def _candidates(args: ExtenderPreemptionArgs) -> dict[str, MetaVictims]:
    """The victims by node, by uid, whichever way they were sent."""
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
        raise Unanswerable(f"NodeNameToVictims[{node!r}] has something that is no pod with a uid")
    return uid
