"""What importers share that read versions of objects: which kinds a history has, and how one is written."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from bayplan.answers.history.following import Following, HistoryChange, kind_of
from bayplan.answers.history.format import HistoryError, HistoryManifest
from bayplan.answers.history.recording import KINDS as RECORDED
from bayplan.answers.history.sources.arrivals import at_begin
from bayplan.answers.history.sources.problems import Problems
from bayplan.answers.history.writing import write_history
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.kinds import KINDS, NODE, Kind

KEPT: Mapping[tuple[str, str], Kind] = {(kind.group, kind.plural): kind for kind in KINDS if kind in RECORDED}
"""(group, plural) -> a kind that histories have."""
NO_NODES = "it has no nodes, and none were given: add --snapshot with a snapshot, or name node pools"
NO_PLACEMENTS = "it has no placements, so nothing can be said of how well a simulation agrees with it"
_NO_NAME = "an object has no name: left out"


def kept_kind(obj: Mapping[str, Any]) -> Kind | None:
    """The kind of an object; None if histories don't have it."""
    kind = kind_of(str(obj.get("apiVersion") or ""), str(obj.get("kind") or ""))
    return kind if kind is not None and (kind.group, kind.plural) in KEPT else None


def version_of(obj: Mapping[str, Any]) -> int | None:
    """The resourceVersion of an object or of a list as a number; None if it has none that is one."""
    metadata = obj.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, dict) else None
    return int(version) if isinstance(version, str) and _VERSION.fullmatch(version) else None


_VERSION = re.compile("[0-9]{1,20}")
"""A number of etcd, which has 64 bits."""


class VersionedObjects:
    """Collects what changes from version to version of objects, beginning with those of a snapshot, if there is one."""

    def __init__(self, begin: datetime, problems: Problems, snapshot: Snapshot | None = None) -> None:
        self.following = Following()
        self.changes: list[HistoryChange] = []
        self.problems = problems
        self._begin = self._end = begin
        if snapshot is not None:
            self.changes += at_begin(snapshot, self.following, begin)

    def put(self, kind: Kind, obj: Mapping[str, Any], time: datetime, where: str, *, initial: bool = False) -> None:
        """An object was created or has changed."""
        metadata = obj.get("metadata")
        if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
            self.problems.add(_NO_NAME, where)
            return
        self._end = max(self._end, time)
        self.changes += self.following.put(kind, obj, time, initial=initial)

    def removed(self, kind: Kind, key: str, time: datetime) -> None:
        """An object was deleted."""
        self._end = max(self._end, time)
        self.changes += self.following.removed(kind, key, time)

    def write(
        self, folder: Path, source: str, notes: Iterable[str] = (), end: datetime | None = None
    ) -> tuple[HistoryManifest, list[str]]:
        """Write the history. Returns its manifest, and the problems, one line each. Raises HistoryError."""
        lines = list(self.problems.lines())
        if not self.changes:
            raise HistoryError(f"{source}: there are no pods or nodes in it" + (f": {lines[0]}" if lines else ""))
        without = [] if any(change.row.kind == NODE.kind for change in self.changes) else [NO_NODES]
        manifest = write_history(
            folder,
            self.changes,
            source=source,
            begin=self._begin,
            end=max(self._end, end or self._end),
            notes=[*notes, *without, *lines],
        )
        return manifest, lines
