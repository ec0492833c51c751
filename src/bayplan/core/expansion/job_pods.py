"""The pods of a Job: their creation, and the order of their deletion. Mirrors pkg/controller/job's pod handling."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from lightkube.models.core_v1 import Container, EnvVar, EnvVarSource, ObjectFieldSelector

from bayplan.core.api.kinds import JOB
from bayplan.core.api.served import Job, Pod
from bayplan.core.api.well_known_labels import COMPLETION_INDEX
from bayplan.core.expansion import pods
from bayplan.core.expansion.job_indexes import completion_index
from bayplan.core.expansion.scale_down import scale_down_order

TRACKING_FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX_VARIABLE = "JOB_COMPLETION_INDEX"


def is_tracked(pod: Pod) -> bool:
    """Whether the pod isn't counted yet."""
    return TRACKING_FINALIZER in (pod.metadata.finalizers or ())


def new_pod(job: Job, index: int | None) -> Pod:
    """A new pod of the Job; for an Indexed Job, the pod for completion `index`."""
    prefix = None if index is None else pods.name_prefix(f"{job.metadata.name}-{index}")
    pod = pods.from_template(job.spec.template, JOB, job, generate_name=prefix)
    metadata = pod.metadata
    metadata.finalizers = [*(metadata.finalizers or ()), TRACKING_FINALIZER]
    if index is not None:
        metadata.annotations = {**(metadata.annotations or {}), COMPLETION_INDEX: str(index)}
        metadata.labels = {**(metadata.labels or {}), COMPLETION_INDEX: str(index)}
        pod.spec = msgspec.structs.replace(
            pod.spec,
            hostname=f"{job.metadata.name}-{index}",
            containers=[_told_its_index(one) for one in pod.spec.containers],
            initContainers=[_told_its_index(one) for one in pod.spec.initContainers or ()] or None,
        )
    return pod


def removal_order(job: Job, active: Sequence[Pod], count: int) -> list[Pod]:
    """The pods to delete if there are `count` too many.

    For an Indexed Job, these are all pods whose index is out of range or belongs to another pod, and then the pods with
    the highest indexes.
    """
    if job.spec.completionMode != "Indexed":
        return scale_down_order(active, ())[: max(count, 0)]
    kept: dict[int, Pod] = {}
    surplus = []
    for pod in reversed(scale_down_order(active, ())):
        index = completion_index(pod)
        if index is None or index >= (job.spec.completions or 0) or index in kept:
            surplus.append(pod)
        else:
            kept[index] = pod
    highest_first = [kept[index] for index in sorted(kept, reverse=True)]
    return [*surplus, *highest_first[: max(count - len(surplus), 0)]]


def _told_its_index(container: Container) -> Container:
    if any(variable.name == INDEX_VARIABLE for variable in container.env or ()):
        return container
    source = EnvVarSource(fieldRef=ObjectFieldSelector(fieldPath=f"metadata.labels['{COMPLETION_INDEX}']"))
    return msgspec.structs.replace(
        container, env=[*(container.env or ()), EnvVar(name=INDEX_VARIABLE, valueFrom=source)]
    )
