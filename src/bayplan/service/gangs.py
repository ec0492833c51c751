"""Gang cycles: where a pod's turn comes, all of its gang is decided, and assumed together or turned down together.

See docs/gangs.md. Mirrors what podGroupCycle does in pkg/scheduler/schedule_one_podgroup.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.calling import call
from bayplan.framework.interface import PLACED_WITH, Gang, GangOf
from bayplan.framework.profile import Point, Profile, implements
from bayplan.framework.status import PluginError
from bayplan.queue import QueuedPod, SchedulingQueue
from bayplan.scheduling import Decision, Outcome
from bayplan.scheduling.gangs import GangAttempt
from bayplan.service.clock import Clock
from bayplan.service.evictions import Evictions
from bayplan.service.failures import Failures
from bayplan.service.informers import Intake
from bayplan.service.waiting_pods import WaitingPods

log = logging.getLogger(__name__)

LONGEST_TURN = 0.005
"""Seconds of deciding after which I/O gets its turn."""

Decide = Callable[[Profile, PodInfo], Awaitable[Decision]]
Assume = Callable[[QueuedPod, Profile, Decision], bool]
AttemptAlone = Callable[[QueuedPod, Profile], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class _Cycle:
    """One gang's turn. `taken`: the members in flight, by uid."""

    gang: Gang
    plugin: str
    profile: Profile
    taken: dict[str, QueuedPod]


