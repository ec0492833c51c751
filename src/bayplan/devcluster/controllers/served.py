"""Objects as API servers hand them out, for annotations.

The models have metadata and spec optional, for clients that send less; no server hands out an object without them.
Saying so at every access would bury the code, so these names stand for their objects and are not checked further.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Object: TypeAlias = Any
Pod: TypeAlias = Any
Node: TypeAlias = Any
Namespace: TypeAlias = Any
Lease: TypeAlias = Any
Deployment: TypeAlias = Any
ReplicaSet: TypeAlias = Any
StatefulSet: TypeAlias = Any
DaemonSet: TypeAlias = Any
ControllerRevision: TypeAlias = Any
Job: TypeAlias = Any
CronJob: TypeAlias = Any
PodDisruptionBudget: TypeAlias = Any
PersistentVolume: TypeAlias = Any
PersistentVolumeClaim: TypeAlias = Any
StorageClass: TypeAlias = Any
CsiNode: TypeAlias = Any
CsiStorageCapacity: TypeAlias = Any
ResourceClaim: TypeAlias = Any
