"""Carries plans out on a World: pods are assumed, reserved and bound, and victims are gone at once.

The counterpart of `service.carry_out`, with the binding cycle and the evictions of the service included.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial

import msgspec

from bayplan.api.kinds import POD
from bayplan.api.objects import encode
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.binding_runner import run_permit, run_reserve, run_unreserve
from bayplan.framework.status import Code, PluginError, Status
from bayplan.scheduling import Decision, Plan, Preemption, Refusal
from bayplan.simulation.binding import ReservedPod, bind
from bayplan.simulation.evictions import evict
from bayplan.simulation.retries import Retries
from bayplan.simulation.world import World

_ATTEMPTS = 5
"""A unit that preempts is attempted again this often at most."""

_FEW = 100
"""More pods than these arrive faster than they are attempted: failed ones are attempted again after all of them."""


class Fate(Enum):
    """Where a pod ends up."""

    PLACED = "placed"
    PREEMPTS = "preempts"
    """Placed after other pods were evicted."""
    PENDING = "pending"


@dataclass(frozen=True, slots=True)
class Result:
    """The outcome for one pod.

    `message`: the note of the event that the service records: Scheduled, or FailedScheduling of the first attempt; for
    a gated pod, the message of its plugin. `plugins`: those that rejected or gate the pod. `decision`: of the last
    attempt, if the pod stays pending; None for a gated pod, and for a member of a gang that was not attempted.
    `gated`: whether PreEnqueue keeps the pod out of the queue.
    """

    pod: PodInfo
    fate: Fate
    node: str | None = None
    victims: tuple[PodInfo, ...] = ()
    message: str = ""
    plugins: frozenset[str] = frozenset()
    decision: Decision | None = None
    gated: bool = False

    @property
    def placed(self) -> bool:
        """Whether the pod got a node."""
        return self.fate is not Fate.PENDING


@dataclass(slots=True)
class Simulation:
    """Schedules pods of a world.

    `evicted` is called with each victim after it is gone, and its preemptor. `preempt`: whether pods may preempt.
    `retries`: the failures of earlier simulations of the world, whose pods are attempted again only after an event that
    may help them. `together`: whether the pods of `schedule` are in the queue at the same time, so that each of them is
    attempted before the victims of a preemption are gone, and before a failed one is attempted again; else, they arrive
    one after the other, and preemptors and failed pods that an event may help are attempted before the next one.
    """

    world: World
    evicted: Callable[[PodInfo, Preemption], None] = lambda _victim, _preemption: None
    preempt: bool = True
    retries: Retries | None = None
    together: bool = False
    _leaving: list[Preemption] = field(init=False, default_factory=list)
    """Preemptions whose victims are not gone yet."""
    _waiting: dict[str, ReservedPod] = field(init=False, default_factory=dict)
    """Pods that wait in Permit, by uid."""

    def schedule(
        self,
        pods: Iterable[PodInfo],
        progress: Callable[[int], None] = lambda _: None,
        results: dict[str, Result] | None = None,
        enough: Callable[[Result], bool] = lambda _: False,
    ) -> dict[str, Result]:
        """Schedule pending pods in the given order, and repeat that until no more of them can be placed.

        Returns the results by `namespace/name`, in the order in which the pods were first decided. Pods that can't be
        placed are attempted again only after something has changed, and keep the message of their first attempt; pods
        with the same signature share a failure.
        `progress` is called with the number of pods decided, and may raise to stop. `results` is filled meanwhile.
        `enough`: whether a result decides the caller's question, so that no other pod is tried.
        """
        world, tried = self.world, dict[str, int]()
        results = {} if results is None else results
        retries = Retries(world) if self.retries is None else self.retries
        keys = [pod.key for pod in pods]
        placed = -1
        while placed:
            placed, failures, queue = 0, FailedPods(world), deque(keys)
            while queue:
                key = queue.popleft()
                pod = world.pending.get(key)
                if pod is None or tried.get(key) == world.version or not retries.helped(pod):
                    continue
                known, began = failures.of(pod), retries.now()
                found = {key: replace(known, pod=pod)} if known is not None else self.decide(pod)
                for other, result in found.items():
                    before = results.get(other)
                    if before is None or {result.fate, before.fate} != {Fate.PENDING}:
                        results[other] = result
                    if before is not None and before.victims and not before.placed:
                        victims = (*before.victims, *result.victims)
                        results[other] = _with_victims(results[other], victims, before.message)
                    placed += result.placed
                if known is None and found[key].fate is Fate.PENDING:
                    failures.add(pod, found[key])
                tried[key] = world.version
                for result in found.values():
                    if result.fate is Fate.PENDING:
                        retries.failed(result.pod, result.plugins, began)
                helps = any(result.placed or result.victims for result in found.values())
                if helps and not self.together and len(keys) <= _FEW:
                    queue.extendleft(
                        other for other in reversed(keys) if other in results and not results[other].placed
                    )
                progress(len(results))
                if any(map(enough, found.values())):
                    return results
            self._time_out(results)
            placed += self._evict_leaving()
        return results

    def decide(self, pod: PodInfo) -> dict[str, Result]:
        """Attempt the unit of a pending pod, and carry the plan out; after a preemption, attempt it again. A gang that
        does not need the pod is followed by the attempt of the pod on its own.

        Returns the results of the unit's pods by `namespace/name`. Members that the gang does not need are left out:
        they are scheduled on their own.
        """
        results: dict[str, Result] = {}
        victims: dict[str, tuple[PodInfo, ...]] = {}
        for _ in range(_ATTEMPTS):
            gate = self.world.gate_of(pod)
            if gate is not None:
                return {pod.key: Result(pod, Fate.PENDING, message=gate[1], plugins=frozenset({gate[0]}), gated=True)}
            try:
                plan = self.world.attempt(self.world.unit_of(pod), preempt=self.preempt)
            except PluginError as error:
                return {pod.key: Result(pod, Fate.PENDING, message=str(error), plugins=frozenset({error.plugin}))}
            for preemption in plan.preemptions:
                victims[preemption.pod.key] = (*victims.get(preemption.pod.key, ()), *preemption.victims)
            first = {key: result.message for key, result in results.items()}
            results |= self.carry_out(plan)
            for key, evicted in victims.items():
                results[key] = _with_victims(results[key], evicted, first.get(key, ""))
            pending = self.world.pending.get(pod.key)
            again = (plan.preemptions and not self._leaving) or any(other.uid == pod.uid for other in plan.leftover)
            if not again or pending is None:
                break
            pod = pending
        results.setdefault(pod.key, Result(pod, Fate.PENDING, message=plan.message))
        return results

    def outcome(self, pod: PodInfo) -> dict[str, Result]:
        """Decide the unit of a pending pod as if no other pod came after it: a pod that waits in Permit is rejected.

        This is what all questions mean by "would be placed". Returns the results as `decide` does.
        """
        results = self.decide(pod)
        self._time_out(results)
        return results

    def rejection_on(self, decision: Decision, node_name: str) -> Status | None:
        """Return what Reserve, Permit and PreBind say to a decided pod on another node; None if they let it pass.

        `decision`: of a pod that is in no gang, found feasible on the node. Nothing changes.
        """
        with self.world.what_if():
            assumed = self._assume(replace(decision, node=node_name))
            if isinstance(assumed, Status):
                return assumed
            if assumed is not None:
                status = bind(self.world, assumed)
                return None if status.code is Code.SUCCESS else status
            for waiting in self.world.handle.waiting_pods:
                waiting.time_out_first()
            return self._end_decided_waits().get(decision.pod.uid)

    def carry_out(self, plan: Plan) -> dict[str, Result]:
        """Give effect to a plan on the world. Returns the results of its pods."""
        decisions = {decision.pod.key: decision for decision in plan.decisions}
        for preemption in plan.preemptions:
            self._preempt(preemption)
        results = self._place(plan)
        for refusal in plan.refused:
            self._nominate(refusal)
            decision = decisions.get(refusal.pod.key)
            results[refusal.pod.key] = Result(
                refusal.pod, Fate.PENDING, message=refusal.message, plugins=refusal.plugins, decision=decision
            )
        return results

    # Placing

    def _place(self, plan: Plan) -> dict[str, Result]:
        """Reserve for all pods of a plan before the first one is bound."""
        mark, results = self.world.mark(), dict[str, Result]()
        reserved: list[ReservedPod] = []
        for decision in plan.placed:
            assumed = self._assume(decision)
            if not isinstance(assumed, Status):
                message = f"Successfully assigned {decision.pod.key} to {decision.node}"
                results[decision.pod.key] = Result(decision.pod, Fate.PLACED, decision.node, message=message)
                reserved += [] if assumed is None else [assumed]
                continue
            results[decision.pod.key] = _undone(decision.pod, assumed, decision)
            if plan.all_or_none:
                reserved.clear()
                self.world.undo_to(mark)
                gang = plan.unit.gang
                why = f"gang {gang.name if gang else ''}: pod {decision.pod.key} was rejected on its node"
                others = [other for other in plan.placed if other is not decision]
                results |= {
                    other.pod.key: Result(other.pod, Fate.PENDING, message=why, decision=other) for other in others
                }
                break
        rejections = self._bind_all(reserved, mark if len(plan.placed) == 1 else None) | self._end_decided_waits()
        for decision in plan.placed:
            status = rejections.get(decision.pod.uid)
            if status is None:
                decision.pod.release()
            else:
                results[decision.pod.key] = _undone(decision.pod, status, decision)
        return results

    def _bind_all(self, reserved: Iterable[ReservedPod], mark: int | None) -> dict[str, Status]:
        """Bind pods. Returns the rejections by uid. `mark`: the point before a single pod, undone as a whole."""
        rejections: dict[str, Status] = {}
        for binding in reserved:
            status = bind(self.world, binding)
            if status.code is Code.SUCCESS:
                continue
            rejections[binding.pod.uid] = status
            if mark is None:
                self._forget(binding)
            else:
                self.world.undo_to(mark)
        return rejections

    def _assume(self, decision: Decision) -> ReservedPod | Status | None:
        """Count a pod on its node, and reserve what it needs there.

        Returns what to bind, or None if the pod waits in Permit, or the rejection, after which nothing has changed.
        """
        world, pod, node_name = self.world, decision.pod, decision.node
        assert node_name is not None
        mark = world.mark()
        profile = world.profiles[pod.scheduler_name]
        nominated = world.state.nominations.node_of(pod.uid)
        binding = ReservedPod(world.state.assume(pod, node_name), node_name, profile, decision.cycle)
        world.changed(partial(world.state.forget, pod.uid))
        if nominated is not None:
            world.state.nominations.remove(pod.uid)
            world.changed(partial(world.state.nominations.add, pod, nominated))
        world.changed(partial(run_unreserve, profile, binding.cycle, binding.pod, node_name))
        try:
            status, waits = run_reserve(profile, binding.cycle, binding.pod, node_name), dict[str, float]()
            if status.code is Code.SUCCESS:
                status, waits = run_permit(profile, binding.cycle, binding.pod, node_name)
        except PluginError as error:
            status = Status(Code.ERROR, (str(error),), error.plugin)
        if status.code is Code.SUCCESS:
            return binding
        if status.code is Code.WAIT:
            world.handle.waiting_pods.add(binding.pod, waits)
            world.changed(partial(self._stop_waiting, pod.uid))
            self._waiting[pod.uid] = binding
            return None
        world.undo_to(mark)
        return status

    # Waiting in Permit

    def _end_decided_waits(self) -> dict[str, Status]:
        """Bind the waiting pods that are allowed, and undo those that are rejected. Returns the rejections by uid."""
        rejections: dict[str, Status] = {}
        for waiting in self.world.handle.waiting_pods:
            status = waiting.status
            if status is None:
                continue
            binding = self._waiting[waiting.pod.uid]
            self._stop_waiting(binding.pod.uid)
            if status.code is Code.SUCCESS:
                status = bind(self.world, binding)
            if status.code is not Code.SUCCESS:
                self._forget(binding)
                rejections[binding.pod.uid] = status
        return rejections

    def _forget(self, binding: ReservedPod) -> None:
        """Undo the placement of a pod that can't be bound."""
        run_unreserve(binding.profile, binding.cycle, binding.pod, binding.node_name)
        self.world.state.forget(binding.pod.uid)

    def _time_out(self, results: dict[str, Result]) -> None:
        """Let the timeouts of pods that wait in Permit end, and correct their results."""
        for waiting in self.world.handle.waiting_pods:
            waiting.time_out_first()
        rejections = self._end_decided_waits()
        for key, result in results.items():
            status = rejections.get(result.pod.uid)
            if status is not None:
                results[key] = _undone(result.pod, status)

    def _stop_waiting(self, uid: str) -> None:
        self.world.handle.waiting_pods.remove(uid)
        self._waiting.pop(uid, None)

    # Making room

    def _preempt(self, preemption: Preemption) -> None:
        """Evict the victims; pods of lower priority lose their nomination to the node."""
        for other in self.world.state.nominations.on(preemption.node):
            if other.priority < preemption.pod.priority:
                self._set_nomination(other, "")
        self._leaving.append(preemption)
        if not self.together:
            self._evict_leaving()

    def _evict_leaving(self) -> bool:
        """Evict the victims that are not gone yet. Returns whether there were any."""
        leaving, self._leaving = self._leaving, []
        gone = False
        for preemption in leaving:
            for victim in preemption.victims:
                if self.world.pod(victim.key) is not None:
                    evict(self.world, victim)
                    self.evicted(victim, preemption)
                    gone = True
        return gone

    def _nominate(self, refusal: Refusal) -> None:
        node = "" if refusal.error else refusal.nominated_node
        if node is not None:
            self._set_nomination(refusal.pod, node)

    def _set_nomination(self, pod: PodInfo, node_name: str) -> None:
        """Write the nominated node to the pod's status: the next attempt tries that node first."""
        known = self.world.pod(pod.key)
        if known is not None and known.nominated_node_name != node_name:
            document = msgspec.json.decode(known.raw)
            document["status"] = {**(document.get("status") or {}), "nominatedNodeName": node_name}
            self.world.change(POD, known.key, PodInfo.from_raw(encode(document)))


