"""The endpoints of a scheduler: their paths, health checks and metrics.

They have their own thread, event loop and API client, so that a blocked scheduler still answers. State is read through
`bayplan.running.service.loop_reader`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from prometheus_client import CollectorRegistry

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.running.service.leader_election import Leadership
from bayplan.running.service.loop_reader import LoopUnavailableError
from bayplan.running.service.metrics.exposition import build_registry
from bayplan.running.service.metrics.resources import PodResourcesCollector
from bayplan.running.service.metrics.selection import MetricSelection
from bayplan.running.service.metrics.snapshot import MetricsSnapshot
from bayplan.running.service.scheduler import Scheduler
from bayplan.running.service.serving.health import HEALTHZ, LIVEZ, READYZ, HealthChecks
from bayplan.running.service.serving.options import ServingOptions
from bayplan.running.service.serving.pages import configz_page, flagz_page, metrics_page, statusz_page, version_page
from bayplan.running.service.serving.server import EndpointServer, Page, ReviewClients


@dataclass(frozen=True, slots=True)
class Published:
    """What authorized clients can read, in addition to the scheduler's state.

    `configuration` returns what /configz shows, and `flags` is what /flagz shows. `metrics` selects metrics.
    `gates`: the version of Kubernetes that the scheduler decides as, and its feature gates.
    """

    configuration: Callable[[], Any] = dict
    flags: Mapping[str, str] = field(default_factory=dict)
    metrics: MetricSelection = field(default_factory=MetricSelection)
    gates: FeatureGates = DEFAULT_GATES


class Endpoints:
    """A context manager that serves a scheduler's endpoints. Enter it before the scheduler runs.

    `clients` are opened in the endpoints' own thread. Entering raises ServingError or ConfigError.
    """

    def __init__(
        self, options: ServingOptions, scheduler: Scheduler, clients: ReviewClients, published: Published = Published()
    ) -> None:
        self._options = options
        self._scheduler = scheduler
        self._latest: MetricsSnapshot | None = None
        self.health = HealthChecks()
        """Named checks. You can add more before you enter the endpoints."""
        self.health.add("scheduling-loop", self._check_loop, HEALTHZ, LIVEZ)
        self.health.add("shutdown", lambda: "process is shutting down" if scheduler.stopping else "", READYZ)
        self.health.add("sched-handler-sync", self._check_sync, READYZ)
        leadership = scheduler.leadership
        if leadership is not None:
            self.health.add("leaderElection", lambda: _check_lease(leadership), HEALTHZ, READYZ)
        self.registry = build_registry(scheduler.metrics, self._snapshot, scheduler.watchdog, published.gates)
        """All metrics of /metrics, before they are selected."""
        select, started = published.metrics.of, datetime.now(UTC)
        self._pages: dict[str, Page] = {
            "/metrics": metrics_page(select(self.registry)),
            "/metrics/resources": metrics_page(select(self._resources()), hidden=self._is_follower),
            "/metrics/slis": metrics_page(select(_registry_of(self.health))),
            "/configz": configz_page(published.configuration, published.gates),
            "/flagz": flagz_page(published.flags),
            "/statusz": statusz_page(started, lambda: self.paths, lambda: datetime.now(UTC), published.gates),
            "/version": version_page(published.gates),
        }
        self._server = EndpointServer(options, self._pages, self.health, clients)

    @property
    def paths(self) -> list[str]:
        """All paths, sorted."""
        return sorted((*self._pages, *self.health.paths))

    @property
    def port(self) -> int:
        """The port, once entered."""
        return self._server.port

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()

    def _snapshot(self) -> MetricsSnapshot | None:
        """The scheduler's current state, or the last known one if the scheduler is blocked or has ended."""
        with suppress(LoopUnavailableError):  # WatchdogCollector reports the blocked loop
            self._latest = self._scheduler.reader.read(self._scheduler.snapshot, self._options.scrape_timeout)
        return self._latest

    def _resources(self) -> CollectorRegistry:
        def pods() -> list[PodInfo]:
            try:
                return self._scheduler.reader.read(self._scheduler.pods, self._options.scrape_timeout)
            except LoopUnavailableError:
                return []

        return _registry_of(PodResourcesCollector(pods))

    def _is_follower(self) -> bool:
        """Whether another process leads, which already reports all pods."""
        return not all(leads() for leads in self._scheduler.metrics.leading.values())

    def _check_loop(self) -> str:
        if self._scheduler.ended_because:
            return self._scheduler.ended_because
        watchdog = self._scheduler.watchdog
        seconds = watchdog.blocked_seconds
        if seconds < self._options.blocked_limit:
            return ""
        return f"{watchdog.blocked_by} has been blocking the event loop for {seconds:.0f} s"

    def _check_sync(self) -> str:
        if self._scheduler.synced.is_set():
            return ""
        return ": ".join(filter(None, ("handlers are not fully synchronized", self._scheduler.not_synced_because)))


def _check_lease(leadership: Leadership) -> str:
    """Waiting for the lease is healthy. After losing it the process must exit, so the check fails if it doesn't."""
    return "the lease was lost" if leadership.acquired.is_set() and not leadership.leads() else ""


def _registry_of(collector: Any) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry
