"""Forecast: how a cluster goes on, simulated from a snapshot many times, with run times that are drawn each time.

    forecast = Forecast(world, ForecastSetting(begin, durations), {pod.uid for pod in asked})
    forecast.run(seed=0).starts             # uid -> Start(at, node, waited_for)

A run is a `Rehearsal`: the scheduler's own queue, attempts, preemptions and binding cycles, with the models of what
surrounds it. Nothing new arrives. Two runs with the same seed draw the same run time for the
same pod, whatever else differs between them.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import blake2b

from bayplan.answers.insight.answers import Progress, silent
from bayplan.answers.insight.durations import ExpectedRunTimes
from bayplan.answers.simulation.behaviour import Behaviour
from bayplan.answers.simulation.lives import PodLifetime
from bayplan.answers.simulation.models.autoscaler.autoscaler import Autoscaler
from bayplan.answers.simulation.models.autoscaler.groups import ScaledGroup
from bayplan.answers.simulation.models.autoscaler.rules import Rules
from bayplan.answers.simulation.models.budgets import BudgetController
from bayplan.answers.simulation.models.job_completions import JobCompletions
from bayplan.answers.simulation.rehearsal import Rehearsal, TheWorldGoesOn, age_of
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.queue import RetryTimes
from bayplan.core.scheduling import Plan
from bayplan.foundations.collector import collector_paused

NEVER = math.inf
_LONGEST = 366 * 86400.0
"""Seconds that are simulated at most."""
_LOOK = 60.0
_QUIET = 30
"""After so many looks at an autoscaler's cluster in which no pod ends and no node comes, nothing is expected."""
_REPORTED = 500
"""Attempts between two lines of progress."""


@dataclass(frozen=True, slots=True)
class ForecastSetting:
    """What all runs of a forecast have in common.

    `begin`: the time of the snapshot. `jobs`: see `JobCompletions`. `groups`, `rules`: what an autoscaler may add,
    and its rules; None without an autoscaler. `mixed`: see `TheWorldGoesOn`. `runs`: how
    often it is simulated; None for as often as the work allows. `behaviour`: of the cluster.
    """

    begin: datetime
    durations: ExpectedRunTimes
    jobs: Mapping[str, int] = field(default_factory=dict)
    groups: Sequence[ScaledGroup] = ()
    rules: Rules | None = None
    mixed: float = 0.0
    runs: int | None = None
    behaviour: Behaviour = field(default_factory=lambda: Behaviour(retries=RetryTimes(keeps_order=True)))


@dataclass(frozen=True, slots=True)
class Start:
    """A pod gets its node, so many seconds after the snapshot. `waited_for`: the pods whose end let it."""

    at: float
    node: str
    waited_for: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForecastRun:
    """One run. `starts`: by the uid of the asked pods that got a node. `attempts`: of the scheduler."""

    starts: Mapping[str, Start]
    attempts: int


def _nothing(_: World) -> None:
    """Change nothing."""


class Forecast:
    """Simulates how a world goes on. The world is as before after each run.

    `asked`: the uids of the pods whose starts are wanted; a run ends with the last of these.
    """

    def __init__(
        self, world: World, setting: ForecastSetting, asked: Collection[str], progress: Progress = silent
    ) -> None:
        self._world = world
        self._setting = setting
        self.asked = frozenset(asked)
        self._progress = progress

    def run(self, seed: int, change: Callable[[World], None] = _nothing) -> ForecastRun:
        """Simulate once. `change`: what is different in this world. Raises what the progress raises."""
        world, setting = self._world, self._setting
        budgets = BudgetController()
        starts = Starts(self.asked, self._progress)
        observers: list[TimelineObserver] = [DrawnRunTimes(setting.durations, seed), starts]
        if world.state.objects[POD_DISRUPTION_BUDGET]:
            observers.insert(1, budgets)
        if setting.jobs:
            observers.append(JobCompletions(setting.jobs))
        if setting.rules is not None:
            observers += [Autoscaler(setting.groups, setting.rules, budgets), _Quiet()]
        world.rng.seed(seed)
        with world.trial(), collector_paused():
            change(world)
            rehearsal = Rehearsal(world, setting.begin, observers, setting.behaviour, seed=seed)
            starts.timeline = rehearsal
            rehearsal.run([TheWorldGoesOn(setting.mixed)], _LONGEST)
        return ForecastRun(starts.found, rehearsal.attempts)


