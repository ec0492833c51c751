"""What the server tells, taken over into the cluster state and the queue.

Mirrors pkg/scheduler/eventhandlers.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import msgspec
from lightkube.models.core_v1 import Node

from bayplan.api.kinds import NODE, POD, Kind
from bayplan.api.objects import bare, decode
from bayplan.clock import Clock
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
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
from bayplan.framework.events import Action, ClusterEvent
from bayplan.log_fields import about_node, about_pod
from bayplan.queue import SchedulingQueue
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.metrics.measuring import Metrics
from bayplan.service.pod_status import PodStatusWriter
from bayplan.service.waiting_pods import WaitingPods

log = logging.getLogger(__name__)

T = TypeVar("T")

LIVE_PODS = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that are done take nothing any more, and there may be many of them."""

_NODE_UPDATE = "NodeUpdate"
"""What metrics call any update of a node, heartbeats too: what it means is found out while it is handled."""


class SentNode(msgspec.Struct, frozen=True, gc=False):
    """A node, and its JSON if somebody wants whole nodes (see `api.objects.bare`)."""

    object: Node
    raw: bytes | None = None

    @classmethod
    def read(cls, raw: bytes) -> SentNode:
        """A node as a server sent it. Raises UndecodableObject."""
        return cls(decode(Node, raw))

    @classmethod
    def keep(cls, raw: bytes) -> SentNode:
        """The same, with its JSON."""
        return cls(decode(Node, raw), bare(raw))


class Intake:
    """The door through which changes reach the state: closed while a cycle is open, so that it sees one state.

    `wake` is called after every change: the loop may have work to do. `metrics` notes how long each took.
    """

    def __init__(self, wake: Callable[[], None], metrics: Metrics | None = None) -> None:
        self._wake = wake
        self._metrics = metrics or Metrics()
        self._holders = 0
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, event: str, change: Callable[..., None], *arguments: Any) -> None:
        """Apply a change, now or when the door opens again. `event` is what metrics call what happened."""
        if self._holders:
            self._waiting.append(lambda: self._apply(event, change, *arguments))
        else:
            self._apply(event, change, *arguments)
            self._wake()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep changes waiting; where several do so at a time, until the last one lets them pass."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                self._let_in()

    async def look(self, look: Callable[[], T]) -> T:
        """What `look` returns, called while no cycle is open: what it sees is so, and not thought."""
        if not self._holders:
            return look()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def take_a_look() -> None:
            if not answer.done():
                try:
                    answer.set_result(look())
                except Exception as error:  # noqa: BLE001 - it is raised where it was asked for
                    answer.set_exception(error)

        self._waiting.append(take_a_look)
        return await answer

    def _let_in(self) -> None:
        while self._waiting:
            try:
                self._waiting.popleft()()
            except Exception:
                log.exception("a change that had waited for the end of a cycle could not be taken over")
        self._wake()

    def _apply(self, event: str, change: Callable[..., None], *arguments: Any) -> None:
        began = self._metrics.now()
        change(*arguments)
        self._metrics.handled(event, began)


class PodHandler:
    """Pods: those with a node go to the state, those that wait for one of our schedulers to the queue."""

    def __init__(
        self,
        intake: Intake,
        state: ClusterState,
        queue: SchedulingQueue,
        waiting: WaitingPods,
        status: PodStatusWriter,
        recorder: EventRecorder,
        clock: Clock,
        scheduler_names: Collection[str],
    ) -> None:
        self._intake = intake
        self._state = state
        self._queue = queue
        self._waiting = waiting
        self._status = status
        self._recorder = recorder
        self._clock = clock
        self._scheduler_names = scheduler_names
        self._store = state.objects[POD]

    def added(self, new: PodInfo) -> None:
        """A new pod."""
        self._intake.take(_label(new, ASSIGNED_POD_ADD, UNSCHEDULED_POD_ADD), self._add, new)

    def updated(self, old: PodInfo, new: PodInfo) -> None:
        """A changed pod."""
        self._intake.take(_label(new, ASSIGNED_POD_UPDATE, UNSCHEDULED_POD_UPDATE), self._update, old, new)

    def deleted(self, old: PodInfo) -> None:
        """A pod is gone."""
        self._intake.take(_label(old, ASSIGNED_POD_DELETE, UNSCHEDULED_POD_DELETE), self._delete, old)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """A pod that cannot be read waits, and says so, if it is ours."""
        pod = _glance(raw)
        log.error("pod %s cannot be read and is left alone: %s", about_pod(pod), error)
        if pod.scheduler_name in self._scheduler_names and not pod.bound:
            note = f"the pod cannot be understood: {error}"
            self._recorder.record(pod, pod.scheduler_name, "Warning", "FailedScheduling", "Scheduling", note)

    def _add(self, pod: PodInfo) -> None:
        self._store.set(pod.key, pod)
        if pod.node_name:
            self._place(pod)
        elif self._ours(pod) and not pod.terminated:
            self._queue.add(pod, self._now())

    def _update(self, old: PodInfo, new: PodInfo) -> None:
        self._store.set(new.key, new)
        if new.node_name:
            if not old.node_name:
                self._place(new)
                return
            events = pod_changes(old, new)
            self._state.set_pod(new)
            new.release()
            for event in events:
                self._move(event, old, new)
        elif self._state.is_assumed(new.uid):
            if new.terminating and not old.terminating and (waiting := self._waiting.get(new.uid)):
                waiting.reject("", "the pod is being deleted")
        elif self._ours(new):
            if new.terminated:
                self._delete(old)
            elif old.resource_version != new.resource_version:
                self._queue.update(old, new, self._now())

    def _delete(self, pod: PodInfo) -> None:
        self._store.remove(pod.key)
        self._status.forget(pod.uid)
        if self._state.is_assumed(pod.uid):
            if waiting := self._waiting.get(pod.uid):
                waiting.reject("", "the pod was deleted")
            else:
                # On its way to its node: its binding will fail, but its room is free from now on.
                self._state.forget(pod.uid)
            self._move(ASSIGNED_POD_DELETE, pod, None)
        elif self._state.pod(pod.uid) is not None:
            self._state.remove_pod(pod.uid)
            self._move(ASSIGNED_POD_DELETE, pod, None)
        if self._ours(pod):
            self._queue.delete(pod, self._now())

    def _place(self, pod: PodInfo) -> None:
        """A pod turned up on a node: one that we bound, or that somebody else did."""
        self._state.set_pod(pod)
        self._queue.remove(pod.uid)
        self._status.forget(pod.uid)
        if pod.terminated:
            return
        pod.release()
        self._move(ASSIGNED_POD_ADD, None, pod)

    def _move(self, event: ClusterEvent, old: PodInfo | None, new: PodInfo | None) -> None:
        self._queue.move_on_event(event, old, new, self._now())

    def _ours(self, pod: PodInfo) -> bool:
        return pod.scheduler_name in self._scheduler_names

    def _now(self) -> float:
        return self._clock.monotonic()


