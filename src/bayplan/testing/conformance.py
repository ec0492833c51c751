"""Replays recorded scenarios through the decision core and reports differing decisions.

A run follows the recorded choices, so that one difference does not hide the next.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.binding_runner import run_reserve
from bayplan.core.framework.interface import Allocates, CycleState
from bayplan.core.framework.profile import Point, Profile, implements
from bayplan.core.framework.status import Code, Status
from bayplan.core.scheduling import decide
from bayplan.core.scheduling.decision import Decision, Outcome
from bayplan.foundations.failures import Failures
from bayplan.testing.scenarios import Preempted, RecordedScores, RecordedStatus, Scenario, Step


@dataclass(frozen=True, slots=True)
class FieldDifference:
    """One field of a decision that differs, as in `scores[node-03].NodeResourcesFit`.

    `plugin` is the likely cause, if there is one.
    """

    field: str
    expected: Any
    got: Any
    plugin: str = ""


@dataclass(frozen=True, slots=True)
class StepResult:
    """A step and the differences between its decision and the recorded one."""

    pod: str
    differences: tuple[FieldDifference, ...]


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """One scenario's steps."""

    scenario: Scenario
    steps: tuple[StepResult, ...]

    @property
    def agreeing(self) -> int:
        """How many steps agree."""
        return sum(not step.differences for step in self.steps)

    @property
    def agrees(self) -> bool:
        """Whether all steps agree."""
        return self.agreeing == len(self.steps)


def replay(scenario: Scenario) -> ScenarioResult:
    """Decide each step on the state after the recorded choices of the previous ones."""
    steps: list[StepResult] = []
    for expected in scenario.steps:
        pod = scenario.pending[expected.pod]
        profile = scenario.profile_of(pod)
        got, decision = _decide(profile, scenario.state, pod)
        if decision is not None and decision.node is not None and expected.outcome == "error":
            status = run_reserve(profile, decision.cycle, pod, decision.node)
            got = Step(pod=pod.key, outcome="error", error=status.message) if status.code is Code.ERROR else got
        if expected.chosen:
            scenario.state.assume(pod, expected.chosen)
            if decision is not None and decision.outcome is Outcome.SCHEDULED:
                run_reserve(profile, decision.cycle, pod, expected.chosen)
                got.allocations = _allocations(profile, decision.cycle)
        steps.append(StepResult(pod.key, tuple(_differences(expected, got, profile))))
    return ScenarioResult(scenario, tuple(steps))


def _allocations(profile: Profile, cycle: CycleState) -> dict[str, dict[str, Any]]:
    """Return what Reserve took for each claim, by its name, as the API server would store it."""
    return {
        key.rpartition("/")[2]: msgspec.json.decode(encode(allocation))
        for plugin in profile.at(Point.RESERVE)
        if implements(plugin, Allocates)
        for key, allocation in plugin.allocations(cycle).items()
    }


def _decide(profile: Profile, state: ClusterState, pod: PodInfo) -> tuple[Step, Decision | None]:
    for plugin in profile.at(Point.PRE_ENQUEUE):
        refusal: Status | None = plugin.pre_enqueue(pod)
        if refusal is not None:
            return Step(pod=pod.key, outcome="gated", preFilter=_recorded(refusal.by(plugin.name))), None
    silent = Failures(logged=False)  # recorded errors are expected, and others are differences
    decision = decide(profile, state, pod, random.Random(0), explain=True, failures=silent)
    return _step(decision, state), decision


def _step(decision: Decision, state: ClusterState) -> Step:
    """Return a decision in the form of the recordings."""
    step = Step(pod=decision.pod.key, outcome=decision.outcome.value)
    if decision.outcome is Outcome.ERROR:
        step.error = decision.message
        return step
    names, diagnosis = state.table.names, decision.diagnosis
    if diagnosis.verdicts is not None:
        nodes = diagnosis.verdicts.nodes
        step.rejected = {nodes.name(row): _recorded(status) for row, status in diagnosis.verdicts.rejected()}
    step.absentNodes = _recorded(diagnosis.absent) if diagnosis.absent is not None else None
    if diagnosis.pre_filter_message:
        step.preFilter = RecordedStatus(reasons=[diagnosis.pre_filter_message])
    step.feasible = sorted(names[row] for row in decision.feasible.tolist())
    if decision.scores is not None:
        for position, row in enumerate(decision.scores.rows.tolist()):
            plugins = {plugin: int(scores[position]) for plugin, scores in decision.scores.plugins.items()}
            step.scores[names[row]] = RecordedScores(int(decision.scores.total[position]), plugins)
        step.best = sorted(names[row] for row in decision.scores.best.tolist())
    step.unschedulablePlugins = sorted(diagnosis.unschedulable_plugins)
    if decision.outcome is Outcome.UNSCHEDULABLE:
        step.message = decision.reason
        if not diagnosis.post_filter_failed:  # the recordings omit the error of a failed PostFilter
            step.postFilterMessage = diagnosis.post_filter_message
        step.nominated = decision.nominated_node or ""
        # victims that are already terminating are not evicted again
        step.victims = sorted(victim.key for victim in decision.victims if not victim.terminating)
    return step


