"""The outcome of a simulation for each pod: `Result`.

"Would be placed" means the same in all questions: the pod has a node once its unit was taken to its end, with Reserve,
Permit and PreBind. A pod that still waits in Permit when no pod is left is not placed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.scheduling import Decision


class Fate(Enum):
    """Where a pod ends up."""

    PLACED = "placed"
    PREEMPTS = "preempts"
    """Placed after other pods were evicted."""
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome for one pod.

    `message`: the note of the event that the service records: Scheduled, or FailedScheduling of the first attempt; for
    a gated pod, the message of its plugin. `plugins`: those that rejected or gate the pod. `decision`: of an attempt,
    if the pod stays pending; None for a gated pod, and for a member of a gang that was not attempted. `gated`: whether
    PreEnqueue keeps the pod out of the queue. `feasible`: for a placed pod, how many nodes it was chosen from; 0 if
    that isn't known.
    """

    pod: PodInfo
    fate: Fate
    node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    message: str = ""
    plugins: frozenset[str] = frozenset()
    decision: Decision | None = None
    gated: bool = False
    feasible: int = field(default=0, compare=False)

    @property
    def placed(self) -> bool:
        """Whether the pod got a node."""
        return self.fate is not Fate.PENDING
