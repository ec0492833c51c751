"""Handlers of watch events: the one way from an object to the cluster state and the queue.

Mirrors pkg/scheduler/eventhandlers.go.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Any, Protocol

import msgspec
from lightkube.models.core_v1 import Node

from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.api.objects import bare, decode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.resizes import ATOMIC_RESIZES, RESIZES_PREEMPT
from bayplan.core.cluster.state import ClusterState
from bayplan.core.executor.intake import Intake
from bayplan.core.executor.runtime import MoveOnEvent, Runtime
from bayplan.core.framework.changes import (
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
from bayplan.core.framework.events import Action
from bayplan.core.framework.profile import gates_followed
from bayplan.core.framework.waiting_pods import PodInPermit, PodsInPermit
from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.foundations.log_fields import about_node, about_pod

log = logging.getLogger(__name__)


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


class PodQueue(Protocol):
    """The pods that are scheduled, as the handler of pods sees them. A SchedulingQueue is one."""

    def takes(self, pod: PodInfo) -> bool:
        """Return whether a pod of one of the schedulers belongs in the queue."""

    def pending(self, uid: str) -> PodInfo | None:
        """Return a pending pod by uid; None if it is unknown."""

    def add(self, pod: PodInfo, now: float) -> None:
        """Add a pod."""

    def update(self, old: PodInfo | None, new: PodInfo, now: float) -> None:
        """Store a new version of a pod."""

    def delete(self, pod: PodInfo, now: float) -> None:
        """Remove a deleted pod."""

    def remove(self, uid: str) -> None:
        """Remove a pod that was bound."""


@dataclass(frozen=True, slots=True)
class Receiver:
    """What events about objects change.

    `profiles`: the names of the schedulers whose pods are `pending`. `gates`: what they follow. `move` requeues the
    pods that an event may help. `forget`: nothing more is written about a pod with this uid.
    """

    state: ClusterState
    pending: PodQueue
    waiting: PodsInPermit[Any]
    intake: Intake
    profiles: Container[str]
    now: Callable[[], float]
    move: MoveOnEvent
    forget: Callable[[str], None]
    gates: FeatureGates = DEFAULT_GATES

    @classmethod
    def of_state(cls, state: ClusterState, gates: FeatureGates = DEFAULT_GATES) -> Receiver:
        """A state in which nothing is scheduled."""
        return cls(
            state=state,
            pending=NoPendingPods(),
            waiting=PodsInPermit(PodInPermit),
            intake=Intake(lambda: None),
            profiles=(),
            now=lambda: 0.0,
            move=lambda _event, _old, _new, _only=None: None,
            forget=lambda _: None,
            gates=gates,
        )

    @classmethod
    def of(cls, runtime: Runtime, move: MoveOnEvent | None = None) -> Receiver:
        """The state and the queue of a scheduler. `move`: by default that of the runtime."""
        ports = runtime.ports
        return cls(
            runtime.state,
            runtime.queue,
            runtime.waiting,
            runtime.intake,
            runtime.profiles,
            ports.now,
            move or runtime.move,
            ports.statuses.forget,
            gates_followed(runtime.profiles.values()),
        )


class NoPendingPods:
    """Implements PodQueue where nothing is scheduled."""

    def takes(self, pod: PodInfo) -> bool:
        """Take no pod."""
        return False

    def pending(self, uid: str) -> PodInfo | None:
        """No pod is pending."""
        return None

    def add(self, pod: PodInfo, now: float) -> None:
        """Ignore a pod."""

    def update(self, old: PodInfo | None, new: PodInfo, now: float) -> None:
        """Ignore a pod."""

    def delete(self, pod: PodInfo, now: float) -> None:
        """Ignore a pod."""

    def remove(self, uid: str) -> None:
        """Ignore a pod."""


class PodHandler:
    """Bound pods go to the state; pending pods of this scheduler's profiles go to the queue.

    So do bound pods whose resize is deferred, where resizes may preempt.
    """

    def __init__(self, receiver: Receiver) -> None:
        self._receiver = receiver
        self._move = receiver.move
        self._now = receiver.now
        self._state = receiver.state
        self._queue = receiver.pending
        self._store = receiver.state.objects[POD]
        self._atomic = receiver.gates.enabled(ATOMIC_RESIZES)
        self._resizes = receiver.gates.enabled(RESIZES_PREEMPT)
        self._duplicates: dict[str, PodInfo] = {}
        """Pods by key whose uid is that of another pod. They are ignored while that pod exists."""

    def put(self, key: str, new: PodInfo) -> None:
        """Handle a new or changed pod."""
        known = key in self._store
        if new.node_name:
            event = ASSIGNED_POD_UPDATE if known else ASSIGNED_POD_ADD
        else:
            event = UNSCHEDULED_POD_UPDATE if known else UNSCHEDULED_POD_ADD
        self._receiver.intake.take(event.label, self._put, new)

    def removed(self, key: str) -> None:
        """Handle the deletion of a pod."""
        known = self._store.get(key)
        event = ASSIGNED_POD_DELETE if known is not None and known.node_name else UNSCHEDULED_POD_DELETE
        self._receiver.intake.take(event.label, self._remove, key)

    def _put(self, new: PodInfo) -> None:
        if self._atomic:
            new = new.with_atomic_resizes()
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
            known = self._queue.pending(pod.uid)
        if known is None or known.key == pod.key:
            return None
        stored: PodInfo | None = self._store.get(known.key)  # a deleted pod may still be in flight
        return known if stored is not None and stored.uid == pod.uid else None

    def _add(self, pod: PodInfo) -> None:
        if pod.node_name:
            self._place(pod)
        elif self._ours(pod) and not pod.terminated:
            self._queue.add(pod, self._now())

    def _update(self, old: PodInfo, new: PodInfo) -> None:
        if new.node_name:
            if not old.node_name:
                self._place(new)
                return
            events = pod_changes(old, new, scale_ups=self._resizes)
            if self._resizes:
                self._follow_resize(old, new)
            self._state.set_pod(new)
            new.release()
            for event in events:
                self._move(event, old, new)
        elif self._state.is_assumed(new.uid):
            if new.terminating and not old.terminating and (waiting := self._receiver.waiting.get(new.uid)):
                waiting.reject("", "the pod is being deleted")
        elif self._ours(new):
            if new.terminated:
                self._delete(old)
            elif old.resource_version != new.resource_version or not new.resource_version:
                self._queue.update(old, new, self._now())

    def _remove(self, key: str) -> None:
        self._duplicates.pop(key, None)
        pod: PodInfo | None = self._store.get(key)
        if pod is not None:
            self._store.remove(key)
            self._delete(pod)
            for duplicate in [each for each in self._duplicates.values() if each.uid == pod.uid]:
                self._put(duplicate)

    def _delete(self, pod: PodInfo) -> None:
        self._receiver.forget(pod.uid)
        if self._state.is_assumed(pod.uid):
            if waiting := self._receiver.waiting.get(pod.uid):
                waiting.reject("", "the pod was deleted")
            else:
                # Its binding is under way and will fail, but the room is free from now on.
                self._state.forget(pod.uid)
            self._move(ASSIGNED_POD_DELETE, pod, None)
        elif self._state.pod(pod.uid) is not None:
            self._state.remove_pod(pod.uid)
            self._move(ASSIGNED_POD_DELETE, pod, None)
        if self._ours(pod):
            self._queue.delete(pod, self._now())

    def _place(self, pod: PodInfo) -> None:
        """Count a pod on its node. This scheduler bound it, and its binding ends by itself, or another client did."""
        ours = self._state.is_assumed(pod.uid)
        self._state.set_pod(pod)
        if not ours:
            self._queue.remove(pod.uid)
            self._receiver.forget(pod.uid)
        if pod.terminated:
            return
        pod.release()
        self._move(ASSIGNED_POD_ADD, None, pod)
        if self._resizes and self._queue.takes(pod):
            self._queue.add(pod, self._now())

    def _follow_resize(self, old: PodInfo, new: PodInfo) -> None:
        """Queue a pod while its resize is deferred."""
        waited = self._queue.takes(old)
        if not self._queue.takes(new):
            if waited:
                self._queue.delete(old, self._now())
        elif waited:
            self._queue.update(old, new, self._now())
        else:
            self._queue.add(new, self._now())

    def _ours(self, pod: PodInfo) -> bool:
        return pod.scheduler_name in self._receiver.profiles


class ObjectHandler:
    """Puts objects of the kinds that plugins read, or have events for, into their store.

    In metrics, every update of a kind has one name, heartbeats of nodes included, because the change is determined only
    when the update is handled.
    """

    def __init__(self, kind: Kind, receiver: Receiver) -> None:
        self._kind = kind
        self._receiver = receiver
        self._store = receiver.state.objects[kind]

    def put(self, key: str, new: Any) -> None:
        """Handle a new or changed object."""
        action = "Update" if key in self._store else "Add"
        self._receiver.intake.take(f"{self._kind.kind}{action}", self._put, key, new)

    def removed(self, key: str) -> None:
        """Handle the deletion of an object."""
        self._receiver.intake.take(f"{self._kind.kind}Delete", self._remove, key)

    def _put(self, key: str, new: Any) -> None:
        old = self._store.known(key)
        self._store.set(key, new)
        action = Action.ADD if old is None else Action.UPDATE
        self._receiver.move(object_event(self._kind.kind, action), old, new)

    def _remove(self, key: str) -> None:
        old = self._store.known(key)
        if old is not None:
            self._store.remove(key)
            self._receiver.move(object_event(self._kind.kind, Action.DELETE), old, None)


class NodeHandler(ObjectHandler):
    """Also puts nodes into the state. A version with an invalid value is ignored; the last valid one stays in use."""

    def __init__(self, receiver: Receiver) -> None:
        super().__init__(NODE, receiver)

    def invalid(self, key: str, error: ValueError) -> None:
        """Report an invalid version of a node."""
        log.error("ignoring an invalid version of node %s: %s", about_node(key), error)

    def _put(self, key: str, new: SentNode) -> None:
        try:
            self._receiver.state.set_node(new.object, new.raw)
        except ValueError as error:
            self.invalid(key, error)
            return
        old: Node | None = self._store.get(key)
        self._store.set(key, new.object)
        for event in (NODE_ADD,) if old is None else node_changes(old, new.object):
            self._receiver.move(event, old, new.object)

    def _remove(self, key: str) -> None:
        old: Node | None = self._store.get(key)
        if old is not None:
            self._store.remove(key)
            self._receiver.state.remove_node(key)
            self._receiver.move(NODE_DELETE, old, None)


class KindHandler(Protocol):
    """Handles what is reported of the objects of one kind."""

    def put(self, key: str, new: Any, /) -> None:
        """Handle a new or changed object; of nodes, a `SentNode`."""

    def removed(self, key: str, /) -> None:
        """Handle the deletion of an object."""


class Handlers:
    """The handler of each kind, made when it is first asked for. `pods`, `nodes`: by default those of this module."""

    def __init__(self, receiver: Receiver, pods: PodHandler | None = None, nodes: NodeHandler | None = None) -> None:
        self._receiver = receiver
        self._by_kind: dict[Kind, KindHandler] = {
            POD: pods or PodHandler(receiver),
            NODE: nodes or NodeHandler(receiver),
        }

    def of(self, kind: Kind) -> KindHandler:
        """Return the handler of a kind."""
        handler = self._by_kind.get(kind)
        if handler is None:
            handler = self._by_kind[kind] = ObjectHandler(kind, self._receiver)
        return handler
