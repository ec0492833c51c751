"""QueuedPod: a pod with the history of its attempts (mirrors QueuedPodInfo), and the places that it can be in."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from bayplan.core.cluster.pod_info import PodInfo

if TYPE_CHECKING:
    from bayplan.core.queue.queued_group import QueuedGroup


class Place(Enum):
    """A pod's place in the queue. All values but the last are those of the `queue` label of upstream's metrics.

    The methods of SchedulingQueue move pods between the places::

            +-------+  PreEnqueue rejects the pod before it becomes active or enters backoff
            | gated | <- - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - - -
            +-------+
                | an event of the gating plugin, an update, or activate; and PreEnqueue succeeds
                v
        add  +--------+               pop                +-----------+   done
        ---> | active | -------------------------------> | in flight | -------> bound or deleted
             +--------+                                  +-----------+
              ^     ^                                     ^   |   |
              |     | backoff expired    pop, if no other |   |   | add_unschedulable:
              |     |                    pod is active    |   |   | rejected by plugins
              |  +---------+ -----------------------------+   |   |
              |  | backoff | <--------------------------------+   |
              |  +---------+   add_unschedulable: error, or an    |
              |     ^          event during the attempt           |
              |     |                                             v
              |     |  event, backoff not expired       +---------------+
              |     +---------------------------------- | unschedulable |
              |                                         +---------------+
              |  event, backoff expired; event of a pending       |
              |  plugin; activate; 5 minutes without an event     |
              +---------------------------------------------------+
    """

    __hash__ = object.__hash__  # that of Enum is written in Python, and each pod enters several places

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    PENDING = "pending"
    """Waits for the end of an attempt of its group, in which it has no part."""
    IN_FLIGHT = "in-flight"


@dataclass(frozen=True, slots=True)
class PendingCounts:
    """The number of pods in each place."""

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int
    pending: int = 0


@dataclass(slots=True, eq=False)
class QueuedPod:
    """A pod that is pending or in flight. Times are in seconds, on the monotonic clock of the queue's caller.

    After a failed attempt, the caller of the queue clears the rejectors, sets `alike`, the plugins that
    rejected the pod and the `message`, and returns the pod with `add_unschedulable`. If no plugin is set, the attempt
    failed with an error. All other fields are set by the queue.
    """

    pod: PodInfo
    queued_at: float
    """When the pod was added to the queue, or returned to it after its last attempt."""
    popped_at: float = 0.0
    """When the last attempt began."""
    attempts: int = 0
    initial_attempt_at: float | None = None
    """When the pod became active for the first time."""
    unschedulable_count: int = 0
    """The number of attempts that ended with a rejection."""
    consecutive_errors: int = 0
    """The number of errors since the last attempt that ended with a rejection."""
    backoff_expiration: float | None = None
    """When the current backoff expires; None until it is computed."""
    unschedulable_plugins: frozenset[str] = frozenset()
    """The plugins that rejected the pod in its last attempt, or that gate it."""
    pending_plugins: frozenset[str] = frozenset()
    """The plugins that rejected the pod with PENDING: they wait for a specific event."""
    alike: Hashable = None
    """Pods with equal keys are rejected in the same way as long as the cluster doesn't change; None if unknown."""
    gating_plugin: str = ""
    """The PreEnqueue plugin that gates the pod."""
    was_flushed: bool = False
    """Whether the pod was last requeued because of the timeout, and not by an event."""
    undone: bool = False
    """Whether the last attempt placed the pod, and Reserve, Permit or PreBind rejected it: it waits for its backoff."""
    message: str = ""
    """Why the pod is pending, in human-readable form."""
    place: Place | None = None
    """The pod's place; None before it enters the queue, and after it has left."""
    group: QueuedGroup | None = None
    """The group that the pod waits in, or is attempted with; None for a pod that has turns of its own."""

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.uid

    @property
    def gated(self) -> bool:
        """Whether a PreEnqueue plugin gates the pod."""
        return bool(self.gating_plugin)

    @property
    def gate(self) -> QueuedPod | None:
        """The gated pod that this one waits for: itself, or another one of its group; None if there is none."""
        if self.gated or self.group is None:
            return self if self.gated else None
        return next((member for member in self.group.members.values() if member.gated), None)

    @property
    def rejected(self) -> bool:
        """Whether plugins rejected the pod in its last attempt; False after an error."""
        return bool(self.unschedulable_plugins or self.pending_plugins)

    def clear_rejectors(self) -> None:
        """Clear the plugins that rejected or gate the pod."""
        self.unschedulable_plugins = frozenset()
        self.pending_plugins = frozenset()
        self.alike = None
        self.gating_plugin = ""

    def __repr__(self) -> str:
        return f"QueuedPod({self.pod.key}, {self.place.value if self.place else 'nowhere'}, attempts={self.attempts})"
