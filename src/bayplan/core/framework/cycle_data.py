"""What plugins keep for one pod between the extension points of one attempt: `CycleState.data`.

A plugin reads only what it has stored itself. A key that is missing raises an error that names the usual cause.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any


class MissingCycleData(KeyError):
    """A plugin reads data that its PreFilter or PreScore has not stored in this attempt.

    The usual cause is a profile that disables PreFilter or PreScore, but not the extension points that need it.
    """

    def __str__(self) -> str:
        return f"no data of {self.args[0]!r} in this attempt; check that the profile runs its preFilter and preScore"


class CycleData(dict[Hashable, Any]):
    """The data of one attempt by key. A key that is missing raises MissingCycleData."""

    __slots__ = ()

    def __missing__(self, key: Hashable) -> Any:
        raise MissingCycleData(key)
