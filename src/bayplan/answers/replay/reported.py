"""The cluster of a recording without a replay: what was reported to the scheduler, and where it placed pods.

A replay knows more: which bindings had failed, and what was being written. But it needs the plugins that were recorded.
"""

from __future__ import annotations

from datetime import datetime

import msgspec

from bayplan.answers.replay.moments import RecordedDecision, Report, decisions_and_reports, uid_of, with_node
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import POD, kind_of
from bayplan.core.api.objects import bare
from bayplan.running.recording import entries
from bayplan.running.recording.files import Recording, RecordingError


def reported_cluster(recording: Recording, decided: RecordedDecision | None = None) -> Snapshot:
    """The cluster before a decision of a run; None: at its end. Raises RecordingError."""
    cluster, time = _ReportedCluster(), recording.date_of(recording.manifest.monotonic)
    try:
        for each in decisions_and_reports(recording):
            if not isinstance(each, RecordedDecision):
                time = each[0]
                cluster.reported(each[1])
                continue
            time = each.time
            if decided is not None and each.number == decided.number:
                break
            cluster.decided(each)
        return cluster.snapshot(time, f"{recording.source} at {time:%H:%M:%S}", recording.manifest.setting.kubernetes)
    except (msgspec.MsgspecError, ValueError) as error:
        raise RecordingError(f"{recording.source} has an object that can't be read: {error}") from None


class _ReportedCluster:
    def __init__(self) -> None:
        self._objects: dict[str, dict[str, bytes]] = {}
        self._placed: dict[str, str] = {}
        """The nodes of pods that were placed, by uid."""

    def reported(self, what: Report) -> None:
        if isinstance(what, entries.Changed):
            objects = self._objects.setdefault(what.kind, {})
            if what.raw is None:
                objects.pop(what.key, None)
            else:
                objects[what.key] = what.raw
        elif isinstance(what, entries.Checkpoint):
            self._objects.clear()
            for each in what.objects:
                self._objects.setdefault(each.kind, {})[each.key] = each.raw
            self._placed = {each.uid: each.node for each in what.placed if each.assumed}

    def decided(self, decision: RecordedDecision) -> None:
        for each in decision.pods:
            if each.node and each.uid in decision.placed:
                self._placed[each.uid] = each.node
            else:
                self._placed.pop(each.uid, None)  # it was tried again: its binding had failed

    def snapshot(self, time: datetime, source: str, version: str) -> Snapshot:
        documents = {kind_of(name): dict(objects) for name, objects in self._objects.items()}
        pods = documents.get(POD, {})
        for kind, objects in documents.items():
            for key, raw in objects.items():
                node = self._placed.get(uid_of(raw), "") if kind is POD else ""
                objects[key] = with_node(bare(raw), node)
        documents[POD] = pods
        return Snapshot(documents=documents, source=source, taken=time, version=f"v{version}.0" if version else None)
