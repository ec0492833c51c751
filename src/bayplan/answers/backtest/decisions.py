"""Decisions of a history, asked again: of the scheduler as it is, and of a candidate.

The cluster follows the history, so that every question is about exactly what the scheduler saw.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.running import SimulatedScheduler
from bayplan.answers.backtest.stream import Recorded, RecordedBinding, RecordedEnd, RecordedHistory
from bayplan.answers.history.reading import History
from bayplan.answers.judging.choices import plugin_differences, score_at
from bayplan.answers.judging.judge import Judge
from bayplan.answers.judging.order import NearBindings, SeenBinding, SeenEvent
from bayplan.answers.judging.placements import SeenPlacements, decision_of
from bayplan.answers.simulation.followers import Follower
from bayplan.answers.simulation.happenings import NodeComes, NodeGoes, ObjectChanges, PodArrives, PodIsChanged
from bayplan.answers.simulation.timeline import Timeline
from bayplan.answers.simulation.usual import usual_configuration
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.config import build_profiles
from bayplan.core.framework.profile import Profile
from bayplan.core.scheduling import Decision, Plan, decide

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
    """A pod for which the two schedulers choose differently. `seconds`: since the begin. None: it stays pending."""

    pod: str
    seconds: float
    now: Choice | None
    candidate: Choice | None


@dataclass(slots=True)
class AskedAgain:
    """What was found.

    `asked`: how many decisions; `recorded`: those of them with a recorded node; `equal`: those of these where the
    scheduler finds that node as good as any. `changed`: where the candidate finds another one better than its choice.
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
    recording = RecordedHistory(history)
    near = NearBindings[Recorded](recording, _read, {})
    placements = SeenPlacements(world, near)
    world.move(recording.other_objects(), history.begin)
    world.keep()
    for happening in near:
        match happening:
            case PodArrives(_, pod):
                world.change(POD, pod.key, pod)
            case PodIsChanged(_, pod):
                known = world.pod(pod.key)
                if known is not None and known.uid == pod.uid:
                    pod.creation_timestamp = known.creation_timestamp
                    world.change(POD, pod.key, pod.on_node(known.node_name) if known.node_name else pod)
            case RecordedBinding(at, key, uid, node):
                known = world.pod(key)
                if known is not None and known.uid == uid and not known.node_name:
                    decided = placements.asked(key, uid, node)
                    number += decided is not None
                    if decided is not None and number % stride == 0:
                        judged = placements.judge(decided, node)
                        assert judged.decision is not None
                        asked.recorded += 1
                        asked.equal += judged.equal
                        _ask(world, judged.decision, other, at, asked)
                        progress(at / length)
                    world.change(POD, key, known.on_node(node))
            case RecordedEnd(_, key, uid):
                known = world.pod(key)
                if known is not None and known.uid == uid:
                    world.change(POD, key, None)
            case NodeComes(_, node_object):
                assert node_object.metadata is not None
                world.change(NODE, node_object.metadata.name or "", node_object)
            case NodeGoes(_, name):
                world.change(NODE, name, None)
            case ObjectChanges(_, kind, key, obj):
                if kind in world.handle.watched:
                    world.change(kind, key, obj)
        world.keep()
    return asked


class AskAgain(Follower):
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


def _read(happening: Recorded) -> SeenEvent:
    """What something that happened means for the order of bindings. Pods that are there at the begin didn't arrive."""
    match happening:
        case PodArrives(at, pod) if at > 0:
            return SeenEvent(at, arrived=pod.uid)
        case RecordedBinding(at, key, uid, node):
            return SeenEvent(at, binding=SeenBinding(at, key, uid, node))
        case RecordedEnd(at, _, uid):
            return SeenEvent(at, gone=uid)
    return SeenEvent(happening.at)


def _ask(world: World, now: Decision, other: dict[str, Profile], at: float, asked: AskedAgain) -> None:
    """Ask a candidate about a pod. `now`: what is decided without it."""
    asked.asked += 1
    pod = now.pod
    profile = other.get(pod.scheduler_name)
    if profile is None:
        return
    candidate = decide(profile, world.state, pod, random.Random(0), explain=True, failures=world.failures)
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