def _recorded(status: Status) -> RecordedStatus:
    return RecordedStatus(code=str(status.code), plugin=status.plugin, reasons=sorted(status.reasons))


_COMPARED = ("absentNodes", "preFilter", "feasible", "best", "unschedulablePlugins", "message")


def _differences(expected: Step, got: Step, profile: Profile) -> Iterator[FieldDifference]:
    if expected.outcome != got.outcome:
        yield FieldDifference("outcome", expected.outcome, f"{got.outcome}{f': {got.error}' if got.error else ''}")
    if expected.outcome == got.outcome == "error":  # messages of errors are not compared
        return
    for node in sorted(expected.rejected.keys() | got.rejected.keys()):
        one, other = _in_order(expected.rejected.get(node)), got.rejected.get(node)
        if one != other:
            yield FieldDifference(f"rejected[{node}]", one, other, (one or other or RecordedStatus()).plugin)
    yield from _score_differences(expected.scores, got.scores)
    for name in _COMPARED:
        if getattr(expected, name) != getattr(got, name):
            yield FieldDifference(name, getattr(expected, name), getattr(got, name))
    if _preempted(got) not in [_preempted(expected), *expected.acceptable]:
        if expected.nominated != got.nominated:
            yield FieldDifference("nominated", expected.nominated, got.nominated)
        if sorted(expected.victims) != got.victims:
            yield FieldDifference("victims", sorted(expected.victims), got.victims)
    yield from _allocation_differences(expected, got)
    if profile.at(Point.POST_FILTER) and expected.postFilterMessage != got.postFilterMessage:
        yield FieldDifference("postFilterMessage", expected.postFilterMessage, got.postFilterMessage)


def _allocation_differences(expected: Step, got: Step) -> Iterator[FieldDifference]:
    if expected.allocations is None or got.allocations is None:
        return
    for claim in sorted(expected.allocations.keys() | got.allocations.keys()):
        one, other = _comparable(expected.allocations.get(claim)), _comparable(got.allocations.get(claim))
        for part in sorted(one.keys() | other.keys()):
            if one.get(part) != other.get(part):
                yield FieldDifference(f"allocations[{claim}].{part}", one.get(part), other.get(part))


def _comparable(allocation: Mapping[str, Any] | None) -> dict[str, Any]:
    """The devices, the configurations and the node selector of an allocation. The IDs of shares are random."""
    if allocation is None:
        return {}
    devices = allocation.get("devices") or {}
    results = [{key: value for key, value in each.items() if key != "shareID"} for each in devices.get("results") or ()]
    parts = {"devices": results, "config": devices.get("config"), "nodeSelector": allocation.get("nodeSelector")}
    return {name: value for name, value in parts.items() if value}


def _preempted(step: Step) -> Preempted:
    return Preempted(nominated=step.nominated, victims=step.victims)


def _in_order(status: RecordedStatus | None) -> RecordedStatus | None:
    return status and RecordedStatus(code=status.code, plugin=status.plugin, reasons=sorted(status.reasons))


def _score_differences(
    expected: Mapping[str, RecordedScores], got: Mapping[str, RecordedScores]
) -> Iterator[FieldDifference]:
    nothing = RecordedScores(0)
    for node in sorted(expected.keys() | got.keys()):
        one, other = expected.get(node, nothing), got.get(node, nothing)
        for plugin in sorted(one.plugins.keys() | other.plugins.keys()):
            wanted, given = one.plugins.get(plugin), other.plugins.get(plugin)
            if (wanted or 0) != (given or 0):  # a plugin that was skipped may be left out
                yield FieldDifference(f"scores[{node}].{plugin}", wanted, given, plugin)
        if one.total != other.total:
            yield FieldDifference(f"scores[{node}].total", one.total, other.total)
