"""QueuedPod: a pod with what the queue remembers of its attempts. Mirrors QueuedPodInfo."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from bayplan.cluster.pod_info import PodInfo


class Place(Enum):
    """Where in the queue a pod is. All values but the last are those of the `queue` label of upstream's metrics."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    IN_FLIGHT = "in-flight"


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod that waits, or that is being decided. Times are seconds on the monotonic clock of the queue's caller.

    When an attempt has failed, whoever made it clears the rejectors, writes who turned the pod down this time, and the
    `message`, and hands the pod back with `add_unschedulable`; no plugin at all means that the attempt failed by an
    error. Everything else is the queue's to write.
    """

    pod: PodInfo
    queued_at: float
    """When the pod came into the queue, or came back after its last attempt."""
    popped_at: float = 0.0
    """When the last attempt began."""
    attempts: int = 0
    initial_attempt_at: float | None = None
    """When the pod could be tried for the first time."""
    unschedulable_count: int = 0
    """How many attempts ended with the pod turned down."""
    consecutive_errors: int = 0
    """How many of the last attempts, without a gap, ended with an error."""
    backoff_expiration: float | None = None
    """When the present backoff ends; None until somebody asks."""
    unschedulable_plugins: frozenset[str] = frozenset()
    """The plugins that turned the pod down in its last attempt, or hold it back now."""
    pending_plugins: frozenset[str] = frozenset()
    """The plugins that turned the pod down to wait for something that they know to come."""
    gating_plugin: str = ""
    """The PreEnqueue plugin that holds the pod back now."""
    was_flushed: bool = False
    """Whether the pod came back only because it had waited for so long: no event of what it waits for was seen."""
    message: str = ""
    """Why the pod waits, for people."""
    place: Place | None = None
    """Where the pod is; None before it is anywhere, and after it left."""

    @property
    def uid(self) -> str:
        """The pod's uid."""
        return self.pod.uid

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin holds the pod back."""
        return bool(self.gating_plugin)

    @property
    def rejected(self) -> bool:
        """Whether plugins turned the pod down, as opposed to an error."""
        return bool(self.unschedulable_plugins or self.pending_plugins)

    def clear_rejectors(self) -> None:
        """Forget who turned the pod down in the attempt before."""
        self.unschedulable_plugins = frozenset()
        self.pending_plugins = frozenset()
        self.gating_plugin = ""

    def __repr__(self) -> str:
        return f"QueuedPod({self.pod.key}, {self.place.value if self.place else 'nowhere'}, attempts={self.attempts})"
