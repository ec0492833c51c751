"""Decisions of a history, asked again: of the scheduler as it is, and of a candidate.

The cluster follows the history, so that every question is about exactly what the scheduler saw.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from bayplan.api.kinds import NODE, POD
from bayplan.backtest.lookahead import Lookahead
from bayplan.backtest.running import SimulatedScheduler
from bayplan.backtest.stream import Recorded, RecordedBinding, RecordedEnd, RecordedHistory
from bayplan.cluster.pod_info import PodInfo
from bayplan.config import build_profiles
from bayplan.framework.profile import Profile
from bayplan.history.reading import History
from bayplan.scheduling import Decision, Plan, decide
from bayplan.scheduling.sampling import feasible_nodes_to_find
from bayplan.simulation.choices import is_best, plugin_differences, score_at
from bayplan.simulation.followers import Follower
from bayplan.simulation.happenings import NodeComes, NodeGoes, ObjectChanges, PodArrives, PodIsChanged
from bayplan.simulation.node_orders import NodeOrders
from bayplan.simulation.timeline import Timeline
from bayplan.simulation.usual import usual_configuration
from bayplan.simulation.world import World

MOST_ASKED = 1000
"""How many decisions are asked again: as many as make the share known to about 3 %, evenly over time."""
AHEAD = 15.0
"""Seconds: how long a scheduler may wait for volumes and devices after it has decided, and count a pod on its node."""


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
    orders = NodeOrders(world)
    stride = max(1, -(-ahead.bindings // MOST_ASKED))
    asked, number, length = AskedAgain(), 0, max(history.length.total_seconds(), 1.0)
    recording = RecordedHistory(history)
    foreseen = _Foreseen(recording)
    world.move(recording.other_objects(), history.begin)
    world.keep()
    for happening in foreseen:
        match happening:
            case PodArrives(_, pod):
                world.change(POD, pod.key, pod)
            case PodIsChanged(_, pod):
                known = world.pod(pod.key)
                if known is not None and known.uid == pod.uid:
                    world.change(POD, pod.key, pod.on_node(known.node_name) if known.node_name else pod)
            case RecordedBinding(at, key, uid, node):
                known = world.pod(key)
                if known is not None and known.uid == uid and not known.node_name:
                    decided = known.scheduler_name in world.profiles and node in world.state.table.row_of
                    number += decided
                    if decided and number % stride == 0:
                        _ask(world, known, other, at, asked, _is_as_good(world, known, node, foreseen.bindings, orders))
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
                    _ask(self._timeline.world, decision.pod, self._other, self._timeline.now, self.asked)


def _profiles(world: World, candidate: SimulatedScheduler) -> dict[str, Profile]:
    """The profiles of a candidate on the same cluster."""
    configuration = candidate.configuration or usual_configuration(candidate.plugins, candidate.gates)
    return build_profiles(configuration, world.handle, candidate.plugins, candidate.gates)


class _Foreseen:
    """What happens, in order. `bindings`: those of the next seconds, by uid, the next one first."""

    def __init__(self, happenings: Iterable[Recorded]) -> None:
        self.bindings: dict[str, RecordedBinding] = {}
        self._happenings = happenings
        self._waiting: deque[Recorded] = deque()

    def __iter__(self) -> Iterator[Recorded]:
        for each in self._happenings:
            while self._waiting and self._waiting[0].at < each.at - AHEAD:
                yield self._next()
            self._waiting.append(each)
            if isinstance(each, RecordedBinding):
                self.bindings[each.uid] = each
        while self._waiting:
            yield self._next()

    def _next(self) -> Recorded:
        happening = self._waiting.popleft()
        if isinstance(happening, RecordedBinding):
            self.bindings.pop(happening.uid, None)
        return happening


def _is_as_good(
    world: World, pod: PodInfo, node: str, coming: Mapping[str, RecordedBinding], orders: NodeOrders
) -> bool:
    """Return whether the recorded node is as good as any.

    A scheduler counts pods that it has decided before, and whose bindings come later. In a large cluster, it looks at
    only some nodes, of which the recorded one may be the best.
    """
    if _is_best_here(world, pod, node, orders):
        return True
    with _counting(world, pod, coming) as counted:
        return counted and _is_best_here(world, pod, node, orders)


def _is_best_here(world: World, pod: PodInfo, node: str, orders: NodeOrders) -> bool:
    profile, table = world.profiles[pod.scheduler_name], world.state.table
    decision = decide(profile, world.state, pod, random.Random(0))
    return is_best(table, decision, node) or orders.may_leave_out(
        decision, node, feasible_nodes_to_find(profile, table.live_count)
    )


@contextmanager
def _counting(world: World, pod: PodInfo, coming: Mapping[str, RecordedBinding]) -> Iterator[bool]:
    """Count the pods that are bound next and were created no later. Yields whether there are any."""
    counted = False
    with world.what_if():
        for each in coming.values():
            other = world.pod(each.key)
            if other is None or other.uid != each.uid or other.node_name or other.uid == pod.uid:
                continue
            if not (other.creation_timestamp and pod.creation_timestamp) or (
                other.creation_timestamp <= pod.creation_timestamp
            ):
                world.change(POD, each.key, other.on_node(each.node))
                counted = True
        yield counted


def _ask(
    world: World,
    pod: PodInfo,
    other: dict[str, Profile],
    at: float,
    asked: AskedAgain,
    as_recorded: bool | None = None,
) -> None:
    """Ask about one pod. `as_recorded`: whether the node of the history is as good as any; None if none is known."""
    now = decide(world.profiles[pod.scheduler_name], world.state, pod, random.Random(0), explain=True)
    asked.asked += 1
    asked.recorded += as_recorded is not None
    asked.equal += bool(as_recorded)
    profile = other.get(pod.scheduler_name)
    if profile is None:
        return
    candidate = decide(profile, world.state, pod, random.Random(0), explain=True)
    if now.node is None and candidate.node is None:
        return
    if now.node is None or candidate.node is None or not is_best(world.state.table, candidate, now.node):
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
