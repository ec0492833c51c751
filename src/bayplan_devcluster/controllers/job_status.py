"""The status of a Job, and how finished pods get into its counters. Mirrors pkg/controller/job/tracking_utils.go."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec
from lightkube.models.batch_v1 import JobCondition, JobStatus, UncountedTerminatedPods

from bayplan.core.api.served import Job, Pod
from bayplan.core.expansion import pods


def is_finished(job: Job) -> bool:
    """Whether the Job has completed or failed."""
    return finished_condition(job) is not None


def finished_condition(job: Job) -> JobCondition | None:
    """The condition that ends the Job."""
    conditions = (job.status.conditions if job.status else None) or ()
    return next((one for one in conditions if one.type in {"Complete", "Failed"} and one.status == "True"), None)


def has_failed(pod: Pod) -> bool:
    """Whether a pod counts as failed: it failed, or it is terminating before it finished."""
    return pods.phase(pod) == "Failed" or (pods.is_terminating(pod) and not pods.is_finished(pod))


def new_condition(type_: str, reason: str, message: str, now: datetime, *, status: str = "True") -> JobCondition:
    """A condition that is true from now on."""
    return JobCondition(
        type=type_, status=status, reason=reason, message=message, lastProbeTime=now, lastTransitionTime=now
    )


def with_uncounted(status: JobStatus, ended: Iterable[Pod], *, indexed: bool) -> JobStatus:
    """The status with these pods as uncounted finished pods. Indexed Jobs count successes by index."""
    uncounted = status.uncountedTerminatedPods or UncountedTerminatedPods()
    succeeded, failed = list(uncounted.succeeded or ()), list(uncounted.failed or ())
    for pod in ended:
        uid = pod.metadata.uid
        if uid in succeeded or uid in failed:
            continue
        if pods.phase(pod) == "Succeeded":
            succeeded += [] if indexed else [uid]
        else:
            failed.append(uid)
    noted = UncountedTerminatedPods(succeeded=succeeded or None, failed=failed or None)
    return msgspec.structs.replace(status, uncountedTerminatedPods=noted)


def with_counted(status: JobStatus, held: set[str]) -> JobStatus:
    """The status with the uncounted pods counted that no longer have the finalizer."""
    noted = status.uncountedTerminatedPods or UncountedTerminatedPods()
    succeeded = [uid for uid in noted.succeeded or () if uid in held]
    failed = [uid for uid in noted.failed or () if uid in held]
    return msgspec.structs.replace(
        status,
        succeeded=(status.succeeded or 0) + len(noted.succeeded or ()) - len(succeeded) or None,
        failed=(status.failed or 0) + len(noted.failed or ()) - len(failed) or None,
        uncountedTerminatedPods=UncountedTerminatedPods(succeeded=succeeded or None, failed=failed or None),
    )
