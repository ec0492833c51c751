"""Incidents, minute by minute, as Prometheus would scrape them from the collectors of the real services."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml
from prometheus_client import CollectorRegistry

from bayplan.answers.history.metrics import HistoryCollector
from bayplan.answers.history.recording_session import RecordingProgress
from bayplan.answers.shadow.comparisons import ShadowCause, ShadowOutcome, ShadowSubject, ShadowTally
from bayplan.answers.shadow.metrics import ShadowCollector
from bayplan.core.queue import PendingCounts, QueuedPod
from bayplan.running.service.metrics.exposition import build_registry
from bayplan.running.service.metrics.measuring import Metrics
from bayplan.running.service.metrics.snapshot import MetricsSnapshot
from bayplan.running.service.watchdog import Watchdog
from bayplan.testing.builders import make_pod

_ALERTED = ("scheduler_", "bayplan_", "leader_election_")
"""What the names of metrics begin with that alerts name."""
Scrape = Mapping[str, float]
"""The samples of one scrape: a series, as Prometheus writes it, and its value."""


_POD = make_pod("web")


class Replica:
    """A scheduler: what it measures, and what it knows. It leads, and nothing waits."""

    def __init__(self, clock: Any, name: str = "a", *, leads: bool = True) -> None:
        self.labels = {"job": "bayplan-scheduler", "instance": name}
        self.clock = clock
        self.leads = leads
        self.active = 0
        self.dropped = 0
        self.recording: tuple[bool, int] | None = None
        self.metrics = Metrics(clock, sampled=1.0)
        self.metrics.leading["bayplan-scheduler"] = lambda: self.leads
        self.watchdog = Watchdog()
        self.registry = build_registry(self.metrics, self._snapshot, self.watchdog)

    def _snapshot(self) -> MetricsSnapshot:
        self.metrics.fold()
        return MetricsSnapshot(
            profiles={},
            pending=PendingCounts(self.active, 0, 0, 0, 0, 0),
            incoming={},
            waiting=[],
            in_flight_events={},
            nodes=1,
            pods=0,
            assumed_pods=0,
            binding=0,
            sharing={},
            dropped_events=self.dropped,
            event_lag=0.0,
            recording=self.recording,
        )

    def place(self, number: int, seconds: float = 0.01, *, flushed: bool = False) -> None:
        """Pods whose attempts took some time, up to their binding."""
        for _ in range(number):
            self.metrics.bound(self._queued(seconds, flushed=flushed))

    def fail(self, number: int) -> None:
        """Attempts that end with an error."""
        for _ in range(number):
            self.metrics.failed(self._queued(0.01), error=True)

    def _queued(self, seconds: float, *, flushed: bool = False) -> QueuedPod:
        now = self.metrics.now()
        queued = QueuedPod(_POD, queued_at=now, attempts=1, initial_attempt_at=now, was_flushed=flushed)
        queued.popped_at = now - seconds
        return queued


class ShadowOfAnother:
    """A shadow: what it has compared."""

    def __init__(self) -> None:
        self.labels = {"job": "bayplan-shadow", "instance": "s"}
        self.tally = ShadowTally()
        self.follower = SimpleNamespace(
            shadow=SimpleNamespace(tally=self.tally, waiting=0, guesses=[]),
            late=0.0,
            synced=SimpleNamespace(is_set=lambda: True),
        )
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(ShadowCollector(self.follower))

    def guess(self, scheduler: str, *settings: str) -> None:
        """What configuration the scheduler seems to have."""
        self.follower.shadow.guesses.append(
            SimpleNamespace(scheduler=scheduler, settings=settings, explained=9, bindings=10)
        )

    def compare(self, outcome: ShadowOutcome, number: int) -> None:
        for _ in range(number):
            found = {"subject": ShadowSubject.BINDING, "outcome": outcome, "cause": ShadowCause.NONE}
            self.tally.add(SimpleNamespace(**found, difference=None, feeds=()))


class RecorderOfHistory:
    """A recorder: what it has written, and what it misses."""

    def __init__(self) -> None:
        self.labels = {"job": "bayplan-recorder", "instance": "r"}
        self.recorder = SimpleNamespace(
            synced=SimpleNamespace(is_set=lambda: True), problem="", progress=RecordingProgress()
        )
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(HistoryCollector(self.recorder))


def scraped(of: Any) -> Scrape:
    """The samples of a service, with the labels that Prometheus adds."""
    found = {}
    for family in of.registry.collect():
        for sample in family.samples:
            if not sample.name.startswith(_ALERTED):
                continue
            labels = {**sample.labels, **of.labels}
            text = ",".join(f"{name}={json.dumps(value)}" for name, value in sorted(labels.items()))
            found[f"{sample.name}{{{text}}}"] = sample.value
    return found


@dataclass(frozen=True, slots=True)
class Incident:
    """What happens to services, minute by minute, and how many of each alert then fire at which minutes.

    `act` makes a minute, and returns the services that are up then, or None for all.
    """

    services: Sequence[Any]
    minutes: int
    act: Callable[[int], Sequence[Any] | None]
    alerts: Mapping[str, Mapping[int, int]]

    def played(self) -> list[Scrape]:
        """The scrapes of all minutes."""
        scrapes: list[Scrape] = []
        for minute in range(self.minutes):
            up = self.act(minute)
            found: dict[str, float] = {}
            for each in self.services if up is None else up:
                found |= scraped(each)
            scrapes.append(found)
        return scrapes


def complaint(promtool: str, rules: Iterable[Path], incident: Incident, folder: Path) -> str:
    """Ask promtool whether the alerts fire that the incident expects. Returns what it complains of, or ""."""
    scrapes = incident.played()
    series = {name: " ".join(_values(name, scrapes)) for scrape in scrapes for name in scrape}
    document = {
        "rule_files": [str(path) for path in rules],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": values} for name, values in series.items()],
                "promql_expr_test": [
                    {
                        "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}})',
                        "eval_time": f"{minute}m",
                        "exp_samples": [{"labels": "{}", "value": number}] if number else [],
                    }
                    for alert, expected in incident.alerts.items()
                    for minute, number in expected.items()
                ],
            }
        ],
    }
    file = folder / "incident.yaml"
    file.write_text(yaml.safe_dump(document))
    done = subprocess.run([promtool, "test", "rules", file], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def _values(name: str, scrapes: Sequence[Scrape]) -> Iterator[str]:
    """The values of a series. Prometheus ends a series at once when the service is gone."""
    before = False
    for scrape in scrapes:
        yield str(float(scrape[name])) if name in scrape else "stale" if before else "_"
        before = name in scrape
