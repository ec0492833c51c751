"""Background work of plugins: `background` methods, and what they start with `handle.start`.

Each runs in a task of the scheduler's event loop. A `background` method is restarted after an error. Started work is
finished on exit, for a bounded time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from functools import partial
from typing import Any

from bayplan.core.framework.calling import wait_for
from bayplan.core.framework.interface import Background
from bayplan.core.framework.profile import Profile, distinct_plugins, implements
from bayplan.foundations.failures import Failures, drop_callers
from bayplan.running.service.supervisor import Supervisor, Work, outcome
from bayplan.running.service.tasks import cancel
from bayplan.running.service.unended import report_unended

log = logging.getLogger(__name__)

_RESTART_SECONDS = 10.0


def start_background(supervisor: Supervisor, profiles: Iterable[Profile]) -> None:
    """Start the background method of every plugin that has one. After an error it is restarted with a delay."""
    for plugin in distinct_plugins(profile.every() for profile in profiles):
        if implements(plugin, Background):
            work = partial(_background, plugin)
            supervisor.start(f"the background work of plugin {plugin.name}", work, restart_seconds=_RESTART_SECONDS)


async def _background(plugin: Any) -> None:
    await wait_for(plugin, "Background", plugin.background())


class StartedWork:
    """Work that plugins start with `handle.start`, each in a separate task that `run` owns."""

    def __init__(self, failures: Failures | None = None) -> None:
        self._failures = failures or Failures()
        self._waiting: asyncio.Queue[tuple[str, Work]] = asyncio.Queue()
        self._running: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Work) -> None:
        """Start work; before `run` is called, it is queued. `name` appears in logs."""
        self._waiting.put_nowait((name, work))

    async def run(self) -> None:
        """Run what is started, until cancelled. What runs then is left to `cancel`."""
        while True:
            name, work = await self._waiting.get()
            task = asyncio.create_task(self._finish(name, work), name=name)
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def drain(self, seconds: float) -> None:
        """Wait for started work, for at most `seconds`. Call it while `run` runs."""
        try:
            async with asyncio.timeout(seconds):
                await self._waiting.join()
        except TimeoutError:
            log.warning("work that plugins started was not finished in time")

    async def cancel(self) -> None:
        """Cancel what runs, and wait until it has ended. What goes on is named, and left behind."""
        for task in await cancel(self._running):
            report_unended(f"work that a plugin started ({task.get_name()})")

    async def _finish(self, name: str, work: Work) -> None:
        try:
            if (error := await outcome(work)) is not None:
                drop_callers(error)
                self._failures.record("work that a plugin started", error, name)
        finally:
            self._waiting.task_done()
