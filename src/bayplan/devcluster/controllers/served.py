"""Types of objects from an API server, for annotations.

In the models, metadata and spec are optional, as clients may omit them. Servers always return them, and a check at
every access would obscure the code. So these names are aliases of Any.
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
