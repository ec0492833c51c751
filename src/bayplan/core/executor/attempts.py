"""AttemptDriver: runs an attempt to its end, and answers what it asks for on the way.

    plan, may_have_changed = await driver.plan(driver.unit_of(queued), pause)

An attempt is a generator (`bayplan.core.scheduling.attempt`). It asks for members of a gang, for extenders' replies, or
for a pause. While it waits, the intake holds all watch events, so the attempt sees one state from its start to its
plan.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.explanations import explain, scores_wanted
from bayplan.core.executor.extenders import Extenders
from bayplan.core.executor.ports import Stopwatch
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.calling import call
from bayplan.core.framework.extenders import ExtenderError
from bayplan.core.framework.giving_way import MustWait
from bayplan.core.framework.pod_run import PodRun
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import (
    PAUSE,
    Attempt,
    Options,
    Plan,
    Request,
    Rotation,
    TakeMembers,
    Unit,
    attempt,
    contends,
    unit_of,
)
from bayplan.core.sharing import Sharing

Pause = Callable[[], Awaitable[None]]
"""Lets other work run."""


async def no_pause() -> None:
    """Go on at once: there is no other work."""


class AttemptDriver:
    """Makes attempts. `decisions` counts the pods decided so far, whatever the outcome.

    `limited` makes a context for each step of an attempt, which may raise GiveWay. `sharing`: the results that pods
    share, by scheduler name. `rotation`: where the next attempt begins to look for enough nodes.
    """

    def __init__(
        self,
        runtime: Runtime,
        rng: random.Random,
        extenders: Extenders | None = None,
        limited: Callable[[], AbstractContextManager[None]] = nullcontext,
        sharing: Mapping[str, Sharing] | None = None,
    ) -> None:
        self._runtime = runtime
        self._rng = rng
        self._extenders = extenders
        self._limited = limited
        self.unfinished: Callable[[PodInfo], Sequence[PodInfo]] = lambda _pod: ()
        """Returns the pods of higher priority than a pod whose attempts began before and haven't finished."""
        self.lending: Callable[[Unit], AbstractContextManager[None]] = lambda _unit: nullcontext()
        """Makes a context in which what is kept for the pods of a unit is free for them."""
        self.rotation = Rotation()
        self.sharing = sharing or {name: Sharing(profile) for name, profile in runtime.profiles.items()}
        self.decisions = 0

    def unit_of(self, queued: QueuedPod) -> Unit:
        """The unit of a pod in flight. Raises PluginError."""
        return unit_of(queued.pod, self._runtime.profiles[queued.pod.scheduler_name], self._runtime.queue.pending)

    async def plan(self, unit: Unit, pause: Pause = no_pause, times: Stopwatch | None = None) -> tuple[Plan, bool]:
        """Attempt a unit. Returns the plan, and whether the state may have changed since the attempt.

        The pods of the attempt are the queue's `unit`. `times` measures the plugins. Raises GiveWay if the attempt has
        to be repeated, because it takes long, and MustWait if the plan takes what pods that are `unfinished` could use.
        """
        if not (unfinished := self.unfinished(unit.pod)):
            return await self._plan(unit, pause, times)
        random_state, start = self._rng.getstate(), self.rotation.start
        plan, state_may_differ = await self._plan(unit, pause, times)
        if self._takes_from(unfinished, plan):
            self._rng.setstate(random_state)  # as if the pod hadn't been attempted
            self.rotation.start = start
            raise MustWait
        return plan, state_may_differ

    def _takes_from(self, unfinished: Sequence[PodInfo], plan: Plan) -> bool:
        state, profiles = self._runtime.state, self._runtime.profiles
        return any(
            contends(profiles, state, decision.pod, decision.node or "", unfinished)
            for decision in plan.placed
            if not decision.pod.node_name
        )

    async def _plan(self, unit: Unit, pause: Pause, times: Stopwatch | None) -> tuple[Plan, bool]:
        name = unit.pod.scheduler_name
        options = Options(
            ask_extenders=self._asks,
            # Shared runs have only the sum of the plugins' scores.
            start=PodRun.start if scores_wanted() else self.sharing[name].start,
            rotation=self.rotation,
            call=call if times is None else times.call,
            failures=self._runtime.failures,
        )
        steps = attempt(unit, self._runtime.profiles[name], self._runtime.state, self._rng, options)
        try:
            with self._limited():
                request = next(steps)
        except StopIteration as end:
            return self._finished(end.value), False
        with self._runtime.intake.held():
            return await self._drive(steps, request, pause), True

    async def _drive(self, steps: Attempt, request: Request, pause: Pause) -> Plan:
        try:
            while True:
                try:
                    reply = await self._answer(request, pause)
                except ExtenderError as error:
                    with self._limited():
                        request = steps.throw(error)
                else:
                    with self._limited():
                        request = steps.send(reply)
        except StopIteration as end:
            return self._finished(end.value)

    async def _answer(self, request: Request, pause: Pause) -> Any:
        if request is PAUSE:
            return await pause()
        if isinstance(request, TakeMembers):
            for member in request.members:
                self._runtime.queue.take(member.uid, self._runtime.ports.now())
            return {uid: queued.pod for uid, queued in self._runtime.queue.unit.items()}
        assert self._extenders is not None
        return await self._extenders.answer(request)

    def _finished(self, plan: Plan) -> Plan:
        self.decisions += len(plan.decisions)
        for decision in plan.decisions:
            explain(decision, self._runtime.state.table)
        return plan

    def _asks(self, pod: PodInfo) -> bool:
        return self._extenders is not None and self._extenders.are_asked(pod)
