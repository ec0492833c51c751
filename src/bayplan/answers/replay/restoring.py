"""Restores a scheduler from a checkpoint.

A checkpoint has the objects, the pods on nodes and the places of pods in the queue, but not which pods are rejected
alike. So a replay that begins at one takes the turns of pods from the recording.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lightkube.models.core_v1 import Node
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.api.objects import UndecodableObject
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.queue import QueuedPod, SchedulingQueue
from bayplan.core.queue.queued_pod import Place, QueuedGroup
from bayplan.running.recording.entries import Checkpoint, RecordedPlace, RecordedQueued

_HOLE = "a free row "
"""The name of a node that is on a row only until all nodes have theirs. No name of a node has spaces."""


Decode = Callable[[Kind, bytes], Any]


class RestoredQueue(SchedulingQueue):
    """A queue whose pods can be put in their places, and which can be told whose turn it is.

    Which pods are rejected alike isn't in a checkpoint. A queue doesn't know then whose turn it is, but has all pods.
    """

    def restore(self, queued: QueuedPod, place: Place, now: float) -> None:
        """Put a pod in a place. The first pod of a group says for all of them when the group has its turn."""
        key = self._group_of(queued.pod)
        if key is None:
            self._enter(queued, place, None, now)
            return
        group = self._queued_groups.get(key)
        if group is None:
            group = self._queued_groups[key] = QueuedGroup.of(key, queued)
        else:
            self._leave_group(group)
            group.add(queued)
        self._enter_group(group, Place.ACTIVE if place is Place.PENDING else place, None, now)

    def turn_of(self, uid: str, now: float) -> QueuedPod | None:
        """Return the pod whose turn it was, in flight; None if it is unknown or gated. `uid`: "" if it was no pod's."""
        self.flush(now)
        return self.take(uid, now, joins=False) if uid else None


def restore_state(checkpoint: Checkpoint, state: ClusterState, kinds: dict[str, Kind], decode: Decode) -> None:
    """Put the objects, and the pods on their rows, into an empty state. `decode`: of a kind and the JSON."""
    nodes: dict[str, Node] = {}
    for each in checkpoint.objects:
        kind = kinds.get(each.kind)
        if kind is None:
            continue
        try:
            obj = decode(kind, each.raw)
        except UndecodableObject:
            continue
        if kind is NODE:
            nodes[each.key] = obj.object
        else:
            state.objects[kind].set(each.key, obj)
            if each.assumed is not None:
                state.objects[kind].assume(each.key, decode(kind, each.assumed))
    placed: dict[str, list[RecordedPlace]] = {}
    for place in checkpoint.placed:
        placed.setdefault(place.node, []).append(place)
    holes = []
    for number, name in enumerate(checkpoint.rows):
        if name in nodes:
            state.set_node(nodes[name])
            state.objects[NODE].set(name, nodes[name])
        elif name not in placed:
            holes.append(f"{_HOLE}{number}")
            state.set_node(Node(metadata=ObjectMeta(name=holes[-1])))
        for place in placed.get(name, ()):
            pod = state.objects[POD].get(place.key)
            if pod is not None and pod.uid == place.uid:
                _place(state, pod, place)
    for name in holes:
        state.remove_node(name)
    for key, uid, node in checkpoint.nominated:
        pod = state.objects[POD].get(key)
        if pod is not None and pod.uid == uid:
            state.nominations.add(pod, node)


def _place(state: ClusterState, pod: PodInfo, place: RecordedPlace) -> None:
    if place.assumed:
        state.assume(pod.on_node(""), place.node)
    else:
        state.set_pod(pod)


def restore_queue(checkpoint: Checkpoint, queue: RestoredQueue, state: ClusterState) -> None:
    """Put the pods that wait into an empty queue."""
    for each in checkpoint.queued:
        pod = state.objects[POD].get(each.key)
        if pod is not None:
            queue.restore(_queued(pod, each), Place(each.place), each.queued_at)


def _queued(pod: PodInfo, each: RecordedQueued) -> QueuedPod:
    return QueuedPod(
        pod,
        each.queued_at,
        attempts=each.attempts,
        initial_attempt_at=each.initial_attempt_at,
        unschedulable_count=each.unschedulable_count,
        consecutive_errors=each.consecutive_errors,
        backoff_expiration=each.backoff_expiration,
        unschedulable_plugins=frozenset(each.unschedulable_plugins),
        pending_plugins=frozenset(each.pending_plugins),
        gating_plugin=each.gating_plugin,
        was_flushed=each.was_flushed,
        undone=each.undone,
        message=each.message,
    )
