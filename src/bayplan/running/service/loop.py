"""The main path: pop a pod, attempt its unit, carry out the plan.

Start reading here. Mirrors ScheduleOne in pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

import asyncio

from bayplan.core.executor.attempts import AttemptDriver
from bayplan.core.executor.executor import Executor
from bayplan.core.executor.giving_way import TimeSlice, Unfinished
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.giving_way import GiveWay, MustWait
from bayplan.core.queue import QueuedPod
from bayplan.foundations.turns import Turn


class SchedulingLoop:
    """Schedules one unit after the other."""

    def __init__(
        self,
        runtime: Runtime,
        attempts: AttemptDriver,
        executor: Executor,
        work: asyncio.Event,
        time_slice: TimeSlice,
    ) -> None:
        """`work`: set whenever the queue may have a pod to schedule. `time_slice`: the one of the attempts' plugins."""
        self._queue = runtime.queue
        self._now = runtime.ports.now
        self._clock = runtime.ports.measures.now
        self._attempts = attempts
        self._executor = executor
        self._work = work
        time_slice.others = lambda: self._queue.any_active
        self._unfinished = Unfinished(time_slice)
        attempts.unfinished = self._unfinished.above

    async def run(self) -> None:
        """Schedule until cancelled. Other tasks run at least every few milliseconds."""
        turn = Turn(self._clock)
        while True:
            await turn.pause()
            self._work.clear()
            now = self._now()
            queued = self._unfinished.take(self._queue, now) or self._queue.pop(now)
            if queued is None:
                await self._wait_for_work()
                turn.restart()
            else:
                await self._schedule(queued, turn)

    async def _schedule(self, queued: QueuedPod, turn: Turn) -> None:
        """Attempt the unit of a pod, and carry the plan out; or let other units go first, if that takes long."""
        try:
            await self._executor.schedule(queued, self._attempts, turn.pause)
        except GiveWay as why:
            self._unfinished.add(queued, self._queue.unit.values(), waits=isinstance(why, MustWait))

    async def _wait_for_work(self) -> None:
        """Sleep until the queue may have changed, a backoff ends, or an attempt is repeated."""
        now = self._now()
        times = [each for each in (self._queue.next_wakeup(now), self._unfinished.due) if each is not None]
        wakeup = min(times, default=None)
        try:
            async with asyncio.timeout(None if wakeup is None else max(0.0, wakeup - now)):
                await self._work.wait()
        except TimeoutError:
            return
