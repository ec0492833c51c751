"""Gang cycles: where a pod's turn comes, all of its gang is decided, and assumed together or turned down together.

See docs/gangs.md. Mirrors what podGroupCycle does in pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from bayplan.clock import Clock
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.calling import call
from bayplan.framework.interface import (
    Gang,
    GangDecided,
    GangOf,
    GangOutcome,
    GangPostFilter,
    GangTrial,
    Placement,
)
from bayplan.framework.placements import best_placement, generate_placements
from bayplan.framework.profile import Point, Profile, implements
from bayplan.framework.status import PluginError, Status
from bayplan.queue import QueuedPod, SchedulingQueue
from bayplan.scheduling import Decision, Outcome
from bayplan.scheduling.gangs import GangAttempt, furthest
from bayplan.service.evictions import Evictions
from bayplan.service.failures import Failures
from bayplan.service.gang_trials import answer_trial
from bayplan.service.informers import Intake
from bayplan.service.waiting_pods import WaitingPods

log = logging.getLogger(__name__)

LONGEST_TURN = 0.005
"""Seconds of deciding after which I/O gets its turn."""

CONSTRAINED = "not eligible due to placement-based pod group scheduling limitation"
AS_A_WHOLE = "not eligible due to workload aware preemption enabled"


class Pods(Protocol):
    """What is done with one pod."""

    async def decide_member(self, profile: Profile, pod: PodInfo, gang: Gang, placement: Placement | None) -> Decision:
        """Decide about a member of a gang."""

    def assume_member(self, queued: QueuedPod, profile: Profile, decision: Decision) -> bool:
        """Have a decision carried out. Returns whether the pod goes on to its binding."""

    async def attempt_alone(self, queued: QueuedPod, profile: Profile) -> Decision:
        """All that is done with a pod without a gang."""


@dataclass(frozen=True, slots=True)
class _Cycle:
    """One gang's turn. `taken`: the members in flight, by uid. `placements`, `trial`: as the profile's plugins want it.

    `making_room` is the plugin whose trial it is. `problem`: what broke when they were asked. `complete`:
    whether the gang needs no more members.
    """

    gang: Gang
    plugin: GangOf
    profile: Profile
    taken: dict[str, QueuedPod]
    placements: Sequence[Placement] | Status | None = None
    trial: GangTrial | None = None
    making_room: str = ""
    problem: str = ""
    complete: bool = False

    @property
    def blames(self) -> frozenset[str]:
        """Whose events a member waits for in any case."""
        return frozenset({name_of(self.plugin)})


class GangCycles:
    """Decides gangs whole."""

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        evictions: Evictions,
        waiting: WaitingPods,
        failures: Failures,
        intake: Intake,
        clock: Clock,
        rng: random.Random,
        pods: Pods,
    ) -> None:
        self._state = state
        self._queue = queue
        self._evictions = evictions
        self._waiting = waiting
        self._failures = failures
        self._intake = intake
        self._clock = clock
        self._rng = rng
        self._pods = pods

    async def attempt(self, queued: QueuedPod, profile: Profile) -> bool:
        """Decide a pod with its gang. Returns False, and leaves the pod alone, where it is to be decided on its own.

        That is so for a pod without a gang, and for one whose gang has members that other schedulers are to place.
        """
        try:
            cycle = self._begin(queued, profile)
        except PluginError as error:
            self._failures.error(queued, str(error))
            return True
        if cycle is None:
            return False
        gang = cycle.gang
        if cycle.problem:
            self._failures.error(queued, cycle.problem)
            self._tell(cycle, GangOutcome.ERROR, cycle.problem)
            return True
        if not gang.needed and not gang.no_preemption:
            decision = await self._pods.attempt_alone(queued, profile)
            outcome, message = _OUTCOMES[decision.outcome], decision.message
            self._tell(cycle, outcome, "" if outcome is GangOutcome.PLACED else message)
            return True
        known = [member for pod in gang.members if (member := self._queue.get(pod.uid)) is not None]
        names = sorted({member.pod.scheduler_name for member in known})
        ours = tuple(member.pod for member in known if member.pod.scheduler_name == profile.scheduler_name)
        if len(ours) < gang.needed <= len(known):
            # Every profile has a Permit of its own: they would wait there for each other in vain.
            message = f"gang {gang.name}: {gang.needed} members are needed, and their scheduler names differ: "
            self._failures.unschedulable(queued, message + ", ".join(names), plugins=cycle.blames)
            self._tell(cycle, GangOutcome.REFUSED, message + ", ".join(names))
            return True
        if len(ours) < gang.needed and not gang.together:
            return False
        wanted = replace(gang, members=ours, needed=max(gang.needed, 1))
        await self._decide_all(replace(cycle, gang=wanted, complete=not gang.needed))
        return True

    def _begin(self, queued: QueuedPod, profile: Profile) -> _Cycle | None:
        """What is known of a pod's gang before anything is decided; None for a pod without one. Raises PluginError."""
        plugin, gang = _gang_of(queued.pod, profile)
        if plugin is None or gang is None:
            return None
        cycle = _Cycle(gang, plugin, profile, {queued.uid: queued})
        try:
            return self._prepared(cycle)
        except PluginError as error:
            return replace(cycle, problem=str(error))

    def _prepared(self, cycle: _Cycle) -> _Cycle:
        """The turn with the placements to try, and the trial if the gang preempts as a whole. Raises PluginError."""
        gang, nodes = cycle.gang, self._state.nodes
        placements = generate_placements(cycle.profile, gang, nodes)
        if placements is not None:
            return replace(cycle, gang=replace(gang, no_preemption=CONSTRAINED), placements=placements)
        for each in cycle.profile.every():
            if implements(each, GangPostFilter):
                trial = call(each, "GangPostFilter", each.gang_post_filter, gang, nodes)
                if trial is not None:
                    whole = replace(gang, no_preemption=AS_A_WHOLE)
                    return replace(cycle, gang=whole, trial=trial, making_room=each.name)
        return cycle

    async def _decide_all(self, cycle: _Cycle) -> None:
        """Think the gang through, and carry out what came of it.

        Whatever breaks, every member that was taken from the queue is given back to it.
        """
        try:
            with self._intake.held():
                result = await self._search(cycle)
                room_is_made = self._room_is_made(cycle.gang)
                if not result.fits and not result.failed and not room_is_made:
                    result = await self._make_room(cycle, result)
                if result.fits and not result.preempt:
                    await self._place(cycle, result)
                else:
                    self._turn_down(cycle, result, keep_nominations=room_is_made)
        except Exception as error:
            # A bug of ours, or of a plugin: it costs the gang this attempt, and never a pod.
            log.exception("deciding gang %s broke", cycle.gang.name)
            message = str(error) if isinstance(error, PluginError) else f"{type(error).__name__}: {error}"
            for member in cycle.taken.values():
                self._state.forget(member.uid)
                self._failures.error(member, message)
            self._tell(cycle, GangOutcome.ERROR, message)

    async def _search(self, cycle: _Cycle) -> GangAttempt:
        """Think the gang through where it may be, and choose among the placements that it fits into."""
        if isinstance(cycle.placements, Status):
            return GangAttempt(cycle.gang, refusal=cycle.placements)
        if cycle.placements is None:
            return await self._think(cycle)
        attempts: list[GangAttempt] = []
        for placement in cycle.placements:
            attempts.append(await self._think(cycle, placement=placement))
            if attempts[-1].failed:
                return attempts[-1]
        fitting = [attempt for attempt in attempts if attempt.fits]
        if not fitting:
            return furthest(attempts)
        if len(fitting) == 1:
            return fitting[0]
        found = [(each.placement, [one.pod for one in each.placed]) for each in fitting if each.placement is not None]
        return fitting[best_placement(cycle.profile, cycle.gang, found, self._rng)]

    async def _make_room(self, cycle: _Cycle, result: GangAttempt) -> GangAttempt:
        """Where a gang does not fit: what would be if victims were gone, of each member or of the gang as a whole."""
        if cycle.trial is not None:
            return await self._try_victims(cycle, cycle.trial, result)
        if not result.might_preempt:
            return result
        preempting = await self._think(cycle, preempt=True)
        return preempting if preempting.fits else result

    async def _try_victims(self, cycle: _Cycle, trial: GangTrial, result: GangAttempt) -> GangAttempt:
        """Who has to go for the gang as a whole: what would be then, or why nobody."""
        answer, found = await answer_trial(self._state, trial, cycle.making_room, lambda: self._think(cycle))
        if isinstance(answer, Status):
            result.no_room = answer.message
            return result
        if found is None or not found.fits:
            raise RuntimeError(f"gang {cycle.gang.name} does not fit without the victims that were chosen for it")
        if answer.victims:
            found.make_room(answer, cycle.making_room, result.blamed)
        return found

    async def _think(self, cycle: _Cycle, *, preempt: bool = False, placement: Placement | None = None) -> GangAttempt:
        """Decide about one member after the other. While it lasts, the members count on their nodes."""
        result = GangAttempt(cycle.gang, preempt, placement)
        left = len(cycle.gang.members)
        turn_began = self._clock.monotonic()
        with result.thinking(self._state):
            for member in cycle.gang.members:
                if not result.worth_going_on(left):
                    break
                left -= 1
                queued = self._take(cycle, member.uid)
                if queued is None:
                    result.held_back.append(member.name)
                    continue
                decision = await self._pods.decide_member(cycle.profile, queued.pod, cycle.gang, placement)
                result.add(decision)
                if self._clock.monotonic() - turn_began > LONGEST_TURN:
                    await asyncio.sleep(0)
                    turn_began = self._clock.monotonic()
        return result

    def _room_is_made(self, gang: Gang) -> bool:
        """Whether victims of the gang are still there: until they are gone, it must not evict others."""
        nodes = self._state.nodes
        for member in gang.members:
            if self._state.preemptions.going_on(member.uid):
                return True
            position = nodes.position(self._state.nominations.node_of(member.uid) or "")
            if position is not None and any(
                other.terminating and (other.priority < member.priority or gang.no_preemption)
                for other in nodes.pods(position)
            ):
                return True
        return False

    def _take(self, cycle: _Cycle, uid: str) -> QueuedPod | None:
        """A member, in flight; None for one that a PreEnqueue plugin holds back, or whose binding is being undone."""
        queued = cycle.taken.get(uid) or self._queue.take(uid, self._clock.monotonic())
        if queued is not None:
            cycle.taken[uid] = queued
        return queued

    async def _place(self, cycle: _Cycle, result: GangAttempt) -> None:
        """Assume the members where they were thought to be: nothing has changed since. Permit ties them together.

        The gang needs no others; these are on their own, and may preempt, unless no member may.
        """
        for decision in result.placed:
            uid = decision.pod.uid
            goes_on = self._pods.assume_member(cycle.taken[uid], cycle.profile, decision)
            del cycle.taken[uid]
            if not goes_on:
                self._take_back(cycle, result, f"pod {decision.pod.key} was turned down on its node")
                return
        self._tell(cycle, GangOutcome.PLACED, "")
        tried = {decision.pod.uid for decision in (*result.placed, *result.refused)}
        untried = [pod for pod in cycle.gang.members if pod.uid not in tried]
        self._queue.activate(untried, self._clock.monotonic())
        if cycle.gang.no_preemption:
            self._give_back_refused(cycle, result)
        for queued in list(cycle.taken.values()):
            await self._pods.attempt_alone(queued, cycle.profile)
            del cycle.taken[queued.uid]

    def _give_back_refused(self, cycle: _Cycle, result: GangAttempt) -> None:
        """Members that the gang does not need and that have found no place wait for one, each for its own reasons."""
        for decision in result.refused:
            member = cycle.taken.pop(decision.pod.uid, None)
            if member is None:
                continue
            if decision.outcome is Outcome.ERROR:
                self._failures.error(member, decision.message)
            else:
                plugins = decision.diagnosis.unschedulable_plugins | cycle.blames
                self._failures.unschedulable(member, decision.message, plugins=plugins, nominated_node="")

    def _take_back(self, cycle: _Cycle, result: GangAttempt, why: str) -> None:
        """Nobody is bound: those that have been assumed wait in Permit, the others have not been yet."""
        message = f"gang {cycle.gang.name}: {why}"
        for decision in result.placed:
            waiting = self._waiting.get(decision.pod.uid)
            if waiting is not None:
                waiting.reject(name_of(cycle.plugin), message)
        self._give_back(cycle, message, cycle.blames)
        self._tell(cycle, GangOutcome.REFUSED, message)

    def _turn_down(self, cycle: _Cycle, result: GangAttempt, *, keep_nominations: bool) -> None:
        """Nobody is placed: every member waits for what may help any of them, or for those who have to go."""
        for pod in cycle.gang.members:
            self._take(cycle, pod.uid)
        for decision in result.refused:
            if decision.outcome is Outcome.ERROR:
                self._failures.error(cycle.taken.pop(decision.pod.uid), decision.message)
        message = result.explain()
        if cycle.complete and result.refused and not result.fits:
            message = result.refused[0].message
            self._give_back_refused(cycle, result)
        if result.fits:
            for decision in result.placed:
                if decision.victims:
                    self._evictions.start(decision, result.preempted_for)
            for decision in result.placed:
                # Nominated where there is no need to wait too: others must not have the room meanwhile.
                node = decision.node or decision.nominated_node
                plugins = decision.diagnosis.unschedulable_plugins | cycle.blames | result.blamed_elsewhere
                member = cycle.taken.pop(decision.pod.uid)
                self._failures.unschedulable(member, message, plugins=plugins, nominated_node=node)
        plugins = result.blamed | cycle.blames if result.explained else frozenset()
        self._give_back(cycle, message, plugins, nominated_node=None if keep_nominations else "")
        self._tell(cycle, GangOutcome.ERROR if result.failed else GangOutcome.REFUSED, message)

    def _give_back(
        self, cycle: _Cycle, message: str, plugins: frozenset[str], nominated_node: str | None = None
    ) -> None:
        """Turn all members down that were taken, and not given back yet."""
        while cycle.taken:
            _, member = cycle.taken.popitem()
            self._failures.unschedulable(member, message, plugins=plugins, nominated_node=nominated_node)

    def _tell(self, cycle: _Cycle, outcome: GangOutcome, message: str) -> None:
        """Tell the plugin whose gang it is, if it wants to know."""
        plugin = cycle.plugin
        if implements(plugin, GangDecided):
            try:
                call(plugin, "GangDecided", plugin.gang_decided, cycle.gang, outcome, message)  # type: ignore[attr-defined]
            except PluginError:
                log.exception("plugin %s could not be told of gang %s", name_of(plugin), cycle.gang.name)


_OUTCOMES = {
    Outcome.SCHEDULED: GangOutcome.PLACED,
    Outcome.UNSCHEDULABLE: GangOutcome.REFUSED,
    Outcome.ERROR: GangOutcome.ERROR,
}


def name_of(plugin: object) -> str:
    """What messages call a plugin."""
    name: str = plugin.name  # type: ignore[attr-defined]
    return name


def _gang_of(pod: PodInfo, profile: Profile) -> tuple[GangOf | None, Gang | None]:
    """The gang that a pod belongs to, and the plugin that says so. Raises PluginError."""
    for plugin in profile.at(Point.PERMIT):
        if implements(plugin, GangOf):
            gang = call(plugin, "GangOf", plugin.gang_of, pod)
            if isinstance(gang, Gang):
                return plugin, gang
            if gang is not None:
                raise PluginError(plugin.name, "GangOf", f"answered {gang!r}, expected a Gang or None")
    return None, None
