"""What every source of a snapshot returns: objects as JSON by kind and key, and what could not be read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from bayplan.core.api.kinds import Kind

Documents = Mapping[Kind, Mapping[str, bytes]]
"""Kind -> key -> the object's JSON. The key is `namespace/name`, or `name` for an object without a namespace."""

Progress = Callable[[str, int], None]
"""Called with what is being read, such as "pods", and how many objects of it have been read so far."""


class SnapshotError(Exception):
    """A cluster, a file or an object that a snapshot can't be made from. The message is one line for the user."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.splitlines()))  # names in files may have line breaks


@dataclass(frozen=True, slots=True, eq=False)
class Gap:
    """A kind that could not be read: why, and what that costs the answers."""

    kind: Kind
    reason: str
    effect: str

    def __str__(self) -> str:
        return f"{self.kind.resource}: {self.reason}: {self.effect}"


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What was read. The fields are those of `Snapshot`."""

    documents: Documents = field(repr=False)
    """Not in the repr: asyncio computes that of the result of its main task, which would double the memory."""
    source: str = ""
    taken: datetime | None = None
    gaps: tuple[Gap, ...] = field(default=())
    problems: tuple[str, ...] = ()
    version: str | None = None
