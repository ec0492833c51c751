"""The moments of something that happened, as a protocol."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Protocol

from bayplan.answers.moments.steps import Step
from bayplan.answers.snapshots import Snapshot

Progress = Callable[[str], None]
"""Called with what is known so far, as text. May raise an exception to end what is being read."""


class Moments(Protocol):
    """The moments of something that happened. Moment 0 is the start; moment n is after the steps with numbers up to n.

    It belongs to one thread at a time.
    """

    @property
    def source(self) -> str:
        """Where it comes from, for messages."""

    @property
    def notes(self) -> Sequence[str]:
        """What isn't known or can't be read, one line each."""

    @property
    def steps(self) -> Sequence[Step]:
        """What happened, in the order of the numbers."""

    def __len__(self) -> int:
        """The number of the last moment."""

    def time(self, number: int) -> datetime:
        """When a moment began."""

    def at(self, time: datetime) -> int:
        """The moment of a time."""

    def snapshot(self, number: int, progress: Progress = lambda _: None) -> Snapshot:
        """The cluster at a moment. Objects that are the same in the snapshot before are the same bytes.

        Raises SnapshotError if the moment can't be reached, and what `progress` raises.
        """

    def close(self) -> None:
        """Free what moments need."""
