"""Simulates a history with a scheduler and models.

    result = simulate(history, ahead, SimulationRun(scheduler, fleet, seed=1))

The result depends on the history and on the run: a scheduler, a choice of nodes, parameters of models and a seed. Here
these become a `Timeline` with its observers: autoscaler, budgets, controllers, interruptions, a meter. A scheduler
whose plugins fail in most attempts ends the run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lightkube.models.core_v1 import Node

from bayplan.answers.backtest.changed_pods import ChangedPods, WorkloadChanges, changed_pods
from bayplan.answers.backtest.delays import RecordedDelays
from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.backtest.lookahead import Lookahead
from bayplan.answers.backtest.new_pools import NewPool
from bayplan.answers.backtest.node_pools import NodePool, PoolKey, key_of
from bayplan.answers.backtest.stream import Stream, other_objects
from bayplan.answers.history.format import HistoryError
from bayplan.answers.history.reading import History
from bayplan.answers.history.sources import recorded as sources
from bayplan.answers.insight.answers import plural
from bayplan.answers.insight.prices import Prices
from bayplan.answers.simulation.behaviour import Behaviour, Controllers, Startup, Termination
from bayplan.answers.simulation.measures import TimelineMeasures
from bayplan.answers.simulation.meter import Summary
from bayplan.answers.simulation.models.autoscaler.autoscaler import Autoscaler
from bayplan.answers.simulation.models.autoscaler.groups import ScaledGroup
from bayplan.answers.simulation.models.budgets import BudgetController
from bayplan.answers.simulation.models.interruptions import NodeFailure, NodeFailures, SpotInterruptions
from bayplan.answers.simulation.models.job_durations import JobDurations
from bayplan.answers.simulation.models.parameters import Parameters
from bayplan.answers.simulation.timeline import Timeline, TimelineObserver
from bayplan.answers.simulation.usual import USUAL_GATES
from bayplan.answers.simulation.world import World
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.config import ExtraPlugin, KubeSchedulerConfiguration
from bayplan.core.queue import RetryTimes
from bayplan.core.versions import FeatureGates
from bayplan.foundations.failures import Failures
from bayplan.running.recording.files import RecordingError

AUTO, NONE, KARPENTER, CLUSTER_AUTOSCALER = "auto", "none", "karpenter", "cluster-autoscaler"
_MOST_FAILED = 100
"""Failures of plugins that a simulation may have, if they are as many as half of its attempts."""
_LOOKS = 1000
_KARPENTER_LABEL = "karpenter.sh/nodepool"


def open_history(folder: str | Path) -> History:
    """Open a history, or that of a recording. Raises BacktestError."""
    try:
        return sources.open_history(Path(folder))
    except (HistoryError, RecordingError) as error:
        raise BacktestError(str(error)) from None


@dataclass(frozen=True, slots=True)
class SimulatedScheduler:
    """A scheduler to simulate: its configuration (None for the usual one), and the user's plugins.

    `gates`: the version of Kubernetes that it decides as, and what is on in it.
    """

    configuration: KubeSchedulerConfiguration | None = None
    plugins: Sequence[ExtraPlugin] = ()
    gates: FeatureGates = USUAL_GATES

    def world(self, seed: int) -> World:
        """An empty cluster with this scheduler. Raises ConfigurationError or PluginLoadError."""
        world = World(self.configuration, self.plugins, self.gates, seed=seed)
        world.failures = Failures(logged=False)  # notes and errors name them
        return world


@dataclass(frozen=True, slots=True)
class FleetChoice:
    """Which nodes there may be.

    `autoscaler`: a preset, NONE, or AUTO for the preset that the nodes' labels tell of, for pools whose nodes came and
    went; any other one manages all pools but those of the control plane. `new`: pools that don't exist yet.
    """

    autoscaler: str = AUTO
    new: tuple[NewPool, ...] = ()


@dataclass(frozen=True, slots=True)
class SimulationRun:
    """What a simulation is made of. `changed`: the pods of workloads that are not as they were recorded."""

    scheduler: SimulatedScheduler = field(default_factory=SimulatedScheduler)
    fleet: FleetChoice = field(default_factory=FleetChoice)
    parameters: Parameters = field(default_factory=Parameters)
    prices: Prices = field(default_factory=lambda: Prices({}))
    seed: int = 0
    changed: ChangedPods | None = None

    def but(self, scheduler: SimulatedScheduler, fleet: FleetChoice) -> SimulationRun:
        """Return a run with another scheduler and other nodes. New pools have their own prices."""
        prices = {pool.instance_type: pool.price for pool in fleet.new if pool.price is not None}
        return replace(self, scheduler=scheduler, fleet=fleet, prices=self.prices.but(prices))

    def with_changes(self, history: History, changes: WorkloadChanges) -> SimulationRun:
        """Return a run in which workloads of the history are changed. Raises BacktestError."""
        return replace(self, changed=changed_pods(history, changes)) if changes else self

    def seeded(self, number: int) -> list[SimulationRun]:
        """Return so many runs that differ only in their seeds."""
        return [replace(self, seed=self.seed + each) for each in range(number)]


@dataclass(frozen=True, slots=True)
class SimulationResult:
    """The end of a simulation. `autoscaler`: the preset that was used; NONE if the nodes are those of the history."""

    summary: Summary
    autoscaler: str
    managed: tuple[str, ...]
    attempts: int
    notes: tuple[str, ...] = ()


def simulate(
    history: History,
    ahead: Lookahead,
    run: SimulationRun,
    progress: Callable[[float], None] = lambda _: None,
    also: Sequence[TimelineObserver] = (),
) -> SimulationResult:
    """Simulate a history. `progress` is called with the share that is done. `also`: more observers.

    Raises BacktestError, ParametersError, ConfigurationError and PluginLoadError.
    """
    length = history.length.total_seconds()
    world = run.scheduler.world(run.seed)
    preset, pools = _managed(ahead, run)
    replaced = {key for key in pools if any(key.is_called(new.replaces) for new in run.fleet.new)}
    stream = Stream(history, ahead, world.profiles, pools, replaced, run.changed)
    world.move(other_objects(history), history.begin)
    world.keep()
    budgets = BudgetController()
    measures = TimelineMeasures(length, run.prices.of)
    observers: list[TimelineObserver] = [measures, budgets, *_others(run.parameters), *also]
    if preset != NONE:
        groups = [_group(pool, run) for pool in pools.values()]
        observers.append(Autoscaler(groups, run.parameters.rules(preset), budgets))
    observers.append(_Progress(length, progress))
    observers.append(_Failing(length))
    timeline = Timeline(world, history.begin, observers, _behaviour(run, ahead.delays), seed=run.seed)
    timeline.run(stream, length)
    notes = [*world.contents.problems, *_counted_failures(world)]
    names = tuple(sorted({pool.key.name for pool in pools.values()}))
    return SimulationResult(measures.summary(), preset, names, timeline.attempts, tuple(notes))


def _managed(ahead: Lookahead, run: SimulationRun) -> tuple[str, Mapping[PoolKey, NodePool]]:
    """The preset, and the pools that it manages. Raises BacktestError."""
    asked = run.parameters.autoscaler.preset if run.fleet.autoscaler == AUTO else run.fleet.autoscaler
    pools: dict[PoolKey, NodePool] = dict(ahead.pools)
    if asked is None:
        pools = {key: pool for key, pool in pools.items() if pool.changed}
        karpenter = any(_KARPENTER_LABEL in (pool.like["metadata"].get("labels") or {}) for pool in pools.values())
        asked = KARPENTER if karpenter else CLUSTER_AUTOSCALER
        if run.fleet.new:
            pools |= {
                key: pool
                for key, pool in ahead.pools.items()
                if any(key.is_called(new.replaces) for new in run.fleet.new)
            }
        elif not pools:
            asked = NONE
    if asked == NONE:
        if run.fleet.new:
            raise BacktestError("--node-pool needs an autoscaler that adds its nodes: --autoscaler none adds none")
        return NONE, {}
    for new in run.fleet.new:
        pools |= {pool.key: pool for pool in new.pools(list(ahead.pools.values()))}
    return asked, pools


def _group(pool: NodePool, run: SimulationRun) -> ScaledGroup:
    key, parameters = pool.key, run.parameters.autoscaler
    labels = pool.like["metadata"].get("labels") or {}
    least, most = parameters.limits(key.pool, key.instance_type, key.zone)
    for new in run.fleet.new:
        if key.pool == new.name:
            most = new.most
        elif key.is_called(new.replaces):
            least = most = 0
    price = run.prices.of(labels)

    def has(node: Node) -> bool:
        metadata, status = node.metadata, node.status
        found = (metadata.labels if metadata is not None else None) or {}
        return key_of(found, (status.allocatable if status is not None else None) or {}) == key

    return ScaledGroup(
        key.name, _with_changes(pool, run).make, has, least, most, price, parameters.node_startup_seconds
    )


def _with_changes(pool: NodePool, run: SimulationRun) -> NodePool:
    """The pool with the pods of changed DaemonSets."""
    changed = run.changed
    if changed is None:
        return pool
    daemons = [changed.document_of(PodInfo.from_raw(encode(each)), each) for each in pool.daemons]
    return replace(pool, daemons=daemons)


def _behaviour(run: SimulationRun, recorded: RecordedDelays) -> Behaviour:
    """How the cluster behaves: as the parameters say, else as it was recorded, else as usual."""
    pods, scheduler, configuration = run.parameters.pods, run.parameters.scheduler, run.scheduler.configuration
    usual = KubeSchedulerConfiguration() if configuration is None else configuration
    replacement = _first(pods.replacement_seconds, recorded.replacement, Controllers().seconds)
    terminations = recorded.terminations(replacement) if pods.termination_seconds is None else {}
    return Behaviour(
        startup=Startup(pods.startup_seconds),
        termination=Termination(_first(pods.termination_seconds, Termination().seconds), terminations),
        controllers=Controllers(replacement),
        attempt_seconds=scheduler.attempt_seconds,
        binding_seconds=_first(scheduler.binding_seconds, recorded.binding, Behaviour().binding_seconds),
        retries=RetryTimes(
            float(usual.podInitialBackoffSeconds), float(usual.podMaxBackoffSeconds), scheduler.unschedulable_seconds
        ),
    )


def _first(*values: float | None) -> float:
    return next(each for each in values if each is not None)


def _others(parameters: Parameters) -> list[TimelineObserver]:
    spot = parameters.interruptions
    found: list[TimelineObserver] = []
    if parameters.jobs:
        found.append(JobDurations({each.owner: each.seconds for each in parameters.jobs}))
    if spot.per_hour:
        found.append(SpotInterruptions(spot.label, spot.value, spot.per_hour, spot.notice_seconds))
    if parameters.failures:
        failures = [NodeFailure(each.node, each.at_seconds, each.returns_after_seconds) for each in parameters.failures]
        found.append(NodeFailures(failures))
    return found


def _counted_failures(world: World) -> list[str]:
    failures = world.failures
    return [
        f"{work} failed {plural(number, 'time')}: {failures.examples[work, kind]}"
        for (work, kind), number in sorted(failures.counts.items())
    ]


class _Failing(TimelineObserver):
    """Ends the simulation of a scheduler whose plugins fail in most attempts, or need more memory than there is."""

    def __init__(self, length: float) -> None:
        self._pause = max(min(length / _LOOKS, 60.0), 1.0)

    def begin(self, timeline: Timeline) -> None:
        failures = timeline.world.failures
        timeline.every(self._pause, lambda: self._look(timeline), lambda: -math.inf if failures.counts else math.inf)

    def _look(self, timeline: Timeline) -> None:
        counts = timeline.world.failures.counts
        failed = sum(counts.values())
        memory = any(kind == MemoryError.__name__ for _, kind in counts)
        if memory or failed >= max(_MOST_FAILED, timeline.attempts / 2):
            first = _counted_failures(timeline.world)[0]
            raise BacktestError(f"the scheduler is not simulated to the end, because its plugins fail: {first}")


class _Progress(TimelineObserver):
    """Calls back a hundred times."""

    def __init__(self, length: float, progress: Callable[[float], None]) -> None:
        self._length = max(length, 1.0)
        self._progress = progress

    def begin(self, timeline: Timeline) -> None:
        timeline.every(self._length / 100, lambda: self._progress(timeline.now / self._length))
