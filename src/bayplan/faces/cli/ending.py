"""The end of a command that runs plugins. Nothing that a plugin does keeps the process alive.

A cancelled task may go on, a thread can't be cancelled at all, and a method that blocks the event loop keeps signals
from it. The interpreter waits for tasks and threads before it exits; kube-scheduler exits without its goroutines.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType, TracebackType
from typing import Self

from bayplan.core.framework.interface import Plugin
from bayplan.running.service.watchdog import culprit_in

log = logging.getLogger(__name__)

_LIBRARY = str(Path(os.__file__).parent)

LIMIT = 20.0
"""Seconds from the first signal to the end of the process if the event loop is blocked: longer than its work takes."""
LAST_SECONDS = 1.0
"""Seconds at the end for the tasks and threads of plugins."""


class ProcessEnding:
    """Ends the process in time while it is entered. Threads that run before are none of a plugin."""

    def __init__(self) -> None:
        self._main = threading.get_ident()
        self._before = set(threading.enumerate())
        self._began = False
        self._left: set[asyncio.Task[object]] = set()
        self.before_force: list[Callable[[], None]] = []
        """Called, in another thread, before a process ends whose event loop is blocked."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and not isinstance(error, SystemExit):
            return
        end = time.monotonic() + LAST_SECONDS
        while (busy := self._busy()) and time.monotonic() < end:
            time.sleep(0.02)
        for thread, frame in busy:
            log.warning("a thread of %s still runs: %s; the process ends without it", *_owner_and_place(thread, frame))
        if busy or self._left:
            _exit(error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 0)

    def signalled(self, *_: object) -> None:
        """Note a signal that ends the process, in a handler that also runs while the event loop is blocked."""
        if self._began:
            os._exit(1)
        self._began = True
        threading.Thread(target=self._force, name="ending", daemon=True).start()

    async def finish_tasks(self) -> None:
        """Cancel the tasks that are left, once the command's own work has ended."""
        left = asyncio.all_tasks() - {asyncio.current_task()}
        named = {task for task in left if task.cancelling()}  # their owner has waited for them
        for task in left - named:
            task.cancel()
        if left - named:
            await asyncio.wait(left - named, timeout=LAST_SECONDS)
        self._left = {task for task in left if not task.done()}
        for task in self._left - named:
            log.warning(
                "task %s of a plugin goes on after it was cancelled; the process ends without it", task.get_name()
            )

    @property
    def complete(self) -> bool:
        """Whether nothing is left to wait for: the event loop can be closed."""
        return not self._left and not self._busy()

    def _busy(self) -> list[tuple[threading.Thread, FrameType]]:
        frames = sys._current_frames()  # noqa: SLF001 - it is documented
        return [
            (thread, frame)
            for thread in threading.enumerate()
            if not thread.daemon and thread not in self._before
            if (frame := frames.get(thread.ident or 0)) is not None and not _waits_for_work(frame)
        ]

    def _force(self) -> None:
        time.sleep(LIMIT)
        frame = sys._current_frames().get(self._main)  # noqa: SLF001 - it is documented
        culprit = culprit_in(frame) or "this command"
        log.warning("%s still runs %g s after the signal; the process ends without it", culprit, LIMIT)
        for last in self.before_force:
            last()
        _exit(0)


def _waits_for_work(frame: FrameType) -> bool:
    """Whether a thread is an executor's that has nothing to do: it ends with the interpreter."""
    return frame.f_globals.get("__name__") == "concurrent.futures.thread" and frame.f_code.co_name == "_worker"


def _owner_and_place(thread: threading.Thread, frame: FrameType) -> tuple[str, str]:
    """Whose thread it is, and where it is: in the innermost frame that is not the standard library's."""
    frames = [frame]
    while (caller := frames[-1].f_back) is not None:
        frames.append(caller)
    plugins = (each.f_locals.get("self") for each in frames)
    owner = next((f"plugin {plugin.name}" for plugin in plugins if isinstance(plugin, Plugin)), "a plugin")
    place = next((each for each in frames if not each.f_code.co_filename.startswith(_LIBRARY)), frame)
    code = place.f_code
    return owner, f"{thread.name}, in {code.co_qualname} ({code.co_filename}, line {place.f_lineno})"


def _exit(status: int) -> None:
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)
