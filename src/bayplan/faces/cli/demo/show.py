"""Runs the demo: a scheduler on the cluster, and one act after another, until all expectations are met."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bayplan.core.config import default_profile, load_plugins
from bayplan.core.config.types import OUR_SCHEDULER_NAME
from bayplan.faces.cli.demo import stage
from bayplan.faces.cli.demo.outcome import CROWD, EXPECTATIONS, Figures
from bayplan.faces.cli.demo.pod_watcher import PodWatcher
from bayplan.running.client.client import Client
from bayplan.running.service.scheduler import Scheduler
from bayplan.running.service.settings import Settings

PAUSE = 0.6
"""Seconds between two acts, so that you can follow them."""
FINAL_PAUSE = 1.0
"""Seconds for which the final screen stays."""


@asynccontextmanager
async def running_show(client: Client) -> AsyncIterator[Show]:
    """A show with a running scheduler, which stops at the end as on SIGTERM."""
    show = Show(client)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(show.seen.run(), name="pod watcher")
        tasks.create_task(show.scheduler.run(stop), name="scheduler")
        try:
            yield show
        finally:
            watching.cancel()
            stop.set()


class Show:
    """A scheduler on the cluster of `client`, and the pods that it schedules."""

    def __init__(self, client: Client) -> None:
        self._client = client
        plugins, name = load_plugins([str(stage.POLICY)]), OUR_SCHEDULER_NAME
        self._changed = asyncio.Event()
        self.scheduler = Scheduler(client, lambda handle: {name: default_profile(name, handle, plugins)}, Settings())
        self.seen = PodWatcher(client, self._changed.set)
        self._acts = stage.acts()
        self._act: stage.Act | None = None
        self._decisions_per_second = 0.0

    @property
    def status(self) -> str:
        """The current act."""
        if self._act is None:
            return "the scheduler lists the cluster"
        return f"{self._acts.index(self._act) + 1}/{len(self._acts)}  {self._act.name}: {self._act.title}"

    @property
    def figures(self) -> Figures:
        """The current figures."""
        return Figures.of(self.seen, self._decisions_per_second)

    @property
    def succeeded(self) -> bool:
        """Whether all expectations are met."""
        return all(expectation.met(self.seen) for expectation in EXPECTATIONS)

    async def play(self) -> None:
        """Apply the manifests one after another, and return when all expectations are met."""
        await self.scheduler.synced.wait()
        decisions, began = 0, 0.0
        for act in self._acts:
            await asyncio.sleep(PAUSE)
            decisions, began = self.scheduler.decisions, time.monotonic()
            self._act = act
            await act.play(self._client)
        await self._until(lambda: len(self.seen.of("crowd")) == CROWD)
        self._decisions_per_second = (self.scheduler.decisions - decisions) / (time.monotonic() - began)
        await self._until(lambda: self.succeeded)
        await asyncio.sleep(FINAL_PAUSE)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()
