"""Following: turns versions of objects, as a watch or an audit log reports them, into the rows of a history.

    for change in following.put(POD, document, time): ...      # a row, and the document that it refers to

The recorder and all importers use it, so a history has one meaning whatever reports the objects. It keeps a few words
per object, and yields nothing for a version that changes nothing a history has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any, NamedTuple

from lightkube.models.core_v1 import Pod

from bayplan.answers.history import format as columns
from bayplan.answers.history.documents import document_of, kind_name, mapping
from bayplan.answers.history.format import FIRST_TIME, LAST_TIME, HistoryDocument, Row
from bayplan.answers.snapshots import SnapshotError
from bayplan.answers.snapshots.documents import kind_named
from bayplan.core.api import quantity
from bayplan.core.api.kinds import NODE, POD, Kind, custom_kind
from bayplan.core.api.objects import UndecodableObject, decode
from bayplan.core.api.requests import CPU, MEMORY, parse_amounts, pod_requests

TERMINATED = ("Succeeded", "Failed")


class HistoryChange(NamedTuple):
    """A row, with the document that it refers to."""

    row: Row
    document: HistoryDocument | None = None


class _Known(NamedTuple):
    """What was reported of an object."""

    uid: str
    document: str
    node: str = ""
    ended: bool = False
    disruption: str = ""
    """Why a pod is being disrupted, if it is."""


class Following:
    """The objects of a cluster, as far as a history has to know them to see what changes.

    Each method returns the changes of one version of an object. It keeps a few words per object, not the objects.
    """

    def __init__(self) -> None:
        self._known: dict[Kind, dict[str, _Known]] = {}

    def put(
        self, kind: Kind, obj: Mapping[str, Any], time: datetime, *, initial: bool = False
    ) -> Iterator[HistoryChange]:
        """An object was created or has changed. An object that replaces another of its name ends that one first."""
        known = self._known.setdefault(kind, {})
        key, uid = key_of(obj), str(_metadata(obj).get("uid") or "")
        old = known.get(key)
        if old is not None and uid and old.uid != uid:
            yield from self.removed(kind, key, time)
            old = None
        document = document_of(kind, obj)
        if kind is POD:
            yield from self._pod(key, obj, document, old, time, initial)
            return
        if old is not None and old.document == document.document:
            return
        known[key] = _Known(uid, document.document)
        added, changed = (
            (columns.NODE_ADDED, columns.NODE_CHANGED)
            if kind is NODE
            else (columns.OBJECT_ADDED, columns.OBJECT_CHANGED)
        )
        row = _row(kind, obj, time, added if old is None else changed, document, initial)
        if kind is NODE:
            allocatable = obj.get("status", {}).get("allocatable") if isinstance(obj.get("status"), dict) else None
            row.cpu_millicores, row.memory_bytes = _amounts(allocatable)
        yield HistoryChange(row, document)

    def _pod(
        self,
        key: str,
        obj: Mapping[str, Any],
        document: HistoryDocument,
        old: _Known | None,
        time: datetime,
        initial: bool,
    ) -> Iterator[HistoryChange]:
        known = self._known[POD]
        spec, status = mapping(obj, "spec"), mapping(obj, "status")
        uid, node, phase = str(_metadata(obj).get("uid") or ""), str(spec.get("nodeName") or ""), status.get("phase")
        if old is not None and old.ended:
            return
        if old is None and phase in TERMINATED:  # it used nothing while it was followed
            known[key] = _Known(uid, document.document, node, ended=True)
            return
        if old is None or old.document != document.document:
            event = columns.POD_ARRIVED if old is None else columns.POD_CHANGED
            yield HistoryChange(_pod_row(obj, time, event, document, initial), document)
        if node and (old is None or old.node != node):
            row = _row(POD, obj, time, columns.POD_BOUND, None, initial)
            row.node, row.started_utc, row.created_utc = node, date_of(status.get("startTime")), None
            yield HistoryChange(row)
        if phase in TERMINATED:
            row = _row(POD, obj, time, columns.POD_ENDED, None, initial=False)
            row.reason, row.created_utc = end_reason(status), None
            yield HistoryChange(row)
        known[key] = _Known(uid, document.document, node, phase in TERMINATED, disruption(status))

    def removed(self, kind: Kind, key: str, time: datetime, reason: str = "Deleted") -> Iterator[HistoryChange]:
        """An object was deleted. Nothing happens if it isn't known, or is a pod that has ended."""
        old = self._known.get(kind, {}).pop(key, None)
        if old is None or old.ended:
            return
        event = {POD: columns.POD_ENDED, NODE: columns.NODE_REMOVED}.get(kind, columns.OBJECT_REMOVED)
        namespace, _, name = key.rpartition("/")
        row = Row(time, event, False, kind.api_version, kind_name(kind, {}), namespace, name, old.uid)
        row.reason = (old.disruption or reason) if kind is POD else ""
        yield HistoryChange(row)

    def keys(self, kind: Kind) -> tuple[str, ...]:
        """The keys of all known objects of a kind."""
        return tuple(self._known.get(kind, ()))

    def restore(self, row: Row) -> None:
        """Know what an earlier recording has reported."""
        kind = kind_of(row.api_version, row.kind)
        if kind is None:
            return
        known, key = self._known.setdefault(kind, {}), f"{row.namespace}/{row.name}" if row.namespace else row.name
        old = known.get(key)
        if row.event in {columns.NODE_REMOVED, columns.OBJECT_REMOVED}:
            known.pop(key, None)
        elif row.event == columns.POD_ENDED:
            known.pop(key, None)  # if it is still there, it is reported as a pod that had ended before
        elif row.event == columns.POD_BOUND:
            known[key] = _Known(row.uid, old.document if old else "", row.node)
        elif row.document:
            known[key] = _Known(row.uid, row.document, old.node if old and old.uid == row.uid else "")


