"""The entries of the queue, with the history of their attempts, and the places that they can be in.

A QueuedPod mirrors QueuedPodInfo, and a QueuedGroup QueuedPodGroupInfo: the pods of a group are one entry.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.pod_run import Alike


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
    alike: Alike | None = None
    """What the pods have in common that are rejected in the same way, as of the last attempt; None if unknown."""
    rank: tuple[float, int] | None = None
    """A time and a number: its place in the order of pods that are rejected for the same reasons (`AttemptOrder`)."""
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


@dataclass(slots=True, eq=False)
class QueuedGroup:
    """The pods of a group that wait for its next attempt: one entry of the queue, with one turn and one backoff.

    The fields with the names of those of a QueuedPod mean the same, for the group. Those of its pods don't count while
    they wait in it.
    """

    key: Hashable
    queued_at: float
    initial_attempt_at: float | None = None
    unschedulable_count: int = 0
    consecutive_errors: int = 0
    backoff_expiration: float | None = None
    members: dict[str, QueuedPod] = field(default_factory=dict)
    """By uid: the pods that wait. The first one stands for the group where entries are sorted."""
    place: Place | None = None
    """That of all members. IN_FLIGHT during an attempt of the group, in which those that wait are PENDING."""
    attempted: set[str] = field(default_factory=set)
    """The uids of the pods that the running attempt has not decided yet."""
    placed: bool = False
    """Whether the running attempt has placed a pod."""
    returned: bool = False
    """Whether a pod of the running attempt has come back."""
    refused: bool = False
    """Whether one of them was rejected, or its attempt failed."""
    failed: bool = False
    """Whether the attempt of one of them failed."""
    undone: bool = False
    """Whether one of them was placed, and rejected on its node, or could not be bound."""

    @classmethod
    def of(cls, key: Hashable, queued: QueuedPod) -> Self:
        """A group that begins with a pod, which may have failed before."""
        group = cls(
            key,
            queued.queued_at,
            queued.initial_attempt_at,
            queued.unschedulable_count,
            queued.consecutive_errors,
            queued.backoff_expiration,
        )
        group.add(queued)
        return group

    @property
    def pod(self) -> PodInfo:
        """The pod that stands for the group."""
        return next(iter(self.members.values())).pod

    @property
    def size(self) -> int:
        """How many pods wait in the group."""
        return len(self.members)

    @property
    def rejected(self) -> bool:
        """False: a group has its turn once its backoff is over, and not before that if no other pod is active.

        Upstream, the plugins that rejected pods of a group are not those of the group, so that it backs off as after an
        error.
        """
        return False

    def add(self, queued: QueuedPod) -> None:
        """Let a pod wait in the group."""
        queued.group = self
        self.members[queued.uid] = queued

    def first(self) -> QueuedPod:
        """The member for which the next attempt begins: one that was attempted least often."""
        return min(self.members.values(), key=lambda queued: queued.attempts)

    def begin(self) -> None:
        """Begin an attempt."""
        self.place = Place.IN_FLIGHT
        self.placed = self.returned = self.refused = self.failed = self.undone = False
        for member in self.members.values():
            member.place = Place.PENDING

    def take(self, queued: QueuedPod) -> None:
        """Let a member join the running attempt."""
        del self.members[queued.uid]
        self.attempted.add(queued.uid)

    def end(self, now: float, *, keeps_order: bool = False) -> bool:
        """End the attempt, after which pods are left. Returns whether the group must wait for its backoff.

        `keeps_order`: whether a rejected group keeps its place in the order. Mirrors AddAttemptedPodGroupIfNeeded.
        """
        if self.placed and not self.undone:
            self.unschedulable_count = self.consecutive_errors = 0
            if not self.returned:
                self.queued_at = now
            return False
        if not self.refused:
            return False
        if self.failed:
            self.consecutive_errors += 1
        else:
            self.unschedulable_count = 1 if keeps_order else self.unschedulable_count + 1
            self.consecutive_errors = 0
        self.backoff_expiration = None
        if self.failed or not keeps_order:
            self.queued_at = now
        return True

    def __repr__(self) -> str:
        return f"QueuedGroup({self.key}, {self.place.value if self.place else 'nowhere'}, {self.size} pods)"


Entry = QueuedPod | QueuedGroup
"""What has a turn of its own: a pod, or a group."""
