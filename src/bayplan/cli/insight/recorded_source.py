"""A recording as the source of questions: the cluster as a scheduler knew it (`--from night --at 03:12`)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayplan.insight import Snapshot
    from bayplan.replay.policies import Policy

_MAGIC_AT, _MAGIC = 257, b"ustar"
"""Where a tar file says that it is one."""


def is_recording(path: str | None) -> bool:
    """Whether a path names a recording, as `bayplan run --record` writes them."""
    if path is None or path == "-":
        return False
    place = Path(path)
    if place.is_dir():
        return (place / "recording.json").exists() or any(place.glob("run-*/recording.json"))
    try:
        with place.open("rb") as file:
            if file.read(_MAGIC_AT + len(_MAGIC))[_MAGIC_AT:] != _MAGIC:
                return False  # most files: without importing anything
    except OSError:
        return False
    from bayplan.recording.files import Recording, RecordingError

    try:
        return bool(Recording.runs(place))
    except RecordingError:
        return False


def read_recorded(path: str, at: str | None) -> tuple[Snapshot, Policy]:
    """The cluster at a time, or at the end, and the policy that decided then. Raises RecordingError."""
    from bayplan.cli.replay_moments import WantedMoment, find, stop_before
    from bayplan.recording.files import Recording
    from bayplan.replay.moments import snapshot_at_end
    from bayplan.replay.policies import recorded_policy

    runs = Recording.runs(Path(path))
    if at is None:
        policy = recorded_policy(runs[-1])
        return snapshot_at_end(policy.replay(runs[-1])), policy
    decided = find(runs, WantedMoment(at, option="--at"))
    policy = recorded_policy(decided.run)
    return stop_before(policy, decided)[1], policy
