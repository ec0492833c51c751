"""Makes a history from the audit log of kube-apiserver, of level Request or RequestResponse.

At level RequestResponse, the log has every object as it was stored. At level Request, it has what clients sent: pods
without defaults and what admission adds, and patches, which are applied to what is known.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.devcluster.apiserver.patch import apply_json_patch, apply_strategic_patch
from bayplan.devcluster.apiserver.status import StatusError
from bayplan.history.following import TERMINATED, Following, HistoryChange, key_of, moment
from bayplan.history.format import HistoryError, HistoryManifest
from bayplan.history.recording import KINDS as RECORDED
from bayplan.history.sources.audit_files import AuditEvent, audit_files, events_in
from bayplan.history.sources.problems import Problems
from bayplan.history.sources.versions import KEPT
from bayplan.history.writing import write_history
from bayplan.insight.snapshot import Snapshot

_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
_READS = frozenset({"get", "list"})
CLOCK_JUMP = timedelta(seconds=60)
"""How far time may go back from line to line: several API servers write to one stream."""
_NAME_SUFFIX = 5
"""The characters that the API server adds to generateName."""

_NO_CREATION = (
    "the creation of a pod is not in the log, and neither is its spec: left out; "
    "with --snapshot, pods of a snapshot are known"
)
_NO_NODE = "a node is known by its name only: left out; with --snapshot, nodes of a snapshot are known"
_NO_OBJECT = "an event of level Metadata has no object: left out; the audit policy needs level Request for it"
_NO_LIST = "a deletion of many objects names none of them: the ends of its pods are unknown"
_BAD_PATCH = "a patch can't be applied to what is known: left out"
_AS_SENT = (
    "the log has level Request: the specs of pods are as they were sent, without the defaults and what admission adds"
)


def import_audit(
    paths: Iterable[Path], folder: Path, *, snapshot: Snapshot | None = None
) -> tuple[HistoryManifest, list[str]]:
    """Write the history of audit logs to a folder. Returns its manifest, and the faults of the log, one line each.

    `snapshot`: what is known of the cluster otherwise: nodes and other objects, and pods that are older than the log.
    Raises HistoryError, also if no event is about pods or nodes.
    """
    problems = Problems()
    files = list(audit_files(paths))
    seen: set[str] = set()
    events = [
        event for path in files for event in _in_order(_relevant(events_in(path, problems), seen), path, problems)
    ]
    if not events:
        lines = list(problems.lines())
        raise HistoryError("there is no audit event about pods or nodes" + (f": {lines[0]}" if lines else ""))
    events.sort(key=lambda event: event.time)
    log = _Log(events[0].time, problems, snapshot)
    changes = [change for event in events for change in log.changes(event)]
    changes += log.rest(events[-1].time)
    manifest = write_history(
        folder,
        changes,
        source=f"audit log of {len(files)} {'file' if len(files) == 1 else 'files'}",
        begin=events[0].time,
        end=events[-1].time,
        notes=[*log.notes(), *problems.lines()],
    )
    return manifest, list(problems.lines())


def _relevant(events: Iterable[AuditEvent], seen: set[str]) -> Iterator[AuditEvent]:
    """The successful writes of objects that are recorded, each once, and what reads of them show."""
    for event in events:
        if (event.group, event.resource) not in KEPT or event.code >= 300 or "dryRun=All" in event.uri:
            continue
        if event.verb not in _WRITES and not (event.verb in _READS and event.response is not None):
            continue
        if event.id:
            if event.id in seen:  # rotated files overlap
                continue
            seen.add(event.id)
        yield event


def _in_order(events: Iterable[AuditEvent], path: Path, problems: Problems) -> list[AuditEvent]:
    """The events of a file. Where its clock was set back, time stands still; an export may begin with the newest."""
    found = list(events)
    if found and found[0].time > found[-1].time:
        return found
    last = None
    for event in found:
        if last is not None and last - event.time > CLOCK_JUMP:
            problems.add("the clock goes back: time counts as if it had stood still", f"{path} at {last:%F %T} UTC")
            event.time = last
        last = event.time if last is None else max(last, event.time)
    return found


class _Ending(NamedTuple):
    """A pod whose deletion began: it ends within its grace period."""

    time: datetime
    reason: str


class _Log:
    """The objects of the cluster, as the events of a log show them one after the other."""

    def __init__(self, begin: datetime, problems: Problems, snapshot: Snapshot | None) -> None:
        self._begin = begin
        self._problems = problems
        self._snapshot = snapshot
        self._following = Following()
        self._objects: dict[Kind, dict[str, dict[str, Any]]] = defaultdict(dict)
        self._nameless: dict[str, deque[tuple[datetime, dict[str, Any]]]] = defaultdict(deque)
        """`namespace/generateName` -> pods whose names are known when they are bound"""
        self._bindings: dict[str, tuple[datetime, str]] = {}
        """key of a pod that was bound before its creation was logged -> when, and its node"""
        self._ending: dict[str, _Ending] = {}
        self._unknown: set[tuple[Kind, str]] = set()
        self._as_sent = False
        self._has_nodes = False
        self._first: list[HistoryChange] | None = None if snapshot is not None else []

    def changes(self, event: AuditEvent) -> Iterator[HistoryChange]:
        """What an event changes."""
        if self._first is None:
            self._first = []
            yield from self._of_snapshot()
        kind = KEPT[event.group, event.resource]
        match event.verb, event.subresource:
            case "get" | "list", _:
                for obj in _items(event.response):
                    if key_of(obj) not in self._objects[kind] and (kind not in {POD, NODE} or "spec" in obj):
                        yield from self._older(kind, obj, event.time)
            case "create", "binding":
                yield from self._bound(event)
            case "create", "eviction":
                ending = _Ending(event.time, "EvictionByEvictionAPI")
                self._ending.setdefault(f"{event.namespace}/{event.name}", ending)
            case "create", "":
                yield from self._created(kind, event)
            case "update" | "patch", _:
                yield from self._updated(kind, event)
            case "delete", "":
                yield from self._deleted(kind, event)
            case "deletecollection", "":
                items = _items(event.response)
                if not items:
                    self._problems.add(_NO_LIST, event.uri or f"{event.time:%Y-%m-%d %H:%M:%S}")
                for obj in items:
                    yield from self._gone(kind, key_of(obj), obj, event.time, grace=None)

    def _of_snapshot(self) -> Iterator[HistoryChange]:
        assert self._snapshot is not None
        for kind in RECORDED:
            for key in self._snapshot.of_kind(kind):
                obj = self._snapshot.document(kind, key)
                assert obj is not None
                created = moment(obj["metadata"].get("creationTimestamp"))
                if created is None or created <= self._begin:
                    yield from self._older(kind, obj, self._begin)

    def _created(self, kind: Kind, event: AuditEvent) -> Iterator[HistoryChange]:
        obj = _stored(event)
        if obj is None:
            if not isinstance(event.request, dict):
                self._problems.add(_NO_OBJECT, f"{kind.resource} {event.namespace}/{event.name}")
                return
            obj = _named(event.request, event)
            self._as_sent = self._as_sent or kind is POD
        if kind is POD and not obj["metadata"].get("name"):
            prefix = f"{event.namespace}/{obj['metadata'].get('generateName', '')}"
            self._nameless[prefix].append((event.time, obj))
            return
        self._ending.pop(key_of(obj), None)
        yield from self._put(kind, obj, event.time)

    def _put(self, kind: Kind, obj: dict[str, Any], time: datetime) -> Iterator[HistoryChange]:
        key = key_of(obj)
        bound = self._bindings.pop(key, None) if kind is POD else None
        if bound is not None:
            yield from self._following.put(kind, obj, time)
            obj = _on_node(obj, bound[1])
            time = max(time, bound[0])
        self._objects[kind][key] = obj
        self._has_nodes = self._has_nodes or kind is NODE
        yield from self._following.put(kind, obj, time)
        if kind is POD and obj.get("status", {}).get("phase") in TERMINATED:
            self._ending.pop(key, None)

    def _older(self, kind: Kind, obj: dict[str, Any], time: datetime) -> Iterator[HistoryChange]:
        """An object whose creation isn't in the log."""
        self._objects[kind][key_of(obj)] = obj
        self._has_nodes = self._has_nodes or kind is NODE
        self._unknown.discard((kind, key_of(obj)))
        created = moment(obj["metadata"].get("creationTimestamp"))
        if created is None or created <= self._begin:
            yield from self._following.put(kind, obj, self._begin, initial=True)
            return
        if kind is POD:
            self._problems.add(
                "the creation of a pod is not in the log: it arrives at its creationTimestamp", key_of(obj)
            )
            without_node = {**obj, "spec": {k: v for k, v in obj["spec"].items() if k != "nodeName"}, "status": {}}
            yield from self._following.put(kind, without_node, created)
        yield from self._following.put(kind, obj, time if kind is POD else created)

    def _updated(self, kind: Kind, event: AuditEvent) -> Iterator[HistoryChange]:
        key = f"{event.namespace}/{event.name}" if event.namespace else event.name
        known = self._objects[kind].get(key)
        obj = _stored(event)
        if obj is None:
            obj = self._patched(kind, key, known, event)
            if obj is None:
                return
        if known is None:
            yield from self._older(kind, obj, event.time)
        else:
            yield from self._put(kind, obj, event.time)

    def _patched(self, kind: Kind, key: str, known: dict[str, Any] | None, event: AuditEvent) -> dict[str, Any] | None:
        """The object after an update or a patch of which only the request is known."""
        if event.verb == "update" and isinstance(event.request, dict):
            full = _named(event.request, event)
            if not event.subresource or known is None:
                return full
            return {**known, "status": full.get("status", {})}
        if known is None:
            self._missing(kind, key)
            return None
        if event.request is None:
            self._problems.add(_NO_OBJECT, f"{kind.resource} {key}")
            return None
        try:
            if isinstance(event.request, list):
                return apply_json_patch(known, event.request)
            return apply_strategic_patch(kind, known, event.request)
        except (StatusError, TypeError, AttributeError, KeyError):
            self._problems.add(_BAD_PATCH, f"{kind.resource} {key}")
            return None

    def _missing(self, kind: Kind, key: str) -> None:
        if kind in {POD, NODE}:
            self._unknown.add((kind, key))

    def _bound(self, event: AuditEvent) -> Iterator[HistoryChange]:
        binding = event.request if isinstance(event.request, dict) else {}
        metadata, target = binding.get("metadata"), binding.get("target")
        metadata = metadata if isinstance(metadata, dict) else {}
        node = str(target.get("name") or "") if isinstance(target, dict) else ""
        name = event.name or str(metadata.get("name") or "")
        key = f"{event.namespace}/{name}"
        if not node:
            self._problems.add("a binding has no target: left out", key)
            return
        known = self._objects[POD].get(key)
        if known is None:
            created = self._nameless_pod(event.namespace, name, metadata)
            if created is not None:
                time, known = created
                yield from self._put(POD, known, time)
        if known is None:
            self._bindings[key] = event.time, node
            return
        yield from self._put(POD, _on_node(known, node), event.time)

    def _nameless_pod(
        self, namespace: str, name: str, metadata: Mapping[str, Any]
    ) -> tuple[datetime, dict[str, Any]] | None:
        """The oldest pod without a name that may have this one."""
        waiting = self._nameless.get(f"{namespace}/{name[:-_NAME_SUFFIX]}")
        if not waiting:
            return None
        time, obj = waiting.popleft()
        identity = {"name": name, "namespace": namespace, "uid": metadata.get("uid") or f"{namespace}/{name}"}
        return time, {**obj, "metadata": {**obj["metadata"], **identity}}

    def _deleted(self, kind: Kind, event: AuditEvent) -> Iterator[HistoryChange]:
        key = f"{event.namespace}/{event.name}" if event.namespace else event.name
        grace = event.request.get("gracePeriodSeconds") if isinstance(event.request, dict) else None
        obj = event.response if event.response is not None and "metadata" in event.response else None
        yield from self._gone(kind, key, obj, event.time, grace=grace if isinstance(grace, int) else None)

    def _gone(
        self, kind: Kind, key: str, obj: dict[str, Any] | None, time: datetime, *, grace: int | None
    ) -> Iterator[HistoryChange]:
        """After a deletion: a pod on a node goes on until the kubelet deletes it with a grace period of 0."""
        known = self._objects[kind].get(key)
        if known is None:
            if obj is not None and kind in {POD, NODE} and obj.get("spec"):
                yield from self._older(kind, obj, time)
                known = obj
            else:
                self._missing(kind, key)
                return
        if kind is POD and grace != 0 and known.get("spec", {}).get("nodeName") and _is_graceful(obj):
            self._ending.setdefault(key, _Ending(time, "Deleted"))
            return
        ending = self._ending.pop(key, None)
        del self._objects[kind][key]
        yield from self._following.removed(kind, key, time, ending.reason if ending is not None else "Deleted")

    def rest(self, end: datetime) -> Iterator[HistoryChange]:
        """What is known at the end only: pods whose names are unknown, and ends that were not logged."""
        for prefix, waiting in self._nameless.items():
            for number, (time, obj) in enumerate(waiting):
                namespace, _, base = prefix.partition("/")
                name = f"{base}unbound-{number}"
                identity = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
                yield from self._following.put(POD, {**obj, "metadata": {**obj["metadata"], **identity}}, time)
        for key, ending in self._ending.items():
            if key in self._objects[POD]:
                spec = self._objects[POD][key].get("spec", {})
                grace = spec.get("terminationGracePeriodSeconds")
                time = ending.time + timedelta(seconds=grace if isinstance(grace, int) else 30)
                if time <= end:
                    self._problems.add("the last deletion of a pod is not in the log: it ends after its grace", key)
                    yield from self._following.removed(POD, key, time, ending.reason)
        for key in self._bindings:
            self._missing(POD, key)
        for kind, key in sorted(self._unknown, key=lambda pair: pair[1]):
            if key not in self._objects[kind]:
                self._problems.add(_NO_CREATION if kind is POD else _NO_NODE, key)
        if not self._has_nodes:
            self._problems.add("the log shows no node, so nothing can be placed: add --snapshot with a snapshot")

    def notes(self) -> Iterator[str]:
        """What the log doesn't say."""
        if self._as_sent:
            yield _AS_SENT