class FailedPods:
    """Remembers which pods could not be placed, so that equal pods are decided once while nothing changes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._version = -1
        self._results: dict[object, Result] = {}

    def of(self, pod: PodInfo) -> Result | None:
        """Return the failure of an equal pod; None if there is none, or something has changed since."""
        if not self._results or self._version != self._world.version:
            return None
        key = self._world.alike(pod)
        return None if key is None else self._results.get(key)

    def add(self, pod: PodInfo, result: Result) -> None:
        """Remember a failure."""
        if self._version != self._world.version:
            self._version = self._world.version
            self._results.clear()
        key = self._world.alike(pod)
        if key is not None and result.decision is not None:
            self._results[key] = result


def _undone(pod: PodInfo, status: Status, decision: Decision | None = None) -> Result:
    """The result of a pod that was rejected on its node. Mirrors handleBindingCycleError."""
    message = f"0/1 nodes are available: 1 {status.message}." if status.rejected else status.message
    return Result(pod, Fate.PENDING, message=message, plugins=frozenset({status.plugin} - {""}), decision=decision)


def _with_victims(result: Result, victims: tuple[PodInfo, ...], first: str) -> Result:
    """The result of a pod that preempts, with the message of its first attempt."""
    fate = Fate.PREEMPTS if result.fate is Fate.PLACED else result.fate
    return replace(result, fate=fate, victims=victims, message=first or result.message)
