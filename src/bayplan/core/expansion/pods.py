"""Questions about pods, and pods from templates.

Mirrors pkg/api/v1/pod/util.go and pkg/controller/controller_utils.go.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from lightkube.models.core_v1 import PodCondition, PodSpec, PodTemplateSpec
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.kinds import Kind
from bayplan.core.api.served import Metadata, Pod
from bayplan.core.expansion.owner_references import controller_reference

REVISION_HASH = "controller-revision-hash"
"""The label of pods that names their revision."""
LONGEST_PREFIX = 253
"""The maximum length of a pod's name."""


def phase(pod: Pod) -> str:
    """The pod's phase; Pending if it has none."""
    return (pod.status.phase if pod.status else None) or "Pending"


def is_finished(pod: Pod) -> bool:
    """Whether the pod has succeeded or failed."""
    return phase(pod) in {"Succeeded", "Failed"}


def is_terminating(pod: Pod) -> bool:
    """Whether the pod is being deleted."""
    return pod.metadata is not None and pod.metadata.deletionTimestamp is not None


def is_active(pod: Pod) -> bool:
    """Whether the pod runs or may still run."""
    return not is_finished(pod) and not is_terminating(pod)


def condition(pod: Pod, type_: str) -> PodCondition | None:
    """The pod's condition of that type."""
    conditions = (pod.status.conditions if pod.status else None) or ()
    return next((one for one in conditions if one.type == type_), None)


def is_ready(pod: Pod) -> bool:
    """Whether the pod is ready."""
    ready = condition(pod, "Ready")
    return ready is not None and ready.status == "True"


def ready_since(pod: Pod) -> datetime | None:
    """Since when the pod has been ready; None if it is not."""
    ready = condition(pod, "Ready")
    return ready.lastTransitionTime if ready is not None and ready.status == "True" else None


def is_available(pod: Pod, min_ready_seconds: int, now: datetime) -> bool:
    """Whether the pod has been ready for that long."""
    if not is_ready(pod):
        return False
    since = ready_since(pod)
    return not min_ready_seconds or (since is not None and since + timedelta(seconds=min_ready_seconds) <= now)


def seconds_until_available(owned: Iterable[Pod], min_ready_seconds: int, now: datetime) -> float | None:
    """Seconds until the next of the ready pods becomes available; None if all of them are.

    Mirrors FindMinNextPodAvailabilityCheck.
    """
    ready = [since for pod in owned if is_active(pod) and (since := ready_since(pod)) is not None]
    waits = [(since - now).total_seconds() + min_ready_seconds for since in ready]
    return min((wait for wait in waits if wait > 0), default=None)


def from_template(template: PodTemplateSpec, owner_kind: Kind, owner: Any, *, generate_name: str | None = None) -> Pod:
    """A new pod with `owner` as its managing controller. The server completes its name."""
    metadata = template.metadata or ObjectMeta()
    return Pod(
        metadata=Metadata(
            generateName=generate_name or name_prefix(owner.metadata.name),
            labels=dict(metadata.labels or {}),
            annotations=dict(metadata.annotations or {}) or None,
            finalizers=list(metadata.finalizers or ()) or None,
            ownerReferences=[controller_reference(owner_kind, owner)],
        ),
        spec=copy.copy(template.spec or PodSpec(containers=[])),
    )


def name_prefix(owner: str) -> str:
    """The prefix of the names of an owner's pods."""
    return f"{owner}-" if len(owner) < LONGEST_PREFIX else owner
