"""Moments of a recording: which decision is meant, and the cluster as the scheduler knew it then."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from bayplan.api.kinds import POD, Kind
from bayplan.api.objects import bare, encode
from bayplan.cluster.pod_info import PodInfo
from bayplan.insight import Snapshot
from bayplan.recording import entries
from bayplan.recording.entries import PlanMade, PodDecided
from bayplan.recording.files import Recording, RecordingError
from bayplan.replay.replay import Replay
from bayplan.replay.scheduler import ReplayedScheduler


@dataclass(frozen=True, slots=True)
class RecordedDecision:
    """A decision of a recording. `number` counts from 1. `segment`: the segment that it is in, from 0."""

    run: Recording
    segment: int
    number: int
    time: datetime
    pods: tuple[PodDecided, ...]
    preemptions: tuple[tuple[str, str, tuple[str, ...]], ...] = ()

    @property
    def victims(self) -> frozenset[str]:
        """The uids of the pods that are evicted."""
        return frozenset(uid for _, _, victims in self.preemptions for uid in victims)

    def of(self, pod: str) -> PodDecided | None:
        """What was decided about a pod, by `namespace/name`."""
        return next((each for each in self.pods if each.key == pod), None)


def decisions_of(recording: Recording) -> Iterator[RecordedDecision]:
    """All decisions of a run, without a replay, up to where it can be read."""
    with suppress(RecordingError):
        for each in decisions_and_reports(recording):
            if isinstance(each, RecordedDecision):
                yield each


def decisions_and_reports(
    recording: Recording,
) -> Iterator[RecordedDecision | tuple[datetime, entries.Changed | entries.Checkpoint]]:
    """All decisions of a run, without a replay, and between them what was reported to the scheduler, with the time.

    Checkpoints are among the reports. Raises RecordingError where the run can't be read on.
    """
    number, segment, time = 0, 0, recording.moment(recording.manifest.monotonic)
    first = True
    for entry in recording.entries():
        if isinstance(entry, entries.Checkpoint):
            segment += not first
            number, time = entry.decisions, recording.moment(entry.at)
            yield time, entry
        elif isinstance(entry, entries.Changed):
            yield time, entry
        elif isinstance(entry, entries.Popped):
            time = recording.moment(entry.at)
        elif isinstance(entry, PlanMade):
            number += 1
            yield RecordedDecision(recording, segment, number, time, entry.decisions, entry.preemptions)
        first = False


def uid_of(raw: bytes) -> str:
    """The uid of an object's JSON; "" if it has none. Raises msgspec.MsgspecError."""
    return msgspec.json.decode(raw, type=_Object).metadata.uid


def uids_of(recording: Recording, pod: str) -> frozenset[str]:
    """The uids that pods of a name have had."""
    found = set()
    try:
        for entry in recording.entries():
            if isinstance(entry, entries.Changed) and entry.kind == POD.kind and entry.key == pod and entry.raw:
                found.add(uid_of(entry.raw))
            elif isinstance(entry, entries.Checkpoint):
                found |= {each.uid for each in entry.placed if each.key == pod}
    except (RecordingError, msgspec.MsgspecError):
        return frozenset(found)
    return frozenset(found)


def snapshot_at(scheduler: ReplayedScheduler, time: datetime, source: str) -> Snapshot:
    """What a replayed scheduler knows, as a snapshot. Pods that it has assumed are on their nodes."""
    return SnapshotMaker().make(scheduler, time, source)


class SnapshotMaker:
    """Makes snapshots of replayed schedulers. Objects that are the same as in the snapshot before stay the same bytes.

    So a world moves from one to the next at the cost of the difference.
    """

    def __init__(self) -> None:
        self._known: dict[Kind, dict[str, tuple[Any, str, bytes]]] = {}
        """What was made of which object, and on which node the pod was placed."""

    def make(self, scheduler: ReplayedScheduler, time: datetime, source: str) -> Snapshot:
        """What a scheduler knows. Pods that it has assumed are on their nodes."""
        documents = {}
        for kind in scheduler.kinds:
            before, known = self._known.get(kind, {}), dict[str, tuple[Any, str, bytes]]()
            for key, obj in scheduler.state.objects[kind].items():
                node = _assumed_node(scheduler, obj) if kind is POD else ""
                old = before.get(key)
                if old is None or old[0] is not obj or old[1] != node:
                    raw = _pod(obj, node) if kind is POD else bare(encode(obj))
                    old = obj, node, raw if old is None or old[2] != raw else old[2]
                known[key] = old
            self._known[kind] = known
            documents[kind] = {key: each[2] for key, each in known.items()}
        version = scheduler.kubernetes
        return Snapshot(documents=documents, source=source, taken=time, version=f"v{version}.0" if version else None)


def snapshot_at_end(replay: Replay) -> Snapshot:
    """What the scheduler of a run knew at its end. Raises RecordingError if a decision can't be made again."""
    recording = replay.recording
    found = replay.run(segment=max(recording.segments - 1, 0))
    if found.problem or found.difference is not None or replay.scheduler is None:
        reason = found.problem or "a decision can't be made again"
        raise RecordingError(f"{recording.source}: {reason}; `bayplan replay {recording.source}` says more")
    ended = found.ended or recording.moment(recording.manifest.monotonic)
    return snapshot_at(replay.scheduler, ended, f"{recording.source} at {ended:%H:%M:%S}")


def _assumed_node(scheduler: ReplayedScheduler, pod: PodInfo) -> str:
    placed = None if pod.node_name else scheduler.state.pod(pod.uid)
    return "" if placed is None else placed.node_name


def _pod(pod: PodInfo, assumed: str) -> bytes:
    raw = bare(pod.raw)
    if not assumed:
        return raw
    document = msgspec.json.decode(raw)
    document["spec"]["nodeName"] = assumed
    return encode(document)


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata
