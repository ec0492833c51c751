"""Deletes finished Jobs after their time to live. Mirrors pkg/controller/ttlafterfinished."""

from __future__ import annotations

from datetime import timedelta
from typing import ClassVar

from bayplan.core.api.kinds import JOB
from bayplan.core.api.served import Job
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.job_status import finished_condition


class TtlAfterFinishedController(Controller):
    """Implements `ttlSecondsAfterFinished`."""

    name: ClassVar[str] = "ttl-after-finished-controller"
    workers: ClassVar[int] = 1

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._jobs = self.watch(JOB, self.enqueue)

    async def sync(self, key: str) -> None:
        """Sync one Job."""
        job: Job | None = self._jobs.get(key)
        final = finished_condition(job) if job is not None else None
        if job is None or final is None or job.spec.ttlSecondsAfterFinished is None:
            return
        metadata = job.metadata
        if metadata.deletionTimestamp is not None or final.lastTransitionTime is None:
            return
        due = final.lastTransitionTime + timedelta(seconds=job.spec.ttlSecondsAfterFinished)
        left = (due - self.clock.now()).total_seconds()
        if left > 0:
            self.queue.add_after(key, left)
            return
        await self.delete(JOB, job, propagation_policy="Foreground")
