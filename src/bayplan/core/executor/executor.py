"""The executor of plans: the only place where a decision has effects.

It assumes pods, runs Reserve and Permit, starts evictions, sets nominations, requeues pods, and records events and
status. What is awaited is in `binding` and `preemption`. Failed bindings are undone through the intake, so that the
state doesn't change during an attempt that waits. Before a plan is carried out whose attempt has waited or given way,
`Executor.current` drops the pods that have been deleted or bound since; if a node is gone, or a member of a gang, the
pods are tried again. Mirrors schedulingCycle, handleSchedulingFailure and handleBindingCycleError in
pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.attempts import AttemptDriver, Pause, no_pause
from bayplan.core.executor.binding import BindingCycles
from bayplan.core.executor.ports import SCHEDULER_ERROR, UNSCHEDULABLE, Binding, Stopwatch
from bayplan.core.executor.preemption import Evictions
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.assuming import assumed_as
from bayplan.core.framework.binding_runner import run_permit, run_post_bind, run_reserve, run_unreserve
from bayplan.core.framework.calling import call
from bayplan.core.framework.changes import ASSIGNED_POD_DELETE
from bayplan.core.framework.gangs import GangDecided, GangOutcome
from bayplan.core.framework.giving_way import GiveWay
from bayplan.core.framework.profile import implements
from bayplan.core.framework.status import Code, PluginError, Status
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import Decision, GangReport, Plan, Preemption, Refusal
from bayplan.foundations.log_fields import about_node, about_pod


class Executor:
    """Carries out plans, and what follows from bindings that succeed or fail. `bound` counts the pods bound so far.

    The pods that a plan is about are the queue's `unit`: each leaves it once it has its next owner.
    """

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._ports = runtime.ports
        self._log = runtime.ports.log
        self._state = runtime.state
        self._queue = runtime.queue
        self._bindings = BindingCycles(runtime, self.binding_ended)
        self._evictions = Evictions(runtime)
        self.bound = 0

    async def schedule(self, queued: QueuedPod, attempts: AttemptDriver, pause: Pause = no_pause) -> Plan | None:
        """Attempt the unit of a pod in flight, and carry the plan out. Whatever fails, every pod is requeued.

        Returns the plan; None if there is none. Raises GiveWay if the attempt has to be repeated.
        """
        failures, measures = self._runtime.failures, self._ports.measures
        try:
            if self.skip(queued):
                return None
            unit = attempts.unit_of(queued)
            times = measures.stopwatch() if unit.gang is None else None
            with attempts.lending(unit):
                plan, state_may_differ = await attempts.plan(unit, pause, times)
                measures.attempted(plan, self._queue.unit, times)
                if state_may_differ:
                    plan = self.current(plan)
                self.carry_out(plan, times)
        except GiveWay:
            raise
        except PluginError as error:
            error.record(failures, f"pod {about_pod(queued.pod)}")
            self.fail(str(error))
        except Exception as error:  # noqa: BLE001 - it is recorded, and the pod is requeued
            failures.record("scheduling a pod", error, f"pod {about_pod(queued.pod)}")
            self.fail(f"{type(error).__name__}: {error}")
        else:
            return plan
        return None

    def carry_out(self, plan: Plan, times: Stopwatch | None = None) -> None:
        """Give effect to a plan. `times`: where the plugins' times are recorded, if they are measured."""
        unit = self._queue.unit
        for preemption in plan.preemptions:
            self._preempt(preemption)
        if plan.all_or_none:
            with self._runtime.intake.held():  # a rejected member is undone after the others
                plan = self._place_all(plan)
        else:
            for decision in plan.placed:
                if decision.pod.node_name:
                    self._leave_to_kubelet(unit[decision.pod.uid], decision, times)
                else:
                    self._assume(unit[decision.pod.uid], decision, times)
        for refusal in plan.refused:
            self._refuse(unit[refusal.pod.uid], refusal)
        for pod in plan.leftover:
            if pod.uid in unit:
                self._queue.release(unit[pod.uid], self._ports.now())
            else:
                self._queue.activate([pod], self._ports.now())
        if plan.outcome is not None:
            self._notify(plan)
        if times is not None:
            times.finish()

    def current(self, plan: Plan) -> Plan:
        """Adapt a plan to changes of the state since the attempt.

        Deleted and terminating pods, and pods that another client has bound, are dropped. If the plan needs such a pod
        together with others, or a deleted node, all of its pods are requeued.
        """
        gone = {uid: queued for uid, queued in self._queue.unit.items() if self._is_gone(queued)}
        missing = [pod.key for decision in plan.placed if (pod := decision.pod).uid in gone]
        for queued in gone.values():
            self._end(queued)
        plan.placed = [decision for decision in plan.placed if decision.pod.uid not in gone]
        plan.refused = [refusal for refusal in plan.refused if refusal.pod.uid not in gone]
        plan.preemptions = [preemption for preemption in plan.preemptions if preemption.pod.uid not in gone]
        nodes = [node for node in plan.nodes if self._state.nodes.position(node) is None]
        if nodes:
            return self._give_up(plan, f'node "{nodes[0]}" was deleted during the attempt')
        if missing and plan.all_or_none:
            return self._give_up(plan, f"pod {missing[0]} was deleted during the attempt")
        return plan

    def fail(self, message: str) -> None:
        """Requeue all pods of an attempt that failed."""
        for queued in list(self._queue.unit.values()):
            self._ports.assumptions.forget(queued.uid)
            self._refuse(queued, Refusal.failed(queued.pod, message))

    def skip(self, queued: QueuedPod) -> bool:
        """Drop a pod that needs no attempt: it is being deleted, or is on a node and needs no room there.

        Returns whether it was dropped.
        """
        pod = queued.pod
        if pod.terminating:
            note = f"skip schedule deleting pod: {pod.key}"
            self._runtime.record(pod, "Warning", "FailedScheduling", "Scheduling", note)
        elif self._state.pod(pod.uid) is None or (pod.node_name and self._queue.takes(pod)):
            return False
        self._queue.done(pod.uid)
        return True

    # Placing

    def _assume(self, queued: QueuedPod, decision: Decision, times: Stopwatch | None) -> bool:
        """Count the pod on its node, run Reserve and Permit, and start its binding.

        Returns whether the binding started. A pod that a plugin rejected is requeued.
        """
        node = decision.node
        assert node is not None
        assumed = self._ports.assumptions.assume(assumed_as(decision.cycle, queued.pod, node), node)
        self._state.nominations.remove(assumed.uid)
        self._queue.placed(assumed)
        profile = self._runtime.profiles[assumed.scheduler_name]
        binding = Binding(queued, assumed, node, profile, decision.cycle, times)
        status, waits = self._reserve_and_permit(binding)
        if status.code is Code.SUCCESS:
            self._bindings.start(binding)
        elif status.code is Code.WAIT:
            self._bindings.start(binding, self._runtime.waiting.add(assumed, waits))
        else:
            self.binding_ended(binding, status)
            return False
        return True

    def _reserve_and_permit(self, binding: Binding) -> tuple[Status, dict[str, float]]:
        """Run Reserve and Permit. Returns their status, and the seconds that plugins let the pod wait."""
        try:
            status = run_reserve(binding.profile, binding.cycle, binding.pod, binding.node_name)
            if status.code is not Code.SUCCESS:
                return status, {}
            return run_permit(binding.profile, binding.cycle, binding.pod, binding.node_name)
        except PluginError as error:
            error.record(self._runtime.failures, f"pod {about_pod(binding.pod)}")
            return Status(Code.ERROR, (str(error),), error.plugin), {}

    def _place_all(self, plan: Plan) -> Plan:
        """Assume all pods of the plan. If a plugin rejects one of them, return a plan that requeues the others."""
        for decision in plan.placed:
            if not self._assume(self._queue.unit[decision.pod.uid], decision, None):
                return self._take_back(plan, decision.pod)
        return plan

    def _take_back(self, plan: Plan, rejected: PodInfo) -> Plan:
        """A member was rejected by Reserve or Permit: reject those that wait in Permit, and requeue the others."""
        plan = self._give_up(plan, f"pod {rejected.key} was rejected on its node", error=False)
        for decision in plan.decisions:
            if waiting := self._runtime.waiting.get(decision.pod.uid):
                waiting.reject(plan.unit.gang_plugin, plan.message)
        return plan

    def _give_up(self, plan: Plan, why: str, *, error: bool = True) -> Plan:
        """Return a plan that requeues all pods of the attempt that are not placed."""
        gang, outcome = plan.unit.gang, None
        plugins = frozenset({plan.unit.gang_plugin} - {""})
        message = why
        if gang is not None:
            message, outcome = f"gang {gang.name}: {why}", GangOutcome.ERROR if error else GangOutcome.REFUSED
        refused = [Refusal(queued.pod, message, plugins, error=error) for queued in self._queue.unit.values()]
        return Plan(plan.unit, plan.decisions, refused=refused, outcome=outcome, message=message)

    def binding_ended(self, binding: Binding, status: Status) -> None:
        """Carry out what follows from the end of a binding."""
        self._ports.measures.ended(binding, status)
        if status.code is Code.SUCCESS:
            self._bound(binding)
        else:
            self._runtime.intake.take(ASSIGNED_POD_DELETE.label, self._undo, binding, status)

    def _bound(self, binding: Binding) -> None:
        pod = binding.pod
        self.bound += 1
        self._end(binding.queued)
        self._ports.statuses.forget(pod.uid)
        if self._log.isEnabledFor(logging.INFO):
            self._log.info("pod %s bound to node %s", about_pod(pod), about_node(binding.node_name))
        note = f"Successfully assigned {pod.key} to {binding.node_name}"
        self._runtime.record(binding.queued.pod, "Normal", "Scheduled", "Binding", note)
        for error in run_post_bind(binding.profile, binding.cycle, pod, binding.node_name):
            error.record(self._runtime.failures, f"pod {about_pod(pod)}, which is bound")

    def _undo(self, binding: Binding, status: Status) -> None:
        """Unreserve and forget a pod that could not be bound, and requeue it and the pods that its room may help."""
        pod = binding.pod
        for error in run_unreserve(binding.profile, binding.cycle, pod, binding.node_name):
            error.record(self._runtime.failures, f"pod {about_pod(pod)}")
        self._ports.assumptions.forget(pod.uid)
        rejected = status.rejected
        self._refuse(
            binding.queued, _rejected_on_node(pod, status) if rejected else Refusal.failed(pod, status.message)
        )
        self._runtime.move(ASSIGNED_POD_DELETE, pod, None, only=lambda other: other.uid != pod.uid)

    def _leave_to_kubelet(self, queued: QueuedPod, decision: Decision, times: Stopwatch | None) -> None:
        """Requeue a pod that has a node, for its kubelet to carry out the resize: there is room for it now.

        Permit rejects it. It is counted on its node anyway, so that neither Reserve nor Bind have anything to do.
        """
        pod, node = queued.pod, decision.node
        assert node is not None
        profile = self._runtime.profiles[pod.scheduler_name].for_resizes()
        status, _ = self._reserve_and_permit(Binding(queued, pod, node, profile, decision.cycle, times))
        refusal = Refusal.failed(pod, status.message or f'pod {pod.key} is already assigned to node "{node}"')
        self._refuse(queued, _rejected_on_node(pod, status) if status.rejected else refusal)

    # Making room

    def _preempt(self, preemption: Preemption) -> None:
        """Start evicting the victims. Call it before the pod is requeued, so that PreEnqueue holds the pod back."""
        victims = tuple(victim for victim in preemption.victims if not victim.terminating)
        if not victims:
            return
        pod, node = preemption.pod, preemption.node
        self._log.info("pod %s preempts %d pods on node %s", about_pod(pod), len(victims), about_node(node))
        self._state.preemptions.begin(pod.uid, preemption.pod_group_uid)
        for other in self._state.nominations.on(node):
            if other.priority < pod.priority:  # its room goes to the preemptor: it must look for another node
                self._state.nominations.remove(other.uid)
                self._ports.statuses.clear_nomination(other)
        self._evictions.start(replace(preemption, victims=victims))

    # Requeueing

    def _refuse(self, queued: QueuedPod, refusal: Refusal) -> None:
        """Requeue a pod, with an event and a condition if it has no node."""
        self._ports.measures.failed(queued, error=refusal.error)
        queued.clear_rejectors()
        queued.undone = refusal.undone
        if refusal.error:
            self._log.error("pod %s: %s", about_pod(queued.pod), refusal.message)
        else:
            queued.unschedulable_plugins |= refusal.plugins
            queued.pending_plugins |= refusal.pending
            queued.alike = refusal.alike
        pod = self._known(queued)
        if pod is None:
            self._end(queued)
            return
        queued.pod, queued.message = pod, refusal.message
        self._queue.add_unschedulable(queued, self._ports.now())
        if pod.node_name:  # as upstream in its alpha form, nothing is written about resizes
            return
        node = "" if refusal.error else refusal.nominated_node
        if node:
            self._state.nominations.add(pod, node)
        elif node == "":
            self._state.nominations.remove(pod.uid)
        else:
            self._state.nominations.update(pod, pod)
        if self._log.isEnabledFor(logging.INFO):
            self._log.info("pod %s is pending: %s", about_pod(pod), refusal.message)
        self._runtime.record(pod, "Warning", "FailedScheduling", "Scheduling", refusal.message)
        reason = SCHEDULER_ERROR if refusal.error else UNSCHEDULABLE
        self._ports.statuses.not_scheduled(pod, reason, refusal.message, node)

    def _end(self, queued: QueuedPod) -> None:
        """End the attempt of a pod that is bound or gone. Queue the pod that was created with its uid since, if any.

        Queue a bound pod again whose resize is deferred already.
        """
        key, node = queued.pod.key, queued.pod.node_name
        self._queue.done(queued.uid)  # stores the latest version in `queued`
        if (queued.pod.key, queued.pod.node_name) != (key, node) and (successor := self._known(queued)) is not None:
            self._queue.add(successor, self._ports.now())
            self._ports.wake()

    def _known(self, queued: QueuedPod) -> PodInfo | None:
        """The latest version of a pod; None if it was deleted, replaced by another of its name, or bound.

        Of a bound pod, the version whose resize is deferred.
        """
        pod: PodInfo | None = self._state.objects[POD].get(queued.pod.key)
        if pod is None or pod.uid != queued.uid or pod.node_name != queued.pod.node_name:
            return None
        return pod if not pod.node_name or self._queue.takes(pod) else None

    def _is_gone(self, queued: QueuedPod) -> bool:
        pod = self._known(queued)
        return pod is None or pod.terminating

    def _notify(self, plan: Plan) -> None:
        """Report the outcome of a gang, and of the gangs that it consists of, to the plugin that named it."""
        plugin: Any = plan.unit.named_by
        gang, outcome = plan.unit.gang, plan.outcome
        if gang is None or outcome is None or not implements(plugin, GangDecided):
            return
        message = "" if outcome is GangOutcome.PLACED else plan.message
        of_groups = plan.of_groups or [GangReport(group, outcome, message) for group in gang.descendants()]
        for report in (GangReport(gang, outcome, message), *of_groups):
            try:
                call(plugin, "GangDecided", plugin.gang_decided, *report)
            except PluginError as error:
                error.record(self._runtime.failures, f"pod {about_pod(plan.unit.pod)}")


def _rejected_on_node(pod: PodInfo, status: Status) -> Refusal:
    """The refusal of a pod that Reserve or Permit rejected."""
    message = f"0/1 nodes are available: 1 {status.message}."
    return Refusal(pod, message, frozenset({status.plugin} - {""}), nominated_node="", undone=True)
