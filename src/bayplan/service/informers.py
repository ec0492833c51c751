"""Handlers of watch events: they update the cluster state and the queue.

Mirrors pkg/scheduler/eventhandlers.go.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import msgspec
from lightkube.models.core_v1 import Node

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.api.objects import bare, decode
from bayplan.client.answers import Identity
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.changes import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    node_changes,
    object_event,
    pod_changes,
)
from bayplan.framework.events import Action
from bayplan.log_fields import about_node, about_pod
from bayplan.service.runtime import Runtime

log = logging.getLogger(__name__)

LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Terminated pods use nothing, and there may be many of them."""


class SentNode(msgspec.Struct, frozen=True, gc=False):
    """A node, and its JSON where extenders need whole nodes (see `api.objects.bare`)."""

    object: Node
    raw: bytes | None = None

    @classmethod
    def read(cls, raw: bytes) -> SentNode:
        """Decode a node. Raises UndecodableObject."""
        return cls(decode(Node, raw))

    @classmethod
    def keep(cls, raw: bytes) -> SentNode:
        """Decode a node and keep its JSON. Raises UndecodableObject."""
        return cls(decode(Node, raw), bare(raw))


class PodHandler:
    """Bound pods go to the state; pending pods of this scheduler's profiles go to the queue."""

    def __init__(self, runtime: Runtime, scheduler_names: Collection[str]) -> None:
        self._runtime = runtime
        self._state = runtime.state
        self._queue = runtime.queue
        self._scheduler_names = scheduler_names
        self._store = runtime.state.objects[POD]
        self._duplicates: dict[str, PodInfo] = {}
        """Pods by key whose uid is that of another pod. They are ignored while that pod exists."""

    def put(self, key: str, new: PodInfo) -> None:
        """Handle a new or changed pod."""
        known = key in self._store
        if new.node_name:
            event = ASSIGNED_POD_UPDATE if known else ASSIGNED_POD_ADD
        else:
            event = UNSCHEDULED_POD_UPDATE if known else UNSCHEDULED_POD_ADD
        self._runtime.intake.take(event.label, self._put, new)

    def removed(self, key: str) -> None:
        """Handle the deletion of a pod."""
        known = self._store.get(key)
        event = ASSIGNED_POD_DELETE if known is not None and known.node_name else UNSCHEDULED_POD_DELETE
        self._runtime.intake.take(event.label, self._remove, key)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Report a pod that cannot be decoded; a pending one of this scheduler gets an event."""
        pod = _Undecodable.of(raw)
        log.error("ignoring pod %s, which cannot be decoded: %s", about_pod(pod), error)
        if pod.scheduler_name in self._scheduler_names and not pod.bound:
            note = f"the pod cannot be decoded: {error}"
            self._runtime.recorder.record(pod, pod.scheduler_name, "Warning", "FailedScheduling", "Scheduling", note)

    def _put(self, new: PodInfo) -> None:
        self._duplicates.pop(new.key, None)
        other = self._other_of(new)
        if other is not None:
            log.error("ignoring pod %s, which has the uid of pod %s", about_pod(new), about_pod(other, "other"))
            self._duplicates[new.key] = new
            return
        old: PodInfo | None = self._store.get(new.key)
        self._store.set(new.key, new)
        if old is None:
            self._add(new)
        elif (old.node_name and not new.node_name) or old.scheduler_name != new.scheduler_name:
            self._delete(old)  # the API server allows neither change: it is another pod
            self._add(new)
        else:
            self._update(old, new)

    def _other_of(self, pod: PodInfo) -> PodInfo | None:
        """The known pod with the same uid and another name, which the API server never creates; usually None."""
        known = self._state.pod(pod.uid)
        if known is None:
            queued = self._queue.get(pod.uid)
            known = None if queued is None else queued.pod
        if known is None or known.key == pod.key:
            return None
        stored: PodInfo | None = self._store.get(known.key)  # a deleted pod may still be in flight
        return known if stored is not None and stored.uid == pod.uid else None

    def _add(self, pod: PodInfo) -> None:
        if pod.node_name:
            self._place(pod)
        elif self._ours(pod) and not pod.terminated:
            self._queue.add(pod, self._runtime.now())

    def _update(self, old: PodInfo, new: PodInfo) -> None:
        if new.node_name:
            if not old.node_name:
                self._place(new)
                return
            events = pod_changes(old, new)
            self._state.set_pod(new)
            new.release()
            for event in events:
                self._runtime.move(event, old, new)
        elif self._state.is_assumed(new.uid):
            if new.terminating and not old.terminating and (waiting := self._runtime.waiting.get(new.uid)):
                waiting.reject("", "the pod is being deleted")
        elif self._ours(new):
            if new.terminated:
                self._delete(old)
            elif old.resource_version != new.resource_version:
                self._queue.update(old, new, self._runtime.now())

    def _remove(self, key: str) -> None:
        self._duplicates.pop(key, None)
        pod: PodInfo | None = self._store.get(key)
        if pod is not None:
            self._store.remove(key)
            self._delete(pod)
            for duplicate in [each for each in self._duplicates.values() if each.uid == pod.uid]:
                self._put(duplicate)

    def _delete(self, pod: PodInfo) -> None:
        self._runtime.status.forget(pod.uid)
        if self._state.is_assumed(pod.uid):
            if waiting := self._runtime.waiting.get(pod.uid):
                waiting.reject("", "the pod was deleted")
            else:
                # Its binding is under way and will fail, but the room is free from now on.
                self._state.forget(pod.uid)
            self._runtime.move(ASSIGNED_POD_DELETE, pod, None)
        elif self._state.pod(pod.uid) is not None:
            self._state.remove_pod(pod.uid)
            self._runtime.move(ASSIGNED_POD_DELETE, pod, None)
        if self._ours(pod):
            self._queue.delete(pod, self._runtime.now())

    def _place(self, pod: PodInfo) -> None:
        """Count a pod on its node. This scheduler bound it, and its binding ends by itself, or another client did."""
        ours = self._state.is_assumed(pod.uid)
        self._state.set_pod(pod)
        if not ours:
            self._queue.remove(pod.uid)
            self._runtime.status.forget(pod.uid)
        if pod.terminated:
            return
        pod.release()
        self._runtime.move(ASSIGNED_POD_ADD, None, pod)

    def _ours(self, pod: PodInfo) -> bool:
        return pod.scheduler_name in self._scheduler_names


class ObjectHandler:
    """Puts objects of the kinds that plugins read, or have events for, into their store.

    In metrics, every update of a kind has one name, heartbeats of nodes included, because the change is determined only
    when the update is handled.
    """

    def __init__(self, kind: Kind, runtime: Runtime) -> None:
        self._kind = kind
        self._runtime = runtime
        self._store = runtime.state.objects[kind]

    def put(self, key: str, new: Any) -> None:
        """Handle a new or changed object."""
        action = "Update" if key in self._store else "Add"
        self._runtime.intake.take(f"{self._kind.kind}{action}", self._put, key, new)

    def removed(self, key: str) -> None:
        """Handle the deletion of an object."""
        self._runtime.intake.take(f"{self._kind.kind}Delete", self._remove, key)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Report an object that cannot be decoded."""
        key = Identity.of(raw).key
        log.error("ignoring %s %s, which cannot be decoded: %s", self._kind.kind.lower(), key, error)

    def _put(self, key: str, new: Any) -> None:
        old = self._store.known(key)
        self._store.set(key, new)
        action = Action.ADD if old is None else Action.UPDATE
        self._runtime.move(object_event(self._kind.kind, action), old, new)

    def _remove(self, key: str) -> None:
        old = self._store.known(key)
        if old is not None:
            self._store.remove(key)
            self._runtime.move(object_event(self._kind.kind, Action.DELETE), old, None)