@cache
def kind_of(api_version: str, name: str) -> Kind | None:
    """The kind of a row; None for one that this version of Bayplan doesn't know."""
    try:
        return custom_kind(name) if "." in name else kind_named(api_version, name)
    except (SnapshotError, ValueError):
        return None


def key_of(obj: Mapping[str, Any]) -> str:
    """`namespace/name`, or the name."""
    metadata = _metadata(obj)
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def date_of(text: Any) -> datetime | None:
    """A time of an object, in UTC; None if there is none, it can't be read, or no cluster has had it."""
    if not isinstance(text, str):
        return None
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo is not None and FIRST_TIME < found < LAST_TIME else None


def disruption(status: Mapping[str, Any]) -> str:
    """Why a pod is being disrupted, as in `PreemptionByScheduler`; "" if it isn't."""
    conditions = status.get("conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if isinstance(condition, dict) and condition.get("type") == "DisruptionTarget":
            return str(condition.get("reason") or "") if condition.get("status", "True") == "True" else ""
    return ""


def end_reason(status: Mapping[str, Any]) -> str:
    """Why a terminated pod ended: the reason of its disruption or of its status, or its phase."""
    return disruption(status) or str(status.get("reason") or status.get("phase"))


def _pod_row(obj: Mapping[str, Any], time: datetime, event: str, document: HistoryDocument, initial: bool) -> Row:
    row = _row(POD, obj, time, event, document, initial)
    references = _metadata(obj).get("ownerReferences")
    for reference in references if isinstance(references, list) else ():
        if isinstance(reference, dict) and reference.get("controller"):
            row.owner_kind, row.owner_name = str(reference.get("kind") or ""), str(reference.get("name") or "")
    row.cpu_millicores, row.memory_bytes, row.priority = _requested(document)
    return row


@lru_cache(4096)
def _requested(document: HistoryDocument) -> tuple[int | None, int | None, int | None]:
    """The cpu, memory and priority of a pod. A document that can't be decoded has none: a simulation says why."""
    try:
        pod: Pod = decode(Pod, document.json.encode())
        requests = pod_requests(pod)
    except (UndecodableObject, quantity.InvalidQuantity, AssertionError):
        return None, None, None
    cpu, memory = quantity.milli_value(requests.get(CPU, 0)), quantity.value(requests.get(MEMORY, 0))
    return cpu, memory, (pod.spec.priority if pod.spec is not None else None) or 0


def _row(
    kind: Kind, obj: Mapping[str, Any], time: datetime, event: str, document: HistoryDocument | None, initial: bool
) -> Row:
    metadata = _metadata(obj)
    return Row(
        time,
        event,
        initial,
        kind.api_version,
        kind_name(kind, obj),
        str(metadata.get("namespace") or ""),
        str(metadata["name"]),
        str(metadata.get("uid") or ""),
        created_utc=date_of(metadata.get("creationTimestamp")),
        document=document.document if document is not None else "",
    )


def _amounts(resources: Any) -> tuple[int | None, int | None]:
    try:
        amounts = parse_amounts(resources)
    except (quantity.InvalidQuantity, AttributeError, TypeError):
        return None, None
    return quantity.milli_value(amounts.get(CPU, 0)), quantity.value(amounts.get(MEMORY, 0))


def _metadata(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(obj, "metadata")
