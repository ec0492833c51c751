"""SIGUSR2, which asks a scheduler for what it knows: heard from the first moment on, so that it ends nothing."""

from __future__ import annotations

import asyncio
import signal
from types import FrameType, TracebackType
from typing import Self


class DumpSignal:
    """Hears SIGUSR2 while it is entered, in the main thread. What came before `asked` was called counts as one."""

    def __init__(self) -> None:
        self._came = False
        self._asked: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGUSR2, self._hear)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        signal.signal(signal.SIGUSR2, self._before)

    def asked(self) -> asyncio.Event:
        """An event of the running loop that every such signal sets from now on, and at once if one came before."""
        self._asked, self._loop = asyncio.Event(), asyncio.get_running_loop()
        if self._came:
            self._asked.set()
        return self._asked

    def _hear(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        if self._asked is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._asked.set)
