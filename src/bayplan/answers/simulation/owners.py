"""The controllers of a pod, by its owner references: which workload it belongs to, and whether another pod replaces it.

The objects of the owners aren't needed: a ReplicaSet's name tells its Deployment, a Job's its CronJob.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from bayplan.core.api.kinds import CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET
from bayplan.core.api.well_known_labels import COMPLETION_INDEX, POD_TEMPLATE_HASH
from bayplan.core.cluster.pod_info import PodInfo

_DIGITS_OF_TIME = 8
"""A CronJob names its Jobs after the minutes since 1970."""
_OF_ONE_JOB = frozenset(
    {
        "controller-uid",
        "job-name",
        "batch.kubernetes.io/controller-uid",
        "batch.kubernetes.io/job-name",
        COMPLETION_INDEX,
    }
)
"""Labels that only the pods of one Job have, or one of them."""
_NOT_SPREAD = frozenset({JOB.kind, CRON_JOB.kind})
_WITH_IDENTITY = frozenset({STATEFUL_SET.kind, DAEMON_SET.kind})
"""The owners whose pods have a name or a node of their own: another one comes only once the old one is gone."""
_OF_NODES = frozenset({DAEMON_SET.kind, "Node"})
"""The owners of pods that belong to their node: they keep no node busy, and are not evicted when it goes."""


class PodOwner(msgspec.Struct, frozen=True):
    """An owner reference, as far as questions read it."""

    kind: str
    name: str = ""
    uid: str = ""
    controller: bool | None = None


class _Metadata(msgspec.Struct):
    ownerReferences: tuple[PodOwner, ...] | None = None


class _Owned(msgspec.Struct):
    metadata: _Metadata


_owned = msgspec.json.Decoder(_Owned)


def references_in(raw: bytes) -> tuple[PodOwner, ...]:
    """Return the owner references in the JSON of an object, without those that can't be read."""
    try:
        return _owned.decode(raw).metadata.ownerReferences or ()
    except msgspec.ValidationError:
        return tuple(_readable(raw))


def _readable(raw: bytes) -> Iterator[PodOwner]:
    metadata = msgspec.json.decode(raw).get("metadata") or {}
    for each in metadata.get("ownerReferences") or ():
        with suppress(msgspec.ValidationError):
            yield msgspec.convert(each, PodOwner)


def references_of(pod: PodInfo) -> tuple[PodOwner, ...]:
    """Return the owner references of a pod. They are kept, because the object of most pods is decoded again."""
    found: tuple[PodOwner, ...] | None = pod.cache.get(PodOwner)
    if found is None:
        found = pod.cache[PodOwner] = references_in(pod.raw)
    return found


def controller_of(pod: PodInfo) -> PodOwner | None:
    """Return the owner reference of a pod's controller; None for a bare pod."""
    return next((each for each in references_of(pod) if each.controller), None)


def is_replaced(pod: PodInfo) -> bool:
    """Return whether a controller makes another pod when this one is gone.

    Most controllers have done that already for a pod that is being deleted.
    """
    owner = controller_of(pod)
    return owner is not None and (not pod.terminating or owner.kind in _WITH_IDENTITY)


def owner_kind(pod: PodInfo) -> str:
    """Return the kind of a pod's controller; "" for a pod without one."""
    owner = controller_of(pod)
    return "" if owner is None else owner.kind


def owners_of(pod: PodInfo) -> Iterator[tuple[str, str]]:
    """Yield the kind and the name of a pod's controller, and of the controller of that.

    The names of ReplicaSets end with the pod's hash after the name of their Deployment, those of a CronJob's Jobs with
    the time.
    """
    owner = controller_of(pod)
    if owner is None:
        return
    yield owner.kind, owner.name
    base, _, suffix = owner.name.rpartition("-")
    if owner.kind == REPLICA_SET.kind and suffix == pod.labels.get(POD_TEMPLATE_HASH):
        yield DEPLOYMENT.kind, base
    elif owner.kind == JOB.kind and suffix.isdecimal() and len(suffix) >= _DIGITS_OF_TIME:
        yield CRON_JOB.kind, base


def workload_of(pod: PodInfo) -> str:
    """Return the workload of a pod, such as `deployment default/web`; "" for a pod without a controller."""
    owners = list(owners_of(pod))
    return f"{owners[-1][0].lower()} {pod.namespace}/{owners[-1][1]}" if owners else ""


def run_time_groups(pod: PodInfo) -> Iterator[str]:
    """Yield names for the pods that run about as long as a pod, the most similar ones first.

    Those of its workload come first. A Job runs once, so Jobs with the same labels count together.
    """
    owners = list(owners_of(pod))
    if owners:
        yield workload_of(pod)
        if owners[-1][0] != JOB.kind:
            return
    near = f"{pod.namespace}, priority {pod.priority}"
    labels = [f"{key}={value}" for key, value in sorted(pod.labels.items()) if key not in _OF_ONE_JOB]
    if labels:
        yield f"{near}, {','.join(labels)}"
    if not owners:
        yield near


def belongs_to(pod: PodInfo) -> str | None:
    """Return the service of a pod, as in `deployment default/web`; "" for one that is never spread.

    None for a pod that belongs to its node.
    """
    found: tuple[str | None] | None = pod.cache.get(belongs_to)
    if found is None:
        found = pod.cache[belongs_to] = (_belongs_to(pod),)
    return found[0]


def _belongs_to(pod: PodInfo) -> str | None:
    owners = list(owners_of(pod))
    if not owners:
        return ""
    kind, name = owners[-1]
    if kind in _OF_NODES:
        return None
    return "" if kind in _NOT_SPREAD else f"{kind.lower()} {pod.namespace}/{name}"
