"""The types of objects as an API server returns them.

In the models, metadata and spec are optional, as clients may omit them. A server always sets the fields that are
declared again here. Objects from a client have the models' types; these subclasses say what holds for them.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from lightkube.models import apps_v1, batch_v1, coordination_v1, core_v1, meta_v1, policy_v1, resource_v1, storage_v1

_SET: Any = None
"""The default of a field that the server sets."""


class Metadata(meta_v1.ObjectMeta):
    """The metadata of an object of the server. The namespace of a cluster-scoped object is None."""

    name: str = _SET
    namespace: str = _SET
    uid: str = _SET
    resourceVersion: str = _SET
    creationTimestamp: datetime = _SET


class Object(Protocol):
    """An object of any kind."""

    metadata: Metadata


class Workload(Object, Protocol):
    """An object that owns pods: its selector and template are in its spec."""

    spec: Any
    status: Any


class PodTemplate(core_v1.PodTemplateSpec):
    """The pod template of a workload."""

    spec: core_v1.PodSpec = _SET


class Pod(core_v1.Pod):
    """A pod."""

    metadata: Metadata = _SET
    spec: core_v1.PodSpec = _SET


class Node(core_v1.Node):
    """A node."""

    metadata: Metadata = _SET


class Namespace(core_v1.Namespace):
    """A namespace."""

    metadata: Metadata = _SET


class Lease(coordination_v1.Lease):
    """A lease."""

    metadata: Metadata = _SET
    spec: coordination_v1.LeaseSpec = _SET


class DeploymentSpec(apps_v1.DeploymentSpec):
    """The spec of a Deployment."""

    template: PodTemplate = _SET


class Deployment(apps_v1.Deployment):
    """A Deployment."""

    metadata: Metadata = _SET
    spec: DeploymentSpec = _SET


class ReplicaSetSpec(apps_v1.ReplicaSetSpec):
    """The spec of a ReplicaSet."""

    template: PodTemplate = _SET


class ReplicaSet(apps_v1.ReplicaSet):
    """A ReplicaSet."""

    metadata: Metadata = _SET
    spec: ReplicaSetSpec = _SET


class StatefulSetSpec(apps_v1.StatefulSetSpec):
    """The spec of a StatefulSet."""

    template: PodTemplate = _SET
    volumeClaimTemplates: list[PersistentVolumeClaim] | None = None  # type: ignore[assignment] # lists are invariant


class StatefulSet(apps_v1.StatefulSet):
    """A StatefulSet."""

    metadata: Metadata = _SET
    spec: StatefulSetSpec = _SET


class DaemonSetSpec(apps_v1.DaemonSetSpec):
    """The spec of a DaemonSet."""

    template: PodTemplate = _SET


class DaemonSet(apps_v1.DaemonSet):
    """A DaemonSet."""

    metadata: Metadata = _SET
    spec: DaemonSetSpec = _SET


class ControllerRevision(apps_v1.ControllerRevision):
    """A ControllerRevision."""

    metadata: Metadata = _SET


class JobSpec(batch_v1.JobSpec):
    """The spec of a Job."""

    template: PodTemplate = _SET


class Job(batch_v1.Job):
    """A Job."""

    metadata: Metadata = _SET
    spec: JobSpec = _SET


class JobTemplate(batch_v1.JobTemplateSpec):
    """The template of a CronJob."""

    spec: JobSpec = _SET


class CronJobSpec(batch_v1.CronJobSpec):
    """The spec of a CronJob."""

    schedule: str = _SET
    jobTemplate: JobTemplate = _SET


class CronJob(batch_v1.CronJob):
    """A CronJob."""

    metadata: Metadata = _SET
    spec: CronJobSpec = _SET


class PodDisruptionBudget(policy_v1.PodDisruptionBudget):
    """A PodDisruptionBudget."""

    metadata: Metadata = _SET
    spec: policy_v1.PodDisruptionBudgetSpec = _SET


class PersistentVolume(core_v1.PersistentVolume):
    """A PersistentVolume."""

    metadata: Metadata = _SET
    spec: core_v1.PersistentVolumeSpec = _SET
    status: core_v1.PersistentVolumeStatus = _SET


class PersistentVolumeClaimSpec(core_v1.PersistentVolumeClaimSpec):
    """The spec of a PersistentVolumeClaim."""

    resources: core_v1.VolumeResourceRequirements = _SET


class PersistentVolumeClaim(core_v1.PersistentVolumeClaim):
    """A PersistentVolumeClaim."""

    metadata: Metadata = _SET
    spec: PersistentVolumeClaimSpec = _SET
    status: core_v1.PersistentVolumeClaimStatus = _SET


class StorageClass(storage_v1.StorageClass):
    """A StorageClass."""

    metadata: Metadata = _SET


class CsiNode(storage_v1.CSINode):
    """A CSINode."""

    metadata: Metadata = _SET


class CsiStorageCapacity(storage_v1.CSIStorageCapacity):
    """A CSIStorageCapacity."""

    metadata: Metadata = _SET


class DeviceTaintRule(resource_v1.DeviceTaintRule):
    """A DeviceTaintRule."""

    metadata: Metadata = _SET


class ResourceClaim(resource_v1.ResourceClaim):
    """A ResourceClaim."""

    metadata: Metadata = _SET
