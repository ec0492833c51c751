"""Tasks that each belong to one pod: its binding, or the eviction of its victims.

A task that fails is recorded, and affects no other pod. On exit they are finished for a bounded time, then cancelled.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.foundations.failures import Failures
from bayplan.foundations.log_fields import about_pod
from bayplan.running.service import unended

log = logging.getLogger(__name__)


async def first(*awaitables: Coroutine[Any, Any, object]) -> None:
    """Wait for the first of several awaitables, and cancel the others. Raises what the first one raised."""
    tasks = [asyncio.ensure_future(awaitable) for awaitable in awaitables]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        await cancel(tasks)


async def cancel(tasks: Iterable[asyncio.Task[Any]]) -> set[asyncio.Task[Any]]:
    """Cancel tasks, and wait until they have ended. Returns those that go on after `CANCEL_SECONDS`."""
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    if not tasks:
        return set()
    ended, late = await asyncio.wait(tasks, timeout=unended.CANCEL_SECONDS)
    for task in ended:
        if not task.cancelled():
            task.exception()  # it counts as seen
    return late


class PodTasks:
    """Runs a task per pod. A task that fails is recorded and affects no other."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._running: dict[asyncio.Task[None], tuple[str, PodInfo]] = {}
        self.cancelling = False
        """Whether `cancel` was called. Any other cancellation of a task is the work's own."""

    def start(self, what: str, pod: PodInfo, work: Coroutine[Any, Any, None]) -> None:
        """Run `work` for a pod; `what` names the work in logs."""
        task = asyncio.create_task(work, name=f"{what} {pod.key}")
        self._running[task] = what, pod
        task.add_done_callback(self._done)

    def count(self, what: str) -> int:
        """How many tasks of a kind are running."""
        return sum(each == what for each, _ in self._running.values())

    async def drain(self, seconds: float) -> bool:
        """Wait for running tasks, and cancel those that take longer.

        Returns whether one of them leaves a write behind that may still be carried out.
        """
        if self._running:
            _, late = await asyncio.wait(self._running, timeout=seconds)
            for task in late:
                what, pod = self._running[task]
                plugin = unended.awaited_plugin(pod)
                waits = "" if plugin is None else f": {plugin[1]} of plugin {plugin[0]} goes on"
                log.warning("%s pod %s was not finished in time%s", what, about_pod(pod), waits)
        left = bool(self._running) and unended.write_may_arrive()
        await self.cancel()
        return left

    async def cancel(self) -> None:
        """Cancel all tasks, and wait until they have ended. Those that go on are named, and left behind."""
        self.cancelling = True
        for task in await cancel(self._running):
            what, pod = self._running.pop(task)
            plugin, point = unended.awaited_plugin(pod) or ("", what)
            unended.report_unended(f"plugin {plugin}" if plugin else what, f"{point} of pod {about_pod(pod)}")

    def _done(self, task: asyncio.Task[None]) -> None:
        if task not in self._running:
            return  # it was left behind
        what, pod = self._running.pop(task)
        error = asyncio.CancelledError() if task.cancelled() else task.exception()
        if error is not None and not (task.cancelled() and self.cancelling):
            self._failures.record(what, error, f"pod {about_pod(pod)}")
