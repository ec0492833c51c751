"""Who follows a timeline: measures, and models of what surrounds a scheduler."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from bayplan.core.cluster.pod_info import PodInfo

if TYPE_CHECKING:
    from bayplan.answers.simulation.timeline import Timeline
    from bayplan.core.scheduling import Plan


class Leaving(Enum):
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
        return self not in {Leaving.COMPLETED, Leaving.DELETED}


@dataclass(slots=True)
class Life:
    """A pod from its arrival until it is gone. Times are in seconds since the begin of the simulation.

    `origin`: the uid of the pod that it has replaced in the end; its own if it is not a replacement. `runs`,
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
    leaving: Leaving | None = None
    returns: bool | None = None


class Follower:
    """Learns what happens on a timeline, and may act on it. By default, nothing is done."""

    def begin(self, timeline: Timeline) -> None:
        """The simulation begins: the cluster has what it had before."""

    def end(self) -> None:
        """The simulation has ended."""

    def arrived(self, pod: PodInfo, life: Life) -> None:
        """A pod was created."""

    def attempted(self, plan: Plan) -> None:
        """A unit was attempted, and its plan is about to be carried out."""

    def bound(self, pod: PodInfo, life: Life) -> None:
        """A pod has got its node, by a decision or otherwise."""

    def ready(self, pod: PodInfo, life: Life) -> None:
        """A pod has started on its node."""

    def evicted(self, pod: PodInfo, life: Life) -> None:
        """A pod was evicted; it is terminating. Why: `life.leaving`."""

    def gone(self, pod: PodInfo, life: Life) -> None:
        """A pod is gone. Why: `life.leaving`."""

    def finished(self, origin: str) -> None:
        """A pod is over, and nothing replaces it any more."""

    def node_added(self, name: str) -> None:
        """A node was added."""

    def node_removed(self, name: str) -> None:
        """A node was removed."""
