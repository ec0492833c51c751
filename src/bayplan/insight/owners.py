"""Which pods belong to a workload, by their owner references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.api.kinds import (
    CRON_JOB,
    DAEMON_SET,
    DEPLOYMENT,
    JOB,
    KINDS,
    REPLICA_SET,
    REPLICATION_CONTROLLER,
    STATEFUL_SET,
    Kind,
)
from bayplan.cluster.pod_info import PodInfo

WORKLOADS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, CRON_JOB, REPLICATION_CONTROLLER)
_HASH = "pod-template-hash"


def kind_called(name: str) -> Kind | None:
    """Return the kind that kubectl knows by this name, plural or short name, in any case; None if there is none."""
    name = name.lower()
    return next(
        (kind for kind in KINDS if name in {kind.singular, kind.plural, kind.resource, *kind.short_names}), None
    )


def owners_of(pod: PodInfo) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of a pod's controller, and of the controller of that.

    The names of ReplicaSets end with the pod's hash after the name of their Deployment, those of a CronJob's Jobs with
    the time.
    """
    owner: Any = next((each for each in pod.metadata.ownerReferences or () if each.controller), None)
    if owner is None:
        return
    yield owner.kind, owner.name
    base, _, suffix = owner.name.rpartition("-")
    if owner.kind == REPLICA_SET.kind and suffix == pod.labels.get(_HASH):
        yield DEPLOYMENT.kind, base
    elif owner.kind == JOB.kind and suffix.isdecimal():
        yield CRON_JOB.kind, base


def owned_by(pods: Mapping[str, PodInfo], kind: Kind, namespace: str, name: str) -> list[PodInfo]:
    """Return the pods of a workload, ordered by name."""
    found = [pod for pod in pods.values() if pod.namespace == namespace and (kind.kind, name) in owners_of(pod)]
    return sorted(found, key=lambda pod: pod.key)
