"""The status of a Deployment, from its ReplicaSets. Mirrors pkg/controller/deployment: sync.go and progress.go."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

import msgspec
from lightkube.models.apps_v1 import DeploymentCondition, DeploymentStatus

from bayplan.core.api.served import Deployment, ReplicaSet
from bayplan.core.expansion import rollout

NO_DEADLINE = 2**31 - 1
"""The progressDeadlineSeconds that means no deadline."""


def calculate_status(
    deployment: Deployment, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """The status with new counts and availability. Other conditions stay unchanged."""
    every = [*old, *([new] if new is not None else [])]
    available = rollout.available(*every)
    known = deployment.status or DeploymentStatus()
    status = DeploymentStatus(
        observedGeneration=deployment.metadata.generation,
        replicas=_total(every, "replicas") or None,
        updatedReplicas=_total(every[len(old) :], "replicas") or None,
        readyReplicas=_total(every, "readyReplicas") or None,
        availableReplicas=available or None,
        unavailableReplicas=max(rollout.size(*every) - available, 0) or None,
        terminatingReplicas=_total(every, "terminatingReplicas"),
        collisionCount=known.collisionCount,
        conditions=known.conditions,
    )
    if available >= rollout.wanted(deployment) - rollout.max_unavailable(deployment):
        reason, verdict, message = "MinimumReplicasAvailable", "True", "Deployment has minimum availability."
    else:
        reason, verdict, message = (
            "MinimumReplicasUnavailable",
            "False",
            "Deployment does not have minimum availability.",
        )
    return with_condition(status, _new("Available", verdict, reason, message, now))


def with_progress(
    deployment: Deployment, status: DeploymentStatus, new: ReplicaSet | None, old: Sequence[ReplicaSet], now: datetime
) -> DeploymentStatus:
    """The status with the state of the rollout: progressing, complete, timed out, or failing to create pods."""
    current = condition(status, "Progressing")
    if not has_deadline(deployment):
        status = _without(status, "Progressing")
    elif not _was_complete(status, current):
        subject = f'ReplicaSet "{new.metadata.name}"' if new else f'Deployment "{deployment.metadata.name}"'
        if is_complete(deployment, status):
            done = _new("Progressing", "True", "NewReplicaSetAvailable", f"{subject} has successfully progressed.", now)
            status = with_condition(status, done)
        elif _progressed(deployment.status or DeploymentStatus(), status):
            going = _new("Progressing", "True", "ReplicaSetUpdated", f"{subject} is progressing.", now)
            if current is not None and current.status == "True":
                going.lastTransitionTime = current.lastTransitionTime
            status = with_condition(_without(status, "Progressing"), going)
        elif _timed_out(deployment, current, now):
            late = _new(
                "Progressing", "False", "ProgressDeadlineExceeded", f"{subject} has timed out progressing.", now
            )
            status = with_condition(status, late)
    return _with_failure(status, [*([new] if new else []), *old])


def seconds_until_timeout(deployment: Deployment, status: DeploymentStatus, now: datetime) -> float | None:
    """The time of the next progress check; None if none is needed."""
    current = condition(status, "Progressing")
    if not has_deadline(deployment) or current is None or current.lastUpdateTime is None:
        return None
    if is_complete(deployment, status) or current.reason == "ProgressDeadlineExceeded":
        return None
    due = current.lastUpdateTime + timedelta(seconds=deployment.spec.progressDeadlineSeconds or 0)
    return max((due - now).total_seconds(), 0) + 1


def is_complete(deployment: Deployment, status: DeploymentStatus) -> bool:
    """Whether all replicas are updated and available, without old ones."""
    counts = {status.updatedReplicas or 0, status.replicas or 0, status.availableReplicas or 0}
    return counts == {rollout.wanted(deployment)} and (status.observedGeneration or 0) >= (
        deployment.metadata.generation or 0
    )


def has_deadline(deployment: Deployment) -> bool:
    """Whether the rollout has a progress deadline."""
    return deployment.spec.progressDeadlineSeconds not in {None, NO_DEADLINE}


def condition(status: DeploymentStatus | None, type_: str | None) -> DeploymentCondition | None:
    """The condition of that type."""
    conditions = (status.conditions if status else None) or ()
    return next((one for one in conditions if one.type == type_), None)


def with_condition(status: DeploymentStatus, wanted: DeploymentCondition) -> DeploymentStatus:
    """The status with the condition. An existing one with the same status and reason stays unchanged."""
    current = condition(status, wanted.type)
    if current is not None and (current.status, current.reason) == (wanted.status, wanted.reason):
        return status
    if current is not None and current.status == wanted.status:
        wanted = msgspec.structs.replace(wanted, lastTransitionTime=current.lastTransitionTime)
    others = _without(status, wanted.type).conditions or []
    return msgspec.structs.replace(status, conditions=[*others, wanted])


def pause_condition(deployment: Deployment, now: datetime) -> DeploymentCondition | None:
    """The condition to set when a Deployment with a progress deadline was paused or resumed."""
    current = condition(deployment.status, "Progressing")
    if not has_deadline(deployment) or (current is not None and current.reason == "ProgressDeadlineExceeded"):
        return None
    known = current is not None and current.reason == "DeploymentPaused"
    if deployment.spec.paused and not known:
        return _new("Progressing", "Unknown", "DeploymentPaused", "Deployment is paused", now)
    if not deployment.spec.paused and known:
        return _new("Progressing", "Unknown", "DeploymentResumed", "Deployment is resumed", now)
    return None


def created_condition(name: str, now: datetime) -> DeploymentCondition:
    """The condition after the creation of a ReplicaSet."""
    return _new("Progressing", "True", "NewReplicaSetCreated", f'Created new replica set "{name}"', now)


def _was_complete(status: DeploymentStatus, progressing: DeploymentCondition | None) -> bool:
    return (
        progressing is not None
        and progressing.reason == "NewReplicaSetAvailable"
        and (status.replicas or 0) == (status.updatedReplicas or 0)
    )


def _progressed(before: DeploymentStatus, after: DeploymentStatus) -> bool:
    def old_pods(status: DeploymentStatus) -> int:
        return (status.replicas or 0) - (status.updatedReplicas or 0)

    return (
        (after.updatedReplicas or 0) > (before.updatedReplicas or 0)
        or old_pods(after) < old_pods(before)
        or (after.readyReplicas or 0) > (before.readyReplicas or 0)
        or (after.availableReplicas or 0) > (before.availableReplicas or 0)
    )


def _timed_out(deployment: Deployment, progressing: DeploymentCondition | None, now: datetime) -> bool:
    if progressing is None or progressing.reason == "NewReplicaSetAvailable" or progressing.lastUpdateTime is None:
        return False
    deadline = timedelta(seconds=deployment.spec.progressDeadlineSeconds or 0)
    return progressing.reason == "ProgressDeadlineExceeded" or progressing.lastUpdateTime + deadline < now


def _with_failure(status: DeploymentStatus, sets: Sequence[ReplicaSet]) -> DeploymentStatus:
    failures = (
        one for each in sets for one in (each.status and each.status.conditions) or () if one.type == "ReplicaFailure"
    )
    failure = next(failures, None)
    if failure is None:
        return _without(status, "ReplicaFailure")
    return with_condition(
        status,
        DeploymentCondition(
            type=failure.type,
            status=failure.status,
            reason=failure.reason,
            message=failure.message,
            lastTransitionTime=failure.lastTransitionTime,
            lastUpdateTime=failure.lastTransitionTime,
        ),
    )


def _without(status: DeploymentStatus, type_: str | None) -> DeploymentStatus:
    others = [one for one in status.conditions or () if one.type != type_]
    return msgspec.structs.replace(status, conditions=others or None)


def _new(type_: str, status: str, reason: str, message: str, now: datetime) -> DeploymentCondition:
    return DeploymentCondition(
        type=type_, status=status, reason=reason, message=message, lastUpdateTime=now, lastTransitionTime=now
    )


def _total(sets: Sequence[ReplicaSet], field: str) -> int:
    return sum((getattr(one.status, field) or 0) if one.status else 0 for one in sets)