def _stored(event: AuditEvent) -> dict[str, Any] | None:
    """The object as it was stored, where the log has it."""
    response = event.response
    if response is None or not isinstance(response.get("metadata"), dict) or not response["metadata"].get("name"):
        return None
    return response if response.get("kind") != "Status" else None


def _named(obj: dict[str, Any], event: AuditEvent) -> dict[str, Any]:
    """An object as it was sent, with the name and the namespace that the request has."""
    metadata = obj.get("metadata")
    metadata = dict(metadata) if isinstance(metadata, dict) else {}
    if event.name:
        metadata.setdefault("name", event.name)
    if event.namespace:
        metadata["namespace"] = event.namespace
    if metadata.get("name"):
        metadata.setdefault("uid", f"{event.namespace}/{metadata['name']}/{event.time.isoformat()}")
    return {**obj, "metadata": metadata}


def _items(response: dict[str, Any] | None) -> list[dict[str, Any]]:
    """The objects of a list, or the object itself."""
    if response is None:
        return []
    items = response.get("items")
    found = items if isinstance(items, list) else [response]
    return [
        item
        for item in found
        if isinstance(item, dict) and isinstance(item.get("metadata"), dict) and item["metadata"].get("name")
    ]


def _on_node(obj: dict[str, Any], node: str) -> dict[str, Any]:
    spec = obj.get("spec")
    return {**obj, "spec": {**(spec if isinstance(spec, dict) else {}), "nodeName": node}}


def _is_graceful(obj: dict[str, Any] | None) -> bool:
    """Whether a deleted pod goes on: a response without it doesn't tell, and most do."""
    if obj is None or "deletionTimestamp" not in obj.get("metadata", {}):
        return True
    return bool(obj["metadata"].get("deletionGracePeriodSeconds"))
