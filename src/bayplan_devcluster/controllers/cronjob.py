"""Starts the Jobs of CronJobs when they are due. Mirrors pkg/controller/cronjob/cronjob_controllerv2.go."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar

from lightkube.models.batch_v1 import CronJobStatus
from lightkube.models.core_v1 import ObjectReference
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.kinds import CRON_JOB, JOB
from bayplan.core.api.served import CronJob, Job, Metadata
from bayplan.core.api.times import whole_seconds
from bayplan.core.expansion import cron_schedule
from bayplan.core.expansion.cron_schedule import InvalidSchedule, Schedule
from bayplan.core.expansion.owner_references import (
    controller_of,
    controller_reference,
    controller_uids,
    reference_to,
)
from bayplan.running.client.errors import ApiError
from bayplan_devcluster.controllers.controller import Controller, ControllerContext
from bayplan_devcluster.controllers.informers import key_of
from bayplan_devcluster.controllers.job_status import finished_condition

SCHEDULED_TIMESTAMP = "batch.kubernetes.io/cronjob-scheduled-timestamp"
MANY_MISSED = 100
MARGIN = 0.1
"""Seconds after the due time at which the next sync runs, so that rounding never makes it too early."""


@dataclass(slots=True)
class _Sync:
    """The state of one sync of a CronJob."""

    cron_job: CronJob
    jobs: list[Job]
    now: datetime
    active: list[ObjectReference]
    last_schedule: datetime | None
    last_success: datetime | None


class CronJobController(Controller):
    """Starts one Job per due time. The Job's name contains the time, so no due time gets two Jobs."""

    name: ClassVar[str] = "cronjob-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cron_jobs = self.watch(CRON_JOB, self.enqueue)
        self._jobs = self.watch(JOB)
        self._by_controller = self._jobs.index(controller_uids)
        self._jobs.listen(self._job_changed)

    async def sync(self, key: str) -> None:
        """Record the state of one CronJob's Jobs, and start the next Job if it is due."""
        cron_job: CronJob | None = self._cron_jobs.get(key)
        if cron_job is None:
            return
        status = cron_job.status or CronJobStatus()
        current = _Sync(
            cron_job=cron_job,
            jobs=self._by_controller.get(cron_job.metadata.uid),
            now=self.clock.now(),
            active=list(status.active or ()),
            last_schedule=status.lastScheduleTime,
            last_success=status.lastSuccessfulTime,
        )
        self._note_ends(current)
        failure = None
        if cron_job.metadata.deletionTimestamp is None:
            try:
                await self._clean_up(current)
                await self._start_what_is_due(current)
            except ApiError as error:
                failure = error
        await self._report(current)
        if failure is not None:
            raise failure

    def _note_ends(self, current: _Sync) -> None:
        jobs = {job.metadata.uid: job for job in current.jobs}
        for reference in tuple(current.active):
            job = jobs.get(reference.uid or "")
            if job is None:
                message = f"Active job went missing: {reference.name}"
                self.recorder.normal(CRON_JOB, current.cron_job, "MissingJob", message)
                current.active.remove(reference)
            elif (final := finished_condition(job)) is not None:
                message = f"Saw completed job: {job.metadata.name}, condition: {final.type}"
                self.recorder.normal(CRON_JOB, current.cron_job, "SawCompletedJob", message)
                current.active.remove(reference)
        ends = (job.status.completionTime for job in current.jobs if job.status and job.status.completionTime)
        current.last_success = max((*ends, *filter(None, [current.last_success])), default=None)

    async def _clean_up(self, current: _Sync) -> None:
        """Delete the oldest ended Jobs beyond the history limits."""
        spec = current.cron_job.spec
        for type_, limit in (("Complete", spec.successfulJobsHistoryLimit), ("Failed", spec.failedJobsHistoryLimit)):
            ended = [job for job in current.jobs if (final := finished_condition(job)) and final.type == type_]
            surplus = len(ended) - (len(ended) if limit is None else limit)
            oldest_first = sorted(ended, key=_started)
            for job in oldest_first[: max(surplus, 0)]:
                if job.metadata.deletionTimestamp is None:
                    await self._delete(current, job)

    async def _start_what_is_due(self, current: _Sync) -> None:
        cron_job, spec = current.cron_job, current.cron_job.spec
        if spec.suspend:
            return
        try:
            schedule = cron_schedule.parse(spec.schedule, spec.timeZone)
        except InvalidSchedule as error:
            self.recorder.warning(CRON_JOB, cron_job, "UnparseableSchedule", f"unparseable schedule: {error}")
            return
        due = self._due(current, schedule)
        if due is not None and await self._may_start(current, due):
            await self._start(current, due)
        following = schedule.after(current.now)
        if following is not None:
            self.queue.add_after(key_of(cron_job), (following - current.now).total_seconds() + MARGIN)

    def _due(self, current: _Sync, schedule: Schedule) -> datetime | None:
        """The latest due time that isn't too late to start."""
        cron_job = current.cron_job
        since = current.last_schedule or cron_job.metadata.creationTimestamp or current.now
        deadline = cron_job.spec.startingDeadlineSeconds
        if deadline is not None:
            since = max(since, current.now - timedelta(seconds=deadline))
        due = schedule.latest(since, current.now)
        first = schedule.after(since) if due is not None else None
        second = schedule.after(first) if first is not None else None
        if first and second and (current.now - first) // (second - first) >= MANY_MISSED:
            message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self.recorder.warning(CRON_JOB, cron_job, "TooManyMissedTimes", message)
        return due

    async def _may_start(self, current: _Sync, due: datetime) -> bool:
        """Apply the concurrency policy."""
        cron_job = current.cron_job
        name = job_name(cron_job, due)
        if due == current.last_schedule or any(one.name == name for one in current.active):
            return False
        if cron_job.spec.concurrencyPolicy == "Forbid" and current.active:
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.recorder.normal(CRON_JOB, cron_job, "JobAlreadyActive", message)
            return False
        if cron_job.spec.concurrencyPolicy == "Replace":
            running = {one.uid for one in current.active}
            for job in current.jobs:
                if job.metadata.uid in running:
                    await self._delete(current, job)
        return True

    async def _start(self, current: _Sync, due: datetime) -> None:
        cron_job = current.cron_job
        wanted = new_job(cron_job, due)
        namespace = cron_job.metadata.namespace
        try:
            job: Any = await self.client.create(JOB, wanted, namespace)
        except ApiError as error:
            if error.status != 409:
                self.recorder.warning(CRON_JOB, cron_job, "FailedCreate", f"Error creating job: {error.message}")
                raise
            job = await self.client.get(JOB, wanted.metadata.name, namespace)
            owner = controller_of(job)
            if owner is None or owner.uid != cron_job.metadata.uid:
                return  # another Job has the name
        else:
            await self._jobs.observe([job])
            self.recorder.normal(CRON_JOB, cron_job, "SuccessfulCreate", f"Created job {job.metadata.name}")
        if finished_condition(job) is None:
            current.active.append(reference_to(JOB, job))
        current.last_schedule = due

    async def _delete(self, current: _Sync, job: Job) -> None:
        await self.delete(JOB, job, propagation_policy="Background")
        await self._jobs.observe_deletions([job])
        current.active = [one for one in current.active if one.uid != job.metadata.uid]
        self.recorder.normal(CRON_JOB, current.cron_job, "SuccessfulDelete", f"Deleted job {job.metadata.name}")

    async def _report(self, current: _Sync) -> None:
        status = CronJobStatus(
            active=current.active or None,
            lastScheduleTime=current.last_schedule,
            lastSuccessfulTime=current.last_success,
        )
        if status != (current.cron_job.status or CronJobStatus()):
            await self.write_status(self._cron_jobs, current.cron_job, status)

    def _job_changed(self, old: Job | None, new: Job | None) -> None:
        for job in filter(None, (old, new)):
            reference = controller_of(job)
            if reference is not None and reference.kind == CRON_JOB.kind:
                self.queue.add(f"{job.metadata.namespace}/{reference.name}")


def job_name(cron_job: CronJob, due: datetime) -> str:
    """The name of the Job for a due time: the CronJob's name and the minutes since 1970."""
    return f"{cron_job.metadata.name}-{int(due.timestamp()) // 60}"


def new_job(cron_job: CronJob, due: datetime) -> Job:
    """The Job for a due time."""
    template = cron_job.spec.jobTemplate
    metadata = template.metadata or ObjectMeta()
    zone = cron_schedule.parse("@hourly", cron_job.spec.timeZone).zone
    stamp = whole_seconds(due.astimezone(zone)).isoformat().replace("+00:00", "Z")
    return Job(
        metadata=Metadata(
            name=job_name(cron_job, due),
            labels=dict(metadata.labels or {}) or None,
            annotations={**(metadata.annotations or {}), SCHEDULED_TIMESTAMP: stamp},
            ownerReferences=[controller_reference(CRON_JOB, cron_job)],
        ),
        spec=template.spec,
    )


def _started(job: Job) -> tuple[bool, datetime, str]:
    start = job.status.startTime if job.status else None
    return (start is None, start or job.metadata.creationTimestamp, job.metadata.name)
