"""What many runs of a forecast say of the starts of pods: quantiles, likely nodes, and what they wait for."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

import msgspec

from bayplan.answers.insight.answers import Stopped, plural
from bayplan.answers.insight.durations import SOURCES, ExpectedRunTimes
from bayplan.answers.insight.foresight import NO_AUTOSCALER, Foresight
from bayplan.answers.insight.questions.forecast import NEVER, Forecast, ForecastRun, ForecastSetting
from bayplan.answers.insight.questions.scaled_groups import scaled_groups
from bayplan.answers.simulation.behaviour import Behaviour, Startup, Termination
from bayplan.answers.simulation.owners import belongs_to
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api import durations as texts
from bayplan.core.api.kinds import JOB, POD
from bayplan.core.config import KubeSchedulerConfiguration
from bayplan.core.expansion.expansion import Expansion
from bayplan.core.queue import RetryTimes

_RUNS = (39, 19, 9)
"""How often a forecast runs. With these numbers, four of five true starts are between p10 and p90."""
_FEW = 5
_WORK = 40_000
"""The attempts of the scheduler in all runs, as far as the number of runs depends on them."""


@dataclass(frozen=True, slots=True)
class StartTimes:
    """When something starts, in seconds from now, in one, five and nine of ten cases; None for never."""

    p10: float | None
    p50: float | None
    p90: float | None

    @classmethod
    def of(cls, seconds: Sequence[float]) -> StartTimes:
        """Return the quantiles of what runs have found; NEVER where it doesn't start."""
        ordered = sorted(seconds)
        return cls(*(_quantile(ordered, share) for share in (0.1, 0.5, 0.9)))

    @property
    def text(self) -> str:
        """The times for people."""
        likely, early, late = map(clock, (self.p50, self.p10, self.p90))
        return likely if early == late else f"{likely} (1 of 10 times by {early}, 9 of 10 by {late})"


def clock(seconds: float | None) -> str:
    """Return a time from now for people."""
    if seconds is None:
        return "never"
    return "now" if seconds < 1 else texts.human(seconds)


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """The value that this share of all further runs doesn't exceed: n runs make n + 1 equally likely gaps."""
    if not ordered:
        return None
    position = min(max((len(ordered) + 1) * share - 1, 0.0), len(ordered) - 1.0)
    index = int(position)
    low, high = ordered[index], ordered[min(index + 1, len(ordered) - 1)]
    if low == NEVER or (high == NEVER and position > index):
        return None
    return round(low if position == index else low + (position - index) * (high - low), 1)


@dataclass(frozen=True, slots=True)
class NodeShare:
    """In which share of the placements a pod got this node."""

    node: str
    share: float


@dataclass(frozen=True, slots=True)
class WaitedFor:
    """A pod whose end lets others start, in this share of the runs. `source`: what says how long it runs; "" for none.

    A pod without a source is one that is preempted.
    """

    pod: str
    share: float
    source: str


@dataclass(frozen=True, slots=True)
class Known:
    """How far a forecast can be trusted: the share of the pods whose run time is known, and how many by each source.

    Pods that belong to a node, as those of DaemonSets do, don't count.
    """

    share: float
    pods: int
    sources: Mapping[str, int]

    @classmethod
    def of(cls, world: World, durations: ExpectedRunTimes) -> Known:
        """Count the pods of a world."""
        counts: Counter[str] = Counter()
        for pod in world.state.objects[POD].values():
            if belongs_to(pod) is not None:
                found = durations.of(pod)
                counts["none" if found is None else found.source] += 1
        total = counts.total()
        known = total - counts["none"]
        return cls(
            round(known / total, 4) if total else 1.0, total, {name: counts[name] for name in (*SOURCES, "none")}
        )

    def fields(self, *, stopped: bool) -> dict[str, Any]:
        """Return how far an answer can be trusted, as in docs/when.md. `stopped`: whether it was interrupted."""
        return {"known": self.share, "sources": dict(self.sources), "interrupted": stopped}

    @property
    def text(self) -> str:
        """The share for people."""
        by = ", ".join(f"{number:,} by {name}" for name, number in self.sources.items() if number and name != "none")
        text = f"run times are known of {self.share:.0%} of {plural(self.pods, 'pod')}{f' ({by})' if by else ''}"
        return f"{text}; the others are taken to run forever" if self.sources["none"] else text


