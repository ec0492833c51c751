"""What plugins do beside all decisions, each in a task of its own."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from bayplan.framework.interface import Background
from bayplan.framework.profile import Profile, implements

Work = Callable[[], Awaitable[object]]

log = logging.getLogger(__name__)

_AGAIN_SECONDS = 10.0


def background_tasks(tasks: asyncio.TaskGroup, profiles: Iterable[Profile]) -> list[asyncio.Task[None]]:
    """Start the background work of every plugin that has some. One that breaks is started again after a while."""
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
            log.exception("plugin %s failed in the background", plugin.name)
            await asyncio.sleep(_AGAIN_SECONDS)
        else:
            return


class StartedWork:
    """What plugins start at points that cannot wait: each in a task of its own, which `run` owns."""

    def __init__(self) -> None:
        self._waiting: asyncio.Queue[tuple[str, Work]] = asyncio.Queue()

    def start(self, name: str, work: Work) -> None:
        """Have something done. What is started before `run` waits for it."""
        self._waiting.put_nowait((name, work))

    async def run(self) -> None:
        """Do what is started, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                name, work = await self._waiting.get()
                tasks.create_task(self._see_through(name, work), name=name)

    async def drain(self, seconds: float) -> None:
        """Let what has been started come to its end, so many seconds at most. For while `run` runs."""
        try:
            async with asyncio.timeout(seconds):
                await self._waiting.join()
        except TimeoutError:
            log.warning("what plugins started was not finished in time")

    async def _see_through(self, name: str, work: Work) -> None:
        try:
            await work()
        except Exception:
            log.exception("what a plugin started failed: %s", name)
        finally:
            self._waiting.task_done()
