"""A worker thread with a limit of time: one step at a time, and a step ends when its request is gone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bayplan.insight.answers import Progress, Stopped, silent
from bayplan.ui.asking import TooLongError

T = TypeVar("T")


class Worker:
    """Runs steps in one thread. `longest`: the most seconds of a step."""

    def __init__(self, longest: float) -> None:
        self._longest = longest
        self._thread = ThreadPoolExecutor(1, "transactions")
        self._closed = threading.Event()

    async def run(self, step: Callable[[Progress], T], tell: Progress = silent) -> T:
        """Run a step. `tell` is called with its progress, in the thread. Raises what it raises, and TooLongError."""
        stop = threading.Event()

        def run() -> T:
            end = time.monotonic() + self._longest

            def progress(text: str) -> None:
                if stop.is_set() or self._closed.is_set() or time.monotonic() > end:
                    raise Stopped
                tell(text)

            try:
                return step(progress)
            except Stopped:
                message = f"it took longer than {self._longest:g} s, which is the server's limit of time"
                raise TooLongError(message) from None

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, run)
        finally:
            stop.set()

    def close(self) -> None:
        """End the step in progress, and drop those that wait."""
        self._closed.set()
        self._thread.shutdown(wait=False, cancel_futures=True)