class GangCycles:
    """Decides gangs whole.

    `decide` decides about one pod; `assume` has a decision carried out, and says whether the pod goes on to its
    binding; `attempt_alone` does all that is done with a pod without a gang.
    """

    def __init__(
        self,
        state: ClusterState,
        queue: SchedulingQueue,
        evictions: Evictions,
        waiting: WaitingPods,
        failures: Failures,
        intake: Intake,
        clock: Clock,
        decide: Decide,
        assume: Assume,
        attempt_alone: AttemptAlone,
    ) -> None:
        self._state = state
        self._queue = queue
        self._evictions = evictions
        self._waiting = waiting
        self._failures = failures
        self._intake = intake
        self._clock = clock
        self._decide = decide
        self._assume = assume
        self._attempt_alone = attempt_alone

    async def attempt(self, queued: QueuedPod, profile: Profile) -> bool:
        """Decide a pod with its gang. Returns False, and leaves the pod alone, where it is to be decided on its own.

        That is so for a pod without a gang, and for one whose gang has members that other schedulers are to place.
        """
        try:
            plugin, gang = _gang_of(queued.pod, profile)
        except PluginError as error:
            self._failures.error(queued, str(error))
            return True
        if gang is None:
            return False
        known = [member for pod in gang.members if (member := self._queue.get(pod.uid)) is not None]
        names = sorted({member.pod.scheduler_name for member in known})
        ours = tuple(member.pod for member in known if member.pod.scheduler_name == profile.scheduler_name)
        if len(ours) < gang.needed:
            if len(known) < gang.needed:
                return False
            # Every profile has a Permit of its own: they would wait there for each other in vain.
            message = f"gang {gang.name}: {gang.needed} members are needed, and their scheduler names differ: "
            self._failures.unschedulable(queued, message + ", ".join(names), plugins=frozenset({plugin}))
            return True
        await self._decide_all(_Cycle(replace(gang, members=ours), plugin, profile, {queued.uid: queued}))
        return True

    async def _decide_all(self, cycle: _Cycle) -> None:
        """Think the gang through, and carry out what came of it.

        Whatever breaks, every member that was taken from the queue is given back to it.
        """
        try:
            with self._intake.held():
                result = await self._think(cycle, preempt=False)
                room_is_made = self._room_is_made(cycle.gang)
                if not result.fits and result.might_preempt and not room_is_made:
                    preempting = await self._think(cycle, preempt=True)
                    result = preempting if preempting.fits else result
                if result.fits and not result.preempt:
                    await self._place(cycle, result)
                else:
                    self._turn_down(cycle, result, keep_nominations=room_is_made)
        except Exception as error:
            # A bug of ours: it costs the gang this attempt, and never a pod.
            log.exception("deciding gang %s broke", cycle.gang.name)
            for member in cycle.taken.values():
                self._state.forget(member.uid)
                self._failures.error(member, f"{type(error).__name__}: {error}")

    async def _think(self, cycle: _Cycle, *, preempt: bool) -> GangAttempt:
        """Decide about one member after the other. While it lasts, the members count on their nodes."""
        result = GangAttempt(cycle.gang, preempt)
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
                result.add(await self._decide(cycle.profile, queued.pod))
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
                other.terminating and other.priority < member.priority for other in nodes.pods(position)
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

        The gang needs no others; these are on their own, and may preempt.
        """
        for decision in result.placed:
            uid = decision.pod.uid
            decision.cycle.data[PLACED_WITH] = cycle.gang
            goes_on = self._assume(cycle.taken[uid], cycle.profile, decision)
            del cycle.taken[uid]
            if not goes_on:
                self._take_back(cycle, result, f"pod {decision.pod.key} was turned down on its node")
                return
        tried = {decision.pod.uid for decision in (*result.placed, *result.refused)}
        untried = [pod for pod in cycle.gang.members if pod.uid not in tried]
        self._queue.activate(untried, self._clock.monotonic())
        for queued in list(cycle.taken.values()):
            await self._attempt_alone(queued, cycle.profile)
            del cycle.taken[queued.uid]

    def _take_back(self, cycle: _Cycle, result: GangAttempt, why: str) -> None:
        """Nobody is bound: those that have been assumed wait in Permit, the others have not been yet."""
        message = f"gang {cycle.gang.name}: {why}"
        for decision in result.placed:
            waiting = self._waiting.get(decision.pod.uid)
            if waiting is not None:
                waiting.reject(cycle.plugin, message)
        self._give_back(cycle, message, frozenset({cycle.plugin}))

    def _turn_down(self, cycle: _Cycle, result: GangAttempt, *, keep_nominations: bool) -> None:
        """Nobody is placed: every member waits for what may help any of them, or for those who have to go."""
        for pod in cycle.gang.members:
            self._take(cycle, pod.uid)
        for decision in result.refused:
            if decision.outcome is Outcome.ERROR:
                self._failures.error(cycle.taken.pop(decision.pod.uid), decision.message)
        message = result.explain()
        if result.fits:
            for decision in result.placed:
                if decision.victims:
                    self._evictions.start(decision)
            for decision in result.placed:
                # Nominated where there is no need to wait too: others must not have the room meanwhile.
                node = decision.node or decision.nominated_node
                plugins = decision.diagnosis.unschedulable_plugins | {cycle.plugin}
                member = cycle.taken.pop(decision.pod.uid)
                self._failures.unschedulable(member, message, plugins=plugins, nominated_node=node)
        plugins = result.blamed | {cycle.plugin} if result.explained else frozenset()
        self._give_back(cycle, message, plugins, nominated_node=None if keep_nominations else "")

    def _give_back(
        self, cycle: _Cycle, message: str, plugins: frozenset[str], nominated_node: str | None = None
    ) -> None:
        """Turn all members down that were taken, and not given back yet."""
        while cycle.taken:
            _, member = cycle.taken.popitem()
            self._failures.unschedulable(member, message, plugins=plugins, nominated_node=nominated_node)


def _gang_of(pod: PodInfo, profile: Profile) -> tuple[str, Gang | None]:
    """The gang that a pod belongs to, and the plugin that says so. Raises PluginError."""
    for plugin in profile.at(Point.PERMIT):
        if implements(plugin, GangOf):
            gang = call(plugin, "GangOf", plugin.gang_of, pod)
            if isinstance(gang, Gang):
                return plugin.name, gang
            if gang is not None:
                raise PluginError(plugin.name, "GangOf", f"answered {gang!r}, expected a Gang or None")
    return "", None
