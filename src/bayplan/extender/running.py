"""Assembles an extender from its parts, and starts and stops them in order."""

from __future__ import annotations

import asyncio
import gc
import logging
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from bayplan.client import Client
from bayplan.cluster.state import ClusterState
from bayplan.extender.binding import Binding
from bayplan.extender.handle import ExtenderHandle
from bayplan.extender.plugins import ExtenderProfiles
from bayplan.extender.sent_nodes import SentNodes
from bayplan.extender.server import DEFAULT_PATHS, ExtenderServer
from bayplan.extender.verbs import Verbs
from bayplan.extender.watched_cluster import WatchedCluster
from bayplan.framework.interface import Handle
from bayplan.service.watchdog import Watchdog

log = logging.getLogger(__name__)

BuildExtenderProfiles = Callable[[Handle], ExtenderProfiles]
"""Makes the profiles for a handle."""


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """What can be set of an extender beside its plugins.

    `paths`: by verb. `blocked_after`: seconds after which a plugin that holds everything up is named in the log.
    `freeze` takes the cluster, once it is known, out of the garbage collector's sight; it concerns the whole process.
    """

    host: str = "127.0.0.1"
    port: int = 0
    paths: Mapping[str, str] = field(default_factory=lambda: DEFAULT_PATHS)
    tls: ssl.SSLContext | None = None
    blocked_after: float = 2.0
    freeze: bool = False


@dataclass(frozen=True, slots=True)
class RunningExtender:
    """An extender that serves. `watched` is None where it knows no more of the cluster than it is sent."""

    profiles: ExtenderProfiles
    server: ExtenderServer
    watched: WatchedCluster | None

    @property
    def verbs(self) -> tuple[str, ...]:
        """What its plugins can be asked."""
        return self.profiles.verbs(connected=self.watched is not None)


@asynccontextmanager
async def running_extender(
    build: BuildExtenderProfiles, client: Client | None = None, settings: ServerSettings = ServerSettings()
) -> AsyncIterator[RunningExtender]:
    """An extender that serves while the context is entered; with a `client` it watches the cluster and binds.

    It serves from the start, so that health can be asked; questions are answered once the cluster is known. Raises
    what building the profiles raises, and OSError where the address cannot be had.
    """
    state = ClusterState()
    profiles = build(ExtenderHandle(state, client))
    watched = binding = None
    if client is not None:
        kinds = set().union(*(profile.looks_up() for profile in profiles.profiles.values()))
        watched = WatchedCluster(client, state, kinds)
        binding = Binding(profiles, client, watched.pods.store)
    known = watched or SentNodes(state)
    server = ExtenderServer(
        Verbs(profiles, state, known),
        known,
        binding,
        host=settings.host,
        port=settings.port,
        paths=settings.paths,
        tls=settings.tls,
    )
    watchdog = Watchdog(settings.blocked_after)
    async with AsyncExitStack() as stack:
        watchdog.start()
        stack.callback(watchdog.stop)
        await stack.enter_async_context(server)
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        if watched is not None:
            watching = tasks.create_task(watched.run(), name="watched-cluster")
            stack.callback(watching.cancel)
            if settings.freeze:
                freezing = tasks.create_task(_freeze(watched), name="freeze")
                stack.callback(freezing.cancel)
        yield RunningExtender(profiles, server, watched)


async def _freeze(watched: WatchedCluster) -> None:
    """What is known by now mostly stays: nobody need look through it again and again."""
    await watched.synced.wait()
    gc.collect()
    gc.freeze()
