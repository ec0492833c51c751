"""Moments of a recording: which decision is meant, and the cluster as the scheduler knew it then.

`decisions_of` reads a run without a replay. `SnapshotMaker.make` turns a replayed scheduler's state into a `Snapshot`,
with assumed pods on their nodes: a replay waits at the moment (`cursor.py`), was stopped (`wanted.py`), or has ended
(`snapshot_at_end`). Without the plugins that a recording needs, there is no replay, but `reported.py`. A moment of a
history has no replay: `bayplan.answers.history.moments` applies its events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from bayplan.answers.replay.replay import Replay, describe_decision
from bayplan.answers.replay.scheduler import ReplayedScheduler
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import POD, Kind
from bayplan.core.api.objects import bare, encode
from bayplan.core.api.provisioning import is_provisioned
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.running.recording import entries
from bayplan.running.recording.entries import PlanMade, PodDecided
from bayplan.running.recording.files import Recording, RecordingError


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision of a recording. `number` counts from 1. `segment`: the segment that it is in, from 0."""

    run: Recording
    segment: int
    number: int
    time: datetime
    pods: tuple[PodDecided, ...]
    preemptions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()
    placed: tuple[str, ...] = ()
    """The uids of the pods that were assumed on their nodes."""

    @property
    def victims(self) -> frozenset[str]:
        """The uids of the pods that are evicted."""
        return frozenset(uid for _, _, victims in self.preemptions for uid in victims)

    def victims_of(self, uid: str) -> tuple[str, ...]:
        """The uids of the pods that are evicted for a pod."""
        return tuple(victim for each, _, victims in self.preemptions if each == uid for victim in victims)

    def node_for(self, uid: str) -> str:
        """The node on which pods are evicted for a pod; "" if there is none."""
        return next((node for each, node, _ in self.preemptions if each == uid), "")

    def of(self, pod: str) -> PodDecided | None:
        """What was decided about a pod, by `namespace/name`."""
        return next((each for each in self.pods if each.key == pod), None)

    def places(self, pod: PodDecided) -> bool:
        """Whether a pod was placed. A member of a gang may have found a node, and its gang was not placed."""
        return pod.uid in self.placed

    def describe(self, pod: PodDecided | None) -> str:
        """What was decided about a pod, in one line."""
        if pod is None or not pod.node or self.places(pod):
            return describe_decision(pod, self.preemptions)
        if self.preemptions:
            return f"it fits on node {pod.node} once the pods are gone that its gang evicts"
        return f"it fits on node {pod.node}, but its gang was not placed"


Report = entries.Changed | entries.Checkpoint | entries.Evicted
"""What a scheduler was told, as far as it is read without a replay."""


def decisions_of(
    recording: Recording, *others: Callable[[RecordedDecision | Report], None]
) -> Iterator[RecordedDecision]:
    """All decisions of a run, without a replay. `others` get all that `decisions_and_reports` has.

    Raises RecordingError where the run can't be read on.
    """
    for each in decisions_and_reports(recording):
        if isinstance(each, RecordedDecision):
            for other in others:
                other(each)
            yield each
        else:
            for other in others:
                other(each[1])


def decisions_and_reports(recording: Recording) -> Iterator[RecordedDecision | tuple[datetime, Report]]:
    """All decisions of a run, without a replay, and between them what was reported to the scheduler, with the time.

    Raises RecordingError where the run can't be read on.
    """
    number, segment, time = 0, 0, recording.date_of(recording.manifest.monotonic)
    first = True
    for entry in recording.entries():
        if isinstance(entry, entries.Checkpoint):
            segment += not first
            number, time = entry.decisions, recording.date_of(entry.at)
            yield time, entry
        elif isinstance(entry, entries.Changed | entries.Evicted):
            yield time, entry
        elif isinstance(entry, entries.Popped):
            time = recording.date_of(entry.at)
        elif isinstance(entry, PlanMade):
            number += 1
            yield RecordedDecision(recording, segment, number, time, entry.decisions, entry.preemptions, entry.placed)
        first = False


