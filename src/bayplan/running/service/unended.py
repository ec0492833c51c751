"""What plugins still do after their work was cancelled, read from where their coroutines wait."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from types import FrameType
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import calling
from bayplan.core.framework.unknown_writes import is_unknown_in

log = logging.getLogger(__name__)

CANCEL_SECONDS = 5.0
"""How long cancelled work may take to end. Then it is named, and left behind."""


def report_unended(work: str, doing: str = "") -> None:
    """Log that cancelled work goes on. `doing`: what it was doing, if `work` doesn't say it."""
    suffix = f": {doing}" if doing else ""
    log.warning("%s didn't end within %g s of being cancelled%s", work, CANCEL_SECONDS, suffix)


def awaited_plugin(pod: PodInfo) -> tuple[str, str] | None:
    """Return the plugin that a pod's task waits for, and the extension point; None if it waits for something else."""
    for task in asyncio.all_tasks():
        frames = list(_frames(task.get_coro()))
        if any(frame.f_locals.get("pod") is pod for frame in frames):
            for frame in frames:
                if frame.f_code is calling.wait_for.__code__:
                    called = frame.f_locals
                    return called["plugin"].name, called["point"]
    return None


def write_may_arrive() -> bool:
    """Return whether a task waits for the outcome of a write (see `unknown_writes`)."""
    return any(is_unknown_in(frame) for task in asyncio.all_tasks() for frame in _frames(task.get_coro()))


def _frames(waiting: Any) -> Iterator[FrameType]:
    """Yield the frames of a coroutine and of the coroutines that it waits for, from the outermost."""
    while (frame := getattr(waiting, "cr_frame", None)) is not None:
        yield frame
        waiting = waiting.cr_await
