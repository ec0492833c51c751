"""The lives of pods on a timeline: from their arrival until they are gone."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class DepartureReason(Enum):
    """Why a pod leaves."""

    COMPLETED = "completed"
    DELETED = "deleted"
    PREEMPTED = "preempted"
    DRAINED = "drained"
    """Its node was emptied, so that it can be removed."""
    INTERRUPTED = "interrupted"
    """Its node was taken back by the provider."""
    NODE_LOST = "node lost"
    """Its node failed, or was removed with the pod on it."""

    @property
    def is_eviction(self) -> bool:
        """Whether the pod's owner did not want it to leave."""
        return self not in {DepartureReason.COMPLETED, DepartureReason.DELETED}


@dataclass(slots=True)
class PodLifetime:
    """A pod from its arrival until it is gone. Times are in seconds since the start of the simulation.

    `origin`: the uid of the first pod in its chain of replacements; its own if it replaces none. `runs`,
    `returns`: see `PodArrives`. `number`: how many pods of its origin there were before. `bound_at`: when
    its binding is done; None while it has no node.
    """

    key: str
    uid: str
    origin: str
    arrived: float
    runs: float | None
    number: int = 0
    bound_at: float | None = None
    node: str = ""
    leaving: DepartureReason | None = None
    returns: bool | None = None
