"""The runner: calls a profile's plugins at one extension point and combines their results.

The order of calls, the conditions for stopping early and the messages mirror
pkg/scheduler/framework/runtime/framework.go. A plugin that raises, or that returns an invalid value, results in a
PluginError with its name.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np

from bayplan.core.cluster.columns import Bool, Int64
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import interface
from bayplan.core.framework.extenders import Answer, ExtenderError, ExtenderPreempt
from bayplan.core.framework.interface import (
    MAX_NODE_SCORE,
    CycleState,
    FailedPreemption,
    NodeNames,
    PostFilterResult,
    Shortlist,
    WhatIf,
)
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.status import Code, PluginError, Status, success
from bayplan.core.framework.verdicts import Diagnosis, Rejections, Verdicts
from bayplan.foundations.failures import shown

_SUCCESS = Status(Code.SUCCESS)

_INTEGERS = (int, np.integer)
_TOO_LARGE = 2**63
_ROUND_IT = ": floats are not rounded, round them in the plugin"

FEW_NODES = 4
"""A plugin with both forms is called in its per-node form for up to this many nodes."""


class PreFilterOutcome(NamedTuple):
    """The combined result of PreFilter: a rejection, or the names of the candidate nodes (None: all nodes).

    `narrowed_by`: the plugins that returned NodeNames.
    """

    refusal: Status | None
    names: frozenset[str] | None
    narrowed_by: frozenset[str]


def run_pre_filter(profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> PreFilterOutcome:
    """Run the PreFilter plugins. An unresolvable rejection ends it at once, an unschedulable one doesn't."""
    names: frozenset[str] | None = None
    narrowed_by: set[str] = set()
    refusal: Status | None = None
    for plugin in profile.at(Point.PRE_FILTER):
        answer = cycle.call(plugin, "PreFilter", plugin.pre_filter, cycle, pod, nodes)
        if isinstance(answer, NodeNames):
            narrowed_by.add(plugin.name)
            names = answer.names if names is None else names & answer.names
            if not names:
                return PreFilterOutcome(_no_candidates(narrowed_by), names, frozenset(narrowed_by))
            continue
        status = status_of(answer, plugin, "PreFilter")
        if status.code is Code.SKIP:
            cycle.skip_filter.add(plugin.name)
        elif status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return PreFilterOutcome(status, None, frozenset())
        elif status.code is Code.UNSCHEDULABLE:
            refusal = status
        elif status.code is not Code.SUCCESS:
            raise failure(status, "PreFilter")
    return PreFilterOutcome(refusal, names, frozenset(narrowed_by))


def run_filter(
    profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes, earlier: Verdicts | None = None
) -> Verdicts:
    """Run the filters in order. Verdicts on nodes that an earlier filter rejected are ignored.

    `earlier`: the verdicts of other filters on the same nodes, which come first; they are not changed.
    """
    verdicts = Verdicts(nodes, earlier)
    plugins = [plugin for plugin in profile.at(Point.FILTER) if plugin.name not in cycle.skip_filter]
    if len(nodes) <= FEW_NODES and all(implements(plugin, interface.Filter) for plugin in plugins):
        _filter_one_by_one(plugins, cycle, pod, nodes, verdicts)
        return verdicts
    cycle.standing = verdicts.feasible_mask
    for plugin in plugins:
        if _whole_table(plugin, interface.FilterNodes, interface.Filter, nodes):
            rejections = cycle.call(plugin, "Filter", plugin.filter_nodes, cycle, pod, nodes)
            if rejections is None:
                continue
            if not isinstance(rejections, Rejections) or len(rejections.index) != len(nodes):
                raise PluginError(
                    plugin.name, "Filter", f"filter_nodes must return None or Rejections of {len(nodes)} nodes"
                )
            verdicts.reject(rejections, plugin.name)
        else:
            _filter_one_by_one((plugin,), cycle, pod, nodes, verdicts)
        if not np.count_nonzero(verdicts.feasible_mask):
            break
    return verdicts


