"""Runs Jobs to completion. Mirrors pkg/controller/job/job_controller.go.

Every finished pod is counted exactly once, even if it is deleted. It has a finalizer until its uid is in
`status.uncountedTerminatedPods`. Then the finalizer is removed, and after that the uid moves into the counters. Pod
failure policies, success policies and backoff limits per index aren't implemented.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import ClassVar

import msgspec
from lightkube.models.batch_v1 import JobCondition, JobStatus, UncountedTerminatedPods

from bayplan.core.api.kinds import JOB, POD, Kind
from bayplan.core.api.served import Job, Pod
from bayplan.core.api.times import whole_seconds
from bayplan.core.expansion import job_indexes, pods
from bayplan.core.expansion.job_pods import TRACKING_FINALIZER, is_tracked, new_pod, removal_order
from bayplan.core.expansion.owner_references import controller_of
from bayplan.running.client.client import PatchType
from bayplan_devcluster.controllers.controller import ControllerContext, Ignored
from bayplan_devcluster.controllers.informers import key_of
from bayplan_devcluster.controllers.job_status import (
    has_failed,
    is_finished,
    new_condition,
    with_counted,
    with_uncounted,
)
from bayplan_devcluster.controllers.owners import OwnerController
from bayplan_devcluster.controllers.pod_control import CONCURRENT, PodControl, slow_start

FIRST_BACKOFF = 10.0
"""Seconds without new pods after a failed one; doubles with each further failure."""
LAST_BACKOFF = 600.0
MOST_PODS = 500
"""The maximum number of pods created, deleted or counted in one sync."""


@dataclass(slots=True)
class _Sync:
    """The state of one sync of a Job."""

    job: Job
    pods: list[Pod]
    now: datetime
    active: list[Pod]
    succeeded: int
    failed: int
    indexes: set[int] = field(default_factory=set)
    """Completed indexes of an Indexed Job."""
    outcome: JobCondition | None = None
    """FailureTarget or SuccessCriteriaMet, once the Job's outcome is known."""
    conditions: list[JobCondition] = field(default_factory=list)
    start: datetime | None = None


