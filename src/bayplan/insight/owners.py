"""Which pods belong to a workload, by their owner references."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

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
from bayplan.insight.snapshot import Snapshot

WORKLOADS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, CRON_JOB, REPLICATION_CONTROLLER)
_HASH = "pod-template-hash"


def kind_called(name: str) -> Kind | None:
    """Return the kind that kubectl knows by this name, plural or short name, in any case; None if there is none."""
    name = name.lower()
    return next(
        (kind for kind in KINDS if name in {kind.singular, kind.plural, kind.resource, *kind.short_names}), None
    )


class Owner(msgspec.Struct, frozen=True):
    """An owner reference, as far as questions read it."""

    kind: str
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct):
    ownerReferences: tuple[Owner, ...] | None = None


class _Owned(msgspec.Struct):
    metadata: _Metadata


_owned = msgspec.json.Decoder(_Owned)


def references_in(raw: bytes) -> tuple[Owner, ...]:
    """Return the owner references in the JSON of an object. Raises msgspec.MsgspecError."""
    return _owned.decode(raw).metadata.ownerReferences or ()


def references_of(pod: PodInfo) -> tuple[Owner, ...]:
    """Return the owner references of a pod. They are kept, because the object of most pods is decoded again."""
    found: tuple[Owner, ...] | None = pod.cache.get(Owner)
    if found is None:
        found = pod.cache[Owner] = references_in(pod.raw)
    return found


def owners_of(pod: PodInfo) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of a pod's controller, and of the controller of that.

    The names of ReplicaSets end with the pod's hash after the name of their Deployment, those of a CronJob's Jobs with
    the time.
    """
    owner = next((each for each in references_of(pod) if each.controller), None)
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


def newest_replica_set(snapshot: Snapshot, deployment: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the ReplicaSet that has the pods of a Deployment's template; None if there is none.

    `deployment`: the Deployment's metadata.
    """
    found = []
    for key in snapshot.of_kind(REPLICA_SET):
        if key.startswith(f"{deployment['namespace']}/{deployment['name']}-"):
            document = snapshot.document(REPLICA_SET, key)
            assert document is not None
            owners = {(each["kind"], each["name"]) for each in document["metadata"].get("ownerReferences") or ()}
            if (DEPLOYMENT.kind, deployment["name"]) in owners:
                found.append(document)
    return max(found, key=_revision, default=None)


def _revision(replica_set: Mapping[str, Any]) -> tuple[int, int]:
    revision = (replica_set["metadata"].get("annotations") or {}).get("deployment.kubernetes.io/revision", "")
    return int(revision) if revision.isdecimal() else 0, (replica_set["spec"].get("replicas") or 0)


def workload_of(pod: PodInfo) -> str:
    """Return the workload of a pod, such as `deployment default/web`; "" for a pod without a controller."""
    owners = list(owners_of(pod))
    return f"{owners[-1][0].lower()} {pod.namespace}/{owners[-1][1]}" if owners else ""
