"""Simulation: the scheduler itself, on a World in memory and in virtual time.

The queue, backoff, hints, attempts, plans and binding cycles are those of the service: only the ports differ. `outcome`
takes one unit to its end: victims are gone at once, then the preemptor is attempted again on its nominated node; claims
are bound, and volumes provisioned, as controllers do; pods that wait in Permit are bound, or time out. `schedule`
decides pods in an order and repeats that until no more can be placed. Backoff takes no time: a pod that failed is
attempted again after the events that its plugins registered, once all others had their turn.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from bayplan.answers.simulation.memory_scheduler import MemoryScheduler
from bayplan.answers.simulation.ports import AttemptOutcomes, MemoryPorts
from bayplan.answers.simulation.results import Fate, Result
from bayplan.answers.simulation.shared_refusals import SharedRefusals
from bayplan.answers.simulation.world import World
from bayplan.answers.simulation.writes import finished
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.ports import Binding
from bayplan.core.executor.runtime import Only
from bayplan.core.framework.events import ClusterEvent
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.core.queue import Place, QueuedPod, RetryTimes
from bayplan.core.scheduling import Decision, Plan, Preemption, Refusal, Unit

_ONCE = RetryTimes(unschedulable_timeout=math.inf)
"""Rejected pods are attempted again only if something helps."""
_ATTEMPTS = 5
"""A pod is attempted again this often at most, as long as no pod is placed or evicted."""

_FEW = 100
"""More pods than these arrive faster than failed ones are attempted again."""

_TICK = 1e-6
"""Seconds between the arrivals of two pods."""


class Simulation(AttemptOutcomes):
    """Schedules pods of a world.

    `evicted` is called with each victim after it is gone, and its preemptor. `preempt`: whether pods may preempt.
    `together`: whether the pods of `schedule` are in the queue at the same time, so that each of them is attempted
    before the victims of a preemption are gone, and before a failed one is attempted again; else, they arrive one after
    the other, and preemptors and failed pods that an event may help are attempted before the next one. `may_help`:
    whether an event may requeue a pod; it is asked besides the plugins' hints.
    """

    def __init__(
        self,
        world: World,
        evicted: Callable[[PodInfo, Preemption], None] = lambda _victim, _preemption: None,
        *,
        preempt: bool = True,
        together: bool = False,
        may_help: Callable[[PodInfo], bool] | None = None,
    ) -> None:
        self.world = world
        self._evicted = evicted
        self._together = together
        self._may_help = may_help
        self._ports = MemoryPorts(world, self)
        scheduler = MemoryScheduler(world, self._ports, _ONCE, preempt=preempt)
        self._queue, self._executor, self._attempts = scheduler.queue, scheduler.executor, scheduler.attempts
        self._waits = scheduler.waits
        self._shared = SharedRefusals(world)
        self._seen = world.events_so_far()
        """The moment up to which the queue knows what has happened."""
        self._results: dict[str, Result] = {}
        self._new: list[Result] = []
        """Results since the last attempt began."""
        self._decisions: dict[str, Decision] = {}
        self._refusals: dict[str, Refusal] = {}
        self._undone: dict[str, Status] = {}
        """By uid: what Reserve, Permit or PreBind said to pods after their latest attempt."""
        self._victims: dict[str, tuple[PodInfo, ...]] = {}
        self._tried: dict[str, tuple[int, int, int]] = {}
        """By uid: the world's version and the progress after the latest attempt, and the attempts since then."""
        self._progressed = 0
        """How many pods were bound or evicted."""
        self._leaving: list[tuple[PodInfo, Preemption]] = []
        """Victims that are terminating, which are gone once time passes."""
        self._activated = 0
        """How many activations by plugins the queue knows."""
        self._idle: dict[str, tuple[PodInfo, int]] = {}
        """Pods that are not attempted again until there is progress, by uid, and the progress so far."""

    def schedule(
        self,
        pods: Iterable[PodInfo],
        progress: Callable[[int], None] = lambda _: None,
        results: dict[str, Result] | None = None,
        enough: Callable[[Result], bool] = lambda _: False,
    ) -> dict[str, Result]:
        """Schedule pending pods that arrive in the given order, until no more of them can be placed.

        Returns the results by `namespace/name`, in the order in which the pods were first decided. Pods that stay
        pending keep the message of their first attempt. `progress` is called with the number of pods decided, and may
        raise to stop. `results` is filled meanwhile. `enough`: whether a result decides the caller's question, so that
        no other pod is tried.
        """
        self._results = {} if results is None else results
        keys = [pod.key for pod in pods]
        with self._running():
            for _ in self._attempts_of(keys):
                progress(len(self._results))
                new, self._new = self._new, []
                if any(map(enough, new)):
                    break
        return self._results

    def outcome(self, pod: PodInfo) -> dict[str, Result]:
        """Schedule the unit of a pending pod as if no other pod came after it: waits in Permit end by their timeouts.

        This is what all questions mean by "would be placed". Returns the results of the unit's pods.
        """
        results = self.schedule([pod])
        results.setdefault(pod.key, Result(pod, Fate.PENDING))
        return results

    def rejection_on(self, decision: Decision, node_name: str) -> Status | None:
        """Return what Reserve, Permit and PreBind say to a decided pod on another node; None if they let it pass.

        `decision`: of a pod that is in no gang, found feasible on the node. Nothing changes.
        """
        pod, queue = decision.pod, self._queue
        with self.world.what_if(), self._running():
            queue.add(pod, self._ports.now)
            queue.take(pod.uid, self._ports.now, joins=False)
            self._executor.carry_out(Plan.of(Unit(pod), replace(decision, node=node_name)))
            self._ports.tasks.bind()
            while pod.uid not in self._undone and self._end_a_wait():
                pass
            status = self._undone.get(pod.uid)
            queue.remove(pod.uid)
        return status

    # What happens

    def attempted(self, plan: Plan) -> None:
        """Keep what results say of the plan's pods."""
        for decision in plan.decisions:
            self._decisions[decision.pod.uid] = decision
            self._undone.pop(decision.pod.uid, None)
        self._refusals = {refusal.pod.uid: refusal for refusal in plan.refused}
        for preemption in plan.preemptions:
            uid = preemption.pod.uid
            self._victims[uid] = (*self._victims.get(uid, ()), *preemption.victims)
            self._leaving += [(victim, preemption) for victim in preemption.victims if victim.terminating]

    def bound(self, binding: Binding) -> None:
        """Note the result of a pod."""
        self._progressed += 1
        pod = binding.queued.pod
        victims = self._victims.pop(pod.uid, ())
        message = f"Successfully assigned {pod.key} to {binding.node_name}"
        if not victims:
            decision = self._decisions.get(pod.uid)
            feasible = 0 if decision is None else len(decision.feasible)
            self._note(Result(pod, Fate.PLACED, binding.node_name, message=message, feasible=feasible))
        else:
            before = self._results.get(pod.key)
            message = before.message if before is not None else message
            self._note(Result(pod, Fate.PREEMPTS, binding.node_name, victims, message))
        self._tried.pop(pod.uid, None)
        self._decisions.pop(pod.uid, None)

    def ended(self, binding: Binding, status: Status) -> None:
        """Keep what a plugin said to a pod on its node."""
        self._waits.ended(binding.pod.uid)
        if status.code is not Code.SUCCESS:
            self._undone[binding.pod.uid] = status

    def pending(self, pod: PodInfo, message: str) -> None:
        """Note the result of a pod, unless it is pending already."""
        refusal, status = self._refusals.get(pod.uid), self._undone.get(pod.uid)
        plugins = frozenset({status.plugin} - {""}) if status is not None else frozenset[str]()
        if status is None and refusal is not None:
            plugins = refusal.plugins
        result = Result(
            pod, Fate.PENDING, None, self._victims.get(pod.uid, ()), message, plugins, self._decisions.get(pod.uid)
        )
        before = self._results.get(pod.key)
        if before is not None and before.fate is Fate.PENDING and not before.gated:
            if before.victims == result.victims:
                return
            result = replace(result, message=before.message)
        self._note(result)

    def evicted(self, victim: PodInfo, preemption: Preemption) -> None:
        """Tell the caller about a victim."""
        self._progressed += 1
        self._evicted(victim, preemption)

    def _note(self, result: Result) -> None:
        self._results[result.pod.key] = result
        self._new.append(result)

    # The order of things

    def _attempts_of(self, keys: list[str]) -> Iterator[None]:
        """Let pods arrive, and attempt pods until nothing more happens. Yields after each attempt."""
        for key in keys:
            pod = self.world.pending.get(key)
            if pod is None:
                continue
            self._arrive(pod)
            if not self._together:
                yield from self._attempt_all(again=len(keys) <= _FEW)
        while True:
            yield from self._attempt_all(again=True)
            if not self._pass_time():
                return

    def _arrive(self, pod: PodInfo) -> None:
        self._ports.now += _TICK
        self._add(pod)
        queued = self._queue.get(pod.uid)
        gate = queued.gate if queued is not None and queued.place is Place.GATED else None
        if gate is not None and pod.key not in self._results:
            plugins = frozenset({gate.gating_plugin})
            self._note(Result(pod, Fate.PENDING, message=gate.message, plugins=plugins, gated=True))

    def _add(self, pod: PodInfo) -> None:
        """Put a pod into the queue, and the members of its gang that are pending."""
        now = self._ports.now
        self._idle.pop(pod.uid, None)
        self._queue.add(pod, now)
        try:
            members = self.world.unit_of(pod).pending
        except PluginError:  # its attempt will fail with this error
            return
        for member in members:
            if self._queue.get(member.uid) is None and member.uid not in self._idle:
                self._queue.add(member, now)

    def _attempt_all(self, *, again: bool) -> Iterator[None]:
        """Attempt pods until none can be attempted before time passes. `again`: also failed ones that events help."""
        while True:
            active = self._queue.any_active
            if not (self._together and active) and self._evict():
                continue
            if not active and not again:
                return
            queued = self._queue.pop(self._ports.now)
            if queued is None:
                return
            if self._is_current(queued):
                self._attempt(queued)
                yield

    def _is_current(self, queued: QueuedPod) -> bool:
        """Whether a popped pod is to be attempted. Otherwise, it has left the queue."""
        pod = self.world.pending.get(queued.pod.key)
        if pod is None or pod.uid != queued.uid:  # it was removed while nothing ran
            self._queue.done(queued.uid)
            return False
        queued.pod = pod
        version, progressed, attempts = self._tried.get(queued.uid, (-1, 0, 0))
        if version == self.world.version or (progressed == self._progressed and attempts >= _ATTEMPTS):
            self._rest(queued, pod)
            return False
        return True

    def _rest(self, queued: QueuedPod, pod: PodInfo) -> None:
        """Let a pod leave the queue until there is progress, with those of its group."""
        for other in () if queued.group is None else tuple(queued.group.members.values()):
            self._queue.remove(other.uid)
            self._idle[other.uid] = other.pod, self._progressed
        self._queue.done(queued.uid)
        self._idle[queued.uid] = pod, self._progressed

    def _attempt(self, queued: QueuedPod) -> None:
        self._refusals = {}
        pod = queued.pod
        plan = self._shared.plan(pod)
        if plan is None or pod.terminating:
            plan = finished(self._executor.schedule(queued, self._attempts))
            if plan is not None:
                self._shared.add(pod, plan)
        else:
            self.attempted(plan)
            self._executor.carry_out(plan)
        if queued.pod.terminating:
            self._note(Result(queued.pod, Fate.PENDING, message=f"skip schedule deleting pod: {queued.pod.key}"))
        self._ports.tasks.bind()
        self._activate()
        self._waits.note(self._ports.now)
        _, progressed, attempts = self._tried.get(queued.uid, (-1, -1, 0))
        attempts = attempts + 1 if progressed == self._progressed else 1
        tried = self.world.version, self._progressed, attempts
        if self.world.pending.get(queued.pod.key) is not None:
            self._tried[queued.uid] = tried
        if queued.group is not None:
            self._tried.update(dict.fromkeys(queued.group.members, tried))

    def _activate(self) -> None:
        """Activate the pods that plugins have activated."""
        activated = self.world.handle.activated
        self._queue.activate(activated[self._activated :], self._ports.now)
        self._activated = len(activated)

    def _evict(self) -> bool:
        """Let all victims go. Returns whether there were any."""
        leaving, self._leaving = self._leaving, []
        for victim, preemption in leaving:
            finished(self._ports.evict(preemption, [victim]))
        return self._ports.tasks.evict() or bool(leaving)

    def _pass_time(self) -> bool:
        """Let time pass until something happens. Returns False if nothing does."""
        idle = {uid: pod for uid, (pod, progressed) in self._idle.items() if progressed != self._progressed}
        for pod in idle.values():
            self._add(pod)
        if idle:
            return True
        backoff = self._queue.next_wakeup(self._ports.now)
        if backoff is not None and backoff < self._waits.first_timeout():
            self._ports.now = backoff
            return True
        return self._end_a_wait()

    def _end_a_wait(self) -> bool:
        """Let the first timeout of a pod in Permit end. Returns whether there was one."""
        end = self._waits.first_timeout()
        if end == math.inf:
            return False
        self._ports.now = max(self._ports.now, end)
        self._waits.time_out(end)
        return self._ports.tasks.bind()

    # The world

    @contextmanager
    def _running(self) -> Iterator[None]:
        """Pass what happens in the world on to the queue, and leave nothing half done at the end."""
        for event, old, new in self.world.happened_since(self._seen):
            self._move(event, old, new)
        with self.world.followed_by(self._queue, self._move, lambda: self._ports.now):
            try:
                yield
            finally:
                self._abandon()
        self._seen = self.world.events_so_far()

    def _move(self, event: ClusterEvent, old: object, new: object, only: Only | None = None) -> None:
        self._queue.move_on_event(event, old, new, self._ports.now, only or self._may_help)

    def _abandon(self) -> None:
        """Undo what has begun: pods that wait in Permit get no node, and victims stay."""
        for waiting in self.world.handle.waiting_pods:
            waiting.reject("", "the simulation has ended")
        self._ports.tasks.bind()
        for pod in self._ports.tasks.abandon():
            self.world.state.preemptions.end(pod.uid)
        self._new.clear()
