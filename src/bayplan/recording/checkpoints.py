"""Checkpoints: the state of a scheduler as an entry, so that a segment can be read without the ones before.

What plugins keep to themselves is not in it, but for what follows from the objects and from the pods on nodes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bayplan.api.kinds import NODE, Kind
from bayplan.api.objects import encode
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.executor.handlers import SentNode
from bayplan.queue import QueuedPod, SchedulingQueue
from bayplan.recording.entries import Checkpoint, RecordedEntry, RecordedObject, RecordedPlace, RecordedQueued


class DeferredCheckpoint(RecordedEntry, gc=True):
    """A checkpoint whose objects are encoded later, in the writer's thread: objects never change."""

    make: Callable[[], Checkpoint]


def checkpoint(
    state: ClusterState,
    queue: SchedulingQueue,
    kinds: Iterable[Kind],
    counts: tuple[float, int, int],
    binding: Mapping[int, str],
    chance: tuple[random.Random, int],
) -> DeferredCheckpoint:
    """The state now. It takes references only, which is quick.

    `counts`: the time, and how many decisions and tasks there were. `chance`: the random numbers, and the rotation.
    """
    objects = [(kind.kind, key, obj, state.objects[kind][key]) for kind in kinds for key, obj in _known(state, kind)]
    table = state.table
    rows = tuple(table.names[: table.size])
    placed = tuple(
        RecordedPlace(pod.key, pod.uid, pod.node_name, state.is_assumed(pod.uid))
        for row in range(table.size)
        for pod in table.pods[row].values()
    )
    queued = tuple(_queued(each) for each in queue.waiting())
    nominated = tuple(
        (pod.key, uid, node) for node, pods in state.nominations.nodes.items() for uid, pod in pods.items()
    )
    at, decisions, tasks = counts
    rng, rotation = chance
    drawn = rng.getstate()

    def make() -> Checkpoint:
        recorded = tuple(
            RecordedObject(kind, key, raw_of(known), None if current is known else raw_of(current))
            for kind, key, known, current in objects
        )
        return Checkpoint(
            [], at, decisions, tasks, recorded, rows, placed, queued, nominated, tuple(binding.items()), drawn, rotation
        )

    return DeferredCheckpoint([], make)


def _known(state: ClusterState, kind: Kind) -> list[tuple[str, Any]]:
    store = state.objects[kind]
    keys = list(store)
    if kind is NODE:  # in the order of their rows, so that they get them again
        keys.sort(key=lambda key: state.table.row_of.get(key, -1))
    return [(key, store.known(key)) for key in keys]


def _queued(each: QueuedPod) -> RecordedQueued:
    return RecordedQueued(
        each.pod.key,
        each.place.value if each.place is not None else "",
        each.queued_at,
        each.attempts,
        each.initial_attempt_at,
        each.unschedulable_count,
        each.consecutive_errors,
        each.backoff_expiration,
        tuple(sorted(each.unschedulable_plugins)),
        tuple(sorted(each.pending_plugins)),
        each.gating_plugin,
        each.was_flushed,
        each.undone,
        each.message,
    )


def raw_of(obj: Any) -> bytes:
    """The JSON of an object as a store or a watch has it."""
    if isinstance(obj, PodInfo):
        return obj.raw
    if isinstance(obj, SentNode):
        return obj.raw if obj.raw is not None else encode(obj.object)
    return encode(obj)
