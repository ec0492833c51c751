"""Background work of plugins, each in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from bayplan.framework.interface import Background
from bayplan.framework.profile import Profile, implements

Work = Callable[[], Awaitable[object]]

log = logging.getLogger(__name__)

_RESTART_SECONDS = 10.0


def background_tasks(tasks: asyncio.TaskGroup, profiles: Iterable[Profile]) -> list[asyncio.Task[None]]:
    """Start the background method of every plugin that has one. After an error it is restarted with a delay."""
    return [
        tasks.create_task(_keep_running(plugin), name=f"background of {plugin.name}")
        for profile in profiles
        for plugin in profile.every()
        if implements(plugin, Background)
    ]


async def _keep_running(plugin: Any) -> None:
    while True:
        try:
            await plugin.background()
        except Exception:
            log.exception(
                "the background work of plugin %s failed; restarting it in %g s", plugin.name, _RESTART_SECONDS
            )
            await asyncio.sleep(_RESTART_SECONDS)
        else:
            return


class StartedWork:
    """Work that plugins start with `handle.start`: each in a task of its own, owned by `run`."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[str, Work]] = asyncio.Queue()

    def start(self, name: str, work: Work) -> None:
        """Start work; before `run` is called, it is queued. `name` appears in logs."""
        self._waiting.put_nowait((name, work))

    async def run(self) -> None:
        """Run what is started, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                name, work = await self._waiting.get()
                tasks.create_task(self._finish(name, work), name=name)

    async def drain(self, seconds: float) -> None:
        """Wait for started work, at most so many seconds. Call it while `run` runs."""
        try:
            async with asyncio.timeout(seconds):
                await self._waiting.join()
        except TimeoutError:
            log.warning("work that plugins started was not finished in time")

    async def _finish(self, name: str, work: Work) -> None:
        try:
            await work()
        except Exception:
            log.exception("work that a plugin started failed: %s", name)
        finally:
            self._waiting.task_done()