class NodeHandler(ObjectHandler):
    """Also puts nodes into the state. A version with an invalid value is ignored; the last valid one stays in use."""

    def __init__(self, runtime: Runtime) -> None:
        super().__init__(NODE, runtime)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Report a node that cannot be decoded; its last version stays in use."""
        log.error("ignoring node %s, which cannot be decoded: %s", about_node(Identity.of(raw).key), error)

    def _put(self, key: str, new: SentNode) -> None:
        try:
            self._runtime.state.set_node(new.object, new.raw)
        except ValueError as error:
            log.error("ignoring an invalid version of node %s: %s", about_node(key), error)  # noqa: TRY400 - bad input is not a bug
            return
        old: Node | None = self._store.get(key)
        self._store.set(key, new.object)
        for event in (NODE_ADD,) if old is None else node_changes(old, new.object):
            self._runtime.move(event, old, new.object)

    def _remove(self, key: str) -> None:
        old: Node | None = self._store.get(key)
        if old is not None:
            self._store.remove(key)
            self._runtime.state.remove_node(key)
            self._runtime.move(NODE_DELETE, old, None)


class _Spec(msgspec.Struct):
    schedulerName: str | None = None
    nodeName: str | None = None


class _Document(msgspec.Struct):
    spec: _Spec | None = None


@dataclass(slots=True)
class _Undecodable:
    """The readable fields of a pod that cannot be decoded; other fields are ""."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    scheduler_name: str
    bound: bool

    @classmethod
    def of(cls, raw: bytes) -> _Undecodable:
        identity = Identity.of(raw)
        namespace, _, name = identity.key.rpartition("/")
        try:
            spec = msgspec.json.decode(raw, type=_Document).spec or _Spec()
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            spec = _Spec()
        scheduler_name = spec.schedulerName or "default-scheduler"
        return cls(namespace, name, identity.uid, identity.resource_version, scheduler_name, bool(spec.nodeName))
