"""QueuedGroup: the pods of a group, which are one entry of the queue. Mirrors QueuedPodGroupInfo."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Self

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.queue.queued_pod import Place, QueuedPod


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

    def end(self, now: float) -> bool:
        """End the attempt, after which pods are left. Returns whether the group must wait for its backoff.

        Mirrors AddAttemptedPodGroupIfNeeded.
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
            self.unschedulable_count += 1
            self.consecutive_errors = 0
        self.queued_at, self.backoff_expiration = now, None
        return True

    def __repr__(self) -> str:
        return f"QueuedGroup({self.key}, {self.place.value if self.place else 'nowhere'}, {self.size} pods)"


Entry = QueuedPod | QueuedGroup
"""What has a turn of its own: a pod, or a group."""
