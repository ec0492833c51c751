"""What a scheduler has written about a pod: its refusal, the node that it expects, and the pod's claims."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta

import msgspec

from bayplan.answers.shadow.journal import JournalEntry
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM, Kind
from bayplan.core.cluster.pod_info import PodInfo

_CLAIMS = frozenset({PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM})
"""The kinds that a scheduler, or a controller for it, writes before it binds a pod."""

_WHOLE = timedelta(seconds=1.5)
"""What a time in whole seconds may leave out, with the usual delay of news."""


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""
    reason: str | None = None
    message: str | None = None


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _PodStatus(msgspec.Struct):
    status: _Status = msgspec.field(default_factory=_Status)


class _Write(msgspec.Struct):
    time: datetime | None = None


class _TimedCondition(msgspec.Struct):
    type: str = ""
    lastTransitionTime: datetime | None = None


class _TimedStatus(msgspec.Struct):
    conditions: list[_TimedCondition] | None = None


class _TimedMetadata(msgspec.Struct):
    managedFields: list[_Write] | None = None


class _TimedPod(msgspec.Struct):
    status: _TimedStatus = msgspec.field(default_factory=_TimedStatus)
    metadata: _TimedMetadata = msgspec.field(default_factory=_TimedMetadata)


_timed_pod = msgspec.json.Decoder(_TimedPod)
_pod_status = msgspec.json.Decoder(_PodStatus)


def refusal(pod: PodInfo) -> str:
    """The message of a scheduler that found no node for a pod; "" if it has not said so."""
    raw = pod.raw
    if b'"Unschedulable"' not in raw:
        return ""
    try:
        conditions = _pod_status.decode(raw).status.conditions or ()
    except msgspec.MsgspecError:  # the pod could be read, but a condition is odd
        return ""
    for each in conditions:
        if each.type == "PodScheduled" and each.status == "False" and each.reason == "Unschedulable":
            return each.message or "Unschedulable"
    return ""


def written_at(pod: PodInfo) -> datetime | None:
    """Return when the server wrote this version of a pod, in whole seconds; None if it doesn't say so."""
    try:
        found = _timed_pod.decode(pod.raw)
    except msgspec.MsgspecError:
        return None
    times = [each.time for each in found.metadata.managedFields or ()]
    if pod.node_name:
        conditions = found.status.conditions or ()
        times += [each.lastTransitionTime for each in conditions if each.type == "PodScheduled"]
    return max((each for each in times if each is not None and each.tzinfo is not None), default=None)


def decided_at(written: datetime | None, seen: datetime) -> datetime:
    """Return when a decision was made. `written`: the server's time, in whole seconds; `seen`: when it was seen.

    The server's is taken only where it is earlier by more than it leaves out.
    """
    return seen if written is None or seen - written < _WHOLE else written


def claims_of(pod: PodInfo) -> frozenset[tuple[Kind, str]]:
    """The claims of a pod, by kind and key."""
    found = set[tuple[Kind, str]]()
    for volume in pod.volumes:
        if volume.persistentVolumeClaim is not None:
            found.add((PERSISTENT_VOLUME_CLAIM, f"{pod.namespace}/{volume.persistentVolumeClaim.claimName}"))
        if volume.ephemeral is not None:
            found.add((PERSISTENT_VOLUME_CLAIM, f"{pod.namespace}/{pod.name}-{volume.name}"))
    if b'"resourceClaims"' in pod.raw:
        names = [each.resourceClaimName for each in pod.spec.resourceClaims or ()]
        names += [each.resourceClaimName for each in pod.status.resourceClaimStatuses or ()]
        found.update((RESOURCE_CLAIM, f"{pod.namespace}/{name}") for name in names if name)
    return frozenset(found)


def is_of(entry: JournalEntry, claims: Collection[tuple[Kind, str]]) -> bool:
    """Whether a change is one of these claims, or of a volume that is bound to one."""
    if entry.kind not in _CLAIMS or entry.old is None:
        return False
    if entry.kind is not PERSISTENT_VOLUME:
        return (entry.kind, entry.key) in claims
    claim = entry.new.spec.claimRef if entry.new is not None and entry.new.spec is not None else None
    return claim is not None and (PERSISTENT_VOLUME_CLAIM, f"{claim.namespace}/{claim.name}") in claims
