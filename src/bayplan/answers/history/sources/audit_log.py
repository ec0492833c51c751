"""The objects of a cluster, as the requests of its audit log show them one after the other.

A deletion is the end of an object's last version: what is written afterwards, such as the status of a pod that is
terminating, still belongs to it, and an object that is gone never comes back. `audit_objects` has the rules.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from bayplan.answers.history.documents import mapping
from bayplan.answers.history.following import TERMINATED, Following, HistoryChange, date_of, key_of
from bayplan.answers.history.recording import KINDS as RECORDED
from bayplan.answers.history.sources.audit_files import AuditEvent
from bayplan.answers.history.sources.audit_objects import (
    KUBELET,
    Document,
    after_delete,
    completed,
    grace_in,
    is_older,
    is_removed,
    key_in,
    listed,
    on_node,
    patched,
    sent,
    stored,
    uid_of,
    with_what_lasts,
    without_grace,
)
from bayplan.answers.history.sources.audit_selectors import selected
from bayplan.answers.history.sources.problems import BAD_PATCH, Problems
from bayplan.answers.history.sources.versions import KEPT
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import NODE, POD, PRIORITY_CLASS, Kind

_NAME_SUFFIX = 5
"""The characters that the API server adds to generateName."""
_NO_CREATION = (
    "the creation of a pod is not in the log, and neither is its spec: left out; "
    "with --snapshot, pods of a snapshot are known"
)
_NO_NODE = "a node is known by its name only: left out; with --snapshot, nodes of a snapshot are known"
_NO_OBJECT = "an event of level Metadata has no object: left out; the audit policy needs level Request for it"
_NO_LIST = "a deletion of many objects names none of them: the ends of its pods are unknown"
_NO_CLASS = "a priority class is not in the log: its pods have priority 0; with --snapshot, classes are known"
_NO_TARGET = "a binding has no target: left out"
_LATE = "the creation of a pod is not in the log: it arrives at its creationTimestamp"
_AS_SENT = (
    "the log has level Request for a pod: its spec is as it was sent, with defaults and the priority of its class, but "
    "without what webhooks and limit ranges add; an audit policy with level RequestResponse has that, too"
)
_NAME_ONLY = (
    "the log has level Metadata for a pod: what it requests, its priority, and where it may be placed are unknown, so "
    "that it counts as a pod that requests nothing; choose level RequestResponse in the audit policy, or Request"
)


class AuditLog:
    """Makes changes of a history from audit events, in the order of time.

    `begin`: the time of the first event. `snapshot`: what was there then. `classes`: PriorityClasses that the log shows
    sooner or later.
    """

    def __init__(
        self, begin: datetime, problems: Problems, snapshot: Snapshot | None, classes: Mapping[str, Document]
    ) -> None:
        self._begin = begin
        self._problems = problems
        self._snapshot = snapshot
        self._classes = classes
        self._following = Following()
        self._objects: dict[Kind, dict[str, Document]] = defaultdict(dict)
        self._gone: set[tuple[Kind, str]] = set()
        """The kinds with the keys and the uids of what is gone."""
        self._uids: dict[str, str] = {}
        """uid of a pod -> what it is known by, if its creation was logged without the uid"""
        self._nameless: dict[str, deque[tuple[datetime, Document]]] = defaultdict(deque)
        """`namespace/generateName` -> pods whose names are known when something else happens to them"""
        self._early: defaultdict[str, list[AuditEvent]] = defaultdict(list)
        """key of a pod -> the requests that were logged before its creation, and have succeeded"""
        self._homeless: dict[str, datetime] = {}
        """key of a pod that was bound to a node which the log doesn't name -> when"""
        self._evicted: dict[str, str] = {}
        """key of a pod -> why it is being deleted"""
        self._unknown_nodes: set[str] = set()
        self._has_nodes = False
        self._has_last_deletes = False
        """Whether the log has the deletes with which kubelets say that pods are gone."""
        self._begun = snapshot is None

    def changes(self, event: AuditEvent) -> Iterator[HistoryChange]:
        """What an event changes."""
        if not self._begun:
            self._begun = True
            yield from self._of_snapshot()
        kind = KEPT[event.group, event.resource]
        match event.verb, event.subresource:
            case "get" | "list", _:
                yield from self._shown(kind, event)
            case "create", "binding":
                yield from self._bound(event)
            case "create", "eviction":
                yield from self._deleted(kind, event, "EvictionByEvictionAPI")
            case "create", "":
                yield from self._created(kind, event)
            case "update" | "patch", _:
                yield from self._updated(kind, event)
            case "delete", "":
                yield from self._deleted(kind, event, "Deleted")
            case "deletecollection", "":
                yield from self._deleted_many(kind, event)

    def _of_snapshot(self) -> Iterator[HistoryChange]:
        assert self._snapshot is not None
        for kind in RECORDED:
            for key in self._snapshot.of_kind(kind):
                obj = self._snapshot.document(kind, key)
                assert obj is not None
                created = date_of(obj["metadata"].get("creationTimestamp"))
                if created is None or created <= self._begin:
                    yield from self._older(kind, obj, self._begin)

    def _shown(self, kind: Kind, event: AuditEvent) -> Iterator[HistoryChange]:
        """What a read shows of objects that are older than the log."""
        for obj in listed(kind, event.response):
            known = key_of(obj) in self._objects[kind] or self._is_gone(kind, obj)
            if not known and (kind not in {POD, NODE} or "spec" in obj):
                yield from self._older(kind, obj, event.time)

    def _created(self, kind: Kind, event: AuditEvent) -> Iterator[HistoryChange]:
        obj = stored(kind, event, None)
        if obj is None:
            if not isinstance(event.request, dict) and kind is not POD:
                self._problems.add(_NO_OBJECT, f"{kind.resource} {event.namespace}/{event.name}")
                return
            obj = self._completed(event) if kind is POD else sent(event)
        if kind is POD and not obj["metadata"].get("name"):
            prefix = f"{event.namespace}/{obj['metadata'].get('generateName', '')}"
            self._nameless[prefix].append((event.time, obj))
            return
        if not self._is_gone(kind, obj):
            yield from self._arrived(kind, obj, event.time)

    def _completed(self, event: AuditEvent) -> Document:
        """A pod from the log, which has what was sent, or its name only."""
        obj = sent(event)
        name = key_in(event) + ("" if event.name else str(obj["metadata"].get("generateName") or ""))
        if not isinstance(event.request, dict):
            self._problems.add(_NAME_ONLY, name)
            return {**obj, "spec": {"containers": []}}
        self._problems.add(_AS_SENT, name)
        classes = {**self._classes, **self._objects[PRIORITY_CLASS]}
        obj, unknown = completed(obj, classes)
        if unknown:
            self._problems.add(_NO_CLASS, unknown)
        return obj

    def _arrived(self, kind: Kind, obj: Document, time: datetime) -> Iterator[HistoryChange]:
        key = key_of(obj)
        known = self._objects[kind].get(key)
        if known is not None:
            if is_older(obj, known) or uid_of(known) == uid_of(obj):
                return
            yield from self._removed(kind, key, time)
        self._gone.discard((kind, key))
        yield from self._put(kind, obj, time)
        created = date_of(obj["metadata"].get("creationTimestamp"))
        for event in self._early.pop(key, ()) if kind is POD else ():
            if created is None or created <= event.time:
                event.time = max(time, event.time)
                yield from self.changes(event)

    def _put(self, kind: Kind, obj: Document, time: datetime) -> Iterator[HistoryChange]:
        """A version of an object was stored."""
        self._objects[kind][key_of(obj)] = obj
        self._has_nodes = self._has_nodes or kind is NODE
        yield from self._following.put(kind, obj, time)

    def _older(self, kind: Kind, obj: Document, time: datetime) -> Iterator[HistoryChange]:
        """An object whose creation isn't in the log."""
        self._objects[kind][key_of(obj)] = obj
        self._has_nodes = self._has_nodes or kind is NODE
        created = date_of(obj["metadata"].get("creationTimestamp"))
        if created is None or created <= self._begin:
            yield from self._following.put(kind, obj, self._begin, initial=True)
            return
        if kind is POD:
            self._problems.add(_LATE, key_of(obj))
            without_node = {**obj, "spec": {k: v for k, v in obj["spec"].items() if k != "nodeName"}, "status": {}}
            yield from self._following.put(kind, without_node, created)
        yield from self._following.put(kind, obj, time if kind is POD else created)

    def _updated(self, kind: Kind, event: AuditEvent) -> Iterator[HistoryChange]:
        key = key_in(event)
        if kind is POD:
            yield from self._named(key, {}, event)
        known = self._objects[kind].get(key)
        obj = stored(kind, event, known)
        if obj is None:
            obj = self._patched(kind, key, known, event)
        if obj is not None:
            yield from self._stored(kind, obj, event.time)
        if kind is POD and event.subresource == "status":
            yield from self._found_home(key, event.user, event.time)

    def _stored(self, kind: Kind, obj: Document, time: datetime) -> Iterator[HistoryChange]:
        """A version of an object that may be its last one, or older than what is known."""
        known = self._objects[kind].get(key_of(obj))
        if self._is_gone(kind, obj) or (known is not None and is_older(obj, known)):
            return
        if known is not None and uid_of(known) != uid_of(obj):
            obj = self._identified(obj, known)
            if uid_of(known) != uid_of(obj):  # another one of the same name, whose creation isn't in the log
                yield from self._removed(kind, key_of(obj), time)
                known = None
        if known is None:
            if kind not in {POD, NODE} or "spec" in obj:
                yield from self._older(kind, obj, time)
        else:
            obj = with_what_lasts(obj, known)
            if not is_removed(kind, obj):
                yield from self._put(kind, obj, time)
        if is_removed(kind, obj):
            yield from self._removed(kind, key_of(obj), time)

    def _identified(self, obj: Document, known: Document) -> Document:
        """A version of a pod with the uid that the pod was given here, if its creation was logged without one."""
        if "/" not in uid_of(known):
            return obj
        self._uids[uid_of(obj)] = uid_of(known)
        return {**obj, "metadata": {**obj["metadata"], "uid": uid_of(known)}}

    def _patched(self, kind: Kind, key: str, known: Document | None, event: AuditEvent) -> Document | None:
        """The object after an update or a patch, if only the request is known."""
        if known is None and (event.verb != "update" or event.subresource or not isinstance(event.request, dict)):
            self._missing(kind, key, event)
            return None
        if event.request is None:
            if kind is not POD:
                self._problems.add(_NO_OBJECT, f"{kind.resource} {key}")
            return None
        obj = patched(kind, known or {}, event)
        if obj is None:
            self._problems.add(BAD_PATCH, f"{kind.resource} {key}")
        return obj

    def _missing(self, kind: Kind, key: str, event: AuditEvent) -> None:
        """An event is about an object that isn't known, or not yet: the creation of a pod may be logged later."""
        if kind is POD:
            self._early[key].append(event)
        elif kind is NODE and (kind, key) not in self._gone:
            self._unknown_nodes.add(key)

    def _bound(self, event: AuditEvent) -> Iterator[HistoryChange]:
        binding = event.request if isinstance(event.request, dict) else {}
        metadata, target = mapping(binding, "metadata"), mapping(binding, "target")
        node = str(target.get("name") or "")
        key = f"{event.namespace}/{event.name or str(metadata.get('name') or '')}"
        yield from self._named(key, metadata, event)
        known = self._objects[POD].get(key)
        if known is not None:
            if metadata.get("uid"):
                self._identified(binding, known)
            yield from self._placed(key, node, event.time)
        else:
            self._missing(POD, key, event)

    def _placed(self, key: str, node: str, time: datetime) -> Iterator[HistoryChange]:
        known = self._objects[POD][key]
        if known.get("spec", {}).get("nodeName"):
            return
        if node:
            yield from self._put(POD, on_node(known, node), time)
        else:
            self._homeless[key] = time

    def _found_home(self, key: str, user: str, time: datetime) -> Iterator[HistoryChange]:
        """A kubelet has written the status of a pod, which only that of the pod's node may do."""
        known = self._objects[POD].get(key)
        if key in self._homeless and known is not None and user.startswith(KUBELET):
            time = self._homeless.pop(key)
            if not known.get("spec", {}).get("nodeName"):
                yield from self._put(POD, on_node(known, user.removeprefix(KUBELET)), time)

    def _named(self, key: str, metadata: Mapping[str, Any], event: AuditEvent) -> Iterator[HistoryChange]:
        """If a pod isn't known: it is the oldest one without a name that may have this one."""
        if key in self._objects[POD] or (POD, key) in self._gone:
            return
        namespace, _, name = key.partition("/")
        waiting = self._nameless.get(f"{namespace}/{name[:-_NAME_SUFFIX]}") or self._nameless.get(f"{namespace}/")
        if not waiting:
            return
        created = date_of(mapping(event.response or {}, "metadata").get("creationTimestamp"))
        if created is not None and created <= self._begin:
            return
        time, obj = waiting.popleft()
        identity = {"name": name, "namespace": namespace, "uid": metadata.get("uid") or key}
        yield from self._arrived(POD, {**obj, "metadata": {**obj["metadata"], **identity}}, time)

    def _deleted(self, kind: Kind, event: AuditEvent, reason: str) -> Iterator[HistoryChange]:
        """A delete, or an eviction: a pod on a node goes on until its kubelet deletes it."""
        key = key_in(event)
        if kind is POD:
            yield from self._named(key, {}, event)
            yield from self._found_home(key, event.user, event.time)
        known = self._objects[kind].get(key)
        obj = stored(kind, event, known)
        if obj is not None and self._is_gone(kind, obj):
            return
        if known is None and (obj is None or (kind in {POD, NODE} and "spec" not in obj)):
            self._missing(kind, key, event)
            return
        if known is None and obj is not None:
            yield from self._older(kind, obj, event.time)
        self._has_last_deletes = self._has_last_deletes or (kind is POD and grace_in(event) == 0)
        if obj is None and kind is not POD and (event.response or {}).get("kind") == "Status":
            yield from self._removed(kind, key, event.time)
            return
        if obj is None or ("deletionTimestamp" not in obj["metadata"] and obj["metadata"].get("finalizers")):
            obj = self._after_delete(kind, key, grace_in(event), event.time)
        elif "deletionTimestamp" not in obj["metadata"]:  # nothing had to wait: it was removed without being marked
            yield from self._removed(kind, key, event.time)
            return
        elif kind is POD and grace_in(event) == 0:
            obj = without_grace(obj)
        if reason != "Deleted":
            self._evicted.setdefault(key, reason)
        yield from self._stored(kind, obj, event.time)

    def _after_delete(self, kind: Kind, key: str, grace: int | None, time: datetime) -> Document:
        known = self._objects[kind][key]
        on_a_node = bool(mapping(known, "spec").get("nodeName")) or key in self._homeless
        return after_delete(kind, known, grace, time, bound=on_a_node)

    def _deleted_many(self, kind: Kind, event: AuditEvent) -> Iterator[HistoryChange]:
        """A deletion of many objects. Its response has them as they were before."""
        items = listed(kind, event.response)
        for obj in items:
            if key_of(obj) not in self._objects[kind] and not self._is_gone(kind, obj):
                yield from self._older(kind, obj, event.time)
        keys = (
            [key_of(obj) for obj in items if self._is_known(kind, obj)]
            if items
            else selected(event, self._objects[kind])
        )
        if keys is None:
            self._problems.add(_NO_LIST, event.uri or f"{event.time:%Y-%m-%d %H:%M:%S}")
        for key in keys or ():
            if key in self._objects[kind]:
                obj = self._after_delete(kind, key, grace_in(event), event.time)
                yield from self._stored(kind, obj, event.time)

    def _is_known(self, kind: Kind, obj: Document) -> bool:
        """Whether the object that is known by this name is this one, not a newer one."""
        known = self._objects[kind].get(key_of(obj))
        return known is not None and uid_of(self._identified(obj, known)) == uid_of(known)

    def _removed(self, kind: Kind, key: str, time: datetime) -> Iterator[HistoryChange]:
        known = self._objects[kind].pop(key)
        self._gone |= {(kind, key), (kind, uid_of(known))}
        self._homeless.pop(key, None)
        reason = self._evicted.pop(key, "Deleted") if kind is POD else "Deleted"
        yield from self._following.removed(kind, key, time, reason)

    def _is_gone(self, kind: Kind, obj: Document) -> bool:
        uid = uid_of(obj)
        return (kind, self._uids.get(uid, uid)) in self._gone

    def rest(self, end: datetime) -> Iterator[HistoryChange]:
        """What is known at the end only: pods whose names are unknown, and ends that were not logged."""
        for prefix, waiting in self._nameless.items():
            for number, (time, obj) in enumerate(waiting):
                namespace, _, base = prefix.partition("/")
                name = f"{base}unbound-{number}"
                identity = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
                yield from self._following.put(POD, {**obj, "metadata": {**obj["metadata"], **identity}}, time)
        for key in () if self._has_last_deletes else tuple(self._objects[POD]):
            known = self._objects[POD][key]
            until = date_of(known["metadata"].get("deletionTimestamp"))
            if until is not None and until <= end and known.get("status", {}).get("phase") not in TERMINATED:
                self._problems.add("the last deletion of a pod is not in the log: it ends after its grace", key)
                yield from self._removed(POD, key, until)
        for key in self._homeless:
            self._problems.add(_NO_TARGET, key)
        for key in sorted(self._early):
            if (POD, key) not in self._gone and key not in self._objects[POD]:
                self._problems.add(_NO_CREATION, key)
        for key in sorted(self._unknown_nodes - self._objects[NODE].keys()):
            self._problems.add(_NO_NODE, key)
        if not self._has_nodes:
            self._problems.add("the log shows no node, so nothing can be placed: add --snapshot with a snapshot")
