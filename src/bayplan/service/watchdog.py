"""Names whoever blocks the event loop, with the stack, while it does.

A synchronous plugin method cannot be interrupted from outside. A thread beside the loop asks it for a sign of life;
when none comes, it looks at the loop's stack.
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

from bayplan.framework import calling

log = logging.getLogger(__name__)

_MOST_FRAMES = 10
"""The innermost frames that are logged."""


class Watchdog:
    """Watches the running event loop from a thread of its own, between `start` and `stop`.

    `limit`: seconds without a sign of life after which the loop counts as blocked.
    """

    def __init__(self, limit: float = 2.0) -> None:
        self._limit = limit
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._blocked_since: float | None = None
        self.blocks: Counter[str] = Counter()
        """How often somebody has blocked the loop so far, by name."""
        self.blocked_by = ""
        """Who blocked the loop the last time."""

    @property
    def blocked_seconds(self) -> float:
        """For how long the loop has been blocked; 0 while it is not."""
        since = self._blocked_since
        return 0.0 if since is None else time.monotonic() - since

    def start(self) -> None:
        """Watch the loop that runs in this thread."""
        loop, thread_id = asyncio.get_running_loop(), threading.get_ident()
        self._thread = threading.Thread(target=self._watch, args=(loop, thread_id), name="watchdog", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Watch no more."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self, loop: asyncio.AbstractEventLoop, thread_id: int) -> None:
        while not self._stopped.wait(self._limit / 4):
            sign_of_life = threading.Event()
            asked_at = time.monotonic()
            try:
                loop.call_soon_threadsafe(sign_of_life.set)
            except RuntimeError:  # the loop is closed
                return
            if sign_of_life.wait(self._limit):
                continue
            culprit = _report(sys._current_frames().get(thread_id), self._limit)  # noqa: SLF001 - the documented way
            self.blocked_by = culprit
            self.blocks[culprit] += 1
            self._blocked_since = asked_at
            while not sign_of_life.wait(self._limit) and not self._stopped.is_set():
                log.warning("%s has been blocking for %.0f s", culprit, self.blocked_seconds)
            log.warning("%s blocked for %.1f s", culprit, self.blocked_seconds)
            self._blocked_since = None


def _report(frame: FrameType | None, limit: float) -> str:
    """Log which plugin blocks, with its frames. Returns its name."""
    frames = _outwards(frame)
    called = next((index for index, each in enumerate(frames) if _plugin_in(each)), None)
    culprit = "the scheduler" if called is None else _plugin_in(frames[called])
    inner = frames if called is None else frames[:called]
    shown = StackSummary.extract((each, each.f_lineno) for each in reversed(inner[:_MOST_FRAMES]))
    log.warning("%s has been blocking for more than %g s, here:\n%s", culprit, limit, "".join(shown.format()).rstrip())
    return culprit


def _outwards(frame: FrameType | None) -> list[FrameType]:
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
