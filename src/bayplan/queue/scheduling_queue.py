"""The scheduling queue: which pod is looked at next, and what the others wait for.

Mirrors pkg/scheduler/backend/queue/scheduling_queue.go and active_queue.go.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.cluster.nominations import Nominations
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import changes
from bayplan.framework.calling import Caller, call
from bayplan.framework.events import ClusterEvent
from bayplan.log_fields import about_pod
from bayplan.queue.backoff import Backoff, BackoffQueue
from bayplan.queue.gates import held_back
from bayplan.queue.hints import AskHint, Hints, QueueProfile, Requeue, ask_hint
from bayplan.queue.in_flight import InFlight
from bayplan.queue.pod_heap import PodHeap
from bayplan.queue.queued_pod import Place, QueuedPod
from bayplan.queue.unschedulable import UnschedulablePods

logger = logging.getLogger(__name__)

ATTEMPT_FAILED = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POPPED_FROM_BACKOFF = "PopFromBackoffQ"


@dataclass(frozen=True, slots=True)
class PendingPods:
    """How many pods are where."""

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int


class SchedulingQueue:
    """All pods that are not on a node yet.

    A pod is in one place at a time::

            +-------+  PreEnqueue says no, on the way to active or backoff
            | gated | <- - - - - - - - - - - - - - - - - - - - - - - - - -
            +-------+
                | an event of the gating plugin, an update, activate: and PreEnqueue says yes
                v
        add  +--------+               pop                +-----------+   done
        ---> | active | -------------------------------> | in flight | -------> bound, or gone
             +--------+                                  +-----------+
              ^     ^                                     ^   |   |
              |     | time             pop, while nothing |   |   | add_unschedulable:
              |     |                  is active          |   |   | turned down by plugins
              |  +---------+ -----------------------------+   |   |
              |  | backoff | <--------------------------------+   |
              |  +---------+   add_unschedulable: an error, or    |
              |     ^          an event meanwhile that helps      |
              |     |                                             v
              |     |  an event that helps              +---------------+
              |     +---------------------------------- | unschedulable |
              |                                         +---------------+
              |  the same with the backoff over, or of a pending  |
              |  plugin; activate; 5 minutes without any          |
              +---------------------------------------------------+

    A pure state machine: it reads no clock and starts nothing. `now`, in seconds, never goes back. Pods that are
    bound, finished, or of a scheduler name without a profile are none of its business and are dropped. What a pod is
    nominated to is kept up to date in `nominations`, which the queue shares with the cluster state.
    `incoming` counts by place and cause how often pods came to a place. The backoffs and the timeout are in seconds.
    `caller` says who calls the PreEnqueue plugins for a pod, `ask_hint` is how hints are asked.
    """

    def __init__(
        self,
        profiles: Mapping[str, QueueProfile],
        nominations: Nominations,
        *,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        unschedulable_timeout: float = 300.0,
        caller: Callable[[PodInfo], Caller] = lambda _: call,
        ask_hint: AskHint = ask_hint,
    ) -> None:
        if not profiles:
            raise ValueError("a scheduling queue needs a profile at least")
        self.nominations = nominations
        self.incoming: Counter[tuple[Place, str]] = Counter()
        self._profiles = profiles
        self._unschedulable_timeout = unschedulable_timeout
        self._caller = caller
        self._hints = Hints(profiles, ask_hint)
        self._backoff_rule = Backoff(initial_backoff, max_backoff)
        sort_key = _sort_key(next(iter(profiles.values())).sort_key)
        self._active = PodHeap(sort_key)
        self._backoff = BackoffQueue(self._backoff_rule, sort_key)
        self._unschedulable = UnschedulablePods()
        self._in_flight = InFlight()
        self._waiting: dict[str, QueuedPod] = {}

    # What the server tells

    def add(self, pod: PodInfo, now: float) -> None:
        """A pod without a node appeared."""
        if pod.uid in self._waiting or pod.uid in self._in_flight:
            self.update(None, pod, now)
        elif self._is_ours(pod):
            self._add_new(pod, changes.UNSCHEDULED_POD_ADD, now)

    def update(self, old: PodInfo | None, new: PodInfo, now: float) -> None:
        """A pod without a node changed; one that is not known is added.

        A pod that is assumed or bound must not be given, or it would be decided again.
        """
        if not self._is_ours(new):
            self._drop(new, now)
            return
        known = self.get(new.uid)
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
        """A pod is gone from the cluster. If it was nominated, others may have the place that was kept for it."""
        nominated = pod.nominated_node_name or self.nominations.node_of(pod.uid)
        self.remove(pod.uid)
        if nominated:
            self._nomination_ended(pod, now)

    def remove(self, uid: str) -> None:
        """A pod needs no decision any more: somebody bound it. Unknown pods are ignored."""
        self.nominations.remove(uid)
        if uid in self._in_flight:
            self._in_flight.forget(uid)
        elif uid in self._waiting:
            self._leave(self._waiting[uid])

    def move_on_event(
        self,
        event: ClusterEvent,
        old: object,
        new: object,
        now: float,
        only: Callable[[PodInfo], bool] | None = None,
    ) -> int:
        """Something happened to an object: the pods that it may help are tried again. Returns how many came forward.

        `old` and `new`: the object before and after, None where there was none. `only`: a condition on the pods.
        Remembered for the pods in flight. Mirrors MoveAllToActiveOrBackoffQueue.
        """
        moved = 0
        for queued in self._unschedulable.waiting_for(lambda rejector: self._hints.helps(rejector, event)):
            if only is None or only(queued.pod):
                requeue = self._hints.ask(queued, event, old, new)
                if requeue is not Requeue.SKIP:
                    moved += self._requeue(queued, requeue, event.label, now)
        if self._hints.interested(event):
            self._in_flight.record(event, old, new)
        return moved

    # What the scheduler does

    def pop(self, now: float) -> QueuedPod | None:
        """Take the next pod to decide; None if there is none before `next_wakeup`.

        The pod is in flight until `done` or `add_unschedulable`, one of which must follow.
        """
        self.flush(now)
        queued = self._active.pop()
        if queued is None:
            queued = self._backoff.pop_early()
            if queued is None:
                return None
            self.incoming[Place.ACTIVE, POPPED_FROM_BACKOFF] += 1
        del self._waiting[queued.uid]
        self._start(queued, now)
        return queued

    def take(self, uid: str, now: float) -> QueuedPod | None:
        """Take a pod out of its turn, whatever it waits for; it is in flight then, as after `pop`.

        None for one that is unknown, in flight, or held back by a PreEnqueue plugin.
        """
        queued = self._waiting.get(uid)
        if queued is None:
            return None
        if queued.place is not Place.ACTIVE and not self._to_active(queued, changes.FORCE_ACTIVATE.label, now):
            return None
        self._leave(queued)
        self._start(queued, now)
        return queued

    def stop_recording(self, uid: str) -> None:
        """A pod in flight will not be turned down by a plugin any more: events need not be remembered for it.

        To be called once a pod is through Permit. If its binding fails, `add_unschedulable` is still right.
        """
        self._in_flight.stop_recording(uid)

    def done(self, uid: str) -> None:
        """A pod in flight needs no further decision. Unknown pods are ignored."""
        queued = self._in_flight.end(uid)
        if queued is not None:
            queued.place = None

    def add_unschedulable(self, queued: QueuedPod, now: float) -> Place | None:
        """Give a pod back after a failed attempt. Returns where it is now; None if it has gone meanwhile.

        Without plugins that turned it down, the attempt failed by an error. The pod goes on with the version that the
        caller wrote into it, or else with the latest that the queue was told of. Mirrors AddUnschedulableIfNotPresent.
        """
        uid = queued.uid
        if uid in self._waiting:
            return self._waiting[uid].place
        events = self._in_flight.events_since_start(uid)
        if uid in self._in_flight and self._in_flight.end(uid) is None:
            queued.place = None
            return None
        if queued.rejected:
            queued.unschedulable_count += 1
            queued.consecutive_errors = 0
        else:
            queued.consecutive_errors += 1
        queued.queued_at = now
        queued.backoff_expiration = None
        queued.was_flushed = False
        queued.place = None
        if events is None or not queued.rejected:
            requeue = Requeue.AFTER_BACKOFF
        else:
            requeue = self._hints.ask_all(queued, events)
        self._requeue(queued, requeue, ATTEMPT_FAILED, now)
        return queued.place

    def release(self, queued: QueuedPod, now: float) -> None:
        """Return a pod in flight that was not attempted to the active queue; the attempt does not count."""
        if self._in_flight.end(queued.uid) is not None:
            queued.attempts -= 1
            queued.place = None
            self._to_active(queued, changes.FORCE_ACTIVATE.label, now)

    def activate(self, pods: Iterable[PodInfo], now: float) -> int:
        """A plugin wants pods to be tried at once, whatever they wait for. Returns how many became active.

        Pods in flight are tried again when they come back. Unknown pods are ignored.
        """
        activated = 0
        for pod in pods:
            queued = self._waiting.get(pod.uid)
            if queued is not None and queued.place is not Place.ACTIVE:
                activated += self._to_active(queued, changes.FORCE_ACTIVATE.label, now)
            elif pod.uid in self._in_flight:
                self._in_flight.record(changes.FORCE_ACTIVATE, None, pod)
        return activated

    def flush(self, now: float) -> None:
        """Move what only waited for time: backoffs that are over, and pods that were unschedulable for too long.

        `pop` does it first.
        """
        for queued in self._backoff.pop_completed(now):
            queued.place = None
            self._enter(queued, Place.ACTIVE, BACKOFF_COMPLETE, now)
        flushed = False
        while (oldest := self._unschedulable.oldest()) is not None and now >= self._timeout_of(oldest):
            oldest.was_flushed = flushed = True
            self._requeue(oldest, Requeue.AFTER_BACKOFF, changes.UNSCHEDULABLE_TIMEOUT.label, now)
        if flushed:
            self._in_flight.record(changes.UNSCHEDULABLE_TIMEOUT, None, None)

    def next_wakeup(self, now: float) -> float | None:
        """When to call `pop` again: `now` if there is a pod to take, None if only an event can bring one."""
        if len(self._active) or self._backoff.can_pop_early:
            return now
        times = []
        completion = self._backoff.next_completion()
        if completion is not None:
            times.append(completion)
        oldest = self._unschedulable.oldest()
        if oldest is not None:
            times.append(self._timeout_of(oldest))
        return max(now, min(times)) if times else None

    # Looking in

    def get(self, uid: str) -> QueuedPod | None:
        """A pod, wherever it is."""
        return self._waiting.get(uid) or self._in_flight.get(uid)

    def pending_pods(self) -> PendingPods:
        """How many pods are where."""
        return PendingPods(
            active=len(self._active),
            backoff=len(self._backoff),
            unschedulable=self._unschedulable.rejected_count,
            gated=self._unschedulable.gated_count,
            in_flight=len(self._in_flight),
        )

    def in_flight_events(self) -> Counter[str]:
        """How many events are remembered for pods in flight, by label."""
        return self._in_flight.event_labels()

    def waiting(self) -> list[QueuedPod]:
        """The pods that are not in flight, in no particular order."""
        return list(self._waiting.values())

    def __iter__(self) -> Iterator[QueuedPod]:
        """Every pod, with its place and what it waits for, in no particular order."""
        yield from self._waiting.values()
        yield from self._in_flight

    def __len__(self) -> int:
        return len(self._waiting) + len(self._in_flight)

    # How pods come in

    def _is_ours(self, pod: PodInfo) -> bool:
        return not pod.node_name and not pod.terminated and pod.scheduler_name in self._profiles

    def _add_new(self, pod: PodInfo, event: ClusterEvent, now: float) -> None:
        queued = QueuedPod(pod, queued_at=now)
        if self._to_active(queued, event.label, now):
            self.nominations.add(pod)

    # How updates arrive

    def _drop(self, pod: PodInfo, now: float) -> None:
        if pod.terminated:
            self.delete(pod, now)
        else:
            self.remove(pod.uid)

    def _update_in_flight(self, old: PodInfo, new: PodInfo) -> None:
        if self._in_flight.latest(new.uid) is None:
            # It was reported gone and is there after all: what it missed meanwhile is not known.
            self._in_flight.record(changes.FORCE_ACTIVATE, None, new)
        else:
            for event in changes.pod_changes(old, new):
                self._in_flight.record(event, old, new)
        self._in_flight.update(new)

    def _update_waiting(self, queued: QueuedPod, old: PodInfo, new: PodInfo, now: float) -> None:
        queued.pod = new
        self.nominations.update(old, new)
        if queued.place is Place.ACTIVE:
            self._active.update(queued)
        elif queued.place is Place.BACKOFF:
            self._backoff.update(queued)
        else:
            for event in changes.pod_changes(old, new):
                requeue = self._hints.ask(queued, event, old, new)
                if requeue is not Requeue.SKIP and self._requeue(queued, requeue, event.label, now):
                    break

    def _nomination_ended(self, pod: PodInfo, now: float) -> None:
        """To pods of the same or a lower priority, a nominated pod was as good as there."""
        self.move_on_event(changes.ASSIGNED_POD_DELETE, pod, None, now, lambda other: other.priority <= pod.priority)

    # How pods move

    def _start(self, queued: QueuedPod, now: float) -> None:
        queued.place = Place.IN_FLIGHT
        queued.popped_at = now
        queued.attempts += 1
        self._in_flight.start(queued)

    def _requeue(self, queued: QueuedPod, requeue: Requeue, cause: str, now: float) -> bool:
        """Move a pod that waits for an event or comes from an attempt. Returns whether it waits for time only."""
        if requeue is Requeue.SKIP:
            self._enter(queued, Place.UNSCHEDULABLE, cause, now)
            return False
        if requeue is Requeue.AFTER_BACKOFF and self._backoff_rule.holds(queued, now):
            return self._let_in(queued, Place.BACKOFF, cause, now)
        return self._to_active(queued, cause, now)

    def _to_active(self, queued: QueuedPod, cause: str, now: float) -> bool:
        if queued.place is Place.BACKOFF:  # the PreEnqueue plugins let it pass when it came there
            self._leave(queued)
            self._enter(queued, Place.ACTIVE, cause, now)
            return True
        return self._let_in(queued, Place.ACTIVE, cause, now)

    def _let_in(self, queued: QueuedPod, place: Place, cause: str, now: float) -> bool:
        """Move a pod to a place from which it is popped, unless a PreEnqueue plugin holds it back."""
        was_gated = queued.gated
        if queued.place is not None:
            self._leave(queued)
        if held_back(queued, self._profiles[queued.pod.scheduler_name].pre_enqueue, self._caller(queued.pod)):
            self._enter(queued, Place.GATED, None if was_gated else cause, now)
            return False
        self._enter(queued, place, cause, now)
        return True

    def _enter(self, queued: QueuedPod, place: Place, cause: str | None, now: float) -> None:
        if place is Place.ACTIVE:
            if queued.initial_attempt_at is None:
                queued.initial_attempt_at = now
            self._active.push(queued)
        elif place is Place.BACKOFF:
            self._backoff.add(queued)
        else:
            self._unschedulable.add(queued)
        queued.place = place
        self._waiting[queued.uid] = queued
        if cause is not None:
            self.incoming[place, cause] += 1

    def _leave(self, queued: QueuedPod) -> None:
        if queued.place is Place.ACTIVE:
            self._active.remove(queued)
        elif queued.place is Place.BACKOFF:
            self._backoff.remove(queued)
        else:
            self._unschedulable.remove(queued)
        queued.place = None
        del self._waiting[queued.uid]

    def _timeout_of(self, queued: QueuedPod) -> float:
        return queued.queued_at + self._unschedulable_timeout


def _sort_key(of_pod: Callable[[PodInfo, float], Any]) -> Callable[[QueuedPod], Any]:
    """The order of the queue. A pod for which the QueueSort plugin fails comes last: it must not be lost."""

    def sort_key(queued: QueuedPod) -> Any:
        try:
            return 0, of_pod(queued.pod, queued.queued_at)
        except Exception:
            logger.exception("the QueueSort plugin failed for pod %s, which comes last", about_pod(queued.pod))
            return 1, queued.queued_at

    return sort_key