def filter_node(plugins: Iterable[Any], cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
    """Run the per-node form of filters on one node.

    Returns the first rejection, or the first status that reports an error; None if the node is feasible.
    """
    for plugin in plugins:
        answer = cycle.call(plugin, "Filter", plugin.filter, cycle, pod, node)
        if answer is not None:
            status = status_of(answer, plugin, "Filter")
            if status.rejected or status.code is Code.ERROR:
                return status
            if status.code is not Code.SUCCESS:
                raise PluginError(plugin.name, "Filter", f"returned {status.code}, expected success or a rejection")
    return None


def raw_score(plugin: Any, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
    """Return one node's score before NormalizeScores, by the plugin's per-node form."""
    return integer(cycle.call(plugin, "Score", plugin.score, cycle, pod, node), plugin, "Score")


def score_node(plugins: Iterable[tuple[Any, int]], cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
    """Return the weighted sum of one node's scores.

    `plugins`: Score plugins without NormalizeScores, with their weights. They are called in their per-node form.
    """
    total = 0
    for plugin, weight in plugins:
        score = cycle.call(plugin, "Score", plugin.score, cycle, pod, node)
        score = integer(score, plugin, "Score")
        if not 0 <= score <= MAX_NODE_SCORE:
            raise _invalid_score(score, plugin, "Score")
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
    """Run the PostFilter plugins until one does not return UNSCHEDULABLE.

    Returns its result, with the plugin's name in the status; the combined rejections if there is no such plugin; None
    if the profile has no PostFilter plugins. An error only means that there is no preemption. With
    `ask_extenders`, candidates for preemption are first yielded, and the reply replaces them.
    """
    refusals: list[PostFilterResult] = []
    if diagnosis.verdicts is not None:
        diagnosis.verdicts.freeze()
    for plugin in profile.at(Point.POST_FILTER):
        diagnosis.post_filters = (*diagnosis.post_filters, plugin.name)
        result = cycle.call(plugin, "PostFilter", plugin.post_filter, cycle, pod, diagnosis, what_if)
        if isinstance(result, Shortlist):
            result = yield from _choose(plugin, cycle, pod, result, ask_extenders=ask_extenders)
        if not isinstance(result, PostFilterResult):
            raise PluginError(plugin.name, "PostFilter", f"returned {shown(result)}, expected a PostFilterResult")
        result = PostFilterResult(result.status.by(plugin.name), result.nominated_node, result.victims)
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
    """Let the plugin choose among the candidates that the extenders accept."""
    left = shortlist.candidates
    if ask_extenders:
        try:
            answer = yield ExtenderPreempt(pod, left, shortlist.nodes)
        except ExtenderError as error:
            return PostFilterResult(Status.error(f"preemption: {error}"))
        assert isinstance(answer, tuple)
        left = answer
    return cycle.call(plugin, "PostFilter", shortlist.choose, left)


def explain_post_filters(
    profile: Profile, cycle: CycleState, pod: PodInfo, diagnosis: Diagnosis, what_if: WhatIf
) -> Iterator[FailedPreemption]:
    """Yield where the PostFilter plugins that were called would make no room, and why. One that fails says nothing."""
    for plugin in profile.at(Point.POST_FILTER):
        if plugin.name in diagnosis.post_filters and implements(plugin, interface.ExplainPostFilter):
            with suppress(PluginError):
                explain = plugin.explain_post_filter
                yield from cycle.call(plugin, "Explain", _failures, explain, cycle, pod, diagnosis, what_if)


def _failures(explain: Callable[..., Iterable[FailedPreemption]], *arguments: Any) -> list[FailedPreemption]:
    """Return what a plugin says, in full and in this form. Raises what it raises, TypeError and ValueError."""
    return [FailedPreemption(str(node), int(victims), tuple(remains)) for node, victims, remains in explain(*arguments)]


def run_pre_score(profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
    """Run the PreScore plugins. `nodes`: the feasible nodes."""
    for plugin in profile.at(Point.PRE_SCORE):
        status = status_of(cycle.call(plugin, "PreScore", plugin.pre_score, cycle, pod, nodes), plugin, "PreScore")
        if status.code is Code.SKIP:
            cycle.skip_score.add(plugin.name)
        elif status.code is not Code.SUCCESS:
            raise failure(status, "PreScore")


def run_score(profile: Profile, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> dict[str, Int64]:
    """Return the weighted scores of the feasible nodes, by plugin: int64, shape (len(nodes),)."""
    scores: dict[str, Int64] = {}
    for plugin in profile.at(Point.SCORE):
        if plugin.name not in cycle.skip_score:
            raw = raw_scores(plugin, cycle, pod, nodes)
            scores[plugin.name] = normalized(plugin, cycle, pod, raw, nodes) * profile.weights.get(plugin.name, 1)
    return scores


def raw_scores(plugin: Any, cycle: CycleState, pod: PodInfo, nodes: Nodes, feasible: Bool | None = None) -> Int64:
    """Return one plugin's scores before normalization: int64, shape (len(nodes),).

    `feasible`: bool, shape (len(nodes),); which nodes to score (None: all). The scores of other nodes are arbitrary.
    """
    if _whole_table(plugin, interface.ScoreNodes, interface.Score, nodes):
        raw = cycle.call(plugin, "Score", plugin.score_nodes, cycle, pod, nodes)
        if not isinstance(raw, np.ndarray) or raw.shape != (len(nodes),) or raw.dtype.kind not in "iu":
            raise PluginError(plugin.name, "Score", f"expected an array of {len(nodes)} integers, got {_shape(raw)}")
        return raw.astype(np.int64, copy=False)
    raw = np.zeros(len(nodes), dtype=np.int64)
    for position in range(len(nodes)) if feasible is None else np.flatnonzero(feasible).tolist():
        score = cycle.call(plugin, "Score", plugin.score, cycle, pod, nodes.info(position))
        raw[position] = integer(score, plugin, "Score")
    return raw


def normalized(plugin: Any, cycle: CycleState, pod: PodInfo, raw: Int64, nodes: Nodes) -> Int64:
    """Return one plugin's scores from 0 to 100. `nodes`: the feasible nodes, which `raw` are the scores of."""
    if implements(plugin, interface.NormalizeScores):
        raw = cycle.call(plugin, "NormalizeScore", plugin.normalize_scores, cycle, pod, raw, nodes)
    return checked(raw, plugin, "Score", len(nodes))


def status_of(answer: object, plugin: Any, point: str) -> Status:
    """Convert a plugin's return value to a Status with the plugin's name.

    None is success, a string is the reason of an unschedulable Status. Raises PluginError for any other type.
    """
    if answer is None:
        return success(plugin.name)
    if isinstance(answer, str):
        return Status(Code.UNSCHEDULABLE, (answer,), plugin.name)
    if isinstance(answer, Status):
        return answer.by(plugin.name)
    raise PluginError(plugin.name, point, f"returned {shown(answer)}; expected None, a reason (str) or a Status")


def failure(status: Status, point: str) -> PluginError:
    """The error for a Status that reports one, or that is not allowed at the extension point."""
    return PluginError(status.plugin, point, status.message or str(status.code))


def _whole_table(plugin: Any, whole_form: type[Any], node_form: type[Any], nodes: Nodes) -> bool:
    """Whether to call a plugin with all nodes at once. For very few nodes, the per-node form is faster."""
    return implements(plugin, whole_form) and (len(nodes) > FEW_NODES or not implements(plugin, node_form))


def _filter_one_by_one(
    plugins: Sequence[Any], cycle: CycleState, pod: PodInfo, nodes: Nodes, verdicts: Verdicts
) -> None:
    for position in verdicts.feasible().tolist():
        status = filter_node(plugins, cycle, pod, nodes.info(position))
        if status is not None:
            verdicts.set(position, status)


def integer(score: Any, plugin: Any, point: str) -> int:
    """Return a score as an int. Raises PluginError if it is neither an int nor an integer of NumPy."""
    if not isinstance(score, _INTEGERS):
        hint = _ROUND_IT if isinstance(score, float | np.floating) else ""
        raise PluginError(plugin.name, point, f"expected an integer, got {shown(score)}{hint}")
    value = int(score)
    if not -_TOO_LARGE <= value < _TOO_LARGE:
        raise PluginError(plugin.name, point, f"expected an integer of 64 bits, got {value}")
    return value


def checked(scores: Any, plugin: Any, point: str, count: int) -> Int64:
    """Return normalized scores as int64, shape (count,). Raises PluginError if they are invalid.

    `point`: Score or PlacementScore.
    """
    if not isinstance(scores, np.ndarray) or scores.shape != (count,) or scores.dtype.kind not in "iu":
        raise PluginError(
            plugin.name, f"Normalize{point}", f"expected an array of {count} integers, got {_shape(scores)}"
        )
    checked_scores: Int64 = scores.astype(np.int64, copy=False)
    unsigned = checked_scores.view(np.uint64)  # negative scores are huge
    if len(unsigned) and unsigned[unsigned.argmax()] > MAX_NODE_SCORE:  # `max` takes several times as long
        raise _invalid_score(next(each for each in scores.tolist() if not 0 <= each <= MAX_NODE_SCORE), plugin, point)
    return checked_scores


def _invalid_score(score: int, plugin: Any, point: str) -> PluginError:
    """The error for a final score out of range. Its words are upstream's (RunScorePlugins in runtime/framework.go)."""
    problem = f"returns an invalid score {score}, it should in the range of [0, {MAX_NODE_SCORE}] after normalizing"
    return PluginError(plugin.name, f"{point}Weights", problem)


def _shape(value: object) -> str:
    if not isinstance(value, np.ndarray):
        return type(value).__name__
    return f"{value.dtype}{list(value.shape)}{_ROUND_IT if value.dtype.kind == 'f' else ''}"


def _no_candidates(plugins: Iterable[str]) -> Status:
    names: Sequence[str] = sorted(plugins)
    if len(names) == 1:
        return Status.unresolvable(f"node(s) didn't satisfy plugin {names[0]}")
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(names)}] simultaneously")
