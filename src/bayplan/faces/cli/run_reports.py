"""What `bayplan run` logs at every verbosity: what it serves, when it is ready or standing by, and what it did."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bayplan.core.versions import FeatureGates
from bayplan.running.client.access import ClusterAccess

if TYPE_CHECKING:
    from bayplan.running.client.leader_election import LeaderElectionSettings
    from bayplan.running.service.leader_election import ElectionThread
    from bayplan.running.service.scheduler import Scheduler
    from bayplan.running.service.serving.options import ServingOptions

log = logging.getLogger(__name__)

SILENCE = 5.0
"""Seconds after which a wait is reported."""
EVERY = 60.0
"""Seconds between two reports of a scheduler that is ready, or stands by."""
_POLL = 0.2


def report_recording(folder: str) -> None:
    """Log where decisions are recorded."""
    log.info("recording what decisions rest on to %s", folder)


def report_start(
    access: ClusterAccess, names: Sequence[str], plugins: Sequence[str], endpoints: ServingOptions | None
) -> None:
    """Log the cluster, the scheduler names, the plugins in addition to the built-in ones, and the endpoints."""
    log.info("cluster: %s (%s)", access.server, access.source)
    if names:
        log.info("scheduling pods with schedulerName %s", " or ".join(names))
    if plugins:
        log.info("plugins in addition to the built-in ones: %s", ", ".join(plugins))
    else:
        log.info("no plugins in addition to the built-in ones")
    if endpoints is None:
        log.info("metrics and health checks are off (--secure-port 0)")
    else:
        address = endpoints.secure.bind_address
        host = f"[{address}]" if ":" in address else address
        log.info("metrics and health checks at https://%s:%d", host, endpoints.secure.port)


def report_requests(classes: Collection[str]) -> None:
    """Log which provisioning requests are answered."""
    log.info("answering ProvisioningRequests with provisioningClassName %s", " or ".join(classes))


def report_version(gates: FeatureGates, *, chosen: bool) -> None:
    """Log the version of Kubernetes to decide as, and the feature gates that differ from its defaults."""
    log.info(
        "deciding as Kubernetes %s (%s)", gates.version, "--emulated-version" if chosen else "the cluster's version"
    )
    if gates.chosen:
        log.info("feature gates: %s", ", ".join(f"{name}={str(on).lower()}" for name, on in gates.chosen.items()))


@dataclass(slots=True)
class RunReports:
    """Reports what a scheduler does."""

    scheduler: Scheduler
    leadership: ElectionThread | None = None
    election: LeaderElectionSettings | None = None
    longest_wait: Callable[[], tuple[str, float] | None] = lambda: None
    """The request that has waited longest for a response of the API server, and its seconds so far."""
    silence: float = SILENCE
    every: float = EVERY

    @asynccontextmanager
    async def reporting(self) -> AsyncGenerator[None]:
        """Report until the end of the block."""
        tasks = [
            asyncio.create_task(self._report(), name="reports"),
            asyncio.create_task(self._report_silence(), name="reports of a silent API server"),
        ]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _report(self) -> None:
        await self._until_ready()
        pending = self.scheduler.queue.pending_pods()
        log.info(
            "ready: %d nodes, %d pods on them, %d pods to schedule",
            self.scheduler.state.table.live_count,
            self.scheduler.state.pod_count,
            pending.active + pending.backoff + pending.unschedulable + pending.gated + pending.in_flight,
        )
        decisions, bound = self.scheduler.decisions, self.scheduler.bound
        while not self.scheduler.stopping:
            await asyncio.sleep(self.every)
            now = self.scheduler.decisions, self.scheduler.bound
            pending = self.scheduler.queue.pending_pods()
            log.info(
                "in the last %g s: %d attempts, %d pods bound; %d pods are queued, %d unschedulable, %d gated",
                self.every,
                now[0] - decisions,
                now[1] - bound,
                pending.active + pending.backoff + pending.in_flight,
                pending.unschedulable,
                pending.gated,
            )
            decisions, bound = now

    async def _report_silence(self) -> None:
        """Report a request of a ready scheduler that waits for its response, once for each such wait."""
        reported = False
        while True:
            await asyncio.sleep(min(_POLL, self.silence))
            request, seconds = self.longest_wait() or ("", 0.0)
            silent = seconds > 0.9 * self.silence  # the report must not be later than `silence`
            if silent and not reported and self._is_ready():
                log.warning("the API server has not replied to %s for %.1f s", request, seconds)
            reported = silent

    async def _until_ready(self) -> None:
        """Wait until the scheduler schedules. Report the leader that it waits for, or what delays it."""
        now = asyncio.get_running_loop().time
        leader, problem, due = "", "", now() + self.silence
        while not self._is_ready() and not self.scheduler.stopping:
            other = self._other_leader()
            if other and (other != leader or now() >= due):
                assert self.election is not None
                where = f"{self.election.namespace}/{self.election.name}"
                log.info("standby: %s leads; this instance schedules once it holds the lease %s", other, where)
                leader, due = other, now() + self.every
            elif now() >= due:
                last, problem = problem, self.scheduler.not_synced_because
                if problem != last or not problem:
                    log.info("not ready yet: %s", problem or "still waiting for replies of the API server")
                due = now() + self.silence
            await asyncio.sleep(_POLL)

    def _is_ready(self) -> bool:
        return self.scheduler.synced.is_set() and (self.leadership is None or self.leadership.acquired.is_set())

    def _other_leader(self) -> str:
        if self.leadership is None or self.leadership.acquired.is_set():
            return ""
        return self.leadership.leader if self.leadership.leader != self.leadership.identity else ""