class DrawnRunTimes(TimelineObserver):
    """Sets how long each pod runs: what its source says, at a share that the seed and the pod alone decide."""

    def __init__(self, durations: ExpectedRunTimes, seed: int) -> None:
        self._durations = durations
        self._seed = seed

    def arrived(self, pod: PodInfo, life: PodLifetime) -> None:
        """Draw. A pod that runs already has not ended until now."""
        known = self._durations.of(pod)
        if known is not None:
            age = age_of(pod, self._durations.now) if life.number == 0 and pod.node_name else 0.0
            life.runs = known.run_time.at(drawn_share(self._seed, life.origin, life.number), age)


def drawn_share(seed: int, origin: str, number: int) -> float:
    """Return the share at which the run time of a pod is drawn: the seed and the pod alone decide it."""
    return int.from_bytes(blake2b(f"{seed} {origin} {number}".encode(), digest_size=6).digest()) / 2**48


@dataclass(slots=True, eq=False)
class Starts(TimelineObserver):
    """Notes when asked pods get their nodes, and whose end let them. Ends the run with the last one."""

    asked: Collection[str]
    progress: Progress = silent
    found: dict[str, Start] = field(default_factory=dict)
    timeline: Timeline | None = None
    _refused: dict[str, int] = field(default_factory=dict)
    """By uid: how many pods were gone at the last attempt that failed."""
    _preempting: set[str] = field(default_factory=set)
    """The pods whose last attempt has let others be evicted."""
    _gone: int = 0
    _tried: int = 0
    """How many pods were gone when nothing was left to try: for a pod that waits then, their room isn't enough."""
    _gone_from: dict[str, list[tuple[int, PodInfo]]] = field(default_factory=lambda: defaultdict(list))
    """By node: the pods that are gone from it, each with its number among all."""
    _latest: PodInfo | None = None

    def attempted(self, plan: Plan) -> None:
        """Note who was refused."""
        assert self.timeline is not None
        if self.timeline.attempts % _REPORTED == 0:
            self.progress(f"{len(self.found):,} pods started")
        for refusal in plan.refused:
            if refusal.pod.uid in self.asked:
                self._refused[refusal.pod.uid] = self._gone
                self._preempting.discard(refusal.pod.uid)
        self._preempting.update(preemption.pod.uid for preemption in plan.preemptions)

    def idle(self) -> None:
        """Note that all pods were tried that may fit."""
        self._tried = self._gone

    def gone(self, pod: PodInfo, life: PodLifetime) -> None:
        """Note whose room is free."""
        if life.node:
            self._gone += 1
            self._gone_from[life.node].append((self._gone, pod))
            self._latest = pod

    def bound(self, pod: PodInfo, life: PodLifetime) -> None:
        """Note a start."""
        if life.origin not in self.asked or life.origin in self.found or life.bound_at is None:
            return
        waited = tuple(self._waited_for(pod, life)) if pod.uid in self._refused else ()
        self.found[life.origin] = Start(max(life.bound_at, 0.0), life.node, waited)
        if len(self.found) == len(self.asked) and self.timeline is not None:
            self.timeline.stop()

    def _waited_for(self, pod: PodInfo, life: PodLifetime) -> Iterator[str]:
        """Yield the last pods that left the node, until their room is enough. If none did, the last one anywhere."""
        since = self._refused[pod.uid]
        if pod.uid not in self._preempting:  # a pod is not tried while its victims terminate
            since = max(since, self._tried)
        left = {"pods": 1, **pod.requested}
        recent = [gone for number, gone in self._gone_from[life.node] if number > since]
        for gone in reversed(recent):
            yield gone.key
            left = {name: amount - gone.requested.get(name, 0) for name, amount in left.items() if name != "pods"}
            if all(amount <= 0 for amount in left.values()):
                return
        if not recent and self._latest is not None and self._gone > since:
            yield self._latest.key


class _Quiet(TimelineObserver):
    """Ends the run of a cluster with an autoscaler once nothing is expected any more."""

    def __init__(self) -> None:
        self._ending = 0
        self._looks = 0

    def begin(self, timeline: Timeline) -> None:
        timeline.every(_LOOK, lambda: self._look(timeline))

    def _look(self, timeline: Timeline) -> None:
        self._looks = 0 if self._ending else self._looks + 1
        if self._looks > _QUIET:
            timeline.stop()

    def bound(self, pod: PodInfo, life: PodLifetime) -> None:
        self._ending += life.runs is not None
        self._looks = 0

    def gone(self, pod: PodInfo, life: PodLifetime) -> None:
        self._ending -= life.runs is not None and life.bound_at is not None
        self._looks = 0

    def node_added(self, name: str) -> None:
        self._looks = 0
