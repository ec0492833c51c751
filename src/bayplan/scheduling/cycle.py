"""The scheduling cycle: from a pod to a decision, as pure stages.

Mirrors schedulePod and what it calls in pkg/scheduler/schedule_one.go. The cycle reads the state and changes nothing;
it neither waits nor reads a clock. Where somebody outside has to be asked (an HTTP extender), it yields the question
and goes on with the answer, so that whoever drives it decides how to wait; until then nobody may change the state.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Generator, Mapping
from dataclasses import dataclass

import numpy as np

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.calling import Caller, call
from bayplan.framework.extenders import (
    EXTENDER,
    Answer,
    ExtenderError,
    ExtenderFilter,
    ExtenderScore,
    Filtered,
    Question,
)
from bayplan.framework.interface import PLACED_WITH, CycleState, Gang, Placement
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
from bayplan.log_fields import about_node, about_pod
from bayplan.scheduling.decision import Decision, Outcome, Scores
from bayplan.scheduling.sampling import Rotation, filter_enough
from bayplan.scheduling.templates import Template, Templates

log = logging.getLogger(__name__)

NO_NODES = "no nodes available to schedule pods"

Cycle = Generator[Question, Answer, Decision]


@dataclass(frozen=True, slots=True)
class CycleOptions:
    """How a cycle is run.

    `ask_extenders`: yield questions. `explain`: score in any case, and tell the plugins' scores apart.
    `templates`: what may be reused of earlier decisions of the profile; it changes no decision. `rotation`: where to
    begin to look for enough nodes (see `sampling`); without one, all nodes are looked at. `call`: how plugins are
    called. `gang`: what the pod is decided with. `placement`: the nodes that come into question; the pod finds out of
    all nodes what it needs to know of the others.
    """

    ask_extenders: bool = False
    explain: bool = False
    templates: Templates | None = None
    rotation: Rotation | None = None
    call: Caller = call
    gang: Gang | None = None
    placement: Placement | None = None


def decide(
    profile: Profile,
    state: ClusterState,
    pod: PodInfo,
    rng: random.Random,
    *,
    explain: bool = False,
    templates: Templates | None = None,
    rotation: Rotation | None = None,
    call: Caller = call,
    gang: Gang | None = None,
    placement: Placement | None = None,
) -> Decision:
    """Run a cycle in which nobody outside is asked."""
    options = CycleOptions(
        explain=explain, templates=templates, rotation=rotation, call=call, gang=gang, placement=placement
    )
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
    diagnosis = Diagnosis(total=state.table.live_count if options.placement is None else len(options.placement.nodes))
    decision = Decision(pod, Outcome.UNSCHEDULABLE, CycleState(call=options.call), diagnosis)
    if diagnosis.total == 0:
        decision.message, decision.nominated_node = NO_NODES, ""
        return decision
    try:
        template = _begin_again(state, pod, decision, options)
        if options.gang is not None:
            decision.cycle.data[PLACED_WITH] = options.gang
        if template is not None:
            nodes, feasible = _find_feasible_again(profile, state, pod, decision, template, options.placement)
        else:
            nodes, feasible = yield from _find_feasible(profile, state, pod, decision, options)
        if not len(feasible):
            yield from _post_filter(decision, ProfileWhatIf(profile, state.nominations, rng), options)
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
    except ExtenderError as error:
        decision.outcome, decision.message = Outcome.ERROR, str(error)
    return decision


def _begin_again(state: ClusterState, pod: PodInfo, decision: Decision, options: CycleOptions) -> Template | None:
    """What is known from earlier pods, if anything is and it may be used."""
    if options.templates is None or options.explain or options.ask_extenders or pod.nominated_node_name:
        return None
    begun = options.templates.begin(pod, state.nodes, options.call)
    if begun is None:
        return None
    template, decision.cycle = begun
    return template


def _find_feasible_again(
    profile: Profile,
    state: ClusterState,
    pod: PodInfo,
    decision: Decision,
    template: Template,
    placement: Placement | None,
) -> tuple[Nodes, Rows]:
    """What `_find_feasible` would find, most of it known from earlier pods."""
    verdicts = template.filter(decision.cycle, pod)
    if state.nominations.nodes:
        verdicts = verdicts.copy()
        filter_nominated(profile, state.nominations, decision.cycle, pod, verdicts)
    if verdicts is not template.verdicts:
        verdicts.raise_error()
    if placement is None:
        feasible = template.feasible(verdicts)
    else:
        verdicts = verdicts.among(placement.nodes)
        feasible = verdicts.feasible()
    if not len(feasible):
        decision.diagnosis.verdicts = verdicts.copy()
        _blame_all(decision.diagnosis, verdicts)
    return verdicts.nodes, feasible


def _find_feasible(
    profile: Profile, state: ClusterState, pod: PodInfo, decision: Decision, options: CycleOptions
) -> Generator[Question, Answer, tuple[Nodes, Rows]]:
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

    if options.placement is not None:
        nodes = options.placement.nodes
    nominated = nodes.position(pod.nominated_node_name) if pod.nominated_node_name else None
    if nominated is not None:
        alone = nodes.at(np.array([nominated]))
        try:
            verdicts = _filter(profile, state, cycle, pod, alone, options)
            yield from _ask_filter(pod, verdicts, diagnosis, options)
        except (PluginError, ExtenderError) as error:
            node = about_node(pod.nominated_node_name)
            log.warning("pod %s: looking at its nominated node %s: %s", about_pod(pod), node, error)
        else:
            if verdicts.standing.any():
                diagnosis.verdicts = verdicts
                return alone, verdicts.feasible()

    if outcome.names is not None:
        positions = sorted(position for name in outcome.names if (position := nodes.position(name)) is not None)
        nodes = nodes.at(np.array(positions, dtype=np.intp))
        plugins = " ".join(sorted(outcome.narrowed_by))
        diagnosis.absent = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]")
    verdicts = _filter(profile, state, cycle, pod, nodes, options)
    diagnosis.verdicts = verdicts
    _blame_all(diagnosis, verdicts)
    if (yield from _ask_filter(pod, verdicts, diagnosis, options)):
        diagnosis.unschedulable_plugins |= {EXTENDER}
    return nodes, verdicts.feasible()


def _filter(
    profile: Profile, state: ClusterState, cycle: CycleState, pod: PodInfo, nodes: Nodes, options: CycleOptions
) -> Verdicts:
    def look(nodes: Nodes) -> Verdicts:
        verdicts = run_filter(profile, cycle, pod, nodes)
        if state.nominations.nodes:
            filter_nominated(profile, state.nominations, cycle, pod, verdicts)
        return verdicts

    verdicts = filter_enough(look, profile, nodes, options.rotation)
    verdicts.raise_error()
    return verdicts


def _ask_filter(
    pod: PodInfo, verdicts: Verdicts, diagnosis: Diagnosis, options: CycleOptions
) -> Generator[Question, Answer, bool]:
    """Let extenders turn down nodes that the filters left standing. Returns whether they did."""
    if not options.ask_extenders or not verdicts.standing.any():
        return False
    nodes, asked = verdicts.nodes, verdicts.feasible()
    answer = yield ExtenderFilter(pod, nodes.at(asked))
    assert isinstance(answer, Filtered)
    left = frozenset(answer.left)
    for name, status in answer.refused.items():
        position = None if name in left else nodes.position(name)
        if position is not None:
            verdicts.set(position, status.by(EXTENDER))
    without_a_word = diagnosis.absent or Status.unresolvable()
    for position in asked.tolist():
        if verdicts.standing[position] and nodes.name(position) not in left:
            verdicts.set(position, without_a_word)
    return int(verdicts.standing.sum()) < len(asked)


def _score(
    profile: Profile, pod: PodInfo, decision: Decision, nodes: Nodes, options: CycleOptions
) -> Generator[Question, Answer, Scores]:
    """The scores of `nodes`, all of which are feasible."""
    run_pre_score(profile, decision.cycle, pod, nodes)
    scores = run_score(profile, decision.cycle, pod, nodes)
    if options.ask_extenders and len(nodes) > 1:
        answer = yield ExtenderScore(pod, nodes)
        assert isinstance(answer, Mapping)
        extra = [answer.get(nodes.name(position), 0) for position in range(len(nodes))]
        scores[EXTENDER] = np.array(extra, dtype=np.int64)
    total: Int64 = np.zeros(len(nodes), dtype=np.int64)
    for plugin_scores in scores.values():
        total += plugin_scores
    return Scores(decision.feasible, scores, total)


def _post_filter(
    decision: Decision, what_if: ProfileWhatIf, options: CycleOptions
) -> Generator[Question, Answer, None]:
    """See whether room can be made."""
    result = yield from run_post_filter(
        what_if.profile,
        decision.cycle,
        decision.pod,
        decision.diagnosis,
        what_if,
        ask_extenders=options.ask_extenders,
    )
    if result is None:
        decision.nominated_node = ""
        return
    decision.diagnosis.post_filter_message = result.status.message
    if result.status.code is Code.ERROR:
        decision.diagnosis.post_filter_failed = True
        return
    decision.nominated_node = result.nominated_node
    decision.victims, decision.preempted_by = result.victims, result.status.plugin


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
