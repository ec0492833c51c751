"""Dumps what the scheduler knows to the log and compares it with the API server, whenever somebody asks.

Mirrors pkg/scheduler/backend/cache/debugger: there, too, SIGUSR2 asks.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator

import msgspec

from bayplan.api.objects import UndecodableObject
from bayplan.client import ApiError, ConfigError, TransportError
from bayplan.log_fields import LogField, about_node, about_pod
from bayplan.service.debugging.comparison import Difference, differences, list_all
from bayplan.service.debugging.dump import dump
from bayplan.service.informers import LIVE_PODS
from bayplan.service.runtime import Runtime
from bayplan.turns import Turn

log = logging.getLogger(__name__)

SETTLE_SECONDS = 2.0
"""After so long the watch has told of what a list showed: what is still different then is a mistake."""


class CacheDebugger:
    """Says what is known. `scheduler_names`: whose pods are to be in the queue. `synced`: set once all is known."""

    def __init__(
        self,
        runtime: Runtime,
        scheduler_names: Collection[str],
        synced: asyncio.Event,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._runtime = runtime
        self._scheduler_names = scheduler_names
        self._synced = synced
        self._sleep = sleep

    async def run(self, asked: asyncio.Event) -> None:
        """Answer whenever `asked` is set, until cancelled. Whoever asks meanwhile is answered once more."""
        while True:
            await asked.wait()
            asked.clear()
            try:
                await self.dump()
                await self.compare()
            except Exception:
                log.exception("what the scheduler knows could not be dumped")

    async def dump(self) -> None:
        """Write nodes, pods and the queue to the log."""
        await self._in_turns(dump(self._runtime.state, self._runtime.queue, self._runtime.waiting, self._runtime.now()))

    async def compare(self) -> None:
        """Write to the log what the API server has otherwise, and goes on having otherwise for a while."""
        if not self._synced.is_set():
            log.info("comparison: the cluster is not known yet")
            return
        try:
            found, nodes, pods = await self._differences()
            if found:
                await self._sleep(SETTLE_SECONDS)
                again, nodes, pods = await self._differences()
                found &= again
        except (ApiError, TransportError, ConfigError, UndecodableObject, msgspec.MsgspecError) as error:
            log.error("comparison: the API server could not be asked: %s", error)  # noqa: TRY400 - no bug of ours
            return
        await self._in_turns(_tell(found))
        log.info("comparison: %d nodes and %d pods of the API server: %d differences", nodes, pods, len(found))

    async def _differences(self) -> tuple[set[Difference], int, int]:
        """What is different now, and how many nodes and pods were listed."""
        nodes, pods = await list_all(self._runtime.client, LIVE_PODS)
        found: set[Difference] = set()
        await self._in_turns(
            differences(nodes, pods, self._runtime.state, self._runtime.queue, self._scheduler_names, found)
        )
        return found, len(nodes), len(pods)

    async def _in_turns(self, steps: Iterator[None]) -> None:
        """Take all steps, some milliseconds of them at a time, and none while a cycle is open and thinks things out."""
        while await self._runtime.intake.look(lambda: self._take_turn(steps)):  # noqa: ASYNC110 - others get their turn, no more
            await asyncio.sleep(0)

    def _take_turn(self, steps: Iterator[None]) -> bool:
        """Returns whether there may be more steps."""
        turn = Turn(self._runtime.now)
        return any(turn.is_over() for _ in steps)


def _tell(found: Collection[Difference]) -> Iterator[None]:
    for each in sorted(found):
        what = about_node(each.name) if each.kind == "node" else about_pod(each)
        log.warning("comparison: %s %s is %s", each.kind, what, LogField("problem", each.problem, each.problem))
        yield