class PodNames:
    """The names of pods by uid, as far as a run has reported them."""

    def __init__(self) -> None:
        self._keys: dict[str, str] = {}

    def take(self, what: RecordedDecision | Report) -> None:
        """Take in the next thing that a run has."""
        if isinstance(what, RecordedDecision):
            self._keys |= {pod.uid: pod.key for pod in what.pods}
        elif isinstance(what, entries.Checkpoint):
            self._keys |= {uid_of(each.raw): each.key for each in what.objects if each.kind == POD.kind}
        elif isinstance(what, entries.Changed) and what.kind == POD.kind and what.raw is not None:
            self._keys[uid_of(what.raw)] = what.key

    def of(self, uids: Iterable[str]) -> list[str]:
        """Names, in the same order; the uid of a pod that isn't known."""
        return [self._keys.get(uid, uid) for uid in uids]


class ReportedMetadata(msgspec.Struct):
    """What is read of a pod's metadata."""

    uid: str = ""
    deletionTimestamp: str | None = None


class ReportedPod(msgspec.Struct):
    """What is read of a pod's JSON without decoding all of it."""

    metadata: ReportedMetadata

    @classmethod
    def read(cls, raw: bytes) -> ReportedMetadata:
        """The metadata of an object. Raises RecordingError."""
        try:
            return _pods.decode(raw).metadata
        except msgspec.MsgspecError as error:
            raise RecordingError(f"the recording has an object that can't be read: {error}") from None


_pods = msgspec.json.Decoder(ReportedPod)


def uid_of(raw: bytes) -> str:
    """The uid of an object's JSON; "" if it has none. Raises RecordingError."""
    return ReportedPod.read(raw).uid


def snapshot_at(scheduler: ReplayedScheduler, time: datetime, source: str) -> Snapshot:
    """What a replayed scheduler knows, as a snapshot. Pods that it has assumed are on their nodes."""
    return SnapshotMaker().make(scheduler, time, source)


class SnapshotMaker:
    """Makes snapshots of replayed schedulers. Objects that are the same as in the snapshot before stay the same bytes.

    So a world moves from one to the next at the cost of the difference.
    """

    def __init__(self) -> None:
        self._known: dict[Kind, dict[str, tuple[Any, str, bytes]]] = {}
        """The bytes that were made, by object, and the node that a pod was placed on."""

    def make(self, scheduler: ReplayedScheduler, time: datetime, source: str) -> Snapshot:
        """What a scheduler knows. Pods that it has assumed are on their nodes."""
        documents = {}
        for kind in scheduler.kinds:
            before, known = self._known.get(kind, {}), dict[str, tuple[Any, str, bytes]]()
            for key, obj in scheduler.state.objects[kind].items():
                if kind is POD and not obj.node_name and is_provisioned(obj):
                    continue  # a request is asked; no pod of the cluster
                node = _assumed_node(scheduler, obj) if kind is POD else ""
                old = before.get(key)
                if old is None or old[0] is not obj or old[1] != node:
                    raw = with_node(bare(obj.raw), node) if kind is POD else bare(encode(obj))
                    old = obj, node, raw if old is None or old[2] != raw else old[2]
                known[key] = old
            self._known[kind] = known
            documents[kind] = {key: each[2] for key, each in known.items()}
        version = scheduler.kubernetes
        return Snapshot(documents=documents, source=source, taken=time, version=f"v{version}.0" if version else None)


def snapshot_at_end(replay: Replay, warn: Callable[[Iterable[str]], None] = lambda _: None) -> Snapshot:
    """What the scheduler of a run knew at its end. `warn`: gets what the last checkpoint lacks.

    Raises RecordingError if a decision can't be made again.
    """
    recording = replay.recording
    found = replay.run(segment=max(recording.segments - 1, 0))
    warn(found.notes)
    if found.problem or found.difference is not None or replay.scheduler is None:
        raise RecordingError(found.why)
    ended = found.ended or recording.date_of(recording.manifest.monotonic)
    return snapshot_at(replay.scheduler, ended, f"{recording.source} at {ended:%H:%M:%S}")


def _assumed_node(scheduler: ReplayedScheduler, pod: PodInfo) -> str:
    placed = None if pod.node_name else scheduler.state.pod(pod.uid)
    return "" if placed is None else placed.node_name


def with_node(raw: bytes, node: str) -> bytes:
    """The JSON of a pod as if it were on a node; "": as it is."""
    if not node:
        return raw
    document = msgspec.json.decode(raw)
    if document["spec"].get("nodeName"):
        return raw
    document["spec"]["nodeName"] = node
    return encode(document)