class NodeHandler:
    """Nodes go to the state."""

    def __init__(self, intake: Intake, state: ClusterState, queue: SchedulingQueue, clock: Clock) -> None:
        self._intake = intake
        self._state = state
        self._store = state.objects[NODE]
        self._queue = queue
        self._clock = clock

    def added(self, new: SentNode) -> None:
        """A new node."""
        self._intake.take(NODE_ADD.label, self._add, new)

    def updated(self, old: SentNode, new: SentNode) -> None:
        """A changed node."""
        self._intake.take(_NODE_UPDATE, self._update, old, new)

    def deleted(self, old: SentNode) -> None:
        """A node is gone."""
        self._intake.take(NODE_DELETE.label, self._delete, old)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """A node that cannot be read is not used, or stays as it was known before."""
        log.error("node %s cannot be read and is left alone: %s", about_node(_glance(raw).name), error)

    def _add(self, node: SentNode) -> None:
        if self._taken_over(node):
            self._queue.move_on_event(NODE_ADD, None, node.object, self._clock.monotonic())

    def _update(self, old: SentNode, new: SentNode) -> None:
        if self._taken_over(new):
            for event in node_changes(old.object, new.object):
                self._queue.move_on_event(event, old.object, new.object, self._clock.monotonic())

    def _delete(self, node: SentNode) -> None:
        self._store.remove(_name(node.object))
        self._state.remove_node(_name(node.object))
        self._queue.move_on_event(NODE_DELETE, node.object, None, self._clock.monotonic())

    def _taken_over(self, node: SentNode) -> bool:
        try:
            self._state.set_node(node.object, node.raw)
        except ValueError as error:
            log.error("node %s cannot be understood and is left as it was: %s", about_node(_name(node.object)), error)  # noqa: TRY400 - bad input is no bug of ours
            return False
        self._store.set(_name(node.object), node.object)
        return True


class ObjectHandler:
    """Objects of any other kind that a plugin looks up or reacts to."""

    def __init__(self, kind: Kind, intake: Intake, state: ClusterState, queue: SchedulingQueue, clock: Clock) -> None:
        self._kind = kind
        self._intake = intake
        self._store = state.objects[kind]
        self._queue = queue
        self._clock = clock

    def added(self, new: Any) -> None:
        """A new object."""
        self._intake.take(f"{self._kind.kind}Add", self._set, None, new, Action.ADD)

    def updated(self, old: Any, new: Any) -> None:
        """A changed object."""
        self._intake.take(f"{self._kind.kind}Update", self._set, old, new, Action.UPDATE)

    def deleted(self, old: Any) -> None:
        """An object is gone."""
        self._intake.take(f"{self._kind.kind}Delete", self._remove, old)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """An object that cannot be read is left out."""
        seen = _glance(raw)
        log.error("%s %s/%s cannot be read and is left alone: %s", self._kind.kind, seen.namespace, seen.name, error)

    def _set(self, old: Any, new: Any, action: Action) -> None:
        self._store.set(_key(new), new)
        self._queue.move_on_event(object_event(self._kind.kind, action), old, new, self._clock.monotonic())

    def _remove(self, old: Any) -> None:
        self._store.remove(_key(old))
        self._queue.move_on_event(object_event(self._kind.kind, Action.DELETE), old, None, self._clock.monotonic())


def _label(pod: PodInfo, assigned: ClusterEvent, unscheduled: ClusterEvent) -> str:
    return (assigned if pod.node_name else unscheduled).label


def _name(obj: Any) -> str:
    return (obj.metadata.name if obj.metadata else None) or ""


def _key(obj: Any) -> str:
    namespace = obj.metadata.namespace if obj.metadata else None
    return f"{namespace}/{_name(obj)}" if namespace else _name(obj)


class _Glance(msgspec.Struct):
    """As much as can be told of an object that cannot be read."""

    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    scheduler_name: str = ""
    bound: bool = False


def _glance(raw: bytes) -> _Glance:
    try:
        document = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return _Glance()
    metadata = document.get("metadata") if isinstance(document, dict) else None
    spec = document.get("spec") if isinstance(document, dict) else None
    metadata, spec = metadata if isinstance(metadata, dict) else {}, spec if isinstance(spec, dict) else {}
    return _Glance(
        str(metadata.get("namespace") or ""),
        str(metadata.get("name") or ""),
        str(metadata.get("uid") or ""),
        str(metadata.get("resourceVersion") or ""),
        str(spec.get("schedulerName") or "default-scheduler"),
        bool(spec.get("nodeName")),
    )
