"""The runner: calls a profile's plugins at one point and brings their answers together.

The order, the early ends and the texts are upstream's (pkg/scheduler/framework/runtime/framework.go). Every call goes
through the cycle's `call`, so that a plugin which raises or answers nonsense becomes a PluginError with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Any

import numpy as np

from bayplan.cluster.columns import Bool, Int64
from bayplan.cluster.nodes import NodeInfo, Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import interface
from bayplan.framework.extenders import Answer, ExtenderError, ExtenderPreempt
from bayplan.framework.interface import (
    MAX_NODE_SCORE,
    CycleState,
    NodeNames,
    PostFilterResult,
    Shortlist,
    Wait,
    WhatIf,
)
from bayplan.framework.profile import Point, Profile, implements
from bayplan.framework.status import SKIP, Code, PluginError, Status
from bayplan.framework.verdicts import Diagnosis, Rejections, Verdicts

_SUCCESS = Status(Code.SUCCESS)

FEW_NODES = 2
"""Up to so many nodes are asked about one by one, where a plugin can do both."""


@dataclass(frozen=True, slots=True)
class PreFilterOutcome:
    """What all PreFilters together said: a refusal, or the nodes that come into question (None: all)."""

    refusal: Status | None
    names: frozenset[str] | None
    narrowed_by: frozenset[str]


def run_pre_filter(profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterOutcome:
    """Ask every PreFilter. An unresolvable refusal ends it at once; after an unschedulable one the others go on."""
    names: frozenset[str] | None = None
    narrowed_by: set[str] = set()
    refusal: Status | None = None
    for plugin in profile.at(Point.PRE_FILTER):
        answer = cycle.call(plugin, "PreFilter", plugin.pre_filter, cycle, pod, nodes)
        if isinstance(answer, NodeNames):
            narrowed_by.add(plugin.name)
            names = answer.names if names is None else names & answer.names
            if not names:
                return PreFilterOutcome(_nothing_left(narrowed_by), names, frozenset(narrowed_by))
            continue
        status = _status(answer, plugin, "PreFilter")
        if status.code is Code.SKIP:
            cycle.skip_filter.add(plugin.name)
        elif status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PreFilterOutcome(status, None, frozenset())
        elif status.code is Code.UNSCHEDULABLE:
            refusal = status
        elif status.code is not Code.SUCCESS:
            raise PluginError(plugin.name, "PreFilter", status.message or str(status.code))
    return PreFilterOutcome(refusal, names, frozenset(narrowed_by))


def run_filter(profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Verdicts:
    """Ask the filters in order about the nodes that still stand."""
    verdicts = Verdicts(nodes)
    for plugin in profile.at(Point.FILTER):
        if plugin.name in cycle.skip_filter:
            continue
        if _whole_table(plugin, interface.FilterNodes, interface.Filter, nodes):
            positions = verdicts.feasible() if plugin.only_standing else None
            shown = nodes if positions is None else nodes.at(positions)
            rejections = cycle.call(plugin, "Filter", plugin.filter_nodes, cycle, pod, shown)
            if rejections is None:
                continue
            if not isinstance(rejections, Rejections) or len(rejections.index) != len(shown):
                raise PluginError(
                    plugin.name, "Filter", f"filter_nodes must return None or Rejections of {len(shown)} nodes"
                )
            verdicts.reject(rejections if positions is None else rejections.among(len(nodes), positions), plugin.name)
        else:
            _filter_one_by_one(plugin, cycle, pod, nodes, verdicts)
        if not verdicts.standing.any():
            break
    return verdicts


def filter_node(plugins: Iterable[Any], cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
    """The first refusal of plugins that are all asked in their per-node form; None where the node stands."""
    for plugin in plugins:
        answer = cycle.call(plugin, "Filter", plugin.filter, cycle, pod, node)
        if answer is not None:
            status = _status(answer, plugin, "Filter")
            if status.rejected:
                return status
            if status.code is not Code.SUCCESS:
                raise PluginError(plugin.name, "Filter", status.message or str(status.code))
    return None


def score_node(plugins: Iterable[tuple[Any, int]], cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
    """The weighted sum of plugins (with their weights) that do not normalise, all asked in their per-node form."""
    total = 0
    for plugin, weight in plugins:
        score = cycle.call(plugin, "Score", plugin.score, cycle, pod, node)
        if not isinstance(score, int) or not 0 <= score <= MAX_NODE_SCORE:
            raise PluginError(plugin.name, "Score", f"expected an integer from 0 to {MAX_NODE_SCORE}, got {score!r}")
        total += score * weight
    return total


def run_post_filter(
    profile: Profile,
    cycle: CycleState,
    pod: PodInfo,
    diagnosis: Diagnosis,
    what_if: WhatIf,
    *,
    ask_extenders: bool = False,
) -> Generator[ExtenderPreempt, Answer, PostFilterResult | None]:
    """Ask the PostFilters until one succeeds, fails or finds the case unresolvable; None where there are none.

    The status says which plugin it was. A failure only means that no room was made. With `ask_extenders`, candidates
    for a preemption are yielded for others to look at before one of them is chosen.
    """
    refusals: list[PostFilterResult] = []
    for plugin in profile.at(Point.POST_FILTER):
        result = cycle.call(plugin, "PostFilter", plugin.post_filter, cycle, pod, diagnosis, what_if)
        if isinstance(result, Shortlist):
            result = yield from _choose(plugin, cycle, pod, result, ask_extenders=ask_extenders)
        if not isinstance(result, PostFilterResult):
            raise PluginError(plugin.name, "PostFilter", f"answered {result!r}, expected a PostFilterResult")
        result = replace(result, status=result.status.by(plugin.name))
        if result.status.code is not Code.UNSCHEDULABLE:
            return result
        refusals.append(result)
    if not refusals:
        return None
    nominated = next(
        (result.nominated_node for result in reversed(refusals) if result.nominated_node is not None), None
    )
    reasons = tuple(reason for result in refusals for reason in result.status.reasons)
    return PostFilterResult(Status(Code.UNSCHEDULABLE, reasons, refusals[0].status.plugin), nominated)


def _choose(
    plugin: Any, cycle: CycleState, pod: PodInfo, shortlist: Shortlist, *, ask_extenders: bool
) -> Generator[ExtenderPreempt, Answer, Any]:
    """What the plugin makes of the candidates that extenders leave."""
    left = shortlist.candidates
    if ask_extenders:
        try:
            answer = yield ExtenderPreempt(pod, left, shortlist.nodes)
        except ExtenderError as error:
            return PostFilterResult(Status.error(f"preemption: {error}"))
        assert isinstance(answer, tuple)
        left = answer
    return cycle.call(plugin, "PostFilter", shortlist.choose, left)


def run_pre_score(profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
    """Tell every PreScore of the feasible nodes."""
    for plugin in profile.at(Point.PRE_SCORE):
        status = _status(cycle.call(plugin, "PreScore", plugin.pre_score, cycle, pod, nodes), plugin, "PreScore")
        if status.code is Code.SKIP:
            cycle.skip_score.add(plugin.name)
        elif status.code is not Code.SUCCESS:
            raise PluginError(plugin.name, "PreScore", status.message or str(status.code))


def run_score(profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> dict[str, Int64]:
    """Every scoring plugin's weighted score of every node, all of which are feasible."""
    scores: dict[str, Int64] = {}
    for plugin in profile.at(Point.SCORE):
        if plugin.name not in cycle.skip_score:
            raw = raw_scores(plugin, cycle, pod, nodes)
            scores[plugin.name] = normalized(plugin, cycle, pod, raw, nodes) * profile.weights.get(plugin.name, 1)
    return scores


