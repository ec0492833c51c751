"""Places: where the pods and groups of the queue wait, and how they get from one place to another.

The heaps hold groups, and a group holds its pods (`queued_pod.py`). Mirrors moveToActiveQ, moveToBackoffQ and
addPodGroupMember in pkg/scheduler/backend/queue/scheduling_queue.go.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import changes
from bayplan.core.framework.calling import Caller
from bayplan.core.framework.events import Topics
from bayplan.core.queue.backoff import AttemptBackoff, BackoffQueue
from bayplan.core.queue.gates import is_still_gated, run_pre_enqueue
from bayplan.core.queue.hints import Hints, QueueProfile, Requeue
from bayplan.core.queue.in_flight import InFlight
from bayplan.core.queue.pod_heap import PodHeap
from bayplan.core.queue.queued_pod import Entry, Place, QueuedGroup, QueuedPod
from bayplan.core.queue.rejection_groups import RejectionGroups
from bayplan.core.queue.sort_keys import sort_key_of
from bayplan.core.queue.unschedulable import UnschedulablePods
from bayplan.foundations.failures import Failures

ATTEMPT_FAILED = "ScheduleAttemptFailure"
POD, GROUP = "pod", "podgroup"
"""The types of entries in metrics."""
_NO_RANK = math.inf, 0


class Places:
    """The places of the queue. A pod that waits is in one of them, by itself or with its group.

    A group is one entry: all its members are in the same place, and only gated ones are asked about events; where only
    events requeue what waits (`RetryTimes.keeps_order`), those of a rejected group are, too. A pod that comes while its
    group is attempted is PENDING, and enters with the group when the attempt has ended.
    """

    def __init__(
        self,
        profiles: Mapping[str, QueueProfile],
        hints: Hints,
        backoff: AttemptBackoff,
        own: Topics,
        caller: Callable[[PodInfo], Caller],
        failures: Failures,
    ) -> None:
        self.incoming: Counter[tuple[Place, str]] = Counter()
        """How often pods entered a place, by place and cause."""
        self._incoming_members: Counter[tuple[Place, str]] = Counter()
        """How many of these were pods of groups."""
        self._incoming_groups: Counter[tuple[Place, str]] = Counter()
        """How often groups entered a place, by place and cause."""
        self._profiles = profiles
        self._hints = hints
        self._caller = caller
        self._failures = failures
        self._backoff_rule = backoff
        of_pod = next(iter(profiles.values())).sort_key
        sort_key = sort_key_of(of_pod, failures)
        self.sort_key = sort_key
        """The key of an entry. The one with the smallest key has its turn first."""
        order = _with_rank(sort_key)
        self._active = PodHeap(order)
        self._backoff = BackoffQueue(backoff, order)
        self._unschedulable = UnschedulablePods(hints.topics_of, lambda pod: profiles[pod.scheduler_name].flushed)
        self.groups = RejectionGroups(
            self._unschedulable, backoff, _with_rank(sort_key_of(of_pod, failures, _time_of_rank)), own
        )
        self._in_flight = InFlight()
        self._waiting: dict[str, QueuedPod] = {}
        self._may_group = any(profile.queued_with is not None for profile in profiles.values())
        self._queued_groups: dict[Hashable, QueuedGroup] = {}
        """By key: the groups that have pods that wait, or an attempt that goes on."""

    # Entries

    def _requeue(self, entry: Entry, requeue: Requeue, cause: str, now: float) -> bool:
        """Move an entry to its next place. Returns whether it became active or entered backoff."""
        if requeue is Requeue.SKIP:
            self._enter(entry, Place.UNSCHEDULABLE, cause, now)
            return False
        if requeue is Requeue.AFTER_BACKOFF and self._backoff_rule.holds(entry, now):
            return self._enter_unless_gated(entry, Place.BACKOFF, cause, now)
        return self._to_active(entry, cause, now)

    def _to_active(self, entry: Entry, cause: str, now: float) -> bool:
        if entry.place is Place.BACKOFF:  # it passed PreEnqueue before it entered backoff
            self._leave(entry)
            self._enter(entry, Place.ACTIVE, cause, now)
            return True
        return self._enter_unless_gated(entry, Place.ACTIVE, cause, now)

    def _enter_unless_gated(self, entry: Entry, place: Place, cause: str, now: float) -> bool:
        """Run PreEnqueue, and move the entry to the place, or to the gated ones. Returns False if it is gated."""
        if isinstance(entry, QueuedGroup):
            return self._enter_group_unless_gated(entry, place, cause, now)
        was_gated = entry.gated
        if entry.place is not None:
            self._leave(entry)
        if self._is_gated(entry):
            self.groups.left(entry.uid)
            self._enter(entry, Place.GATED, None if was_gated else cause, now)
            return False
        self._enter(entry, place, cause, now)
        return True

    def _is_gated(self, queued: QueuedPod) -> bool:
        """Run PreEnqueue for a pod that is in no place."""
        plugins = self._profiles[queued.pod.scheduler_name].pre_enqueue_for(queued.pod)
        return run_pre_enqueue(queued, plugins, self._caller(queued.pod), self._failures)

    def _is_still_gated(self, queued: QueuedPod) -> bool:
        plugins = self._profiles[queued.pod.scheduler_name].pre_enqueue_for(queued.pod)
        return is_still_gated(queued, plugins, self._caller(queued.pod), self._failures)

    def _enter(self, entry: Entry, place: Place, cause: str | None, now: float) -> None:
        if isinstance(entry, QueuedGroup):
            self._enter_group(entry, place, cause, now)
            return
        if place is Place.GATED:
            self._unschedulable.add(entry)
        elif place is Place.UNSCHEDULABLE:
            self.groups.add(entry)
        else:
            self._push(entry, place, now)
        entry.place = place
        self._waiting[entry.uid] = entry
        if cause is not None:
            self.incoming[place, cause] += 1

    def _push(self, entry: Entry, place: Place, now: float) -> None:
        """Add an entry to the heap of a place, if it has one."""
        if place is Place.ACTIVE:
            if entry.initial_attempt_at is None:
                entry.initial_attempt_at = now
            self._active.push(entry)
        elif place is Place.BACKOFF:
            self._backoff.add(entry)

    def _leave(self, entry: Entry) -> None:
        if isinstance(entry, QueuedGroup):
            self._leave_group(entry)
            return
        if entry.place is Place.ACTIVE:
            self._active.remove(entry)
        elif entry.place is Place.BACKOFF:
            self._backoff.remove(entry)
        elif entry.place is Place.GATED:
            self._unschedulable.remove(entry)
        else:
            self.groups.remove(entry)
        entry.place = None
        del self._waiting[entry.uid]

    # Groups

    def _group_of(self, pod: PodInfo) -> Hashable:
        """The key of the group that a pod waits in; None if it has turns of its own, as for a deferred resize."""
        of = self._profiles[pod.scheduler_name].queued_with
        return None if of is None or pod.node_name else of(pod)

    def _enter_group_unless_gated(self, group: QueuedGroup, place: Place, cause: str, now: float) -> bool:
        """Run PreEnqueue for all pods of the group: if one of them is gated, all of them wait.

        Pods that are in another group by now join that one.
        """
        if group.place is Place.GATED and (moved := self._regroup(group, cause, now)) and not group.members:
            self._drop_if_empty(group)
            return any(member.place is not Place.GATED for member in moved)
        if group.place is not None:
            self._leave_group(group)
        was_gated, gated = False, False
        for member in group.members.values():
            was_gated |= member.gated
            gated |= self._is_gated(member)
        if gated:
            self._enter_group(group, Place.GATED, None if was_gated else cause, now)
            return False
        self._enter_group(group, place, cause, now)
        return True

    def _regroup(self, group: QueuedGroup, cause: str, now: float) -> list[QueuedPod]:
        """Let the pods of a gated group join another one that are in that by now. Returns them."""
        keys = {uid: self._group_of(member.pod) for uid, member in group.members.items()}
        moved = [member for uid, member in group.members.items() if keys[uid] not in {None, group.key}]
        for member in moved:
            self._leave_member(member)
            del group.members[member.uid]
        for member in moved:
            self._join(member, keys[member.uid], cause, now)
        return moved

    def _enter_group(self, group: QueuedGroup, place: Place, cause: str | None, now: float) -> None:
        self._push(group, place, now)
        group.place = place
        for member in group.members.values():
            self._enter_member(member, group, now)
        if cause is not None:
            self.incoming[place, cause] += group.size
            self._incoming_members[place, cause] += group.size
            self._incoming_groups[place, cause] += 1

    def _enter_member(self, member: QueuedPod, group: QueuedGroup, now: float) -> None:
        place = member.place = group.place
        self._waiting[member.uid] = member
        if place is Place.ACTIVE and member.initial_attempt_at is None:
            member.initial_attempt_at = now
        elif _asked_about_events(member):
            self._unschedulable.add(member)

    def _leave_group(self, group: QueuedGroup) -> None:
        if group.place is Place.ACTIVE:
            self._active.remove(group)
        elif group.place is Place.BACKOFF:
            self._backoff.remove(group)
        for member in group.members.values():
            self._leave_member(member)
        group.place = None

    def _leave_member(self, member: QueuedPod) -> None:
        if _asked_about_events(member):
            self._unschedulable.remove(member)
        member.place = None
        del self._waiting[member.uid]

    def _changes_group(self, queued: QueuedPod, pod: PodInfo) -> bool:
        """Whether a version of a pod is in another group than the one that it waits in, or was attempted with."""
        key = None if queued.group is None else queued.group.key
        return self._may_group and self._group_of(pod) != key

    def _admit(self, queued: QueuedPod, cause: str, now: float) -> bool:
        """Add a pod that is in no place: to its group, if it has one. Returns whether it isn't gated."""
        key = self._group_of(queued.pod) if self._may_group else None
        return self._to_active(queued, cause, now) if key is None else self._join(queued, key, cause, now)

    def _join(self, queued: QueuedPod, key: Hashable, cause: str, now: float) -> bool:
        """Add a pod to its group, which may be in any place. Returns whether it became active or entered backoff."""
        group = self._queued_groups.get(key)
        if group is None:
            group = self._queued_groups[key] = QueuedGroup.of(key, queued)
            return self._requeue(group, Requeue.AFTER_BACKOFF, cause, now)
        place = group.place
        if place is Place.IN_FLIGHT:
            self._let_wait(queued, group)
            return False
        assert place is not None
        if self._is_gated(queued) and place is not Place.GATED:
            self._leave_group(group)
            group.add(queued)
            self._enter_group(group, Place.GATED, cause, now)
            return False
        group.add(queued)
        self._enter_member(queued, group, now)
        self.incoming[place, cause] += 1
        self._incoming_members[place, cause] += 1
        return place is not Place.GATED

    def _part(self, queued: QueuedPod, now: float) -> None:
        """Remove a pod that waits from its group."""
        group = queued.group
        assert group is not None
        place, stands = group.place, next(iter(group.members)) == queued.uid
        if place in {Place.ACTIVE, Place.BACKOFF} and stands:
            self._leave_group(group)
            del group.members[queued.uid]
            if group.members:
                assert place is not None
                self._enter_group(group, place, None, now)
        else:
            self._leave_member(queued)
            del group.members[queued.uid]
        if place is Place.GATED and group.members and not any(member.gated for member in group.members.values()):
            self._enter_group_unless_gated(group, Place.ACTIVE, changes.UNSCHEDULED_POD_ADD.label, now)
        self._drop_if_empty(group)

    def _take_member(self, queued: QueuedPod, group: QueuedGroup, now: float) -> bool:
        """Let a pod that waits join the attempt of its group, or begin it. Returns False if the group is gated."""
        if group.place is not Place.IN_FLIGHT:
            if group.place is not Place.ACTIVE and not self._to_active(group, changes.FORCE_ACTIVATE.label, now):
                return False
            self._active.remove(group)
            group.begin()
        del self._waiting[queued.uid]
        group.take(queued)
        return True

    def _decided(self, queued: QueuedPod, now: float) -> None:
        """A pod has left its attempt. With the last one of its group, the attempt of the group has ended."""
        group = queued.group
        if group is None or queued.uid not in group.attempted:
            return
        group.attempted.remove(queued.uid)
        if group.attempted:
            return
        group.place = None
        if not group.members:
            self._drop_if_empty(group)
            return
        for member in group.members.values():
            member.place = None
            del self._waiting[member.uid]
        waits = group.end(now, keeps_order=self.groups.keeps_order)
        if waits and self.groups.keeps_order and not group.failed:
            self._enter_group_unless_gated(group, Place.UNSCHEDULABLE, ATTEMPT_FAILED, now)
        elif waits and self._backoff_rule.holds(group, now):
            self._enter_group_unless_gated(group, Place.BACKOFF, ATTEMPT_FAILED, now)
        else:
            self._enter_group_unless_gated(group, Place.ACTIVE, ATTEMPT_FAILED, now)

    def _return(self, queued: QueuedPod, now: float, *, refused: bool) -> None:
        """Let a pod whose attempt is over wait in its group. `refused`: whether it was rejected, or failed."""
        if self._changes_group(queued, queued.pod):
            self._decided(queued, now)
            queued.group = None
            self._admit(queued, ATTEMPT_FAILED, now)
            return
        group = queued.group
        assert group is not None
        if queued.uid not in group.attempted and group.place is not Place.IN_FLIGHT:
            self._join(queued, group.key, ATTEMPT_FAILED, now)
            return
        self._let_wait(queued, group)
        group.returned = True
        if refused:
            group.refused = True
            group.undone |= queued.undone or queued.uid not in group.attempted
            group.failed |= not queued.rejected
        self._decided(queued, now)

    @property
    def _others(self) -> Counter[Place]:
        """The pods of groups that are neither entries of a heap nor among those that plugins gate, by place."""
        others: Counter[Place] = Counter()
        for group in self._queued_groups.values():
            if group.place is Place.IN_FLIGHT:
                others[Place.PENDING] += group.size
            elif group.place is Place.GATED:
                others[Place.GATED] += sum(not member.gated for member in group.members.values())
            elif group.place is not None:
                others[group.place] += group.size - 1
        return others

    def entries(self) -> Counter[tuple[Place, str]]:
        """Return the number of entries in each place, by their type: `pod` or `podgroup`."""
        found: Counter[tuple[Place, str]] = Counter()
        for queued in self._waiting.values():
            if queued.group is None and queued.place is not None:
                found[queued.place, POD] += 1
        for group in self._queued_groups.values():
            if group.place is not None and group.place is not Place.IN_FLIGHT:
                found[group.place, GROUP] += 1
        return found

    def incoming_entries(self) -> Counter[tuple[Place, str, str]]:
        """Return how often entries entered a place, by place, cause and type."""
        found: Counter[tuple[Place, str, str]] = Counter()
        for (place, cause), number in self.incoming.items():
            if single := number - self._incoming_members[place, cause]:
                found[place, cause, POD] = single
        for (place, cause), number in self._incoming_groups.items():
            found[place, cause, GROUP] = number
        return found

    def _let_wait(self, queued: QueuedPod, group: QueuedGroup) -> None:
        """Let a pod wait for the end of an attempt of its group."""
        group.add(queued)
        queued.place = Place.PENDING
        self._waiting[queued.uid] = queued

    def _drop_if_empty(self, group: QueuedGroup) -> None:
        if not group.members and not group.attempted and self._queued_groups.get(group.key) is group:
            del self._queued_groups[group.key]


def _with_rank(sort_key: Callable[[Entry], Any]) -> Callable[[Entry], Any]:
    """The order of entries: by a sort key, and those with equal keys by their ranks."""
    return lambda entry: (sort_key(entry), getattr(entry, "rank", None) or _NO_RANK)


def _time_of_rank(queued: QueuedPod) -> float:
    return queued.queued_at if queued.rank is None else queued.rank[0]


def _asked_about_events(member: QueuedPod) -> bool:
    """Whether events may requeue a group because of this pod."""
    return member.place is Place.UNSCHEDULABLE or (member.place is Place.GATED and member.gated)
