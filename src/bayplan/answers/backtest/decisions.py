"""Decisions of a history, asked again: of the scheduler as it is, and of a candidate.

The cluster follows the history, so that every question is about exactly what the scheduler saw.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import SimulatedScheduler
from bayplan.answers.backtest.seen import SeenHistory
from bayplan.answers.history.moments import changes_of
from bayplan.answers.history.reading import History
from bayplan.answers.judging.choices import plugin_differences, score_at
from bayplan.answers.judging.judge import Judge
from bayplan.answers.judging.placements import decision_of
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.answers.simulation.usual import usual_configuration
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.config import build_profiles
from bayplan.core.framework.profile import Profile
from bayplan.core.scheduling import Decision, Plan

MOST_ASKED = 1000
"""How many decisions are asked again: as many as make the share known to about 3 %, evenly over time."""


@dataclass(frozen=True, slots=True)
class Choice:
    """What a scheduler would choose: a node, its score, and how much better it is than the best one of the other.

    `margin` is None where the other scheduler's node is not feasible for this one. `plugins`: the weighted scores that
    differ the most between the two nodes, this one's minus the other's.
    """

    node: str
    score: int
    margin: int | None
    plugins: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class DecisionDifference:
    """A pod for which the two schedulers choose differently. `seconds`: since the start. None: it stays pending."""

    pod: str
    seconds: float
    now: Choice | None
    candidate: Choice | None


@dataclass(slots=True)
class AskedAgain:
    """How many recorded decisions would be made again, now and with the candidate.

    `asked`: how many decisions; `recorded`: those of them with a recorded node; `equal`: those of these where the
    scheduler finds that node as good as any. `changed`: where the candidate finds another node better than the one that
    the present scheduler chooses.
    """

    asked: int = 0
    recorded: int = 0
    equal: int = 0
    changed: int = 0
    differences: list[DecisionDifference] = field(default_factory=list)

    @property
    def share(self) -> float | None:
        """The share of decisions that are equal to the recorded ones; None if none was recorded."""
        return self.equal / self.recorded if self.recorded else None


def ask_again(
    history: History,
    ahead: Lookahead,
    now: SimulatedScheduler,
    candidate: SimulatedScheduler | None,
    progress: Callable[[float], None] = lambda _: None,
) -> AskedAgain:
    """Ask recorded decisions again. Without a candidate, only whether the scheduler as it is decides as recorded."""
    world = now.world(0)
    other = {} if candidate is None else _profiles(world, candidate)
    stride = max(1, -(-ahead.bindings // MOST_ASKED))
    asked, number, length = AskedAgain(), 0, max(history.length.total_seconds(), 1.0)
    _begin(world, history)
    seen = SeenHistory(world, changes_of(history), history.begin)
    for step in seen:
        world.keep()
        pod = seen.pod_to_ask(step)
        number += pod is not None
        if pod is not None and number % stride == 0:
            judged, at = seen.judge(pod, step.node), seen.seconds(step)
            assert judged.decision is not None
            asked.recorded += 1
            asked.equal += judged.equal
            _ask(world, judged.decision, other, at, asked)
            progress(at / length)
    return asked


def _begin(world: World, history: History) -> None:
    """Give a world the cluster at the start of a history, with nodes and pods in the order of their names."""
    documents = dict(history.start().documents)
    named = [(kind, sorted(documents.pop(kind, {}).items())) for kind in (NODE, POD)]
    world.move(documents, history.begin)
    for kind, objects in named:
        for key, raw in objects:
            with suppress(ValueError):  # the lookahead has named the object
                world.add(kind, key, raw)
    world.keep()


class AskAgain(TimelineObserver):
    """Asks decisions of a simulation again, of a candidate: of histories that have no decisions of their own.

    `arrivals`: how many pods arrive. What was found is in `asked`.
    """

    def __init__(self, candidate: SimulatedScheduler, arrivals: int) -> None:
        self.asked = AskedAgain()
        self._candidate = candidate
        self._stride = max(1, -(-arrivals // MOST_ASKED))
        self._number = 0
        self._timeline: Timeline | None = None
        self._other: dict[str, Profile] = {}

    def begin(self, timeline: Timeline) -> None:
        """Make the candidate's plugins, which see the same cluster."""
        self._timeline = timeline
        self._other = _profiles(timeline.world, self._candidate)

    def attempted(self, plan: Plan) -> None:
        """Ask about a pod that is about to be placed."""
        if self._timeline is not None and plan.unit.gang is None:
            for decision in plan.placed:
                self._number += 1
                if self._number % self._stride == 0:
                    world = self._timeline.world
                    _ask(world, decision_of(world, decision.pod), self._other, self._timeline.now, self.asked)


def _profiles(world: World, candidate: SimulatedScheduler) -> dict[str, Profile]:
    """The profiles of a candidate on the same cluster."""
    configuration = candidate.configuration or usual_configuration(candidate.plugins, candidate.gates)
    return build_profiles(configuration, world.handle, candidate.plugins, candidate.gates)


def _ask(world: World, now: Decision, other: dict[str, Profile], at: float, asked: AskedAgain) -> None:
    """Ask a candidate about a pod. `now`: what is decided without it."""
    asked.asked += 1
    pod = now.pod
    profile = other.get(pod.scheduler_name)
    if profile is None:
        return
    candidate = decision_of(world, pod, profile)
    judged = Judge(world.state).placement(candidate, now.node or "")
    if not judged.equal:
        asked.changed += 1
        choices = _choice(world, now, candidate.node), _choice(world, candidate, now.node)
        asked.differences.append(DecisionDifference(pod.key, round(at, 3), *choices))


def _choice(world: World, decision: Decision, others: str | None) -> Choice | None:
    if decision.node is None:
        return None
    table = world.state.table
    score = score_at(table, decision, decision.node) or 0
    theirs = None if others is None else score_at(table, decision, others)
    plugins = () if others is None else plugin_differences(table, decision, decision.node, others)
    return Choice(decision.node, score, None if theirs is None else score - theirs, plugins)