def raw_scores(plugin: Any, cycle: CycleState, pod: PodInfo, nodes: Nodes, feasible: Bool | None = None) -> Int64:
    """One plugin's scores before normalisation. `feasible`: which nodes matter (None: all); others may get anything."""
    if _whole_table(plugin, interface.ScoreNodes, interface.Score, nodes):
        raw = cycle.call(plugin, "Score", plugin.score_nodes, cycle, pod, nodes)
        if not isinstance(raw, np.ndarray) or raw.shape != (len(nodes),) or raw.dtype.kind not in "iu":
            raise PluginError(plugin.name, "Score", f"expected an array of {len(nodes)} integers, got {_shape(raw)}")
        return raw.astype(np.int64, copy=False)
    raw = np.zeros(len(nodes), dtype=np.int64)
    for position in range(len(nodes)) if feasible is None else np.flatnonzero(feasible).tolist():
        score = cycle.call(plugin, "Score", plugin.score, cycle, pod, nodes.info(position))
        if not isinstance(score, int):
            raise PluginError(plugin.name, "Score", f"expected an integer, got {score!r}")
        raw[position] = score
    return raw


def normalized(plugin: Any, cycle: CycleState, pod: PodInfo, raw: Int64, nodes: Nodes) -> Int64:
    """One plugin's scores, 0 to 100, of nodes that are all feasible."""
    if implements(plugin, interface.NormalizeScores):
        raw = cycle.call(plugin, "NormalizeScore", plugin.normalize_scores, cycle, pod, raw, nodes)
    return checked(raw, plugin, len(nodes))


