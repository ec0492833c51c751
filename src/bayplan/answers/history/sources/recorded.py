"""The history in a recording of a scheduler: its watch events, without what the scheduler decided.

So every question about histories can be asked about a recording, too.
"""

from __future__ import annotations

import dataclasses
import tempfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import msgspec

from bayplan.answers.history.following import Following, HistoryChange
from bayplan.answers.history.format import HistoryManifest
from bayplan.answers.history.reading import History
from bayplan.answers.history.writing import write_history
from bayplan.core.api.kinds import kind_of
from bayplan.running.recording import entries
from bayplan.running.recording.files import Recording, RecordingError
from bayplan.running.recording.places import is_recording

_NOTES = (
    "it has the kinds that the scheduler watched; workloads are not among them",
    "a pod that succeeded or failed counts as deleted: a scheduler doesn't watch it any more",
)


def import_recording(path: Path, folder: Path) -> tuple[HistoryManifest, list[str]]:
    """Write the history of a run, by default the last one. Returns its manifest, and what can't be used.

    Raises RecordingError or HistoryError.
    """
    runs = Recording.runs(path)
    recording, problems = runs[-1], []
    if len(runs) > 1:
        problems.append(f"{path} has {len(runs)} runs: the history is that of {recording.source}")
    reader = _Reader(recording, problems)
    changes = list(reader.changes())
    if not changes and problems:
        raise RecordingError(problems[-1])
    source = recording.manifest.setting.cluster or recording.source
    manifest = write_history(
        folder,
        changes,
        source=f"recording of the scheduler of {source}",
        begin=reader.began,
        end=max(reader.time, *(change.row.time_utc for change in changes)) if changes else reader.time,
        notes=_NOTES,
        redacted=recording.manifest.redacted,
    )
    return manifest, problems


def open_history(path: Path) -> History:
    """A history, or that of a recording, which is made in a temporary folder. Raises HistoryError or RecordingError."""
    if not is_recording(path):
        return History.open(path)
    made = tempfile.TemporaryDirectory(prefix="bayplan-history-")  # it is deleted with the process
    _made.append(made)
    folder = Path(made.name) / "history"
    _, problems = import_recording(path, folder)
    history = History.open(folder)
    return dataclasses.replace(history, problems=(*history.problems, *problems))


_made: list[tempfile.TemporaryDirectory[str]] = []


class _Reader:
    def __init__(self, recording: Recording, problems: list[str]) -> None:
        self._recording = recording
        self._problems = problems
        self._following = Following()
        self.began: datetime = recording.date_of(recording.manifest.monotonic)
        self.time = self.began

    def changes(self) -> Iterator[HistoryChange]:
        """The changes, up to where the recording can be read."""
        initial = True
        try:
            for entry in self._recording.entries():
                if isinstance(entry, entries.Popped):
                    initial, self.time = False, self._recording.date_of(entry.at)
                elif isinstance(entry, entries.Changed):
                    yield from self._changed(entry, initial=initial)
                elif isinstance(entry, entries.Checkpoint) and initial:
                    self.began = self.time = self._recording.date_of(entry.at)
                    for each in entry.objects:
                        yield from self._changed(entries.Changed([], each.kind, each.key, each.raw), initial=True)
        except RecordingError as error:
            self._problems.append(str(error))

    def _changed(self, entry: entries.Changed, *, initial: bool) -> Iterator[HistoryChange]:
        kind = kind_of(entry.kind)
        if entry.raw is None:
            yield from self._following.removed(kind, entry.key, self.time)
        else:
            yield from self._following.put(kind, msgspec.json.decode(entry.raw), self.time, initial=initial)
