"""Timeline: a cluster and its scheduler in virtual time, to which things happen.

The scheduler is the service's: its queue, backoff, hints, attempts, plans, preemptions and binding cycles. What happens
comes from a stream of happenings and from an agenda, which models write. Time passes only when nothing is left to do at
the present time. Models of what surrounds the scheduler observe it (`models/`), and so does the meter. A timeline keeps
no undo log, so its memory doesn't grow with its length (a `Rehearsal` does).
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

from bayplan.answers.simulation.agenda import Agenda, IdleUntil, never_idle
from bayplan.answers.simulation.behaviour import Behaviour
from bayplan.answers.simulation.evictions import remove, terminating
from bayplan.answers.simulation.lives import DepartureReason, PodLifetime
from bayplan.answers.simulation.memory_scheduler import MemoryScheduler
from bayplan.answers.simulation.ports import AttemptOutcomes, MemoryPorts
from bayplan.answers.simulation.world import World
from bayplan.answers.simulation.writes import finished
from bayplan.core.api.kinds import NODE, POD, Kind
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.ports import Binding
from bayplan.core.executor.runtime import Only
from bayplan.core.framework.events import ClusterEvent
from bayplan.core.framework.remedies import is_daemon
from bayplan.core.framework.status import Status, success
from bayplan.core.queue import Place, QueuedPod
from bayplan.core.scheduling import Plan


class Happening(Protocol):
    """Something that happens at a time, in seconds since the start of the simulation."""

    @property
    def at(self) -> float:
        """When it happens."""

    def happen(self, timeline: Timeline) -> None:
        """Let it happen."""


_WAITING = frozenset({Place.ACTIVE, Place.BACKOFF, Place.UNSCHEDULABLE})


class TimelineObserver:
    """Learns what happens on a timeline, and may act on it. By default, nothing is done."""

    def begin(self, timeline: Timeline) -> None:
        """The simulation begins: the cluster has what it had before."""

    def end(self) -> None:
        """The simulation has ended."""

    def arrived(self, pod: PodInfo, life: PodLifetime) -> None:
        """A pod was created."""

    def attempted(self, plan: Plan) -> None:
        """A unit was attempted, and its plan is about to be carried out."""

    def bound(self, pod: PodInfo, life: PodLifetime) -> None:
        """A pod has got its node, by a decision or otherwise."""

    def ready(self, pod: PodInfo, life: PodLifetime) -> None:
        """A pod has started on its node."""

    def evicted(self, pod: PodInfo, life: PodLifetime) -> None:
        """A pod was evicted; it is terminating. Why: `life.leaving`."""

    def gone(self, pod: PodInfo, life: PodLifetime) -> None:
        """A pod is gone. Why: `life.leaving`."""

    def finished(self, origin: str) -> None:
        """A pod is gone for good: nothing replaces it. `origin`: as in `PodLifetime`."""

    def node_added(self, name: str) -> None:
        """A node was added."""

    def node_removed(self, name: str) -> None:
        """A node was removed."""

    def idle(self) -> None:
        """Nothing is left to do at this time: time passes."""


class Timeline(AttemptOutcomes):
    """A world to which things happen from `begin` on. The world is the timeline's: nothing that happens is undone.

    `observers` learn what happens, in their order. `seed`: that of the models' random numbers; the scheduler has the
    world's. The same input gives the same output, bit for bit.

    Attributes:
        lives: the pods that are not gone, by uid.
        attempts: how many attempts were made.
    """

    def __init__(
        self,
        world: World,
        begin: datetime,
        observers: Sequence[TimelineObserver] = (),
        behaviour: Behaviour | None = None,
        *,
        seed: int = 0,
    ) -> None:
        self.world = world
        self.begin = begin
        self.behaviour = behaviour or Behaviour()
        self.lives: dict[str, PodLifetime] = {}
        self.attempts = 0
        self._observers = observers
        self._of_ready = [each for each in observers if type(each).ready is not TimelineObserver.ready]
        """The observers that want to know when pods have started."""
        self._of_idle = [each for each in observers if type(each).idle is not TimelineObserver.idle]
        self._seed = seed
        self._agenda = Agenda()
        self._stopped = False
        self._latest: dict[str, str] = {}
        """By uid of an origin that has not ended: the uid of its latest pod."""
        self._ports = _TimedPorts(world, self)
        self._scheduler = MemoryScheduler(world, self._ports, self.behaviour.retries)
        self._queue = self._scheduler.queue
        world.handle.time = begin

    # Time

    @property
    def now(self) -> float:
        """The seconds since the start."""
        return self._ports.now

    @property
    def date(self) -> datetime:
        """The date and time."""
        return self.begin + timedelta(seconds=self.now)

    @property
    def second(self) -> float:
        """The time of a status: seconds since 1970, without fractions."""
        return float(int(self.date.timestamp()))

    def after(self, seconds: float, do: Callable[..., None], *arguments: Any) -> None:
        """Call something after some seconds."""
        self._agenda.add(self.now + seconds, do, *arguments)

    def every(self, seconds: float, do: Callable[[], None], idle_until: IdleUntil = never_idle) -> None:
        """Call something every so many seconds, but for the times at which it would do nothing."""
        self._agenda.add_recurring(self.now + seconds, seconds, do, idle_until)

    def waiting(self) -> Iterator[PodInfo]:
        """Yield the pods that could not be placed at their last attempt, in the order of their arrival.

        Those that wait for their victims or in Permit, and gated ones, are not among them.
        """
        nominated = self.world.state.nominations.node_of
        for life in self.lives.values():
            if life.bound_at is None and life.leaving is None:
                queued = self._queue.get(life.uid)
                if queued is not None and queued.place in _WAITING and queued.attempts and not nominated(life.uid):
                    yield queued.pod

    @property
    def any_waiting(self) -> bool:
        """Whether a pod of `waiting` waits for an event or its backoff. Those that are tried next don't count."""
        return self._queue.any_refused

    def random(self, name: str) -> random.Random:
        """Return the random numbers of a model. They depend on no other model's."""
        return random.Random(f"{self._seed} {name}")

    def run(self, happenings: Iterable[Happening], until: float) -> None:
        """Let everything happen until a time. `happenings` are ordered by time, and read as they come."""
        stream = iter(happenings)
        coming = next(stream, None)
        with self.world.followed_by(self._queue, self._move, self._ports.time):
            while coming is not None and coming.at <= 0:
                coming.happen(self)
                coming = next(stream, None)
            self._keep()
            for observer in self._observers:
                observer.begin(self)
            while not self._stopped:
                if coming is not None and coming.at <= min(self.now, self._agenda.next_time):
                    coming.happen(self)
                    coming = next(stream, None)
                    self._settle()
                elif self._agenda.next_time <= self.now:
                    before = self.world.version
                    self._agenda.call_first(self.now)
                    if self.world.version != before:
                        self._settle()
                elif (queued := self._queue.pop(self.now)) is not None:
                    self._attempt(queued)
                elif not self._pass_time(math.inf if coming is None else coming.at, until):
                    break
            for observer in self._observers:
                observer.end()

    def stop(self) -> None:
        """Let nothing more happen."""
        self._stopped = True

    def _pass_time(self, next_happening: float, until: float) -> bool:
        """Let time pass until something can be done. Returns False if that is after the end, or never."""
        for observer in self._of_idle:
            observer.idle()
        wakeup = self._queue.next_wakeup(self.now)
        timeout = self._scheduler.waits.first_timeout()
        then = min(next_happening, timeout, math.inf if wakeup is None else wakeup)
        self._agenda.leave_out_idle(min(then, until))
        then = min(then, self._agenda.next_time)
        if then > until or then == math.inf:
            self._go_to(max(self.now, until))
            return False
        self._go_to(max(self.now, then))
        if timeout <= self.now:
            self._scheduler.waits.time_out(self.now)
            self._settle()
        return True

    def _go_to(self, then: float) -> None:
        self._ports.now = then
        self.world.handle.time = self.date

    def _attempt(self, queued: QueuedPod) -> None:
        self.attempts += 1
        finished(self._scheduler.executor.schedule(queued, self._scheduler.attempts))
        self._settle()
        self._go_to(self.now + self.behaviour.attempt_seconds)

    def _settle(self) -> None:
        """Let bindings and evictions go on that can, and keep what has changed."""
        self._ports.tasks.bind()
        while self._ports.tasks.evict():
            self._ports.tasks.bind()
        if self.world.handle.activated:
            self._queue.activate(self.world.handle.activated, self.now)
        self._scheduler.waits.note(self.now)
        self._keep()

    def _keep(self) -> None:
        self.world.keep()

    def _move(self, event: ClusterEvent, old: object, new: object, only: Only | None = None) -> None:
        self._queue.move_on_event(event, old, new, self.now, only)

    # Pods

    def arrive(self, pod: PodInfo, runs: float | None = None, returns: bool | None = None) -> None:
        """Let a pod arrive, as `PodArrives` says."""
        self._latest[pod.uid] = pod.uid
        self._arrive(pod, PodLifetime(pod.key, pod.uid, pod.uid, self.now, runs, returns=returns))

    def _arrive(self, pod: PodInfo, life: PodLifetime) -> None:
        other = self.world.pod(pod.key)
        if other is not None and other.uid in self.lives:  # its name is free in reality, but not here yet
            self._leave(other.uid, DepartureReason.DELETED)
        self.lives[pod.uid] = life
        self.world.change(POD, pod.key, pod)
        for observer in self._observers:
            observer.arrived(pod, life)
        if pod.node_name:
            self._has_node(pod, pod.node_name)
        else:
            self._queue.add(pod, self.now)

    def place(self, origin: str, node: str) -> None:
        """Bind a pod that another scheduler has decided about, if it has no node and that node exists."""
        life = self.lives.get(self._latest.get(origin, ""))
        pod = None if life is None else self.world.pod(life.key)
        if pod is not None and not pod.node_name and self.world.state.nodes.position(node) is not None:
            bound = pod.on_node(node)
            bound.started = self.second
            self.world.change(POD, pod.key, bound)
            self._has_node(bound, node)

    def update(self, pod: PodInfo) -> None:
        """Store a new version of a pod without its node and status, unless the pod is gone, or was replaced."""
        known = self.world.pod(pod.key)
        if known is not None and known.uid == pod.uid and not known.terminating:
            new = pod.on_node(known.node_name) if known.node_name else pod
            new.started, new.nominated_node_name = known.started, known.nominated_node_name
            self.world.change(POD, pod.key, new)

    def end(self, origin: str) -> None:
        """Delete a pod, or what has replaced it. An unknown pod is ignored."""
        uid = self._latest.get(origin)
        if uid is not None:
            self._leave(uid, DepartureReason.DELETED)
            self._finish(origin)

    def evict(self, pod: PodInfo, why: DepartureReason) -> None:
        """Evict a pod, which terminates and is replaced. One that is leaving already is ignored."""
        life = self.lives.get(pod.uid)
        if life is None or life.leaving is not None:
            return
        life.leaving = why
        self.world.change(POD, pod.key, terminating(pod, self.date, why))
        for observer in self._observers:
            observer.evicted(pod, life)
        controllers = self.behaviour.controllers
        if self._returns(pod, life) and not controllers.waits_until_gone(pod):
            self.after(controllers.seconds, self._replace, pod, life)
        has_started = life.bound_at is not None and self.now - life.bound_at >= self.behaviour.startup.of(pod)
        self.after(self.behaviour.termination.of(pod) if has_started else 0.0, self._leave, pod.uid, why)

    def _leave(self, uid: str, why: DepartureReason) -> None:
        """Remove a pod. One that is gone already is ignored."""
        life = self.lives.pop(uid, None)
        if life is None:
            return
        evicted = life.leaving is not None
        life.leaving = life.leaving or why
        pod = self.world.pod(life.key)
        assert pod is not None
        remove(self.world, pod)
        for observer in self._observers:
            if life.leaving.is_eviction and not evicted:
                observer.evicted(pod, life)
            observer.gone(pod, life)
        controllers = self.behaviour.controllers
        if not life.leaving.is_eviction or not self._returns(pod, life):
            if self._latest.get(life.origin) == uid:
                self._finish(life.origin)
        elif controllers.waits_until_gone(pod) or not evicted:
            self.after(controllers.seconds, self._replace, pod, life)

    def _replace(self, pod: PodInfo, life: PodLifetime) -> None:
        """Create the replacement of an evicted pod, unless its owner has deleted it."""
        if self._latest.get(life.origin) != life.uid:
            return
        if self._has_lost_its_node(pod):
            self._finish(life.origin)
            return
        number = life.number + 1
        replacement = self.behaviour.controllers.replacement(pod, number)
        self._latest[life.origin] = replacement.uid
        again = PodLifetime(
            replacement.key, replacement.uid, life.origin, self.now, life.runs, number, returns=life.returns
        )
        self._arrive(replacement, again)

    def _returns(self, pod: PodInfo, life: PodLifetime) -> bool:
        return self.behaviour.controllers.replaces(pod) if life.returns is None else life.returns

    def _finish(self, origin: str) -> None:
        if self._latest.pop(origin, None) is not None:
            for observer in self._observers:
                observer.finished(origin)

    def _has_lost_its_node(self, pod: PodInfo) -> bool:
        """Whether a pod of a DaemonSet is not needed any more."""
        return is_daemon(pod) and self.world.state.nodes.position(pod.node_name) is None

    def _has_node(self, pod: PodInfo, node: str, takes: float = 0.0) -> None:
        """A pod has its node; what runs there begins when its binding has taken so many seconds."""
        life = self.lives[pod.uid]
        life.bound_at, life.node = self.now + takes, node
        for observer in self._observers:
            observer.bound(pod, life)
        if self._of_ready:
            self.after(takes + self.behaviour.startup.of(pod), self._ready, pod.uid)
        if life.runs is not None:
            self.after(takes + life.runs, self._leave, pod.uid, DepartureReason.COMPLETED)

    def _ready(self, uid: str) -> None:
        life = self.lives.get(uid)
        pod = None if life is None or life.leaving is not None else self.world.pod(life.key)
        if life is not None and pod is not None:
            for observer in self._of_ready:
                observer.ready(pod, life)

    # Nodes and other objects

    def put(self, kind: Kind, key: str, obj: Any) -> None:
        """Add, change or remove (None) an object that is neither a pod nor a node that goes.

        Kinds that no plugin reads are ignored.
        """
        if kind is not NODE and kind not in self.world.handle.watched:
            return
        comes = kind is NODE and self.world.state.nodes.position(key) is None
        self.world.change(kind, key, obj)
        if comes:
            for observer in self._observers:
                observer.node_added(key)

    def remove_node(self, name: str, why: DepartureReason = DepartureReason.NODE_LOST) -> None:
        """Remove a node, with the pods on it. An unknown node is ignored."""
        position = self.world.state.nodes.position(name)
        if position is None:
            return
        for pod in list(self.world.state.nodes.pods(position)):
            if waiting := self.world.handle.waiting_pods.get(pod.uid):  # it is not bound, so it is tried again
                waiting.reject("", f'node "{name}" was deleted')
            else:
                self._leave(pod.uid, why)
        self.world.change(NODE, name, None)
        for observer in self._observers:
            observer.node_removed(name)

    # What the scheduler does

    def attempted(self, plan: Plan) -> None:
        """Tell the observers."""
        for observer in self._observers:
            observer.attempted(plan)

    def binding(self, binding: Binding) -> None:
        """Keep nothing that would undo a binding."""

    def bound(self, binding: Binding) -> None:
        """Note the node of a pod."""
        self._has_node(binding.pod, binding.node_name, self.behaviour.binding_seconds)

    def ended(self, binding: Binding, status: Status) -> None:
        """Forget that a pod waited in Permit."""
        self._scheduler.waits.ended(binding.pod.uid)


class _TimedPorts(MemoryPorts):
    """The ports of a timeline: pods get a start time, and victims terminate before they are gone."""

    def __init__(self, world: World, timeline: Timeline) -> None:
        super().__init__(world, timeline, lambda victim: timeline.evict(victim, DepartureReason.PREEMPTED))
        self._timeline = timeline

    async def bind(self, binding: Binding) -> Status:
        """Put the pod on its node."""
        pod = binding.pod
        pod.started = self._timeline.second  # an assumed pod is a copy of its own
        self._timeline.binding(binding)
        self._timeline.world.change(POD, pod.key, pod)
        self._timeline.bound(binding)
        return success()
