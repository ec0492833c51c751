"""Steps: what happened in a history or a recording, one after the other, for people who go through it.

Between two steps is a moment: moment 0 is the start, and moment n comes after step n.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class StepKind(StrEnum):
    """What happened in a step."""

    ARRIVED = "arrived"
    PLACED = "placed"
    NOT_PLACED = "could not be placed"
    EVICTED = "evicted"
    ENDED = "ended"
    NODE_CAME = "node came"
    NODE_CHANGED = "node changed"
    NODE_WENT = "node went"


@dataclass(frozen=True, slots=True)
class Step:
    """A step from a moment to the next one. `number`: that of the moment after it, so the first one has 1.

    `subject`: the pod, as `namespace/name`, or the node. `node`: where a pod was placed, or from where it was evicted.
    `uid`: that of the pod, in a history.
    """

    number: int
    time: datetime
    what: StepKind
    subject: str
    node: str = ""
    message: str = ""
    uid: str = ""

    @property
    def about_node(self) -> bool:
        """Whether the subject is a node."""
        return self.what in {StepKind.NODE_CAME, StepKind.NODE_CHANGED, StepKind.NODE_WENT}


@dataclass(frozen=True, slots=True)
class NextDifference:
    """The next decision that another policy makes differently, as far as it was looked for.

    `step`: its number; None if there is none until the moment `reached`. `other`: what the other policy decides.
    `skipped`: decisions about pods whose schedulerName has no profile.
    """

    step: int | None
    reached: int
    other: str = ""
    skipped: int = 0
