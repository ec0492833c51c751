"""Moments of a recording: which decision is meant, and the cluster as the scheduler knew it then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

import msgspec

from bayplan.api.kinds import POD
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
    number, segment, time = 0, 0, recording.moment(recording.manifest.monotonic)
    first = True
    try:
        for entry in recording.entries():
            if isinstance(entry, entries.Checkpoint):
                segment += not first
                number, time = entry.decisions, recording.moment(entry.at)
            elif isinstance(entry, entries.Popped):
                time = recording.moment(entry.at)
            elif isinstance(entry, PlanMade):
                number += 1
                yield RecordedDecision(recording, segment, number, time, entry.decisions, entry.preemptions)
            first = False
    except RecordingError:
        return


def uids_of(recording: Recording, pod: str) -> frozenset[str]:
    """The uids that pods of a name have had."""
    found = set()
    try:
        for entry in recording.entries():
            if isinstance(entry, entries.Changed) and entry.kind == POD.kind and entry.key == pod and entry.raw:
                found.add(msgspec.json.decode(entry.raw, type=_Object).metadata.uid)
            elif isinstance(entry, entries.Checkpoint):
                found |= {each.uid for each in entry.placed if each.key == pod}
    except (RecordingError, msgspec.MsgspecError):
        return frozenset(found)
    return frozenset(found)


def snapshot_at(scheduler: ReplayedScheduler, time: datetime, source: str) -> Snapshot:
    """What a replayed scheduler knows, as a snapshot. Pods that it has assumed are on their nodes."""
    documents = {}
    for kind in scheduler.kinds:
        store = scheduler.state.objects[kind]
        if kind is POD:
            documents[kind] = {key: _pod(scheduler, pod) for key, pod in store.items()}
        else:
            documents[kind] = {key: bare(encode(obj)) for key, obj in store.items()}
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


def _pod(scheduler: ReplayedScheduler, pod: PodInfo) -> bytes:
    placed = scheduler.state.pod(pod.uid)
    raw = bare(pod.raw)
    if placed is None or pod.node_name:
        return raw
    document = msgspec.json.decode(raw)
    document["spec"]["nodeName"] = placed.node_name
    return encode(document)


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Object(msgspec.Struct):
    metadata: _Metadata
