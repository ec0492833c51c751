"""The main path: pop a pod, attempt its unit, carry out the plan.

Start reading here. Mirrors ScheduleOne in pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

import asyncio

from bayplan.framework.giving_way import GiveWay
from bayplan.framework.status import PluginError
from bayplan.log_fields import about_pod
from bayplan.queue import QueuedPod
from bayplan.service.carry_out import PlanCarrier
from bayplan.service.driver import AttemptDriver
from bayplan.service.giving_way import Unfinished
from bayplan.service.runtime import Runtime
from bayplan.turns import Turn


class SchedulingLoop:
    """Schedules one unit after the other."""

    def __init__(self, runtime: Runtime, attempts: AttemptDriver, plans: PlanCarrier) -> None:
        self._runtime = runtime
        self._attempts = attempts
        self._plans = plans
        self._unfinished = Unfinished(runtime.slice)

    async def run(self) -> None:
        """Schedule until cancelled. Other tasks run at least every few milliseconds."""
        runtime, turn = self._runtime, Turn(self._runtime.now)
        while True:
            await turn.pause()
            runtime.work.clear()
            now = runtime.now()
            queued = self._unfinished.take(runtime.queue, now) or runtime.queue.pop(now)
            if queued is None:
                await self._wait_for_work()
                turn.restart()
            else:
                await self._schedule(queued, turn)

    async def _schedule(self, queued: QueuedPod, turn: Turn) -> None:
        """Attempt the unit of a pod, and carry the plan out. Whatever fails, every pod in flight is requeued."""
        taken = {queued.uid: queued}
        try:
            if self._plans.skip(queued):
                return
            unit = self._attempts.unit_of(queued)
            times = next(self._runtime.metrics.stopwatches) if unit.gang is None else None
            plan, state_may_differ = await self._attempts.plan(unit, taken, turn, times)
            self._runtime.metrics.attempted(plan, taken, times)
            if state_may_differ:
                plan = self._plans.current(plan, taken)
            self._plans.carry_out(plan, taken, times)
        except GiveWay:
            self._unfinished.add(queued, taken.values())
        except PluginError as error:
            error.record(self._runtime.failures, f"pod {about_pod(queued.pod)}")
            self._plans.fail(taken, str(error))
        except Exception as error:  # noqa: BLE001 - it is recorded, and the pod is requeued
            self._runtime.failures.record("scheduling a pod", error, f"pod {about_pod(queued.pod)}")
            self._plans.fail(taken, f"{type(error).__name__}: {error}")

    async def _wait_for_work(self) -> None:
        """Sleep until the queue may have changed, a backoff ends, or an attempt is repeated."""
        now = self._runtime.now()
        times = [each for each in (self._runtime.queue.next_wakeup(now), self._unfinished.due) if each is not None]
        wakeup = min(times, default=None)
        try:
            async with asyncio.timeout(None if wakeup is None else max(0.0, wakeup - now)):
                await self._runtime.work.wait()
        except TimeoutError:
            return
