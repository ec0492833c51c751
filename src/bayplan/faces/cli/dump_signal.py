"""SIGUSR2, which requests a dump of the scheduler's state. Unless it is handled from the start, it ends the process."""

from __future__ import annotations

import asyncio
import signal
from types import FrameType
from typing import Self


class DumpSignal:
    """Handles SIGUSR2 in the main thread while it is entered. Signals before `connect` is called count as one."""

    def __init__(self) -> None:
        self._received = False
        self._requested: asyncio.Event | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGUSR2, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGUSR2, self._before)

    def connect(self, requested: asyncio.Event) -> None:
        """Set an event of the running loop at each signal, and now if there was a signal before."""
        self._requested, self._loop = requested, asyncio.get_running_loop()
        if self._received:
            requested.set()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        self._received = True
        if self._requested is not None and self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._requested.set)
