"""Rehearsal: a timeline that begins with what a world holds, and leaves the world as it was.

    Rehearsal(world, begin, observers).run([TheWorldGoesOn()], until)

A question about the future rehearses it many times, in one world: each time costs what happens in it, and nothing is
read again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

from bayplan.answers.simulation.lives import DepartureReason, PodLifetime
from bayplan.answers.simulation.owners import is_replaced
from bayplan.answers.simulation.timeline import Happening, Timeline
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.executor.ports import Binding
from bayplan.core.framework.binding_runner import run_unreserve
from bayplan.core.scheduling import Plan

_MOST_FAILED = 10
"""After so many failures, a pod is given up."""
_TICK = 1e-6
"""Seconds between the arrivals of two pods that wait already."""


class Rehearsal(Timeline):
    """A timeline whose changes are undone at its end. What was changed before in the same what-if is kept.

    A pod whose attempts fail, because a plugin does, is given up after some of them: it would be tried forever.
    """

    _failed: Counter[str]

    def run(self, happenings: Iterable[Happening], until: float) -> None:
        """Let everything happen until a time, or until `stop`; then undo it, whatever it raised."""
        world = self.world
        mark = world.mark()
        self._failed = Counter()
        try:
            super().run(happenings, until)
        finally:
            for waiting in list(world.handle.waiting_pods):
                waiting.reject("", "the rehearsal has ended")
            self._ports.tasks.bind()
            for pod in self._ports.tasks.abandon():
                world.state.preemptions.end(pod.uid)
            world.undo_to(mark)
            world.handle.time = self.begin

    def adopt(self, pod: PodInfo, queued_at: float = 0.0) -> None:
        """Take over a pod that the world has already. One that has a node runs there since it started.

        `queued_at`: when one without a node came into the queue; no later than now.
        """
        life = self.lives[pod.uid] = PodLifetime(pod.key, pod.uid, pod.uid, self.now, None)
        self._latest[pod.uid] = pod.uid
        for observer in self._observers:
            observer.arrived(pod, life)
        if not pod.node_name:
            self._queue.add(pod, queued_at)
            return
        self._has_node(pod, pod.node_name, -age_of(pod, self.begin.timestamp()))
        if pod.terminating:
            life.leaving = DepartureReason.DRAINED if is_replaced(pod) else DepartureReason.DELETED
            left = pod.metadata.deletionTimestamp
            seconds = 0.0 if left is None else (left - self.begin).total_seconds()
            self.after(max(seconds, 0.0), self._leave, pod.uid, life.leaving)

    def attempted(self, plan: Plan) -> None:
        """Tell the observers, and count failures."""
        super().attempted(plan)
        for refusal in plan.refused:
            if refusal.error:
                self._failed[refusal.pod.uid] += 1
                if self._failed[refusal.pod.uid] == _MOST_FAILED:
                    self.after(0.0, self._queue.remove, refusal.pod.uid)

    def binding(self, binding: Binding) -> None:
        """Remember how a binding is undone."""
        undo = partial(run_unreserve, binding.profile, binding.cycle, binding.pod, binding.node_name)
        self.world.changed(undo)

    def _keep(self) -> None:
        handle = self.world.handle
        handle.events.clear()
        handle.activated.clear()
        handle.started.clear()


@dataclass(frozen=True, slots=True)
class TheWorldGoesOn:
    """All pods of a rehearsal's world are taken over: those with a node first, then the pending ones in their order.

    `mixed`: how far chance decides that order, from 0 to 1. A scheduler that tries pods again all the time is anywhere
    among them when room comes free.
    """

    mixed: float = 0.0
    at: float = 0.0

    def happen(self, timeline: Timeline) -> None:
        """Take over the pods."""
        assert isinstance(timeline, Rehearsal)
        world, rng = timeline.world, timeline.random("order of the queue")
        pods = world.state.objects[POD]
        for key in sorted(pods):  # their order in the store depends on the past
            if pods[key].node_name:
                timeline.adopt(pods[key])
        waiting = world.in_queue_order(world.pending.values())
        number = len(waiting)
        keys = [(1.0 - self.mixed) * place + self.mixed * number * rng.random() for place in range(number)]
        for place, index in enumerate(sorted(range(number), key=keys.__getitem__)):
            timeline.adopt(waiting[index], _TICK * (place - number))


def age_of(pod: PodInfo, now: float) -> float:
    """Return for how many seconds a pod has run; 0 if it hasn't started. `now`: in seconds since the epoch."""
    return 0.0 if pod.started == math.inf else max(now - pod.started, 0.0)
