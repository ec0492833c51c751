"""Drives attempts: answers their requests, and keeps the state unchanged until they return a plan."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.calling import call
from bayplan.framework.extenders import ExtenderError
from bayplan.framework.pod_run import PodRun
from bayplan.framework.profile import Profile
from bayplan.queue import QueuedPod
from bayplan.scheduling import (
    PAUSE,
    Attempt,
    Options,
    Plan,
    Request,
    Rotation,
    TakeMembers,
    Unit,
    attempt,
    unit_of,
)
from bayplan.service.explanations import explain, scores_wanted
from bayplan.service.extenders import Extenders
from bayplan.service.metrics.plugin_times import PluginTimes
from bayplan.service.runtime import Runtime
from bayplan.sharing import Sharing
from bayplan.turns import Turn


class AttemptDriver:
    """Makes attempts. `decisions` counts the pods decided so far, whatever the outcome."""

    def __init__(
        self, runtime: Runtime, profiles: Mapping[str, Profile], rng: random.Random, extenders: Extenders | None = None
    ) -> None:
        self._runtime = runtime
        self._profiles = profiles
        self._rng = rng
        self._extenders = extenders
        self._rotation = Rotation()
        self.sharing = {name: Sharing(profile) for name, profile in profiles.items()}
        self.decisions = 0

    def unit_of(self, queued: QueuedPod) -> Unit:
        """The unit of a pod in flight. Raises PluginError."""
        return unit_of(queued.pod, self._profiles[queued.pod.scheduler_name], self._pending)

    async def plan(
        self, unit: Unit, taken: dict[str, QueuedPod], turn: Turn, times: PluginTimes | None = None
    ) -> tuple[Plan, bool]:
        """Attempt a unit. Returns the plan, and whether the state may have changed since the attempt.

        `taken`: the pods in flight; the members of a gang are added to it. `times` measures the plugins. Raises GiveWay
        if the attempt has to be repeated, because it takes long.
        """
        name = unit.pod.scheduler_name
        options = Options(
            ask_extenders=self._asks,
            # Shared runs have only the sum of the plugins' scores.
            start=PodRun.start if scores_wanted() else self.sharing[name].start,
            rotation=self._rotation,
            call=call if times is None else times.call,
            failures=self._runtime.failures,
        )
        steps = attempt(unit, self._profiles[name], self._runtime.state, self._rng, options)
        try:
            with self._runtime.slice.limited():
                request = next(steps)
        except StopIteration as end:
            return self._finished(end.value), False
        with self._runtime.intake.held():
            return await self._drive(steps, request, taken, turn), True

    async def _drive(self, steps: Attempt, request: Request, taken: dict[str, QueuedPod], turn: Turn) -> Plan:
        try:
            while True:
                try:
                    reply = await self._answer(request, taken, turn)
                except ExtenderError as error:
                    with self._runtime.slice.limited():
                        request = steps.throw(error)
                else:
                    with self._runtime.slice.limited():
                        request = steps.send(reply)
        except StopIteration as end:
            return self._finished(end.value)

    async def _answer(self, request: Request, taken: dict[str, QueuedPod], turn: Turn) -> Any:
        if request is PAUSE:
            return await turn.pause()
        if isinstance(request, TakeMembers):
            for member in request.members:
                queued = self._runtime.queue.take(member.uid, self._runtime.now())
                if queued is not None:
                    taken[queued.uid] = queued
            return {uid: queued.pod for uid, queued in taken.items()}
        assert self._extenders is not None
        return await self._extenders.answer(request)

    def _finished(self, plan: Plan) -> Plan:
        self.decisions += len(plan.decisions)
        for decision in plan.decisions:
            explain(decision, self._runtime.state.table)
        return plan

    def _asks(self, pod: PodInfo) -> bool:
        return self._extenders is not None and self._extenders.have_a_say(pod)

    def _pending(self, uid: str) -> PodInfo | None:
        queued = self._runtime.queue.get(uid)
        return None if queued is None else queued.pod