def setting_of(
    world: World,
    snapshot: Snapshot,
    told: Foresight | None,
    configuration: KubeSchedulerConfiguration | None,
    new: Expansion | None = None,
) -> tuple[ForecastSetting, list[str]]:
    """Return what all runs have in common, and what is to be said of that. `new`: what will be added.

    Raises ParametersError.
    """
    foresight = told or Foresight()
    notes = []
    begin = snapshot.taken
    if begin is None:
        latest = _latest_time(world)
        begin = latest or world.handle.time
        if latest is not None:
            notes.append(f"nothing says when the cluster was read: {begin:%Y-%m-%d %H:%M:%S} UTC counts as now")
    durations = ExpectedRunTimes(snapshot, begin.timestamp(), foresight.durations, foresight.seen)
    parameters = foresight.parameters
    usual, pods = configuration or KubeSchedulerConfiguration(), parameters.pods
    behaviour = Behaviour(
        startup=Startup(pods.startup_seconds),
        termination=Termination() if pods.termination_seconds is None else Termination(pods.termination_seconds),
        attempt_seconds=parameters.scheduler.attempt_seconds,
        binding_seconds=parameters.scheduler.binding_seconds or 0.0,
        retries=RetryTimes(float(usual.podInitialBackoffSeconds), float(usual.podMaxBackoffSeconds), keeps_order=True),
    )
    mixed = _mixed(world, durations, parameters.scheduler.attempt_seconds)
    added = () if new is None else new.objects
    jobs = dict(_pods_to_come(chain(map(msgspec.json.decode, snapshot.of_kind(JOB).values()), added)))
    if foresight.autoscaler == NO_AUTOSCALER:
        return ForecastSetting(begin, durations, jobs, mixed=mixed, runs=foresight.runs, behaviour=behaviour), notes
    groups, rules = scaled_groups(world, parameters.autoscaler), parameters.rules(foresight.autoscaler)
    return ForecastSetting(begin, durations, jobs, groups, rules, mixed, foresight.runs, behaviour), notes


def _mixed(world: World, durations: ExpectedRunTimes, attempt_seconds: float) -> float:
    """How far chance decides the order of the pods that wait.

    Each end of a pod lets a scheduler try all of them again, one after the other, which takes its time. If another one
    ends meanwhile, the scheduler goes on from where it is, and the order has another begin from then on. So it counts
    how many ends there were while the pods waited, and will be: about one for each of them.
    """
    ends = 0.0
    for pod in world.state.objects[POD].values():
        found = durations.of(pod) if pod.node_name else None
        if found is not None:
            ends += 1.0 / max(found.run_time.at(0.5), 1.0)
    number = len(world.pending)
    created = (pod.creation_timestamp for pod in world.pending.values())
    ages = [max(durations.now - each.timestamp(), 0.0) for each in created if each is not None]
    seen = ends * sum(ages) / len(ages) if ages else 0.0
    return 1.0 - math.exp(-number * attempt_seconds * ends * (seen + number / 2))


def _pods_to_come(documents: Iterable[Mapping[str, Any]]) -> Iterator[tuple[str, int]]:
    """Yield the Jobs that create more pods once theirs have completed, and how many."""
    for document in documents:
        spec = document.get("spec") or {}
        completions, parallelism = spec.get("completions"), spec.get("parallelism", 1)
        done = (document.get("status") or {}).get("succeeded") or 0
        if isinstance(completions, int) and isinstance(parallelism, int) and completions - done > parallelism > 0:
            metadata = document["metadata"]
            yield f"{metadata.get('namespace', 'default')}/{metadata['name']}", completions - done - parallelism


def _latest_time(world: World) -> datetime | None:
    """Return the latest time at which a pod of a world was created or started; None if nothing says that."""
    pods = world.state.objects[POD].values()
    started = [datetime.fromtimestamp(pod.started, UTC) for pod in pods if pod.started < NEVER]
    created = [pod.creation_timestamp for pod in pods if pod.creation_timestamp is not None]
    return max((*started, *created), default=None)


def runs_of(
    forecast: Forecast, seed: int, number: int | None, told: Callable[[Sequence[ForecastRun]], None]
) -> tuple[list[ForecastRun], bool]:
    """Run a forecast so many times, or as often as its work allows. Returns the runs, and whether it stopped.

    `told` is called after each run; as the progress of the forecast, it may raise Stopped.
    """
    runs: list[ForecastRun] = []
    try:
        while len(runs) < (number or (_number_for(runs[0].attempts) if runs else 1)):
            runs.append(forecast.run(seed + len(runs)))
            told(runs)
    except Stopped:
        return runs, True
    return runs, False


def _number_for(attempts: int) -> int:
    return next((number for number in _RUNS if number * attempts <= _WORK), _FEW)


def times_of(runs: Sequence[ForecastRun], uids: Collection[str]) -> tuple[StartTimes, StartTimes]:
    """Return when the last and when the first of some pods starts."""
    each = [[run.starts[uid].at if uid in run.starts else NEVER for uid in uids] for run in runs]
    return StartTimes.of([max(times) for times in each]), StartTimes.of([min(times) for times in each])


def likely_nodes(runs: Sequence[ForecastRun], uids: Collection[str]) -> tuple[NodeShare, ...]:
    """Return the nodes that pods got, the most likely one first."""
    counts = Counter(run.starts[uid].node for run in runs for uid in uids if uid in run.starts)
    total = counts.total()
    return tuple(NodeShare(node, round(number / total, 4)) for node, number in _first(counts))


def waited_for(
    runs: Sequence[ForecastRun], uids: Collection[str], source_of: Callable[[str], str]
) -> tuple[WaitedFor, ...]:
    """Return the pods whose end let pods start, the most likely one first. `source_of`: of `namespace/name`."""
    counts: Counter[str] = Counter()
    for run in runs:
        counts.update({pod for uid in uids if uid in run.starts for pod in run.starts[uid].waited_for})
    return tuple(WaitedFor(pod, round(number / len(runs), 4), source_of(pod)) for pod, number in _first(counts))


def _first(counts: Counter[str]) -> Iterator[tuple[str, int]]:
    yield from sorted(counts.items(), key=lambda item: (-item[1], item[0]))