class JobController(OwnerController):
    """Creates a Job's pods, counts finished pods, and decides the Job's outcome."""

    name: ClassVar[str] = "job-controller"
    kind: ClassVar[Kind] = JOB

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._control = PodControl(self.client, self._dependents, self.recorder, JOB)
        self._tracked_by_job = self._dependents.index(_tracking_job)

    async def sync(self, key: str) -> None:
        """Sync one Job."""
        job: Job | None = self._owners.get(key)
        if job is None:
            await self._release(self._tracked_by_job.get(key))
            return
        if is_finished(job):
            await self._release(self.owned(job))
            return
        current = await self._look(job)
        self._judge(current)
        if current.outcome is not None:
            await self._delete(current.job, current.active)
        elif job.metadata.deletionTimestamp is None:
            await self._manage(current)
            if self._is_complete(current):
                current.outcome = new_condition("SuccessCriteriaMet", "CompletionsReached", _REACHED, current.now)
            else:
                self._note_suspension(current)
        await self._count(current)

    async def _look(self, job: Job) -> _Sync:
        claimed = await self.claim(job)
        status = job.status or JobStatus()
        uncounted = status.uncountedTerminatedPods or UncountedTerminatedPods()
        known = {*(uncounted.succeeded or ()), *(uncounted.failed or ())}
        new = [pod for pod in claimed if is_tracked(pod) and pod.metadata.uid not in known]
        succeeded = (status.succeeded or 0) + len(uncounted.succeeded or ())
        current = _Sync(
            job=job,
            pods=claimed,
            now=whole_seconds(self.clock.now()),
            active=[pod for pod in claimed if pods.is_active(pod)],
            succeeded=succeeded + sum(pods.phase(pod) == "Succeeded" for pod in new),
            failed=(status.failed or 0) + len(uncounted.failed or ()) + sum(map(has_failed, new)),
            conditions=list(status.conditions or ()),
            start=status.startTime,
        )
        if is_indexed(job):
            current.indexes = job_indexes.parse(status.completedIndexes) | job_indexes.succeeded(job, claimed)
            current.succeeded = len(current.indexes)
        if current.start is None and not job.spec.suspend:
            current.start = current.now
        return current

    def _judge(self, current: _Sync) -> None:
        """Determine the Job's outcome, if it is known or the Job fails now."""
        job, limit = current.job, current.job.spec.backoffLimit
        given = next((one for one in current.conditions if one.type in _VERDICTS and one.status == "True"), None)
        deadline = job.spec.activeDeadlineSeconds
        if given is not None:
            current.outcome = given
        elif limit is not None and (current.failed > limit or _restarts_exceed(job, current.pods, limit)):
            text = "Job has reached the specified backoff limit"
            current.outcome = new_condition("FailureTarget", "BackoffLimitExceeded", text, current.now)
        elif deadline is not None and current.start is not None and not job.spec.suspend:
            left = (current.start + timedelta(seconds=deadline) - current.now).total_seconds()
            if left <= 0:
                text = "Job was active longer than specified deadline"
                current.outcome = new_condition("FailureTarget", "DeadlineExceeded", text, current.now)
            else:
                self.queue.add_after(key_of(job), left)

    async def _manage(self, current: _Sync) -> None:
        """Create or delete pods until the desired number is active."""
        job = current.job
        want = wanted_active(job, len(current.active), current.succeeded)
        surplus = removal_order(job, current.active, len(current.active) - want)
        if surplus:
            await self._release(surplus)
            await self._delete(job, surplus)
        elif len(current.active) < want:
            wait = _backoff(current)
            if wait > 0:
                self.queue.add_after(key_of(job), wait)
            else:
                await self._create(current, min(want - len(current.active), MOST_PODS))
        current.active = [pod for pod in self.owned(job) if pods.is_active(pod)]

    async def _create(self, current: _Sync, count: int) -> None:
        job = current.job
        indexes: Sequence[int | None] = [None] * count
        if is_indexed(job):
            indexes = job_indexes.pending(job, current.active, current.indexes, count)
        failure = await self._control.create(job, [new_pod(job, index) for index in indexes])
        if failure is not None:
            raise failure

    async def _delete(self, job: Job, surplus: Sequence[Pod]) -> None:
        failure = await self._control.delete(job, surplus)
        if failure is not None:
            raise failure

    def _is_complete(self, current: _Sync) -> bool:
        completions = current.job.spec.completions
        reached = current.succeeded > 0 if completions is None else current.succeeded >= completions
        return reached and not current.active

    def _note_suspension(self, current: _Sync) -> None:
        suspended = next((one for one in current.conditions if one.type == "Suspended"), None)
        wanted = "True" if current.job.spec.suspend else "False"
        if (suspended.status if suspended is not None else "False") == wanted:
            return
        others = [one for one in current.conditions if one.type != "Suspended"]
        if current.job.spec.suspend:
            condition = new_condition("Suspended", "JobSuspended", "Job suspended", current.now)
            current.start = None
            self.recorder.normal(JOB, current.job, "Suspended", "Job suspended")
        else:
            condition = new_condition("Suspended", "JobResumed", "Job resumed", current.now, status="False")
            current.start = current.now
            self.recorder.normal(JOB, current.job, "Resumed", "Job resumed")
        current.conditions = [*others, condition]

    async def _count(self, current: _Sync) -> None:
        """Write the status with the finished pods, remove their finalizers, and write the status with them counted."""
        job = current.job
        latest = self.owned(job)
        if is_indexed(job):
            current.indexes |= job_indexes.succeeded(job, latest)
        failing = current.outcome is not None and current.outcome.type == "FailureTarget"
        ended = [pod for pod in latest if is_tracked(pod) and (pods.is_finished(pod) or failing or has_failed(pod))]
        ended = ended[:MOST_PODS]
        status = self._status(current, latest)
        status = with_uncounted(status, ended, indexed=is_indexed(job))
        job = await self.write_status(self._owners, job, status)
        await self._release(ended)
        held = {pod.metadata.uid for pod in self.owned(job) if is_tracked(pod)}
        status = with_counted(job.status or status, held)
        status = self._with_outcome(current, status)
        if await self.write_status(self._owners, job, status) is not job and is_finished(
            msgspec.structs.replace(job, status=status)
        ):
            self._announce(job, status)

    def _status(self, current: _Sync, latest: Iterable[Pod]) -> JobStatus:
        known = current.job.status or JobStatus()
        active = [pod for pod in latest if pods.is_active(pod)]
        conditions = current.conditions
        if current.outcome is not None and not any(one.type == current.outcome.type for one in conditions):
            conditions = [*conditions, current.outcome]
        indexed = {"succeeded": len(current.indexes) or None, "completedIndexes": job_indexes.text(current.indexes)}
        return msgspec.structs.replace(
            known,
            active=len(active) or None,
            ready=sum(map(pods.is_ready, active)),
            terminating=sum(pods.is_terminating(pod) and not pods.is_finished(pod) for pod in latest),
            startTime=current.start,
            conditions=conditions or None,
            uncountedTerminatedPods=known.uncountedTerminatedPods or UncountedTerminatedPods(),
            **(indexed if is_indexed(current.job) else {}),
        )

    def _with_outcome(self, current: _Sync, status: JobStatus) -> JobStatus:
        """The status of the finished Job, if its outcome is known and all pods have terminated and been counted."""
        uncounted = status.uncountedTerminatedPods or UncountedTerminatedPods()
        if current.outcome is None or uncounted.succeeded or uncounted.failed or status.terminating or status.active:
            return status
        succeeded = current.outcome.type == "SuccessCriteriaMet"
        final = new_condition(
            "Complete" if succeeded else "Failed",
            current.outcome.reason or "",
            current.outcome.message or "",
            current.now,
        )
        return msgspec.structs.replace(
            status, conditions=[*(status.conditions or ()), final], completionTime=current.now if succeeded else None
        )

    def _announce(self, job: Job, status: JobStatus) -> None:
        final = (status.conditions or [])[-1]
        if final.type == "Complete":
            self.recorder.normal(JOB, job, "Completed", "Job completed")
        else:
            self.recorder.warning(JOB, job, final.reason or "Failed", final.message or "")

    async def _release(self, held: Iterable[Pod]) -> None:
        """Remove the tracking finalizer from these pods."""

        async def release(pod: Pod) -> Pod | None:
            metadata = pod.metadata
            left = [one for one in metadata.finalizers or () if one != TRACKING_FINALIZER]
            version = {"uid": metadata.uid, "resourceVersion": metadata.resourceVersion}
            patch = {"metadata": {**version, "finalizers": left or None}}
            with Ignored(404):
                released: Pod = await self.client.patch(
                    POD, metadata.name, patch, metadata.namespace, type=PatchType.MERGE
                )
                return released
            return None

        released, failure = await slow_start(release, [pod for pod in held if is_tracked(pod)], first=CONCURRENT)
        await self._dependents.observe([pod for pod in released if pod is not None])
        if failure is not None:
            raise failure


