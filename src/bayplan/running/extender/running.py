"""Assembles an extender, and starts and stops its parts in order.

Its state belongs to the event loop's thread. It serves health checks at once, and other requests once it has synced.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.profile import gates_followed
from bayplan.foundations.collector import keep_pauses_short
from bayplan.foundations.failures import Failures
from bayplan.running.client.client import Client
from bayplan.running.extender.binding import PodBinder
from bayplan.running.extender.handle import UnconnectedHandle
from bayplan.running.extender.plugins import ExtenderProfiles
from bayplan.running.extender.sent_nodes import SentNodes
from bayplan.running.extender.server import ExtenderServer, ServerSettings
from bayplan.running.extender.verbs import Verbs
from bayplan.running.extender.watched_cluster import WatchedCluster
from bayplan.running.service.handle import SchedulerHandle
from bayplan.running.service.services import Services
from bayplan.running.service.watchdog import Watchdog

log = logging.getLogger(__name__)

BuildExtenderProfiles = Callable[[Handle], ExtenderProfiles]
"""Builds the profiles with a handle."""


@dataclass(frozen=True, slots=True)
class RunningExtender:
    """An extender that serves. `watched` is None without a connection to the cluster."""

    profiles: ExtenderProfiles
    server: ExtenderServer
    watched: WatchedCluster | None

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs that it serves."""
        return self.profiles.verbs(connected=self.watched is not None)


@asynccontextmanager
async def running_extender(
    build: BuildExtenderProfiles,
    client: Client | None = None,
    settings: ServerSettings = ServerSettings(),  # noqa: B008 - immutable
) -> AsyncIterator[RunningExtender]:
    """An extender that serves inside the context. With a `client`, it watches the cluster and binds.

    It serves health checks from the start, and other requests once it has synced. Raises the errors of `build`, and
    OSError if it can't listen on the address.
    """
    state, failures = ClusterState(), Failures()
    watched = binding = recorder = started = None
    if client is None:
        profiles = build(UnconnectedHandle(state))
    else:
        own = Services.of(client, state=state)
        recorder, failures = own.recorder, own.failures
        handle = SchedulerHandle(own, _activate)
        profiles, started = build(handle), handle.started
        handle.freeze()
        watched = WatchedCluster(client, state, handle.watched, gates_followed(profiles.profiles.values()))
        binding = PodBinder(profiles, client, state.objects[POD], failures)
    known = watched or SentNodes(state)
    server = ExtenderServer(Verbs(profiles, state, known), known, settings, binding, failures)
    watchdog = Watchdog(settings.blocked_after)
    async with AsyncExitStack() as stack:
        watchdog.start()
        stack.callback(watchdog.stop)
        await stack.enter_async_context(server)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        services = []
        if watched is not None and recorder is not None and started is not None:
            services += [
                tasks.create_task(watched.run(), name="watched-cluster"),
                tasks.create_task(recorder.run(), name="event-recorder"),
                tasks.create_task(started.run(), name="started-work"),
            ]
            if settings.freeze:
                services.append(tasks.create_task(_collect(watched), name="garbage-collector"))
        try:
            yield RunningExtender(profiles, server, watched)
            await server.stop()
            if recorder is not None and started is not None:
                await started.drain(settings.drain)
                await recorder.drain(settings.drain)
        finally:
            if started is not None:
                await started.cancel()
            for service in services:
                service.cancel()


def _activate(pods: Iterable[PodInfo]) -> None:
    """Do nothing, because pods are pending in the other scheduler."""


async def _collect(watched: WatchedCluster) -> None:
    """Let the garbage collector visit only objects that are new since the first synchronization."""
    await watched.synced.wait()
    await keep_pauses_short()
