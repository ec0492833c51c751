"""The demo as it goes: a scheduler on the cluster, one act after the other, until all is as expected."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from bayplan.cli.demo import stage
from bayplan.cli.demo.outcome import CROWD, EXPECTATIONS, Figures
from bayplan.cli.demo.spectator import Spectator
from bayplan.client import Client
from bayplan.config import default_profile, load_plugins
from bayplan.service.scheduler import Scheduler, Settings

PAUSE = 0.6
"""Seconds between two acts, for the audience."""
CURTAIN = 1.0
"""Seconds for which the last picture stays."""


@asynccontextmanager
async def on_stage(client: Client) -> AsyncIterator[Show]:
    """A show whose scheduler runs, and is stopped as SIGTERM would stop it."""
    show = Show(client)
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(show.seen.run(), name="spectator")
        tasks.create_task(show.scheduler.run(stop), name="scheduler")
        try:
            yield show
        finally:
            watching.cancel()
            stop.set()


class Show:
    """A scheduler at work over `client`, and what is seen of it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        plugins, name = load_plugins([str(stage.POLICY)]), stage.SCHEDULER_NAME
        self._changed = asyncio.Event()
        self.scheduler = Scheduler(client, lambda handle: {name: default_profile(name, handle, plugins)}, Settings())
        self.seen = Spectator(client, self._changed.set)
        self._acts = stage.acts()
        self._act: stage.Act | None = None
        self._decisions_per_second = 0.0

    @property
    def programme(self) -> str:
        """What is being played."""
        if self._act is None:
            return "the scheduler gets to know the cluster"
        return f"{self._acts.index(self._act) + 1}/{len(self._acts)}  {self._act.name}: {self._act.title}"

    @property
    def figures(self) -> Figures:
        """The figures as they are now."""
        return Figures.of(self.seen, self._decisions_per_second)

    @property
    def succeeded(self) -> bool:
        """Whether everything is as expected."""
        return all(expectation.met(self.seen) for expectation in EXPECTATIONS)

    async def play(self) -> None:
        """Apply the manifests one after the other, and return when everything is as expected."""
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
        await asyncio.sleep(CURTAIN)

    async def _until(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self._changed.clear()
            await self._changed.wait()
