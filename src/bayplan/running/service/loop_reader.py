"""LoopReader: lets other threads read state that belongs to an event loop.

The cluster state and the queue have no locks: only the scheduler's thread touches them. The endpoints' thread asks
here, and waits for a bounded time.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class LoopUnavailableError(Exception):
    """The loop isn't running, or is blocked."""


class LoopReader:
    """Runs functions of other threads in the thread of an event loop, between `open` and `close`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def open(self) -> None:
        """Use the running event loop of this thread."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def close(self) -> None:
        """Stop using the loop, which is about to end."""
        self._loop = None

    def read(self, what: Callable[[], T], timeout: float) -> T:
        """Call `what` in the loop's thread and return its result. Blocks for `timeout` seconds at most.

        Raises LoopUnavailableError, or the exception of `what`.
        """
        loop = self._loop
        if loop is None:
            raise LoopUnavailableError("the scheduler is not running")
        if threading.get_ident() == self._thread:
            return what()
        result: concurrent.futures.Future[T] = concurrent.futures.Future()

        def read() -> None:
            if result.set_running_or_notify_cancel():
                try:
                    result.set_result(what())
                except Exception as error:  # noqa: BLE001 - raised in the calling thread
                    result.set_exception(error)

        try:
            loop.call_soon_threadsafe(read)
            return result.result(timeout)
        except RuntimeError:
            raise LoopUnavailableError("the scheduler has ended") from None
        except TimeoutError:
            result.cancel()
            raise LoopUnavailableError(f"the scheduler's event loop did not respond within {timeout:g} s") from None
