"""The endpoints of a scheduler: which paths there are, and what of the scheduler is behind them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from prometheus_client import CollectorRegistry

from bayplan.cluster.pod_info import PodInfo
from bayplan.service.leader_election import Leadership
from bayplan.service.loop_reader import LoopUnavailableError
from bayplan.service.metrics.exposition import build_registry
from bayplan.service.metrics.resources import PodResourcesCollector
from bayplan.service.metrics.selection import Selection
from bayplan.service.metrics.snapshot import Snapshot
from bayplan.service.scheduler import Scheduler
from bayplan.service.serving.health import HEALTHZ, LIVEZ, READYZ, HealthChecks
from bayplan.service.serving.options import ServingOptions
from bayplan.service.serving.pages import configz_page, flagz_page, metrics_page, statusz_page
from bayplan.service.serving.server import Connect, EndpointServer, Page


class Endpoints:
    """Serves a scheduler's endpoints while it is entered: before the scheduler runs, until after it has ended.

    `connect` opens an API client in the endpoints' own thread; with it tokens and access are reviewed, unless there
    are clients for just that. `configuration` and `flags` are shown to whoever may see them, and of metrics what
    `selection` leaves. Entering raises ServingError or ConfigError.
    """

    def __init__(
        self,
        options: ServingOptions,
        scheduler: Scheduler,
        connect: Connect | None,
        *,
        connect_authorization: Connect | None = None,
        configuration: Callable[[], Any] = dict,
        flags: Mapping[str, str] | None = None,
        leadership: Leadership | None = None,
        selection: Selection = Selection(),  # noqa: B008 - it cannot be changed
    ) -> None:
        self._options = options
        self._scheduler = scheduler
        self._latest: Snapshot | None = None
        self.health = HealthChecks()
        """Named checks; more may be added before the endpoints are entered."""
        self.health.add("scheduling-loop", self._blocked, HEALTHZ, LIVEZ)
        self.health.add("shutdown", lambda: "process is shutting down" if scheduler.stopping else "", READYZ)
        self.health.add("sched-handler-sync", self._unsynchronised, READYZ)
        if leadership is not None:
            self.health.add("leaderElection", lambda: _lost(leadership), HEALTHZ, READYZ)
        self.registry = build_registry(scheduler.metrics, self._snapshot, scheduler.watchdog)
        """What /metrics tells, before anything is left out."""
        started = datetime.now(UTC)
        self._pages: dict[str, Page] = {
            "/metrics": metrics_page(selection.of(self.registry)),
            "/metrics/resources": metrics_page(selection.of(self._resources()), hidden=self._follows),
            "/metrics/slis": metrics_page(selection.of(_registry_of(self.health))),
            "/configz": configz_page(configuration),
            "/flagz": flagz_page(flags or {}),
            "/statusz": statusz_page(started, lambda: self.paths, lambda: datetime.now(UTC)),
        }
        self._server = EndpointServer(options, self._pages, self.health, connect, connect_authorization or connect)

    @property
    def paths(self) -> list[str]:
        """Every path that is served."""
        return sorted((*self._pages, *self.health.paths))

    @property
    def port(self) -> int:
        """The port that is served, once they are entered."""
        return self._server.port

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop()

    def _snapshot(self) -> Snapshot | None:
        """The scheduler's state: as it is now, or, while it is blocked or ends, as it was seen last."""
        with suppress(LoopUnavailableError):  # the last one is better than none, and who blocks is a metric of its own
            self._latest = self._scheduler.reader.read(self._scheduler.snapshot, self._options.scrape_timeout)
        return self._latest

    def _resources(self) -> CollectorRegistry:
        def pods() -> list[PodInfo]:
            try:
                return self._scheduler.reader.read(self._scheduler.pods, self._options.scrape_timeout)
            except LoopUnavailableError:
                return []

        return _registry_of(PodResourcesCollector(pods))

    def _follows(self) -> bool:
        """Whether another process leads, which tells of all pods already."""
        return not all(leads() for leads in self._scheduler.metrics.leading.values())

    def _blocked(self) -> str:
        if self._scheduler.ended_because:
            return self._scheduler.ended_because
        watchdog = self._scheduler.watchdog
        seconds = watchdog.blocked_seconds
        if seconds < self._options.blocked_limit:
            return ""
        return f"{watchdog.blocked_by} has been blocking the event loop for {seconds:.0f} s"

    def _unsynchronised(self) -> str:
        if self._scheduler.synced.is_set():
            return ""
        return ": ".join(filter(None, ("handlers are not fully synchronized", self._scheduler.not_synced_because)))


def _lost(leadership: Leadership) -> str:
    """Whoever waits for the lease is well; who had it and has it no more is about to end, or cannot."""
    return "the lease was lost" if leadership.acquired.is_set() and not leadership.leads() else ""


def _registry_of(collector: Any) -> CollectorRegistry:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    return registry
