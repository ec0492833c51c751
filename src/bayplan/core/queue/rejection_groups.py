"""Unschedulable pods that are rejected for the same reasons: one of them is attempted for all.

A group is made of pods with equal `QueuedPod.alike` and the same rejecting plugins. An event asks hints about its
leader only, and requeues one pod: the first (`attempt_order.py`). If that one is rejected as before, the
others get its message; if not, the next one leads. Pods may differ in their claims and volumes. An event about these
separates a pod from its group first, by the topics `own` (`bayplan.core.framework.own_volumes`). A thousand equal pods
cost an event as much as one.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import ClusterEvent, Topics
from bayplan.core.framework.pod_run import Alike
from bayplan.core.queue.attempt_order import AttemptOrder
from bayplan.core.queue.backoff import AttemptBackoff
from bayplan.core.queue.in_flight import Happened
from bayplan.core.queue.messages import Messages
from bayplan.core.queue.queued_pod import QueuedPod
from bayplan.core.queue.topic_index import TopicIndex
from bayplan.core.queue.unschedulable import UnschedulablePods

RejectedAgain = Callable[[QueuedPod, Sequence[Happened] | None], bool]
"""`(pod, events since its rejection)` -> whether the pod would certainly be rejected as before."""


class _State(Enum):
    """What a group waits for.

    The methods of RejectionGroups move groups between the states::

         add     +---------+   requeued: an event helps the leader    +----------+
        -------> | WAITING | ---------------------------------------> | REQUEUED |
                 +---------+ <--------------------------------------- +----------+
                                add: it is rejected as before           |      ^
                                                                   left |      | successors: the next pod
                                                                        v      | of the group leads
        removed, without a pod in the group                          +------------+
        <----------------------------------------------------------- | LEADERLESS |
                                                                     +------------+
    """

    WAITING = "an event that helps the leader, which is unschedulable"
    REQUEUED = "the attempt of the leader, which is in another place of the queue"
    LEADERLESS = "another leader, because the last one is not rejected as before"


@dataclass(slots=True)
class _Group:
    """Pods with equal keys.

    `leader`: the one that is indexed, or requeued; None while the group is leaderless. `rejected_at`: when the last
    attempt ended that counted for all of them, or else the first one. `order`: those that are unschedulable. `cause`:
    the last event that requeued a leader. `messages`: of all that are unschedulable. `since`: the position of that
    event among those that happened; None if it isn't known. `alike`: that of the last attempt.
    """

    leader: QueuedPod | None
    rejected_at: float
    alike: Alike | None
    order: AttemptOrder
    state: _State = _State.WAITING
    cause: str = ""
    messages: Messages = field(default_factory=Messages)
    since: int | None = None


class RejectionGroups:
    """Adds unschedulable pods to `unschedulable`, grouped by `QueuedPod.alike` and rejecting plugins.

    One pod of a group leads it. Only the leader is indexed, so an event asks no hints about the others. An event that
    helps requeues one pod, which leads from then on. If it is rejected as before, the others would be, too, and they
    stay unschedulable. Otherwise (it is placed, deleted, or rejected by other plugins), the next pod is requeued.

    `by_rank`: the key of a pod, by its `rank`. `own`: the topics of objects that only some pods of a group name, such
    as their claims. An event with a topic of a pod separates it from the others.
    """

    def __init__(
        self,
        unschedulable: UnschedulablePods,
        backoff: AttemptBackoff,
        by_rank: Callable[[QueuedPod], Any],
        own: Topics,
    ) -> None:
        self._unschedulable = unschedulable
        self._backoff = backoff
        self._by_rank = by_rank
        self._own = own
        self._numbers = count()
        self.keeps_order = False
        """Whether pods keep the ranks of their first rejections."""
        self._happened: list[Happened] = []
        """The events since the first of the leaders that are requeued now was, where pods keep their ranks."""
        self._owners = TopicIndex()
        """The unschedulable pods of groups by their own topics."""
        self._groups: dict[Hashable, _Group] = {}
        self._requeued: dict[str, Hashable] = {}
        """uid of the leader -> key of its group, for the groups whose leader was requeued."""
        self._leaderless: dict[Hashable, None] = {}
        """Keys of the leaderless groups."""
        self._outdated: dict[Hashable, None] = {}
        """Keys of groups that may have pods with another message than that of the last attempt."""

    @property
    def waiting(self) -> bool:
        """Whether `successors` would yield a pod."""
        return bool(self._leaderless)

    def add(self, queued: QueuedPod) -> None:
        """Add an unschedulable pod, which may be a requeued leader that was rejected as before."""
        key = _key(queued)
        group = self._groups.get(key)
        if key is not None:
            self._owners.add(queued, self._own.of_pod(queued.pod))
        self._unschedulable.add(queued, indexed=group is None)
        if key is None:
            return
        if group is None:
            order = AttemptOrder(self._backoff, self._by_rank, self._numbers, keeps=self.keeps_order)
            group = self._groups[key] = _Group(queued, queued.queued_at, queued.alike, order)
            group.messages.set_latest(queued.message)
        if group.leader is queued and group.state is _State.REQUEUED:
            del self._requeued[queued.uid]
            self._forget()
            group.rejected_at, group.alike = queued.queued_at, queued.alike
            group.order.rejected(queued)
            if group.messages.set_latest(queued.message):
                self._outdated[key] = None
            self._lead(group)
        else:
            group.order.add(queued)
        group.messages.add(queued)

    def remove(self, queued: QueuedPod) -> None:
        """Remove an unschedulable pod."""
        self._unschedulable.remove(queued)
        self._owners.remove(queued.uid)
        group = self._groups.get(_key(queued))
        if group is None:
            return
        self._without(queued, group)

    def separate(self, queued: QueuedPod) -> None:
        """Remove an unschedulable pod from its group, but keep it unschedulable: it was changed."""
        group = self._groups.get(_key(queued))
        if group is None:
            return
        self._owners.remove(queued.uid)
        if group.leader is not queued:
            self._unschedulable.show(queued, queued.queued_at)
        self._without(queued, group)
        queued.alike = None

    def separate_owners(self, old: object, new: object) -> None:
        """Separate the pods that have a topic of an event, given its object before and after."""
        if self._owners.has_topics:
            for queued in self._owners.having(self._own.of_event(old, new) or ()).values():
                self.separate(queued)

    def requeued(self, queued: QueuedPod, cause: str, now: float, *, recorded: bool = False) -> QueuedPod:
        """Return the pod to requeue for an event that helps an unschedulable pod: the first of its group.

        `recorded`: whether the event is recorded next.
        """
        key = _key(queued)
        group = self._groups.get(key)
        if group is None or group.leader is None:
            return queued
        self._unschedulable.hide(group.leader)
        group.cause = cause
        group.since = len(self._happened) if recorded and self.keeps_order else None
        group.order.begin(now)
        return self._requeue_first(key, group, now)

    def record(self, event: ClusterEvent, old: object, new: object) -> None:
        """Record an event for the leaders that are requeued, and those that follow them, if pods keep their ranks."""
        if self.keeps_order and (self._requeued or self._leaderless):
            self._happened.append(Happened(event, old, new))

    def happened(self, leader: QueuedPod) -> Sequence[Happened] | None:
        """Return the events since one requeued the group of a leader; None if that is unknown."""
        key = self._requeued.get(leader.uid)
        return None if key is None else self._since_requeued(self._groups[key])

    def leads(self, queued: QueuedPod) -> bool:
        """Return whether a pod that was attempted is the leader of the group that it belongs to now."""
        key = self._requeued.get(queued.uid)
        return key is not None and key == _key(queued)

    def update_message(self) -> QueuedPod | None:
        """Give an unschedulable pod the message of its leader's last attempt. Returns it; None if all have theirs."""
        while self._outdated:
            key = next(iter(self._outdated))
            queued = self._groups[key].messages.update_next()
            if queued is not None:
                return queued
            del self._outdated[key]
        return None

    def left(self, uid: str) -> None:
        """Record that a pod is not pending any more, or isn't rejected as before. Pods that don't lead are ignored."""
        key = self._requeued.pop(uid, None)
        if key is None:
            return
        group = self._groups[key]
        group.leader, group.state = None, _State.LEADERLESS
        self._leaderless[key] = None

    def placed(self, pod: PodInfo) -> None:
        """Record that a pod is on a node from now on."""
        self.left(pod.uid)
        self.separate_owners(None, pod)

    def successors(self, now: float, rejected_again: RejectedAgain) -> Iterator[tuple[QueuedPod, str]]:
        """Yield the next pod of each group whose requeued leader has left it, to requeue it for the same event."""
        while self._leaderless:
            key, _ = self._leaderless.popitem()
            group = self._groups[key]
            if not len(group.order):
                self._drop(key)
                self._forget()
                continue
            if rejected_again(_as_last(group, group.order.any()), self._since_requeued(group)):
                self._lead(group)
                self._forget()
            else:
                yield self._requeue_first(key, group, now), group.cause

    def _requeue_first(self, key: Hashable, group: _Group, now: float) -> QueuedPod:
        """Let the first pod lead, and return it: the caller requeues it."""
        leader = group.leader = _as_last(group, group.order.pop(now))
        group.state = _State.REQUEUED
        self._requeued[leader.uid] = key
        return leader

    def _since_requeued(self, group: _Group) -> Sequence[Happened] | None:
        return None if group.since is None else self._happened[group.since :]

    def _forget(self) -> None:
        """Forget the events that no leader needs."""
        if not self._requeued and not self._leaderless:
            self._happened.clear()

    def _without(self, queued: QueuedPod, group: _Group) -> None:
        """Remove an unschedulable pod from its group. The caller has hidden it, if it was the one that is indexed."""
        group.messages.discard(queued.uid)
        if group.leader is queued and group.state is _State.REQUEUED:
            return
        group.order.remove(queued)
        if group.leader is not queued:
            return
        if len(group.order):
            self._lead(group)
        else:
            self._drop(_key(queued))

    def _drop(self, key: Hashable) -> None:
        del self._groups[key]
        self._outdated.pop(key, None)

    def _lead(self, group: _Group) -> None:
        """Let one of the pods lead, and wait for an event."""
        group.leader, group.state = _as_last(group, group.order.any()), _State.WAITING
        self._unschedulable.show(group.leader, group.rejected_at)


def _as_last(group: _Group, queued: QueuedPod) -> QueuedPod:
    """Let a pod be rejected as the last of its group was: another attempt may have had another reason."""
    queued.alike = group.alike
    return queued


def _key(queued: QueuedPod) -> Hashable:
    if queued.alike is None or queued.pending_plugins:
        return None
    return queued.pod.scheduler_name, queued.alike, queued.unschedulable_plugins
