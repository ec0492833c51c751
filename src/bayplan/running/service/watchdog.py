"""Detects a blocked event loop, and logs the plugin that blocks it and the stack.

Synchronous plugin methods can't be interrupted. A separate thread checks whether the loop responds; if it doesn't, the
thread inspects the loop's stack.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import Counter
from traceback import StackSummary
from types import FrameType

from bayplan.core.framework import calling

log = logging.getLogger(__name__)

_MOST_FRAMES = 10
"""The innermost frames that are logged."""


class Watchdog:
    """Watches the running event loop from its own thread, between `start` and `stop`.

    `limit`: the seconds without a response after which the loop counts as blocked.
    """

    def __init__(self, limit: float = 2.0) -> None:
        self._limit = limit
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._blocked_since: float | None = None
        self.blocks: Counter[str] = Counter()
        """The number of blocks, by culprit: a plugin and extension point, or the scheduler."""
        self.blocked_by = ""
        """The culprit of the last block."""

    @property
    def blocked_seconds(self) -> float:
        """How long the loop has been blocked; 0 if it isn't."""
        since = self._blocked_since
        return 0.0 if since is None else time.monotonic() - since

    def start(self) -> None:
        """Start to watch the event loop of this thread."""
        loop, thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._thread = threading.Thread(target=self._watch, args=(loop, thread_id), name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop watching."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        while not self._stopped.wait(self._limit / 4):
            response = threading.Event()
            since = time.monotonic()
            try:
                loop.call_soon_threadsafe(response.set)
            except RuntimeError:  # the loop is closed
                return
            if response.wait(self._limit):
                continue
            culprit = _report(sys._current_frames().get(thread_id), self._limit)  # noqa: SLF001 - it is documented
            self.blocked_by = culprit
            self.blocks[culprit] += 1
            self._blocked_since = since
            while not response.wait(self._limit) and not self._stopped.is_set():
                log.warning("%s has been blocking for %.0f s", culprit, self.blocked_seconds)
            log.warning("%s blocked for %.1f s", culprit, self.blocked_seconds)
            self._blocked_since = None


def _report(frame: FrameType | None, limit: float) -> str:
    """Log which plugin blocks, with its frames. Returns its name."""
    frames = _with_callers(frame)
    called = next((index for index, each in enumerate(frames) if _plugin_in(each)), None)
    culprit = culprit_in(frame) or "the scheduler"
    inner = frames if called is None else frames[:called]
    shown = StackSummary.extract((each, each.f_lineno) for each in reversed(inner[:_MOST_FRAMES]))
    log.warning("%s has been blocking for more than %g s, here:\n%s", culprit, limit, "".join(shown.format()).rstrip())
    return culprit


def culprit_in(frame: FrameType | None) -> str:
    """Return the plugin and the extension point that a stack is in; "" if it is in none."""
    return next(filter(None, map(_plugin_in, _with_callers(frame))), "")


def _with_callers(frame: FrameType | None) -> list[FrameType]:
    frames = []
    while frame is not None:
        frames.append(frame)
        frame = frame.f_back
    return frames


def _plugin_in(frame: FrameType) -> str:
    if frame.f_code is not calling.call.__code__:
        return ""
    called = frame.f_locals
    return f"plugin {called['plugin'].name} in {called['point']}"
