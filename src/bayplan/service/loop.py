"""The main path: pop a pod, decide, assume, hand over to the binding cycle.

Start reading here. Mirrors ScheduleOne in pkg/scheduler/schedule_one.go.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Mapping

from bayplan.clock import Clock
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.calling import Caller, call
from bayplan.framework.interface import Gang, Placement
from bayplan.framework.profile import Profile
from bayplan.framework.runner import run_permit, run_reserve
from bayplan.framework.status import Code, PluginError, Status
from bayplan.log_fields import about_pod
from bayplan.queue import QueuedPod, SchedulingQueue
from bayplan.scheduling import CycleOptions, Decision, Outcome, Rotation, Templates, decide, scheduling_cycle
from bayplan.service.binding import Binding, BindingCycles
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.evictions import Evictions
from bayplan.service.explanations import explain, scores_wanted
from bayplan.service.extenders import Extenders, drive
from bayplan.service.failures import Failures
from bayplan.service.gangs import GangCycles
from bayplan.service.informers import Intake
from bayplan.service.metrics.measuring import Metrics
from bayplan.service.metrics.plugin_times import PluginTimes
from bayplan.service.waiting_pods import WaitingPods

log = logging.getLogger(__name__)

LONGEST_TURN = 0.005
"""Seconds of deciding after which I/O gets its turn."""


class SchedulingLoop:
    """Takes one pod after the other from the queue. `wake` tells it that the queue may have something new."""

    def __init__(
        self,
        profiles: Mapping[str, Profile],
        state: ClusterState,
        queue: SchedulingQueue,
        bindings: BindingCycles,
        evictions: Evictions,
        waiting: WaitingPods,
        failures: Failures,
        recorder: EventRecorder,
        intake: Intake,
        work: asyncio.Event,
        clock: Clock,
        rng: random.Random,
        extenders: Extenders | None = None,
        metrics: Metrics | None = None,
    ) -> None:
        self._profiles = profiles
        self._rotation = Rotation()
        self._templates = {name: Templates(profile) for name, profile in profiles.items()}
        self._state = state
        self._queue = queue
        self._bindings = bindings
        self._evictions = evictions
        self._waiting = waiting
        self._failures = failures
        self._recorder = recorder
        self._intake = intake
        self._work = work
        self._clock = clock
        self._rng = rng
        self._extenders = extenders
        self._metrics = metrics or Metrics(clock)
        self._gangs = GangCycles(
            state,
            queue,
            evictions,
            waiting,
            failures,
            intake,
            clock,
            rng,
            self,
        )
        self.decisions = 0
        """Pods decided so far, whatever became of them."""

    def templates_used(self) -> dict[str, tuple[int, int]]:
        """By profile: how many decisions rested on a template, and how many did not."""
        return {name: (templates.used, templates.unused) for name, templates in self._templates.items()}

    async def run(self) -> None:
        """Decide until cancelled. A decision is never cut off in the middle, but while extenders are asked."""
        turn_began = self._clock.monotonic()
        while True:
            now = self._clock.monotonic()
            if now - turn_began > LONGEST_TURN:
                await asyncio.sleep(0)
                turn_began = now = self._clock.monotonic()
            self._work.clear()
            queued = self._queue.pop(now)
            if queued is None:
                await self._wait_for_work()
                turn_began = self._clock.monotonic()
            elif not self._skip(queued):
                await self._schedule_one(queued)

    async def _schedule_one(self, queued: QueuedPod) -> None:
        try:
            await self._attempt(queued)
        except Exception as error:
            # A bug of ours: it must cost this attempt only, and never the pod.
            log.exception("deciding pod %s broke", about_pod(queued.pod))
            self._state.forget(queued.uid)
            self._failures.error(queued, f"{type(error).__name__}: {error}")

    async def _attempt(self, queued: QueuedPod) -> None:
        profile = self._profiles[queued.pod.scheduler_name]
        if not await self._gangs.attempt(queued, profile):
            await self.attempt_alone(queued, profile)

    async def attempt_alone(self, queued: QueuedPod, profile: Profile) -> Decision:
        """Decide about a pod by itself, and carry out what came of it."""
        times = next(self._metrics.stopwatches)
        decision = await self._decide(profile, queued.pod, call if times is None else times.call)
        self._metrics.new_decisions.append(self._metrics.now() - queued.popped_at)
        if times is not None:
            self._metrics.timed(queued, decision, times)
        if not decision.node:
            self._metrics.not_placed(decision)
        if self._extenders is not None and self._overtaken(queued, decision):
            return decision
        if decision.outcome is Outcome.SCHEDULED:
            self._assume(queued, profile, decision, times)
        elif decision.outcome is Outcome.UNSCHEDULABLE:
            if decision.victims:
                self._evictions.start(decision)
            self._failures.unschedulable(
                queued,
                decision.message,
                plugins=decision.diagnosis.unschedulable_plugins,
                pending=decision.diagnosis.pending_plugins,
                nominated_node=decision.nominated_node,
            )
        else:
            self._failures.error(queued, decision.message)
        if times is not None:
            times.finish()
        return decision

    async def decide_member(self, profile: Profile, pod: PodInfo, gang: Gang, placement: Placement | None) -> Decision:
        """Decide about a member of a gang, and carry nothing out."""
        return await self._decide(profile, pod, gang=gang, placement=placement)

    async def _decide(
        self,
        profile: Profile,
        pod: PodInfo,
        call: Caller = call,
        gang: Gang | None = None,
        placement: Placement | None = None,
    ) -> Decision:
        """Run the scheduling cycle; while extenders are asked, the state stands still."""
        self.decisions += 1
        if self._extenders is None or not self._extenders.have_a_say(pod):
            # Templates change no decision, but know the scores of plugins only as sums.
            templates = None if scores_wanted() else self._templates[profile.scheduler_name]
            decision = decide(
                profile,
                self._state,
                pod,
                self._rng,
                templates=templates,
                rotation=self._rotation,
                call=call,
                gang=gang,
                placement=placement,
            )
            explain(decision, self._state.table)
            return decision
        options = CycleOptions(ask_extenders=True, rotation=self._rotation, call=call, gang=gang, placement=placement)
        cycle = scheduling_cycle(profile, self._state, pod, self._rng, options)
        with self._intake.held():
            decision = await drive(cycle, self._extenders)
            explain(decision, self._state.table)
            return decision

    def _overtaken(self, queued: QueuedPod, decision: Decision) -> bool:
        """Whether the pod, or the node it was to have, went while extenders were asked. If so, that is dealt with."""
        current = self._failures.current(queued)
        if current is None or current.terminating:
            self._queue.done(queued.uid)
            return True
        node = decision.node or decision.nominated_node
        if not node or self._state.nodes.position(node) is not None:
            return False
        self._failures.error(queued, f'node "{node}" went away while extenders were asked')
        return True

    def _assume(self, queued: QueuedPod, profile: Profile, decision: Decision, times: PluginTimes | None) -> bool:
        """From now on the pod counts on its node. Reserve what it needs, and let it go on to its binding.

        Returns whether it does; a pod that a plugin turned down has been given back.
        """
        assumed = self._state.assume(queued.pod, decision.node)
        self._state.nominations.remove(assumed.uid)
        binding = Binding(queued, assumed, decision.node, profile, decision.cycle, times)
        status, waits = self._reserve_and_permit(binding)
        if status.code is Code.SUCCESS:
            self._bindings.start(binding, None)
        elif status.code is Code.WAIT:
            self._bindings.start(binding, self._waiting.add(assumed, waits))
        else:
            self._bindings.undo(binding, status)
        return status.code in {Code.SUCCESS, Code.WAIT}

    def assume_member(self, queued: QueuedPod, profile: Profile, decision: Decision) -> bool:
        """Carry out what was decided about a member of a gang. Returns whether it goes on to its binding."""
        self._metrics.new_decisions.append(self._metrics.now() - queued.popped_at)
        return self._assume(queued, profile, decision, None)

    def _reserve_and_permit(self, binding: Binding) -> tuple[Status, dict[str, float]]:
        try:
            status = run_reserve(binding.profile, binding.cycle, binding.pod, binding.node_name)
            if status.code is not Code.SUCCESS:
                return status, {}
            return run_permit(binding.profile, binding.cycle, binding.pod, binding.node_name)
        except PluginError as error:
            return Status(Code.ERROR, (str(error),), error.plugin), {}

    def _skip(self, queued: QueuedPod) -> bool:
        """Whether there is nothing to decide: the pod is being deleted, or on its way to a node already."""
        pod = queued.pod
        if pod.terminating:
            note = f"skip schedule deleting pod: {pod.key}"
            self._recorder.record(pod, pod.scheduler_name, "Warning", "FailedScheduling", "Scheduling", note)
        elif self._state.pod(pod.uid) is None:
            return False
        self._queue.done(pod.uid)
        return True

    async def _wait_for_work(self) -> None:
        """Sleep until something changes, or until a pod's backoff ends."""
        now = self._clock.monotonic()
        wakeup = self._queue.next_wakeup(now)
        try:
            async with asyncio.timeout(None if wakeup is None else max(0.0, wakeup - now)):
                await self._work.wait()
        except TimeoutError:
            return
