"""The scheduling cycle: decides a single pod in pure stages.

Mirrors schedulePod and its callees in pkg/scheduler/schedule_one.go. The cycle reads the state and changes nothing; it
neither waits nor reads a clock. To call extenders, it yields a question and is resumed with the answer; the state must
not change before that.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from bayplan.core.cluster.columns import Rows
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.calling import Caller, call
from bayplan.core.framework.extenders import (
    EXTENDER,
    Answer,
    ExtenderError,
    ExtenderFilter,
    ExtenderScore,
    Filtered,
    Question,
)
from bayplan.core.framework.gangs import Gang, Placement
from bayplan.core.framework.pod_run import PodRun, Start
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.runner import run_post_filter
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.core.framework.verdicts import Diagnosis, Verdicts
from bayplan.core.scheduling.decision import Decision, Outcome, Scores
from bayplan.core.scheduling.sampling import Rotation, filter_enough
from bayplan.foundations.failures import Failures
from bayplan.foundations.log_fields import about_node, about_pod

log = logging.getLogger(__name__)

NO_NODES = "no nodes available to schedule pods"

Cycle = Generator[Question, Answer, Decision]


def _no_extenders(_: PodInfo) -> bool:
    return False


@dataclass(slots=True)
class Options:
    """How attempts are made.

    `ask_extenders`: whether to yield questions about a pod. `explain`: always score, and keep the scores by plugin.
    `start`: starts the run of a pod's plugins. `rotation`: where to start looking for enough feasible nodes (see
    `sampling`); None looks at all nodes. `call`: how plugins are called. `failures`: where failures of plugins are
    recorded; None logs every one.
    """

    ask_extenders: Callable[[PodInfo], bool] = _no_extenders
    explain: bool = False
    start: Start = PodRun.start
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
        # What extenders reject, and scores by plugin, are a pod's own.
        start = PodRun.start if asks or options.explain or not total else options.start
        run = start(self.profile, state, self.pod, options.call, options.record, self.gang)
        decided: Decision | None = run.decided or (
            run.rejected_again(self.rng) if self.gang is None and placement is None and not asks else None
        )
        if decided is not None:
            return replace(decided, pod=self.pod)
        decision = Decision(self.pod, Outcome.UNSCHEDULABLE, run.cycle, Diagnosis(total=total))
        if total == 0:
            decision.message, decision.nominated_node = NO_NODES, ""
            return decision
        try:
            yield from self._decide(decision, run, asks=asks)
        except PluginError as error:
            options.record(error, self.pod)
            decision.outcome, decision.message, decision.failed_plugin = Outcome.ERROR, str(error), error.plugin
        except ExtenderError as error:
            decision.outcome, decision.message = Outcome.ERROR, str(error)
        return decision

    def _decide(self, decision: Decision, run: PodRun, *, asks: bool) -> Generator[Question, Answer, None]:
        nodes, feasible = yield from self._find_feasible(decision, run, asks=asks)
        if not len(feasible):
            if self.gang is not None and self.gang.whole:
                decision.nominated_node = ""
            else:
                yield from self._post_filter(decision, run, asks=asks)
            decision.message = decision.diagnosis.explain()
            if self.gang is None and self.placement is None and not decision.nominated_node:
                decision.alike = run.rejected_like(decision)
            return
        decision.feasible = _rows(nodes, feasible)
        if len(feasible) == 1 and not self.options.explain:
            decision.node = nodes.name(int(feasible[0]))
        else:
            chosen = nodes if len(feasible) == len(nodes) else nodes.at(feasible)
            decision.scores = yield from self._score(decision, run, chosen, asks=asks)
            decision.node = self.state.table.names[self.rng.choice(decision.scores.best)]
        decision.outcome = Outcome.SCHEDULED

    def _find_feasible(
        self, decision: Decision, run: PodRun, *, asks: bool
    ) -> Generator[Question, Answer, tuple[Nodes, Rows]]:
        """Return the nodes that were filtered, and the positions of the feasible ones among them."""
        pod, diagnosis, nodes = self.pod, decision.diagnosis, run.nodes
        outcome = run.pre_filter()
        diagnosis.unschedulable_plugins = outcome.narrowed_by
        if outcome.refusal is not None:
            diagnosis.absent = outcome.refusal
            diagnosis.pre_filter_message = outcome.refusal.message
            _blame(diagnosis, outcome.refusal)
            return nodes, np.zeros(0, dtype=np.intp)

        if self.placement is not None:
            nodes = self.placement.nodes
        nominated = nodes.position(pod.nominated_node_name) if pod.nominated_node_name else None
        turned_down: dict[int, str] = {}
        if nominated is not None:
            alone = nodes.at(np.array([nominated]))
            try:
                verdicts = self._filter(run, alone)
                if not verdicts.feasible_mask.any():
                    turned_down = {nominated: verdicts.of(0).plugin}
                if asks:
                    yield from self._ask_filter(verdicts, diagnosis)
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
            found = {position for name in outcome.names if (position := nodes.position(name)) is not None}
            # As upstream, the nominated node keeps its own reason, and others name the plugin that rejects it.
            nodes = nodes.at(np.array(sorted(found | turned_down.keys()), dtype=np.intp))
            plugins = " ".join(sorted(outcome.narrowed_by.union(turned_down.values())))
            diagnosis.absent = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{plugins}]")
            diagnosis.narrowed_by = outcome.narrowed_by
        diagnosis.verdicts = verdicts = self._filter(run, nodes)
        if asks or self.options.explain or not len(verdicts.feasible()):  # else rejections aren't asked for
            for status, _ in verdicts.counts():
                _blame(diagnosis, status)
        if asks and (yield from self._ask_filter(verdicts, diagnosis)):
            diagnosis.unschedulable_plugins |= {EXTENDER}
        feasible = verdicts.feasible()
        return nodes, feasible

    def _filter(self, run: PodRun, nodes: Nodes) -> Verdicts:
        verdicts = filter_enough(run.filter, self.profile, nodes, self.options.rotation)
        verdicts.raise_error()
        return verdicts

    def _ask_filter(self, verdicts: Verdicts, diagnosis: Diagnosis) -> Generator[Question, Answer, bool]:
        """Let extenders reject nodes that the filters left feasible. Returns whether they rejected any."""
        if not verdicts.feasible_mask.any():
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

    def _score(
        self, decision: Decision, run: PodRun, nodes: Nodes, *, asks: bool
    ) -> Generator[Question, Answer, Scores]:
        """Score `nodes`, which are all feasible."""
        scores, total = run.score(nodes)
        if asks and len(nodes) > 1:
            answer = yield ExtenderScore(self.pod, nodes)
            assert isinstance(answer, Mapping)
            extra = [answer.get(nodes.name(position), 0) for position in range(len(nodes))]
            scores[EXTENDER] = np.array(extra, dtype=np.int64)
            total += scores[EXTENDER]
        return Scores(decision.feasible, scores, total)

    def _post_filter(self, decision: Decision, run: PodRun, *, asks: bool) -> Generator[Question, Answer, None]:
        """Let PostFilter plugins make room."""
        what_if = run.what_if(self.rng, decision.diagnosis.verdicts)
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
