"""The garbage collector of a process that knows a cluster: its pauses don't grow with the cluster.

A full collection visits every object that isn't frozen: a tenth of a second for 100,000 pods. After `begin`, a full
collection visits what was created since the one before; what it leaves is frozen. Objects that are not part of a cycle
are freed as always. Frozen cycles stay until the number of frozen objects has doubled: `run` then unfreezes all objects
and collects them, at a moment when the scheduler has nothing to do. At such moments, freed memory is given back.
"""

from __future__ import annotations

import asyncio
import atexit
import gc
import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bayplan.foundations.heap import give_back

log = logging.getLogger(__name__)

THRESHOLDS = (10_000, 2, 2)
"""New objects after which they are visited: most objects of a binding are gone by then. A full collection comes after
about 90,000, and takes a few milliseconds."""
_RARELY = (100_000, 20, 20)
"""Hundreds of MiB of cycles could be garbage before they are collected, but there are few."""
CHECK_SECONDS = 60.0
PATIENCE = 30
"""After how many checks the collection doesn't wait any longer for a moment without work."""
_LEAST = 500_000
"""The number of new frozen objects from which unfreezing is worth its time."""


class Collector:
    """Controls the garbage collector of the whole process, between `begin` and `end`."""

    def __init__(self) -> None:
        self._frozen = 0
        """The number of frozen objects after all of them were visited."""
        self._thresholds = gc.get_threshold()

    def pause(self) -> None:
        """Freeze what exists, unvisited: mostly modules, which last. Visit nothing until `begin`."""
        gc.freeze()
        gc.disable()

    def begin(self) -> None:
        """Visit and freeze everything that exists, or what was created since `pause`."""
        self._collect()
        gc.callbacks.append(_freeze_survivors)
        gc.set_threshold(*THRESHOLDS)
        gc.enable()

    def end(self) -> None:
        """Let the collector work as usual again, on everything."""
        if _freeze_survivors in gc.callbacks:
            gc.callbacks.remove(_freeze_survivors)
        gc.set_threshold(*self._thresholds)
        gc.unfreeze()
        gc.enable()

    async def run(self, idle: Callable[[], bool]) -> None:
        """Collect frozen cycles when there may be many, and give freed memory back.

        `idle`: whether the scheduler has nothing to do.
        """
        waited = 0
        while True:
            await asyncio.sleep(CHECK_SECONDS)
            if idle():
                give_back()
            if gc.get_freeze_count() < 2 * self._frozen + _LEAST:
                continue
            waited += 1
            if idle() or waited > PATIENCE:
                waited = 0
                before = gc.get_freeze_count()
                self._collect_all()
                log.debug("%d of %d objects remain after a collection of all", self._frozen, before)

    def _collect_all(self) -> None:
        gc.unfreeze()
        self._collect()

    def _collect(self) -> None:
        gc.collect()
        gc.freeze()
        gc.collect()  # of nothing: the next automatic full collection depends on the number of objects in the last one
        self._frozen = gc.get_freeze_count()


async def keep_pauses_short() -> None:
    """Let a Collector control the garbage collector until cancelled. Frozen cycles are collected at any moment."""
    collector = Collector()
    collector.begin()
    try:
        await collector.run(lambda: True)
    finally:
        collector.end()


@contextmanager
def collecting_rarely() -> Iterator[None]:
    """Let the collector visit new objects rarely, for a command that asks one question and ends.

    At the end of the process, it visits none: that would take longer than many a question.
    """
    thresholds = gc.get_threshold()
    gc.set_threshold(*_RARELY)
    atexit.unregister(gc.freeze)
    atexit.register(gc.freeze)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)


def _freeze_survivors(phase: str, info: Mapping[str, Any]) -> None:
    if phase == "stop" and info["generation"] == 2:
        gc.freeze()


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause the garbage collector while many objects are made. Contexts may be nested."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
