"""A recording or a history as the source of questions: the cluster at a moment (`--from night --at 03:12`)."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bayplan.faces.cli.insight.messages import fail, warn
from bayplan.foundations.lazy import on_use
from bayplan.running.recording.places import is_recording

with on_use():
    from bayplan.answers.history import moments as history_moments
    from bayplan.answers.history import reading
    from bayplan.answers.replay import policies, recorded_moments, recorded_plugins, wanted
    from bayplan.core.api import times
    from bayplan.running.recording import files


if TYPE_CHECKING:
    from bayplan.answers.history.moments import HistoryMoments
    from bayplan.answers.replay.policies import Policy
    from bayplan.answers.replay.recorded_moments import RecordingMoments
    from bayplan.answers.replay.recorded_plugins import NamedPlugins
    from bayplan.answers.snapshots import Snapshot
    from bayplan.running.recording.files import Recording


@dataclass(frozen=True, slots=True)
class MomentFile:
    """A recording or a history, and the moment that the user names; None for its end."""

    path: str
    at: str | None
    recorded: bool
    """Whether it is a recording."""
    references: tuple[str, ...] = ()
    """What the user names with `--plugin`."""

    def policy(self, *, needed: bool = True) -> Policy | None:
        """What decided in a recording; None for a history. Raises RecordingError or PluginLoadError.

        `needed`: if it isn't, None also stands for a policy whose plugins the user doesn't name.
        """
        if not self.recorded:
            return None
        run = self._run()
        return None if not needed and self._named.lacks(run) else policies.recorded_policy(run, self._named)

    def other_plugins(self) -> tuple[str, ...]:
        """The references that don't name plugins of the recording. Raises RecordingError."""
        return tuple(self._named.others(files.Recording.runs(Path(self.path)))) if self.recorded else self.references

    @property
    def _named(self) -> NamedPlugins:

        return recorded_plugins.NamedPlugins(self.references)

    def _run(self) -> Recording:

        runs = files.Recording.runs(Path(self.path))
        return (
            runs[-1]
            if self.at is None
            else wanted.find(runs, wanted.DecisionSelector(self.at, option="--at"), warn).run
        )

    def read(self) -> Snapshot:
        """The cluster at the moment. Raises HistoryError or RecordingError."""
        if not self.recorded:
            moments, number = self.history()
            return moments.snapshot(number)

        runs = files.Recording.runs(Path(self.path))
        decided = None if self.at is None else wanted.find(runs, wanted.DecisionSelector(self.at, option="--at"), warn)
        return wanted.cluster_before(runs[-1] if decided is None else decided.run, decided, self._named, warn)

    def history(self) -> tuple[HistoryMoments, int]:
        """The moments of the history, and the number of the one that is meant. Raises HistoryError."""
        history = reading.History.open(self.path)
        moments = history_moments.HistoryMoments(history)
        if self.at is None:
            return moments, len(moments)
        try:
            time = times.time_meant(self.at, history.begin)
        except ValueError as error:
            fail(f"--at {self.at!r}: {error}")
        if not history.begin.replace(microsecond=0) <= time <= history.end + timedelta(seconds=1):
            span = f"it goes from {history.begin:%Y-%m-%d %H:%M:%S} to {history.end:%Y-%m-%d %H:%M:%S} UTC"
            fail(f"--at {self.at}: {self.path} doesn't reach so far: {span}")
        return moments, moments.at(time)

    def recording(self) -> tuple[RecordingMoments, int]:
        """The moments of the recording, and the number of the one that is meant. Raises RecordingError."""
        runs = files.Recording.runs(Path(self.path))
        moments = recorded_moments.RecordingMoments(runs, self._named)
        if self.at is None:
            return moments, len(moments)
        wanted.find(runs, wanted.DecisionSelector(self.at, option="--at"), warn)  # raises where there is no such moment
        return moments, moments.at(wanted.time_in(runs[0], self.at, "--at"))


def moment_source(path: str | None, at: str | None, references: tuple[str, ...]) -> MomentFile | None:
    """The recording or the history that a path names; None if it names neither. `references`: as in `MomentFile`."""
    if path is not None and path != "-" and is_recording(Path(path)):
        return MomentFile(path or "", at, recorded=True, references=references)
    return MomentFile(path or "", at, recorded=False, references=references) if is_history(path) else None


def is_history(path: str | None) -> bool:
    """Whether a path names a history, as `bayplan record` and `bayplan history` write them."""
    if path is None or path == "-" or not Path(path).is_dir():
        return False
    place = Path(path)
    return any(place.glob("events-*.parquet")) or any(place.glob("journal-*.jsonl")) or _has_manifest(place)


def _has_manifest(place: Path) -> bool:
    try:
        return b"bayplan-history" in (place / "history.json").read_bytes()
    except OSError:
        return False
