"""The scheduling queue: selects the next pod to schedule, and tracks what the other pods wait for.

Mirrors pkg/scheduler/backend/queue/scheduling_queue.go and active_queue.go.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import changes
from bayplan.core.framework.calling import Caller, call
from bayplan.core.framework.events import NO_TOPICS, ClusterEvent, Topics
from bayplan.core.queue.backoff import AttemptBackoff
from bayplan.core.queue.hints import AskHint, Hints, QueueProfile, Requeue, ask_hint
from bayplan.core.queue.in_flight import Happened
from bayplan.core.queue.places import ATTEMPT_FAILED, Places
from bayplan.core.queue.queued_pod import Entry, PendingCounts, Place, QueuedGroup, QueuedPod
from bayplan.core.queue.retry_times import RetryTimes
from bayplan.foundations.failures import Failures

BACKOFF_COMPLETE = "BackoffComplete"
POPPED_FROM_BACKOFF = "PopFromBackoffQ"


class SchedulingQueue(Places):
    """The pods that are not bound yet, and those whose resize may preempt others, each in one `Place`.

    The queue is a pure state machine: it reads no clock and starts no task. The caller passes the time as `now`, in
    seconds, which must not decrease. Pods that it doesn't take are ignored: see `takes`.

    Args:
        profiles: by scheduler name.
        nominations: nominated pods; shared with the cluster state, and updated by the queue.
        times: when rejected pods have their next attempt.
        own: the topics of objects that a single pod may be rejected for (see `Peers`).
        caller: returns the function that calls the PreEnqueue plugins for a pod.
        ask_hint: calls a hint.
        failures: where failures of QueueSort, PreEnqueue and hints are recorded.
    """

    def __init__(
        self,
        profiles: Mapping[str, QueueProfile],
        nominations: Nominations,
        *,
        times: RetryTimes = RetryTimes(),  # noqa: B008 - immutable
        own: Topics = NO_TOPICS,
        caller: Callable[[PodInfo], Caller] = lambda _: call,
        ask_hint: AskHint = ask_hint,
        failures: Failures | None = None,
    ) -> None:
        if not profiles:
            raise ValueError("a scheduling queue needs at least one profile")
        failures = failures or Failures()
        hints = Hints(profiles, ask_hint, failures)
        backoff = AttemptBackoff(times.initial_backoff, times.max_backoff)
        super().__init__(profiles, hints, backoff, own, caller, failures)
        self.nominations = nominations
        self._changes = partial(changes.pod_changes, scale_ups=any(each.resizes for each in profiles.values()))
        self._unschedulable_timeout = math.inf if times.keeps_order else times.unschedulable_timeout
        self._keeps_order = self.groups.keeps_order = times.keeps_order
        self.unit: Mapping[str, QueuedPod] = self._in_flight.unit
        """By uid, the pods of the running attempt: popped or taken for it, and neither placed nor requeued yet."""

    # Events from the API server

    def takes(self, pod: PodInfo) -> bool:
        """Return whether a pod belongs in the queue: a profile has its scheduler name, and takes it."""
        profile = self._profiles.get(pod.scheduler_name)
        return profile is not None and profile.takes(pod)

    def add(self, pod: PodInfo, now: float) -> None:
        """Add a pod. A pod that is known already is updated."""
        if pod.uid in self._waiting or pod.uid in self._in_flight:
            self.update(None, pod, now)
        elif self.takes(pod):
            self._add_new(pod, changes.UNSCHEDULED_POD_ADD, now)

    def update(self, old: PodInfo | None, new: PodInfo, now: float) -> None:
        """Update a pod. An unknown pod is added.

        The caller must not pass pods that are assumed, because they would be scheduled again.
        """
        if new.terminated:
            self.delete(new, now)
            return
        if not self.takes(new):
            self.remove(new.uid)
            return
        known = self.get(new.uid)
        if known is not None and known.place is not Place.IN_FLIGHT and self._changes_group(known, new):
            self.remove(new.uid)
            known = None
        if known is None:
            self._add_new(new, changes.UNSCHEDULED_POD_UPDATE, now)
            return
        latest = self._in_flight.latest(new.uid) if known.place is Place.IN_FLIGHT else known.pod
        if latest is not None and latest.resource_version == new.resource_version != "":
            return
        old = latest or old or known.pod
        if known.place is Place.IN_FLIGHT:
            self._update_in_flight(old, new)
        else:
            self._update_waiting(known, old, new, now)
        if old.nominated_node_name not in {"", new.nominated_node_name}:
            self._nomination_ended(old, now)

    def delete(self, pod: PodInfo, now: float) -> None:
        """Remove a deleted pod. If it was nominated, other pods may use the room that was kept for it."""
        nominated = pod.nominated_node_name or self.nominations.node_of(pod.uid)
        self.remove(pod.uid)
        if nominated:
            self._nomination_ended(pod, now)

    def remove(self, uid: str) -> None:
        """Forget a pod: it is bound, deleted or given up. Unknown pods are ignored."""
        self.nominations.remove(uid)
        self.groups.left(uid)
        if uid in self._in_flight:
            self._in_flight.forget(uid)
        elif uid in self._waiting:
            queued = self._waiting[uid]
            if queued.group is None:
                self._leave(queued)
            else:
                self._part(queued, queued.queued_at)

    def move_on_event(
        self, event: ClusterEvent, old: object, new: object, now: float, only: Callable[[PodInfo], bool] | None = None
    ) -> int:
        """Requeue the pods that an event may make schedulable. Returns how many became active or entered backoff.

        The event is also recorded for the pods in flight. `old` and `new`: the object before and after the event, or
        None. `only`: if given, pods that do not satisfy it are not requeued. Mirrors MoveAllToActiveOrBackoffQueue.
        """
        moved = 0
        self.groups.separate_owners(old, new)
        waiting = self._unschedulable.waiting_for(
            lambda rejector: self._hints.helps(rejector, event),
            lambda rejector: self._hints.narrowed(rejector, event, old, new),
            lambda rejector: self._hints.still_gated(rejector, event),
        )
        for queued in waiting:
            if queued.group is not None and queued.group.place not in {Place.GATED, Place.UNSCHEDULABLE}:
                continue  # another of its pods has requeued it
            if (only is None or only(queued.pod)) and not (queued.gated and self._is_still_gated(queued)):
                requeue = self._hints.ask(queued, event, old, new)
                if requeue is not Requeue.SKIP:
                    entry: Entry | None = queued.group
                    if entry is None:
                        entry = self.groups.requeued(queued, event.label, now, recorded=True)
                    moved += self._requeue(entry, requeue, event.label, now)
        if self._hints.interested(event):
            self._in_flight.record(event, old, new)
        self.groups.record(event, old, new)
        return moved

    # Operations of the scheduler

    def pop(self, now: float) -> QueuedPod | None:
        """Remove and return the next pod to schedule; None if there is none before `next_wakeup`.

        The pod is in flight until the caller calls `done` or `add_unschedulable`. If it is in a group, this is the turn
        of the group: the attempt is about the pods of it that the caller takes.
        """
        self.flush(now)
        entry = self._next(now)
        if entry is None:
            return None
        if isinstance(entry, QueuedGroup):
            entry.begin()
            queued = entry.first()
            entry.take(queued)
        else:
            queued = entry
        del self._waiting[queued.uid]
        self._start(queued, now)
        return queued

    def _next(self, now: float) -> Entry | None:
        """Remove and return the next entry, but for leaders that no event helps any more."""
        while (entry := self._active.pop()) is not None:
            if isinstance(entry, QueuedGroup) or not self._rejected_again(entry, self.groups.happened(entry)):
                return entry
            self._enter(entry, Place.UNSCHEDULABLE, None, now)
        entry = self._backoff.pop_early()
        if entry is not None:
            self.incoming[Place.ACTIVE, POPPED_FROM_BACKOFF] += 1
        return entry

    def _rejected_again(self, queued: QueuedPod, events: Sequence[Happened] | None) -> bool:
        """Whether hints say by now that none of the events since the last rejection helps; False if none are known."""
        return events is not None and self._hints.ask_all(queued, events) is Requeue.SKIP

    def comes_before(self, queued: QueuedPod) -> bool:
        """Return whether a pod is active whose turn comes before that of this one."""
        first = self._active.peek()
        return first is not None and self.sort_key(first) < self.sort_key(queued)

    def take(self, uid: str, now: float, *, joins: bool = True) -> QueuedPod | None:
        """Remove and return a specific pod, whatever it waits for. It is in flight then, as after `pop`.

        `joins`: whether it joins the pods of the running attempt; else, its own attempt begins. Returns None if the pod
        is unknown, in flight, or gated.
        """
        queued = self._waiting.get(uid)
        if queued is None:
            return None
        if queued.group is not None:
            if not self._take_member(queued, queued.group, now):
                return None
        elif queued.place is Place.ACTIVE or self._to_active(queued, changes.FORCE_ACTIVATE.label, now):
            self._leave(queued)
        else:
            return None
        self._start(queued, now, joins=joins)
        return queued

    def placed(self, pod: PodInfo) -> None:
        """Record that a pod in flight was placed: pods that were rejected for the same reasons have their turn."""
        queued = self._in_flight.decided(pod.uid)
        self.groups.placed(pod)
        if queued is not None and queued.group is not None:
            queued.group.placed = True
            self._decided(queued, queued.popped_at)

    def stop_recording(self, uid: str) -> None:
        """Stop recording events for a pod in flight that has passed Permit: no plugin can reject it any more.

        If its binding fails, the caller still calls `add_unschedulable`.
        """
        self._in_flight.stop_recording(uid)

    def done(self, uid: str) -> None:
        """End the attempt of a pod that is bound or deleted. Unknown pods are ignored."""
        self.groups.left(uid)
        known = self._in_flight.get(uid) if self._queued_groups else None
        queued = self._in_flight.end(uid)
        if queued is not None:
            queued.place = None
        if known is not None and known.group is not None:
            self._decided(known, known.popped_at)

    def add_unschedulable(self, queued: QueuedPod, now: float) -> Place | None:
        """Return a pod to the queue after a failed attempt. Returns its new place; None if it was deleted.

        If no plugin rejected the pod, the attempt failed with an error. The pod continues with the version that the
        caller stored in it, or else with the latest version. Mirrors AddUnschedulableIfNotPresent.
        """
        uid = queued.uid
        if uid in self._waiting:
            return self._waiting[uid].place
        events = self._in_flight.events_since_start(uid)
        leads = self.groups.leads(queued)
        if not leads:
            self.groups.left(uid)
        if uid in self._in_flight and self._in_flight.end(uid) is None:
            self.groups.left(uid)
            queued.place = None
            self._decided(queued, now)
            return None
        if queued.rejected:
            queued.unschedulable_count = 1 if self._keeps_order else queued.unschedulable_count + 1
            queued.consecutive_errors = 0
        else:
            queued.consecutive_errors += 1
        if not (self._keeps_order and queued.rejected):
            queued.queued_at = now
        queued.backoff_expiration = None
        queued.was_flushed = False
        queued.place = None
        if queued.group is not None or self._changes_group(queued, queued.pod):
            self._return(queued, now, refused=True)
            return queued.place
        if events is None or not queued.rejected:
            requeue = Requeue.AFTER_BACKOFF
        else:
            requeue = self._hints.ask_all(queued, [each for each in events if not each.ends_nomination_of(uid)])
        if leads and requeue is not Requeue.SKIP:  # another pod of its group may have its turn first
            self._enter(queued, Place.UNSCHEDULABLE, None, now)
            self._requeue(self.groups.requeued(queued, ATTEMPT_FAILED, now), requeue, ATTEMPT_FAILED, now)
        else:
            self._requeue(queued, requeue, ATTEMPT_FAILED, now)
        return queued.place

    def release(self, queued: QueuedPod, now: float) -> None:
        """Return a pod in flight to the active queue, because it was not attempted; that attempt does not count."""
        if queued.uid not in self._in_flight:
            return
        deleted = self._in_flight.end(queued.uid) is None
        queued.attempts -= 1
        queued.place = None
        if deleted:
            self._decided(queued, now)
        elif queued.group is None and not self._changes_group(queued, queued.pod):
            self._to_active(queued, changes.FORCE_ACTIVATE.label, now)
        else:
            self._return(queued, now, refused=False)

    def activate(self, pods: Iterable[PodInfo], now: float) -> int:
        """Move pods to the active queue, whatever they wait for. Returns how many became active.

        Pods in flight are requeued when they return. Unknown pods are ignored.
        """
        activated = 0
        for pod in pods:
            queued = self._waiting.get(pod.uid)
            self.groups.record(changes.FORCE_ACTIVATE, None, pod)
            if queued is not None and queued.place not in {Place.ACTIVE, Place.PENDING}:
                activated += self._to_active(queued.group or queued, changes.FORCE_ACTIVATE.label, now)
            elif pod.uid in self._in_flight:
                self._in_flight.record(changes.FORCE_ACTIVATE, None, pod)
        return activated

    def flush(self, now: float) -> None:
        """Move the pods whose backoff has expired, and those that were unschedulable for too long. `pop` calls this."""
        for entry in self._backoff.pop_completed(now):
            entry.place = None
            self._enter(entry, Place.ACTIVE, BACKOFF_COMPLETE, now)
        for queued, cause in self.groups.successors(now, self._rejected_again):
            queued.was_flushed = cause == changes.UNSCHEDULABLE_TIMEOUT.label
            self._requeue(queued, Requeue.AFTER_BACKOFF, cause, now)
        flushed = False
        while (oldest := self._unschedulable.oldest()) is not None and now >= oldest[1] + self._unschedulable_timeout:
            queued = self.groups.requeued(oldest[0], changes.UNSCHEDULABLE_TIMEOUT.label, now)
            queued.was_flushed = flushed = True
            self._requeue(queued, Requeue.AFTER_BACKOFF, changes.UNSCHEDULABLE_TIMEOUT.label, now)
        if flushed:
            self._in_flight.record(changes.UNSCHEDULABLE_TIMEOUT, None, None)

    def next_wakeup(self, now: float) -> float | None:
        """Return when to call `pop` again: `now` if it would return a pod, None if only an event can change that."""
        if len(self._active) or self._backoff.can_pop_early or self.groups.waiting:
            return now
        completion, oldest = self._backoff.next_completion(), self._unschedulable.oldest()
        times = [] if completion is None else [completion]
        if oldest is not None:
            times.append(oldest[1] + self._unschedulable_timeout)
        return max(now, min(times)) if times else None

    # Queries

    def get(self, uid: str) -> QueuedPod | None:
        """Return a pod in any place; None if it is unknown."""
        return self._waiting.get(uid) or self._in_flight.get(uid)

    def pending(self, uid: str) -> PodInfo | None:
        """Return a pod in the version that its present or next attempt is about; None if it is unknown."""
        queued = self.get(uid)
        return None if queued is None else queued.pod

    @property
    def any_active(self) -> bool:
        """Whether a pod is active. `pop` may return one from the backoff even if none is."""
        return len(self._active) > 0

    @property
    def any_refused(self) -> bool:
        """Whether a pod waits for an event, or for the end of its backoff."""
        return self._unschedulable.rejected_count > 0 or len(self._backoff) > 0

    def pending_pods(self) -> PendingCounts:
        """Return the number of pods in each place. It looks at every group."""
        others = self._others
        return PendingCounts(
            active=len(self._active) + others[Place.ACTIVE],
            backoff=len(self._backoff) + others[Place.BACKOFF],
            unschedulable=self._unschedulable.rejected_count,
            gated=self._unschedulable.gated_count + others[Place.GATED],
            in_flight=len(self._in_flight),
            pending=others[Place.PENDING],
        )

    def in_flight_events(self) -> Counter[str]:
        """Return the number of events that are recorded for pods in flight, by label."""
        return self._in_flight.event_labels()

    def waiting(self) -> list[QueuedPod]:
        """Return the pods that are not in flight, in no particular order."""
        return list(self._waiting.values())

    def __iter__(self) -> Iterator[QueuedPod]:
        """Iterate over all pods, in no particular order."""
        yield from self._waiting.values()
        yield from self._in_flight

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    # Additions and updates

    def _add_new(self, pod: PodInfo, event: ClusterEvent, now: float) -> None:
        if self._admit(QueuedPod(pod, queued_at=now), event.label, now):
            self.nominations.add(pod)

    def _update_in_flight(self, old: PodInfo, new: PodInfo) -> None:
        if self._in_flight.latest(new.uid) is None:
            # The pod was reported as deleted, but exists. Events in between may have been missed.
            self._in_flight.record(changes.FORCE_ACTIVATE, None, new)
        elif not changes.only_status_changed(old, new):
            for event in self._changes(old, new):
                self._in_flight.record(event, old, new)
        self._in_flight.update(new)

    def _update_waiting(self, queued: QueuedPod, old: PodInfo, new: PodInfo, now: float) -> None:
        queued.pod = new
        self.nominations.update(old, new)
        if queued.place is Place.ACTIVE:
            self._active.update(queued.group or queued)
        elif queued.place is Place.BACKOFF:
            self._backoff.update(queued.group or queued)
        elif queued.group is None or (queued.place is Place.GATED and queued.gated):
            only_status = changes.only_status_changed(old, new)
            if queued.place is Place.UNSCHEDULABLE and (new.nominated_node_name or not only_status):
                self.groups.separate(queued)
            if not only_status:
                self._unschedulable.update(queued)
                for event in self._changes(old, new):
                    requeue = self._hints.ask(queued, event, old, new)
                    entry = queued.group or queued
                    if requeue is not Requeue.SKIP and self._requeue(entry, requeue, event.label, now):
                        break

    def _nomination_ended(self, pod: PodInfo, now: float) -> None:
        """Requeue pods that the nominated pod kept out: to pods of its priority or lower, it counted as running."""
        self.move_on_event(
            changes.ASSIGNED_POD_DELETE,
            pod,
            None,
            now,
            lambda other: other.priority <= pod.priority and other.uid != pod.uid,
        )

    # Moving pods between places

    def _start(self, queued: QueuedPod, now: float, *, joins: bool = False) -> None:
        queued.place = Place.IN_FLIGHT
        queued.popped_at = now
        queued.attempts += 1
        self._in_flight.start(queued, joins=joins)
