"""Reads what belongs to an event loop from other threads."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


class LoopUnavailableError(Exception):
    """The loop does not run, or is blocked."""


class LoopReader:
    """Lets any thread have something read in the thread of a loop, between `open` and `close`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0

    def open(self) -> None:
        """Read in the loop that runs in this thread."""
        self._loop, self._thread = asyncio.get_running_loop(), threading.get_ident()

    def close(self) -> None:
        """The loop is about to end."""
        self._loop = None

    def read(self, what: Callable[[], T], timeout: float) -> T:
        """What `what` returns, called in the loop's thread. Blocks so many seconds at most.

        Raises LoopUnavailableError, and whatever `what` raises.
        """
        loop = self._loop
        if loop is None:
            raise LoopUnavailableError("the scheduler does not run")
        if threading.get_ident() == self._thread:
            return what()
        answer: concurrent.futures.Future[T] = concurrent.futures.Future()

        def read() -> None:
            if answer.set_running_or_notify_cancel():
                try:
                    answer.set_result(what())
                except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
                    answer.set_exception(error)

        try:
            loop.call_soon_threadsafe(read)
            return answer.result(timeout)
        except RuntimeError:
            raise LoopUnavailableError("the scheduler has ended") from None
        except TimeoutError:
            answer.cancel()
            raise LoopUnavailableError(f"the scheduler's event loop is blocked for more than {timeout:g} s") from None
