"""Where a workload runs, as the operations see it: an API to create objects with, and a scheduler that places pods.

The same workload runs on the core alone and on a cluster. `clock` has the seconds that count.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from typing import Any, Protocol

from bayplan.benchmarking.measurement import Counters
from bayplan.benchmarking.pods import SeenPods
from bayplan.benchmarking.templates import BenchmarkError
from bayplan.core.api.kinds import Kind

Document = dict[str, Any]

LONGEST_WAIT = 600.0
"""Seconds, as upstream waits for pods."""


class BenchmarkCluster(Protocol):
    """A cluster with a scheduler. Waits are on the running event loop, whose time may be virtual."""

    pods: SeenPods
    changed: ChangeSignal

    def clock(self) -> float:
        """The seconds that count in measurements."""

    async def create(self, kind: Kind, documents: Iterable[Document], namespace: str | None = None) -> list[str]:
        """Create objects and return their names. A document may have a generateName. Raises BenchmarkError."""

    async def replace(self, kind: Kind, document: Document, namespace: str | None, subresource: str | None) -> None:
        """Replace an object, and its status if the document has one; or only what a subresource changes."""

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, *, at_once: bool = False) -> None:
        """Delete an object that may be gone already. `at_once`: without a grace period."""

    async def node_names(self) -> list[str]:
        """The names of all nodes."""

    async def allocate_claims(self, namespace: str | None) -> None:
        """Allocate the resource claims of a namespace (None: of all) that aren't allocated, without pods."""

    def collecting(self) -> AbstractContextManager[None]:
        """Prepare for the measurement; called around everything that is measured."""

    async def counters(self) -> Counters:
        """What the scheduler has counted so far."""


class ChangeSignal:
    """Lets a task wait until something has changed."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def notify(self) -> None:
        """Something has changed."""
        self._event.set()

    async def until(self, done: Callable[[], bool], what: Callable[[], str], seconds: float = LONGEST_WAIT) -> None:
        """Wait until `done()`, called after changes. Raises BenchmarkError with `what()` after `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while not done():
                    self._event.clear()
                    await self._event.wait()
        except TimeoutError:
            raise BenchmarkError(f"not within {seconds:g} s: {what()}") from None
