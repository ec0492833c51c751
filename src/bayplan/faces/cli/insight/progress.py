"""Progress on one line of the terminal, which disappears at the end. Nothing is printed if stderr is no terminal."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.insight import answers


_PAUSE = 0.1
"""Seconds between two updates."""
_CLEAR = "\r\x1b[K"


@contextmanager
def reporting(title: str) -> Iterator[Callable[[str, int], None] | None]:
    """A callback for the number of things done of each sort. None if standard error is no terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    counts: dict[str, int] = {}
    shown = 0.0

    def progress(what: str, count: int) -> None:
        nonlocal shown
        counts[what] = count
        if time.monotonic() - shown >= _PAUSE:
            shown = time.monotonic()
            sys.stderr.write(f"{_CLEAR}{title}: {sum(counts.values()):,} objects ({what})")
            sys.stderr.flush()

    try:
        yield progress
    finally:
        sys.stderr.write(_CLEAR)
        sys.stderr.flush()


@contextmanager
def interruptible(title: str) -> Iterator[Callable[[str], None]]:
    """A callback for what is known so far. It raises Stopped after the first Ctrl-C; the second one ends all."""
    visible, interrupted, shown = sys.stderr.isatty(), False, 0.0

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal interrupted
        interrupted = True
        signal.signal(signal.SIGINT, before)

    def progress(text: str) -> None:
        nonlocal shown
        if interrupted:
            raise answers.Stopped
        if visible and time.monotonic() - shown >= _PAUSE:
            shown = time.monotonic()
            sys.stderr.write(f"{_CLEAR}{title}: {text}")
            sys.stderr.flush()

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield progress
    finally:
        signal.signal(signal.SIGINT, before)
        if visible:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()
