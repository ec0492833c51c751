"""The scheduling cycle: decides a single pod in pure stages.

Mirrors schedulePod and its callees in pkg/scheduler/schedule_one.go. The cycle reads the state and changes nothing; it
neither waits nor reads a clock. To call extenders, it yields a question and is resumed with the answer; the state must
not change before that.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Generator, Hashable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayplan.cluster.columns import Int64, Rows
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.failures import Failures
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
from bayplan.framework.gangs import PLACED_WITH, Gang, Placement
from bayplan.framework.interface import CycleState
from bayplan.framework.profile import Profile
from bayplan.framework.runner import run_filter, run_post_filter, run_pre_filter, run_pre_score, run_score
from bayplan.framework.status import Code, PluginError, Status
from bayplan.framework.verdicts import Diagnosis, Verdicts
from bayplan.framework.what_if import ProfileWhatIf, filter_nominated
from bayplan.log_fields import about_node, about_pod
from bayplan.scheduling.decision import Decision, Outcome, Scores
from bayplan.scheduling.reuse import FeasibleSet, Reuse, Templates
from bayplan.scheduling.sampling import Rotation, filter_enough

log = logging.getLogger(__name__)

NO_NODES = "no nodes available to schedule pods"

Cycle = Generator[Question, Answer, Decision]


def _no_extenders(_: PodInfo) -> bool:
    return False


@dataclass(slots=True)
class Options:
    """How attempts are made.

    `ask_extenders`: whether to yield questions about a pod. `explain`: always score, and keep the scores by plugin.
    `templates`: results of earlier attempts to reuse; they change no decision. `rotation`: where to start looking for
    enough feasible nodes (see `sampling`); None looks at all nodes. `call`: how plugins are called. `failures`: where
    failures of plugins are recorded; None logs every one.
    """

    ask_extenders: Callable[[PodInfo], bool] = _no_extenders
    explain: bool = False
    templates: Templates | None = None
    rotation: Rotation | None = None
    call: Caller = call
    failures: Failures | None = None

    def record(self, error: PluginError, pod: PodInfo) -> None:
        """Record the failure of a plugin in the attempt of a pod."""
        error.record(self.failures or Failures(), f"pod {about_pod(pod)}")


@dataclass(slots=True)
class SchedulingCycle:
    """The cycle of one pod; `run` it once.

    `gang`: the gang that the pod is a member of, if it is scheduled as one. `placement`: the nodes that are candidates;
    None for all nodes.
    """

    profile: Profile
    state: ClusterState
    pod: PodInfo
    rng: random.Random
    options: Options
    gang: Gang | None = None
    placement: Placement | None = None

    def run(self) -> Cycle:
        """PreFilter, Filter, PreScore, Score and selection; PostFilter where no node is feasible."""
        placement, state, options = self.placement, self.state, self.options
        total = state.table.live_count if placement is None else len(placement.nodes)
        asks = options.ask_extenders(self.pod)
        reuse = self._reuse(asks=asks) if total else None
        if reuse is not None and reuse.refused is not None:
            return replace(reuse.refused, pod=self.pod)
        cycle = CycleState(call=options.call) if reuse is None else reuse.cycle
        decision = Decision(self.pod, Outcome.UNSCHEDULABLE, cycle, Diagnosis(total=total))
        if total == 0:
            decision.message, decision.nominated_node = NO_NODES, ""
            return decision
        try:
            yield from self._decide(decision, reuse, asks=asks)
        except PluginError as error:
            options.record(error, self.pod)
            decision.outcome, decision.message, decision.failed_plugin = Outcome.ERROR, str(error), error.plugin
        except ExtenderError as error:
            decision.outcome, decision.message = Outcome.ERROR, str(error)
        return decision

    def _decide(self, decision: Decision, reuse: Reuse | None, *, asks: bool) -> Generator[Question, Answer, None]:
        feasible_set = None
        if self.gang is not None:
            decision.cycle.data[PLACED_WITH] = self.gang
        if reuse is not None:
            nodes, feasible_set = self._find_feasible_by_template(decision, reuse)
            feasible = feasible_set.positions
        else:
            nodes, feasible = yield from self._find_feasible(decision, asks=asks)
        if not len(feasible):
            yield from self._post_filter(decision, reuse, asks=asks)
            decision.message = decision.diagnosis.explain()
            decision.rejection_key = self._rejection_key(decision, reuse)
            return
        decision.feasible = _rows(nodes, feasible)
        if len(feasible) == 1 and not self.options.explain:
            decision.node = nodes.name(int(feasible[0]))
        else:
            chosen = nodes if len(feasible) == len(nodes) else nodes.at(feasible)
            if reuse is not None and feasible_set is not None:
                decision.scores = self._score_by_template(decision, chosen, reuse, feasible_set)
            if decision.scores is None:
                decision.scores = yield from self._score(decision, chosen, asks=asks)
            decision.node = self.state.table.names[self.rng.choice(decision.scores.best)]
        decision.outcome = Outcome.SCHEDULED

    def _reuse(self, *, asks: bool) -> Reuse | None:
        """Return the results of earlier pods, if there are any and they may be used."""
        options = self.options
        if options.templates is None or options.explain or asks or self.pod.nominated_node_name:
            return None
        return options.templates.reuse(self.pod, self.state, options.call, options.record, self.gang)

    def _find_feasible_by_template(self, decision: Decision, reuse: Reuse) -> tuple[Nodes, FeasibleSet]:
        """The result of `_find_feasible`, from a template."""
        found = reuse.filter(self.profile, self.state.nominations)
        if self.placement is not None:
            found = found.among(self.placement.nodes)
        if not len(found.feasible_set.positions):
            decision.diagnosis.verdicts = found.verdicts.copy()
            _blame_all(decision.diagnosis, found.verdicts)
        return found.verdicts.nodes, found.feasible_set

    def _find_feasible(self, decision: Decision, *, asks: bool) -> Generator[Question, Answer, tuple[Nodes, Rows]]:
        """Return the nodes that were filtered, and the positions of the feasible ones among them."""
        profile, pod, cycle, diagnosis = self.profile, self.pod, decision.cycle, decision.diagnosis
        nodes = self.state.nodes
        outcome = run_pre_filter(profile, cycle, pod, nodes)
        diagnosis.unschedulable_plugins = outcome.narrowed_by
        if outcome.refusal is not None:
            diagnosis.absent = outcome.refusal
            diagnosis.pre_filter_message = outcome.refusal.message
            _blame(diagnosis, outcome.refusal)
            return nodes, np.zeros(0, dtype=np.intp)

        if self.placement is not None:
            nodes = self.placement.nodes
        nominated = nodes.position(pod.nominated_node_name) if pod.nominated_node_name else None
        if nominated is not None:
            alone = nodes.at(np.array([nominated]))
            try:
                verdicts = self._filter(cycle, alone)
                yield from self._ask_filter(verdicts, diagnosis, asks=asks)
            except (PluginError, ExtenderError) as error:
                if isinstance(error, PluginError):
                    self.options.record(error, pod)
                node = about_node(pod.nominated_node_name)
                log.warning("pod %s: filtering its nominated node %s failed: %s", about_pod(pod), node, error)
            else:
                if verdicts.feasible_mask.any():
                    diagnosis.verdicts = verdicts
                    return alone, verdicts.feasible()

        if outcome.names is not None:
            positions = sorted(position for name in outcome.names if (position := nodes.position(name)) is not None)
            nodes = nodes.at(np.array(positions, dtype=np.intp))
            plugins = " ".join(sorted(outcome.narrowed_by))
            diagnosis.absent = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]")
            diagnosis.narrowed_by = outcome.narrowed_by
        verdicts = self._filter(cycle, nodes)
        diagnosis.verdicts = verdicts
        _blame_all(diagnosis, verdicts)
        if (yield from self._ask_filter(verdicts, diagnosis, asks=asks)):
            diagnosis.unschedulable_plugins |= {EXTENDER}
        return nodes, verdicts.feasible()

    def _filter(self, cycle: CycleState, nodes: Nodes) -> Verdicts:
        def filter_part(nodes: Nodes) -> Verdicts:
            verdicts = run_filter(self.profile, cycle, self.pod, nodes)
            if self.state.nominations.nodes:
                filter_nominated(self.profile, self.state.nominations, cycle, self.pod, verdicts)
            return verdicts

        verdicts = filter_enough(filter_part, self.profile, nodes, self.options.rotation)
        verdicts.raise_error()
        return verdicts

    def _ask_filter(self, verdicts: Verdicts, diagnosis: Diagnosis, *, asks: bool) -> Generator[Question, Answer, bool]:
        """Let extenders reject nodes that the filters left feasible. Returns whether they rejected any."""
        if not asks or not verdicts.feasible_mask.any():
            return False
        nodes, asked = verdicts.nodes, verdicts.feasible()
        answer = yield ExtenderFilter(self.pod, nodes.at(asked))
        assert isinstance(answer, Filtered)
        feasible = frozenset(answer.feasible)
        for name, status in answer.rejected.items():
            position = None if name in feasible else nodes.position(name)
            if position is not None:
                verdicts.set(position, status.by(EXTENDER))
        without_reason = diagnosis.absent or Status.unresolvable()
        for position in asked.tolist():
            if verdicts.feasible_mask[position] and nodes.name(position) not in feasible:
                verdicts.set(position, without_reason)
        return int(verdicts.feasible_mask.sum()) < len(asked)

    def _score(self, decision: Decision, nodes: Nodes, *, asks: bool) -> Generator[Question, Answer, Scores]:
        """Score `nodes`, all of which are feasible."""
        run_pre_score(self.profile, decision.cycle, self.pod, nodes)
        scores = run_score(self.profile, decision.cycle, self.pod, nodes)
        if asks and len(nodes) > 1:
            answer = yield ExtenderScore(self.pod, nodes)
            assert isinstance(answer, Mapping)
            extra = [answer.get(nodes.name(position), 0) for position in range(len(nodes))]
            scores[EXTENDER] = np.array(extra, dtype=np.int64)
        total: Int64 = np.zeros(len(nodes), dtype=np.int64)
        for plugin_scores in scores.values():
            total += plugin_scores
        return Scores(decision.feasible, scores, total)

    def _score_by_template(
        self, decision: Decision, nodes: Nodes, reuse: Reuse, feasible_set: FeasibleSet
    ) -> Scores | None:
        """The total scores of the feasible nodes; None where a plugin fails: templates score other nodes, too."""
        try:
            return Scores(decision.feasible, {}, reuse.total(nodes, decision.feasible, feasible_set))
        except PluginError:
            return None

    def _rejection_key(self, decision: Decision, reuse: Reuse | None) -> Hashable:
        """See `Decision`. A pod of a gang, with victims or with a nominated node has none."""
        if reuse is None or self.gang is not None or self.placement is not None:
            return None
        if decision.nominated_node or self.state.nominations.node_of(self.pod.uid) is not None:
            return None
        try:
            key = self.profile.sign_rejection(self.pod, reuse.sharing.apart)
        except PluginError as error:
            self.options.record(error, self.pod)
            return None
        if key is not None and not decision.diagnosis.post_filter_failed:
            reuse.template.refusal = decision, key, self.state.version
        return None if key is None else (reuse.sharing.signature, key)

    def _post_filter(self, decision: Decision, reuse: Reuse | None, *, asks: bool) -> Generator[Question, Answer, None]:
        """Let PostFilter plugins make room."""
        actual, sharing = decision.diagnosis.verdicts, None if reuse is None else reuse.sharing
        what_if = ProfileWhatIf(self.profile, self.state.nominations, self.rng, actual, sharing)
        result = yield from run_post_filter(
            self.profile, decision.cycle, self.pod, decision.diagnosis, what_if, ask_extenders=asks
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
    """Record the plugin whose events may make the pod schedulable."""
    if not status.plugin:
        return
    if status.rejected:
        diagnosis.unschedulable_plugins |= {status.plugin}
    if status.code is Code.PENDING:
        diagnosis.pending_plugins |= {status.plugin}


def _rows(nodes: Nodes, positions: Rows) -> Rows:
    return positions if isinstance(nodes.rows, slice) else nodes.rows[positions]
