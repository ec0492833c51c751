"""The scheduling cycle: from a pod to a decision, as pure stages.

Mirrors schedulePod and what it calls in pkg/scheduler/schedule_one.go. The cycle reads the state and changes nothing;
it neither waits nor reads a clock. Where somebody outside has to be asked (an HTTP extender), it yields the question
and goes on with the answer, so that whoever drives it decides how to wait; until then nobody may change the state.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass

import numpy as np

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Profile
from bayplan.framework.runner import (
    run_filter,
    run_post_filter,
    run_pre_filter,
    run_pre_score,
    run_score,
)
from bayplan.framework.status import Code, PluginError, Status
from bayplan.framework.verdicts import Diagnosis, Verdicts
from bayplan.framework.what_if import ProfileWhatIf, filter_nominated
from bayplan.scheduling.decision import Decision, Outcome, Scores
from bayplan.scheduling.sampling import Rotation, filter_enough
from bayplan.scheduling.templates import Template, Templates

EXTENDER = "Extender"
"""What a pod waits for that only extenders turned down: any event."""
NO_NODES = "no nodes available to schedule pods"


@dataclass(frozen=True, slots=True)
class ExtenderFilter:
    """A question: which of these nodes does somebody outside object to? Answered by the Status of each of those."""

    pod: PodInfo
    nodes: list[str]


@dataclass(frozen=True, slots=True)
class ExtenderScore:
    """A question: what do those outside add to the score of these nodes? Answered by name, weighted."""

    pod: PodInfo
    nodes: list[str]


Question = ExtenderFilter | ExtenderScore
Cycle = Generator[Question, Mapping[str, Status] | Mapping[str, int], Decision]


@dataclass(frozen=True, slots=True)
class CycleOptions:
    """How a cycle is run.

    `ask_extenders`: yield questions. `explain`: score in any case, and tell the plugins' scores apart.
    `templates`: what may be reused of earlier decisions of the profile; it changes no decision. `rotation`: where to
    begin to look for enough nodes (see `sampling`); without one, all nodes are looked at.
    """

    ask_extenders: bool = False
    explain: bool = False
    templates: Templates | None = None
    rotation: Rotation | None = None


def decide(
    profile: Profile,
    state: ClusterState,
    pod: PodInfo,
    rng: random.Random,
    *,
    explain: bool = False,
    templates: Templates | None = None,
    rotation: Rotation | None = None,
) -> Decision:
    """Run a cycle in which nobody outside is asked."""
    options = CycleOptions(explain=explain, templates=templates, rotation=rotation)
    cycle = scheduling_cycle(profile, state, pod, rng, options)
    try:
        question = next(cycle)
    except StopIteration as end:
        decision: Decision = end.value
        return decision
    raise AssertionError(f"a cycle without extenders asked {question}")


def scheduling_cycle(
    profile: Profile,
    state: ClusterState,
    pod: PodInfo,
    rng: random.Random,
    options: CycleOptions = CycleOptions(),
) -> Cycle:
    """Filter, score, select; what follows when nothing fits. The result says everything that happened."""
    diagnosis = Diagnosis(total=state.table.live_count)
    decision = Decision(pod, Outcome.UNSCHEDULABLE, CycleState(), diagnosis)
    if diagnosis.total == 0:
        decision.message, decision.nominated_node = NO_NODES, ""
        return decision
    try:
        template = _begin_again(state, pod, decision, options)
        if template is not None:
            nodes, feasible = _find_feasible_again(profile, state, pod, decision, template)
        else:
            nodes, feasible = yield from _find_feasible(profile, state, pod, decision, options)
        if not len(feasible):
            _post_filter(decision, ProfileWhatIf(profile, state.nominations, rng))
            decision.message = diagnosis.explain()
            return decision
        decision.feasible = _rows(nodes, feasible)
        if len(feasible) == 1 and not options.explain:
            decision.node = nodes.name(int(feasible[0]))
        else:
            chosen = nodes if len(feasible) == len(nodes) else nodes.at(feasible)
            if template is not None:
                total = template.total(decision.cycle, pod, chosen, decision.feasible)
                decision.scores = Scores(decision.feasible, {}, total)
            else:
                decision.scores = yield from _score(profile, pod, decision, chosen, options)
            decision.node = state.table.names[rng.choice(decision.scores.best)]
        decision.outcome = Outcome.SCHEDULED
    except PluginError as error:
        decision.outcome, decision.message, decision.failed_plugin = Outcome.ERROR, str(error), error.plugin
    return decision


def _begin_again(state: ClusterState, pod: PodInfo, decision: Decision, options: CycleOptions) -> Template | None:
    """What is known from earlier pods, if anything is and it may be used."""
    if options.templates is None or options.explain or options.ask_extenders or pod.nominated_node_name:
        return None
    begun = options.templates.begin(pod, state.nodes)
    if begun is None:
        return None
    template, decision.cycle = begun
    return template


def _find_feasible_again(
    profile: Profile, state: ClusterState, pod: PodInfo, decision: Decision, template: Template
) -> tuple[Nodes, Rows]:
    """What `_find_feasible` would find, most of it known from earlier pods."""
    verdicts = template.filter(decision.cycle, pod)
    if state.nominations.nodes:
        verdicts = verdicts.copy()
        filter_nominated(profile, state.nominations, decision.cycle, pod, verdicts)
    if verdicts is not template.verdicts:
        _raise_error(verdicts)
    feasible = template.feasible(verdicts)
    if not len(feasible):
        decision.diagnosis.verdicts = verdicts.copy()
        _blame_all(decision.diagnosis, verdicts)
    return verdicts.nodes, feasible


def _find_feasible(
    profile: Profile, state: ClusterState, pod: PodInfo, decision: Decision, options: CycleOptions
) -> Generator[Question, Mapping[str, Status] | Mapping[str, int], tuple[Nodes, Rows]]:
    """The nodes that were looked at, and the positions of the feasible ones among them."""
    cycle, diagnosis = decision.cycle, decision.diagnosis
    nodes = state.nodes
    outcome = run_pre_filter(profile, cycle, pod, nodes)
    diagnosis.unschedulable_plugins = outcome.narrowed_by
    if outcome.refusal is not None:
        diagnosis.absent = outcome.refusal
        diagnosis.pre_filter_message = outcome.refusal.message
        _blame(diagnosis, outcome.refusal)
        return nodes, np.zeros(0, dtype=np.intp)

    nominated = nodes.position(pod.nominated_node_name) if pod.nominated_node_name else None
    if nominated is not None:
        alone = nodes.at(np.array([nominated]))
        verdicts = yield from _filter(profile, state, cycle, pod, alone, options)
        if verdicts.standing.any():
            diagnosis.verdicts = verdicts
            return alone, verdicts.feasible()

    if outcome.names is not None:
        positions = sorted(position for name in outcome.names if (position := nodes.position(name)) is not None)
        nodes = nodes.at(np.array(positions, dtype=np.intp))
        plugins = " ".join(sorted(outcome.narrowed_by))
        diagnosis.absent = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]")
    verdicts = yield from _filter(profile, state, cycle, pod, nodes, options)
    diagnosis.verdicts = verdicts
    _blame_all(diagnosis, verdicts)
    return nodes, verdicts.feasible()


def _filter(
    profile: Profile, state: ClusterState, cycle: CycleState, pod: PodInfo, nodes: Nodes, options: CycleOptions
) -> Generator[Question, Mapping[str, Status] | Mapping[str, int], Verdicts]:
    def look(nodes: Nodes) -> Verdicts:
        verdicts = run_filter(profile, cycle, pod, nodes)
        if state.nominations.nodes:
            filter_nominated(profile, state.nominations, cycle, pod, verdicts)
        return verdicts

    verdicts = filter_enough(look, profile, nodes, options.rotation)
    _raise_error(verdicts)
    if options.ask_extenders and verdicts.standing.any():
        names = [nodes.name(position) for position in verdicts.feasible().tolist()]
        answers = yield ExtenderFilter(pod, names)
        for name, status in answers.items():
            position = nodes.position(name)
            if isinstance(status, Status) and position is not None:
                verdicts.set(position, status.by(EXTENDER))
    return verdicts


def _score(
    profile: Profile, pod: PodInfo, decision: Decision, nodes: Nodes, options: CycleOptions
) -> Generator[Question, Mapping[str, Status] | Mapping[str, int], Scores]:
    """The scores of `nodes`, all of which are feasible."""
    run_pre_score(profile, decision.cycle, pod, nodes)
    scores = run_score(profile, decision.cycle, pod, nodes)
    total: Int64 = np.zeros(len(nodes), dtype=np.int64)
    for plugin_scores in scores.values():
        total += plugin_scores
    if options.ask_extenders:
        answers = yield ExtenderScore(pod, [nodes.name(position) for position in range(len(nodes))])
        for name, extra in answers.items():
            position = nodes.position(name)
            if isinstance(extra, int) and position is not None:
                total[position] += extra
    return Scores(decision.feasible, scores, total)


def _post_filter(decision: Decision, what_if: ProfileWhatIf) -> None:
    """See whether room can be made."""
    result = run_post_filter(what_if.profile, decision.cycle, decision.pod, decision.diagnosis, what_if)
    if result is None:
        decision.nominated_node = ""
        return
    decision.diagnosis.post_filter_message = result.status.message
    if result.status.code is Code.ERROR:
        return
    decision.nominated_node = result.nominated_node
    decision.victims, decision.preempted_by = result.victims, result.status.plugin


def _raise_error(verdicts: Verdicts) -> None:
    """An error on one node fails the attempt: nobody knows whether the pod would have fitted there."""
    error = verdicts.error()
    if error is not None:
        raise PluginError(error.plugin, "Filter", error.message)


def _blame_all(diagnosis: Diagnosis, verdicts: Verdicts) -> None:
    for status, _ in verdicts.counts():
        _blame(diagnosis, status)


def _blame(diagnosis: Diagnosis, status: Status) -> None:
    """Note the plugin that a pod waits for."""
    if not status.plugin:
        return
    if status.rejected:
        diagnosis.unschedulable_plugins |= {status.plugin}
    if status.code is Code.PENDING:
        diagnosis.pending_plugins |= {status.plugin}


def _rows(nodes: Nodes, positions: Rows) -> Rows:
    return positions if isinstance(nodes.rows, slice) else nodes.rows[positions]