def run_reserve(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Let every Reserve set aside what the pod needs, up to the first refusal, which the caller undoes."""
    for plugin in profile.at(Point.RESERVE):
        answer = cycle.call(plugin, "Reserve", plugin.reserve, cycle, pod, node_name)
        if answer is not None:
            status = _status(answer, plugin, "Reserve")
            if status.code is not Code.SUCCESS:
                return status
    return _SUCCESS


def run_unreserve(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> list[PluginError]:
    """Give back what was set aside, in reverse order. Every plugin is called, whatever another one raises."""
    errors = []
    for plugin in reversed(profile.at(Point.RESERVE)):
        try:
            cycle.call(plugin, "Unreserve", plugin.unreserve, cycle, pod, node_name)
        except PluginError as error:
            errors.append(error)
    return errors


def run_permit(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> tuple[Status, dict[str, float]]:
    """Ask every Permit. Returns the first refusal, or WAIT with the seconds that each plugin wants to wait at most."""
    waits: dict[str, float] = {}
    for plugin in profile.at(Point.PERMIT):
        answer = cycle.call(plugin, "Permit", plugin.permit, cycle, pod, node_name)
        if isinstance(answer, Wait):
            waits[plugin.name] = answer.seconds
            continue
        status = _status(answer, plugin, "Permit")
        if status.code is not Code.SUCCESS:
            return status, {}
    return Status(Code.WAIT if waits else Code.SUCCESS), waits


async def run_pre_bind(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Let every PreBind do its work, one after the other, up to the first that does not succeed."""
    for plugin in profile.at(Point.PRE_BIND):
        status = await _finished(cycle, plugin, "PreBind", plugin.pre_bind, pod, node_name)
        if status.code is not Code.SUCCESS:
            return status
    return Status(Code.SUCCESS)


def run_pre_bind_pre_flight(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> bool:
    """Whether any PreBind will have work to do. A PreBind that does not say is taken to have."""
    works = False
    for plugin in profile.at(Point.PRE_BIND):
        if not implements(plugin, interface.PreBindPreFlight):
            works = True
            continue
        answer = cycle.call(plugin, "PreBindPreFlight", plugin.pre_bind_pre_flight, cycle, pod, node_name)
        if answer is SKIP:
            continue
        status = _status(answer, plugin, "PreBindPreFlight")
        if status.code not in {Code.SUCCESS, Code.SKIP}:
            raise PluginError(plugin.name, "PreBindPreFlight", status.message or str(status.code))
        works = works or status.code is Code.SUCCESS
    return works


async def run_bind(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> Status:
    """Ask the Bind plugins until one does not skip. Raises PluginError where all skip: nobody bound the pod."""
    for plugin in profile.at(Point.BIND):
        status = await _finished(cycle, plugin, "Bind", plugin.bind, pod, node_name)
        if status.code is not Code.SKIP:
            return status
    raise PluginError(profile.scheduler_name, "Bind", "every Bind plugin of the profile skipped the pod")


def run_post_bind(profile: Profile, cycle: CycleState, pod: PodInfo, node_name: str) -> list[PluginError]:
    """Tell every PostBind. The pod is bound whatever they raise, so errors are returned."""
    errors = []
    for plugin in profile.at(Point.POST_BIND):
        try:
            cycle.call(plugin, "PostBind", plugin.post_bind, cycle, pod, node_name)
        except PluginError as error:
            errors.append(error)
    return errors


def status_of(answer: object, plugin: Any, point: str) -> Status:
    """An answer as a Status with the plugin's name: None is success, a string is a reason. Raises PluginError."""
    return _status(answer, plugin, point)


async def _finished(cycle: CycleState, plugin: Any, point: str, method: Callable[..., Any], *arguments: Any) -> Status:
    """The answer of a method that may be asynchronous.

    What an awaited method raises passes, with a note of the plugin: errors of the API client are for the caller.
    """
    answer = cycle.call(plugin, point, method, cycle, *arguments)
    if isawaitable(answer):
        try:
            answer = await answer
        except Exception as error:
            error.add_note(f"in {point} of plugin {plugin.name}")
            raise
    return _status(answer, plugin, point)


def _whole_table(plugin: Any, whole_form: type[Any], node_form: type[Any], nodes: Nodes) -> bool:
    """Which form to call of a plugin that may have both: arrays only pay from a few nodes on."""
    return implements(plugin, whole_form) and (len(nodes) > FEW_NODES or not implements(plugin, node_form))


def _filter_one_by_one(plugin: Any, cycle: CycleState, pod: PodInfo, nodes: Nodes, verdicts: Verdicts) -> None:
    for position in verdicts.feasible().tolist():
        answer = cycle.call(plugin, "Filter", plugin.filter, cycle, pod, nodes.info(position))
        if answer is None:
            continue
        status = _status(answer, plugin, "Filter")
        if status.code is Code.ERROR or status.rejected:
            verdicts.set(position, status)
        elif status.code is not Code.SUCCESS:
            raise PluginError(plugin.name, "Filter", f"answered {status.code}, expected success or a refusal")


def _status(answer: object, plugin: Any, point: str) -> Status:
    if answer is None:
        return Status(Code.SUCCESS, plugin=plugin.name)
    if isinstance(answer, str):
        return Status(Code.UNSCHEDULABLE, (answer,), plugin.name)
    if isinstance(answer, Status):
        return answer.by(plugin.name)
    raise PluginError(plugin.name, point, f"answered {answer!r}; expected None, a reason (str) or a Status")


def checked(scores: Any, plugin: Any, count: int) -> Int64:
    """Scores after normalisation, as they must be. Raises PluginError."""
    if not isinstance(scores, np.ndarray) or scores.shape != (count,) or scores.dtype.kind not in "iu":
        raise PluginError(plugin.name, "NormalizeScore", f"expected an array of {count} integers, got {_shape(scores)}")
    checked_scores: Int64 = scores.astype(np.int64, copy=False)
    if checked_scores.view(np.uint64).max(initial=0) > MAX_NODE_SCORE:  # as unsigned, a negative score is a huge one
        raise PluginError(
            plugin.name,
            "Score",
            f"scores must be 0 to {MAX_NODE_SCORE} after normalisation, got {scores.min()} to {scores.max()}",
        )
    return checked_scores


def _shape(value: object) -> str:
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__


def _nothing_left(plugins: Iterable[str]) -> Status:
    names: Sequence[str] = sorted(plugins)
    if len(names) == 1:
        return Status.unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")
