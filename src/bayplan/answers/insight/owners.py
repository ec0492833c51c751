"""Which pods belong to a workload, by their owner references.

A workload is named as for kubectl: `deployment/web`. The owners between it and its pods, such as ReplicaSets, needn't
be in the snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from bayplan.answers.insight.answers import QuestionError, listed
from bayplan.answers.simulation.owners import owners_of, references_in
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import (
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
from bayplan.core.api.suggestions import did_you_mean
from bayplan.core.api.well_known_labels import REVISION
from bayplan.core.cluster.pod_info import PodInfo

WORKLOADS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, JOB, CRON_JOB, REPLICATION_CONTROLLER)


def kind_called(name: str) -> Kind | None:
    """Return the kind that kubectl knows by this name, plural or short name, in any case; None if there is none."""
    name = name.lower()
    return next(
        (kind for kind in KINDS if name in {kind.singular, kind.plural, kind.resource, *kind.short_names}), None
    )


def owned_by(snapshot: Snapshot, pods: Mapping[str, PodInfo], kind: Kind, namespace: str, name: str) -> list[PodInfo]:
    """Return the pods of a workload, ordered by name.

    Those of a Deployment or a CronJob belong to objects that it owns, or that are named as its own.
    """
    owners = owners_behind(snapshot, kind, namespace, name)
    found = [pod for pod in pods.values() if pod.namespace == namespace and not owners.isdisjoint(owners_of(pod))]
    return sorted(found, key=lambda pod: pod.key)


def workload_called(
    snapshot: Snapshot, pods: Mapping[str, PodInfo], kind: str, namespace: str, name: str
) -> tuple[Kind, list[PodInfo]]:
    """Return the kind of a workload that is named as for kubectl, and its pods. Raises QuestionError."""
    known = kind_called(kind)
    if known not in WORKLOADS:
        kinds = ", ".join(workload.singular for workload in WORKLOADS)
        raise QuestionError(f"{kind}/{name}: expected a pod, or one of {kinds}")
    found = owned_by(snapshot, pods, known, namespace, name)
    if not found and f"{namespace}/{name}" not in snapshot.of_kind(known):
        hint = others_called(snapshot, pods, known, namespace, name)
        raise QuestionError(f"there is no {known.singular} {namespace}/{name} with pods in {snapshot.title}{hint}")
    return known, found


def owners_behind(snapshot: Snapshot, kind: Kind, namespace: str, name: str) -> set[tuple[str, str]]:
    """Return the kinds and names of the owners whose pods belong to a workload: itself, and what it makes."""
    owners = {(kind.kind, name)}
    maker = _MAKERS.get(kind)
    if maker is not None:
        made = owned_objects(snapshot, maker, kind, f"{namespace}/{name}")
        owners |= {(maker.kind, key.partition("/")[2]) for key in made}
    return owners


_MAKERS = {DEPLOYMENT: REPLICA_SET, CRON_JOB: JOB}
"""The kinds that make no pods themselves, and those whose objects do for them."""


def owned_objects(snapshot: Snapshot, kind: Kind, owner_kind: Kind, owner: str) -> Iterator[str]:
    """Yield the keys of the objects of a kind that have an owner (`namespace/name`), by their owner references."""
    namespace, _, name = owner.partition("/")
    for key, raw in snapshot.of_kind(kind).items():
        if not key.startswith(f"{namespace}/") or name.encode() not in raw:
            continue
        if any(each.kind == owner_kind.kind and each.name == name for each in references_in(raw)):
            yield key


def others_called(snapshot: Snapshot, pods: Mapping[str, PodInfo], kind: Kind, namespace: str, name: str) -> str:
    """Return a hint at what may be meant by the name of a pod or workload that doesn't exist; "" if there is none.

    It names objects with this name in other namespaces, workloads of other kinds with this name, or a similar name.
    """
    known = {key for key in snapshot.of_kind(kind) if key.endswith(f"/{name}")}
    known |= {f"{pod.namespace}/{name}" for pod in pods.values() if (kind.kind, name) in owners_of(pod)}
    key = f"{namespace}/{name}"
    known |= {f"{other.singular} {key}" for other in WORKLOADS if other is not kind and key in snapshot.of_kind(other)}
    if known:
        return f"; there is {listed(sorted(known))}"
    here = [key.partition("/")[2] for key in snapshot.of_kind(kind) if key.startswith(f"{namespace}/")]
    return did_you_mean(name, here)


def newest_replica_set(snapshot: Snapshot, deployment: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the ReplicaSet that has the pods of a Deployment's template; None if there is none.

    `deployment`: the Deployment's metadata.
    """
    found = []
    owner = f"{deployment['namespace']}/{deployment['name']}"
    for key in owned_objects(snapshot, REPLICA_SET, DEPLOYMENT, owner):
        document = snapshot.document(REPLICA_SET, key)
        assert document is not None
        found.append(document)
    return max(found, key=_revision, default=None)


def newest_revision(snapshot: Snapshot, deployment: Mapping[str, Any]) -> int:
    """Return the revision of a Deployment's newest ReplicaSet; 0 if there is none. `deployment`: its metadata."""
    newest = newest_replica_set(snapshot, deployment)
    return 0 if newest is None else _revision(newest)[0]


def _revision(replica_set: Mapping[str, Any]) -> tuple[int, int]:
    revision = (replica_set["metadata"].get("annotations") or {}).get(REVISION, "")
    return int(revision) if revision.isdecimal() else 0, (replica_set["spec"].get("replicas") or 0)