def wanted_active(job: Job, active: int, succeeded: int) -> int:
    """The desired number of active pods."""
    if job.spec.suspend:
        return 0
    parallelism = 1 if job.spec.parallelism is None else job.spec.parallelism
    if job.spec.completions is None:
        return active if succeeded > 0 else int(parallelism)
    return max(min(int(job.spec.completions) - succeeded, int(parallelism)), 0)


def _tracking_job(pod: Pod) -> tuple[str, ...]:
    reference = controller_of(pod) if is_tracked(pod) else None
    if reference is None or reference.kind != JOB.kind:
        return ()
    return (f"{pod.metadata.namespace}/{reference.name}",)


def is_indexed(job: Job) -> bool:
    """Whether the Job is an Indexed Job."""
    return bool(job.spec.completionMode == "Indexed")


_VERDICTS = frozenset({"FailureTarget", "SuccessCriteriaMet"})
_REACHED = "Reached expected number of succeeded pods"


def _restarts_exceed(job: Job, owned: Iterable[Pod], limit: int) -> bool:
    """Whether the container restarts exceed the backoff limit. Only with restartPolicy OnFailure."""
    if job.spec.template.spec.restartPolicy != "OnFailure":
        return False
    running = (pod.status for pod in owned if pod.status is not None and not pods.is_finished(pod))
    restarts = sum(
        one.restartCount
        for status in running
        for one in (*(status.initContainerStatuses or ()), *(status.containerStatuses or ()))
    )
    return bool(restarts >= max(limit, 1))


def _backoff(current: _Sync) -> float:
    """Seconds until the Job may create its next pod, after the failures since the last success."""
    ends = sorted(
        (_ended_at(pod, current.now), pods.phase(pod) == "Succeeded") for pod in current.pods if pods.is_finished(pod)
    )
    failures: list[datetime] = []
    for moment, succeeded in ends:
        failures = [] if succeeded else [*failures, moment]
    if not failures:
        return 0.0
    delay = min(FIRST_BACKOFF * 2.0 ** min(len(failures) - 1, 30), LAST_BACKOFF)
    return (failures[-1] + timedelta(seconds=delay) - current.now).total_seconds()


def _ended_at(pod: Pod, now: datetime) -> datetime:
    states = [one.state for one in (pod.status.containerStatuses if pod.status else None) or () if one.state]
    ends = [state.terminated.finishedAt for state in states if state.terminated and state.terminated.finishedAt]
    return max(ends, default=pod.metadata.deletionTimestamp or now)
