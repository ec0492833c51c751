"""Dumps the scheduler's state to the log and compares it with the API server, on request.

It works a few milliseconds at a time, and never during a what-if. A difference is reported if it still exists two
seconds later. Mirrors pkg/scheduler/backend/cache/debugger, which SIGUSR2 triggers too.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterator

import msgspec

from bayplan.core.api.objects import UndecodableObject
from bayplan.core.executor.runtime import Runtime
from bayplan.foundations.log_fields import LogField, about_node, about_pod
from bayplan.foundations.turns import Turn
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, ConfigError, TransportError
from bayplan.running.service.debugging.comparison import ObjectDifference, differences, list_all
from bayplan.running.service.debugging.dump import dump
from bayplan.running.service.informers import LIVE_PODS

log = logging.getLogger(__name__)

SETTLE_SECONDS = 2.0
"""After this time the informers have received what a list returned. Remaining differences are errors."""


class CacheDebugger:
    """Dumps and compares. `client` lists the cluster. `synced`: set after the initial lists."""

    def __init__(
        self,
        runtime: Runtime,
        client: Client,
        synced: asyncio.Event,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._runtime = runtime
        self._client = client
        self._synced = synced
        self._sleep = sleep

    async def run(self, requested: asyncio.Event) -> None:
        """Dump and compare whenever `requested` is set, until cancelled. Requests during a dump cause one more."""
        while True:
            await requested.wait()
            requested.clear()
            try:
                await self.dump()
                await self.compare()
            except Exception:
                log.exception("the state could not be dumped")

    async def dump(self) -> None:
        """Log nodes, pods and the queue."""
        await self._run_in_turns(
            dump(self._runtime.state, self._runtime.queue, self._runtime.waiting, self._runtime.ports.now())
        )

    async def compare(self) -> None:
        """Log lasting differences from the API server."""
        if not self._synced.is_set():
            log.info("comparison: the initial lists have not been received yet")
            return
        try:
            found, nodes, pods = await self._differences()
            if found:
                await self._sleep(SETTLE_SECONDS)
                again, nodes, pods = await self._differences()
                found &= again
        except (ApiError, TransportError, ConfigError, UndecodableObject, msgspec.MsgspecError) as error:
            log.error("comparison: cannot list from the API server: %s", error)  # noqa: TRY400 - not a bug
            return
        await self._run_in_turns(_log(found))
        log.info("comparison: %d nodes and %d pods of the API server: %d differences", nodes, pods, len(found))

    async def _differences(self) -> tuple[set[ObjectDifference], int, int]:
        """The current differences, and the numbers of listed nodes and pods."""
        nodes, pods = await list_all(self._client, LIVE_PODS)
        found: set[ObjectDifference] = set()
        await self._run_in_turns(
            differences(nodes, pods, self._runtime.state, self._runtime.queue, self._runtime.profiles.keys(), found)
        )
        return found, len(nodes), len(pods)

    async def _run_in_turns(self, steps: Iterator[None]) -> None:
        """Run all steps, a few milliseconds at a time, but none while the state is changed for a what-if."""
        while await self._runtime.intake.look(lambda: self._take_turn(steps)):  # noqa: ASYNC110 - lets other tasks run
            await asyncio.sleep(0)

    def _take_turn(self, steps: Iterator[None]) -> bool:
        """Run steps until the turn is over. Returns whether there may be more."""
        turn = Turn(self._runtime.ports.now)
        return any(turn.is_over() for _ in steps)


def _log(found: Collection[ObjectDifference]) -> Iterator[None]:
    for each in sorted(found):
        what = about_node(each.name) if each.kind == "node" else about_pod(each)
        log.warning("comparison: %s %s is %s", each.kind, what, LogField("problem", each.problem, each.problem))
        yield
