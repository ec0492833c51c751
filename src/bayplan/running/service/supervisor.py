"""Supervisor: owns a scheduler's background tasks. None of them ends unnoticed, and none ends the process.

Writers, watches, the cache debugger and the plugins' background methods run here. What fails is recorded
(`bayplan.foundations.failures`) and restarted. The scheduling loop is not among them: if it ends, the process exits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from bayplan.core.framework.status import PluginError
from bayplan.foundations.failures import Failures
from bayplan.running.service.tasks import cancel
from bayplan.running.service.unended import report_unended

Work = Callable[[], Awaitable[object]]

RESTART_SECONDS = 1.0


class Supervisor:
    """Runs background work in separate tasks until `stop`. Failures are recorded, and failed work is restarted."""

    def __init__(self, failures: Failures) -> None:
        self._failures = failures
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, name: str, work: Work, *, restart_seconds: float = RESTART_SECONDS) -> None:
        """Run `work`. If it raises, it is called again after a delay; if it returns, it has finished."""
        task = asyncio.create_task(self._keep_running(name, work, restart_seconds), name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def stop(self) -> None:
        """Cancel all tasks, and wait until they have ended. Those that go on are named, and left behind."""
        for task in await cancel(self._tasks):
            report_unended(task.get_name())

    async def _keep_running(self, name: str, work: Work, restart_seconds: float) -> None:
        while (error := await outcome(work)) is not None:
            if isinstance(error, PluginError):
                error.record(self._failures)
            else:
                self._failures.record(name, error)
            await asyncio.sleep(restart_seconds)


async def outcome(work: Work) -> BaseException | None:
    """Await work in a separate task, and return its exception. Only a cancellation of the calling task is raised.

    Work that raises KeyboardInterrupt, SystemExit or CancelledError, or cancels its own task, must not end the event
    loop or the calling task.
    """
    task = asyncio.create_task(_caught(work), name=getattr(asyncio.current_task(), "get_name", str)())
    try:
        await asyncio.wait([task])
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
    return task.result()


async def _caught(work: Work) -> BaseException | None:
    try:
        await work()
    except BaseException as error:  # noqa: BLE001 - the caller records it
        return error
    return None
