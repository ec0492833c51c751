"""Checkpoints: the state of a scheduler as an entry, so that a segment can be read without the ones before.

Of what plugins keep to themselves, it has what they put into it (`memories.py`); the rest has to follow from the
objects and from the pods on nodes.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.executor.handlers import SentNode
from bayplan.core.queue import QueuedPod, SchedulingQueue
from bayplan.running.recording.entries import (
    Checkpoint,
    RecordedEntry,
    RecordedMemory,
    RecordedObject,
    RecordedPlace,
    RecordedQueued,
)


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
    requests: Callable[[], bytes] = bytes,
    memories: tuple[RecordedMemory, ...] = (),
) -> DeferredCheckpoint:
    """The state now. It takes references only, which is quick; what is made of them is left to the writer's thread.

    `counts`: the time, and how many decisions and tasks there were. `chance`: the random numbers, and the rotation.
    `requests`: encodes the answered provisioning requests. `memories`: what plugins remember.
    """
    table = state.table
    stores = [(kind, *state.objects[kind].copied()) for kind in kinds]
    rows, pods, assumed = tuple(table.names[: table.size]), [[*row.values()] for row in table.pods], state.assumed
    queued = tuple(_queued(each) for each in queue.waiting())
    nominated = tuple(
        (pod.key, uid, node) for node, pods in state.nominations.nodes.items() for uid, pod in pods.items()
    )
    at, decisions, tasks = counts
    rng, rotation = chance
    drawn = rng.getstate()

    def make() -> Checkpoint:
        objects = tuple(
            RecordedObject(kind.kind, key, raw_of(obj), raw_of(written[key]) if key in written else None)
            for kind, known, written in stores
            for key, obj in known.items()
        )
        placed = tuple(
            RecordedPlace(pod.key, pod.uid, pod.node_name, pod.uid in assumed) for row in pods for pod in row
        )
        return Checkpoint(
            [],
            at,
            decisions,
            tasks,
            objects,
            rows,
            placed,
            queued,
            nominated,
            tuple(binding.items()),
            drawn,
            rotation,
            requests(),
            memories,
        )

    return DeferredCheckpoint([], make)


def _queued(each: QueuedPod) -> RecordedQueued:
    entry = each.group or each
    return RecordedQueued(
        each.pod.key,
        each.place.value if each.place is not None else "",
        entry.queued_at,
        each.attempts,
        each.initial_attempt_at,
        entry.unschedulable_count,
        entry.consecutive_errors,
        entry.backoff_expiration,
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
