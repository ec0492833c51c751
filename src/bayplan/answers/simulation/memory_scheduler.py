"""MemoryScheduler: the service's queue, attempts and executor, on ports in memory.

`Simulation` and `Timeline` are made of it. They decide which pod has its turn, and when time passes.
"""

from __future__ import annotations

import math

from bayplan.answers.simulation.lasting_rejections import LastingRejections
from bayplan.answers.simulation.ports import MemoryPorts
from bayplan.answers.simulation.waiting_pods import SimulatedWait
from bayplan.answers.simulation.world import World
from bayplan.core.executor.attempts import AttemptDriver
from bayplan.core.executor.executor import Executor
from bayplan.core.executor.intake import Intake
from bayplan.core.executor.runtime import Runtime
from bayplan.core.framework.waiting_pods import PodsInPermit
from bayplan.core.queue import RetryTimes, SchedulingQueue
from bayplan.core.queue.hints import ask_hint


class MemoryScheduler:
    """What a scheduler is made of. Who uses it decides which pod has its turn, and when time passes.

    `preempt`: whether pods may preempt. `times`: when rejected pods have their next attempt.
    """

    def __init__(self, world: World, ports: MemoryPorts, times: RetryTimes, *, preempt: bool = True) -> None:
        self.queue = SchedulingQueue(
            world.queue_profiles,
            world.state.nominations,
            times=times,
            own=world.own_volumes,
            ask_hint=LastingRejections(world).ask if times.keeps_order else ask_hint,
            failures=world.failures,
        )
        runtime = Runtime(
            world.profiles if preempt else world.profiles_without_preemption,
            world.state,
            self.queue,
            world.handle.waiting_pods,
            Intake(lambda: None),
            ports.ports(),
            world.failures,
        )
        self.executor = Executor(runtime)
        self.attempts = AttemptDriver(runtime, world.rng, sharing=world.sharing)
        self.waits = PermitWaits(world.handle.waiting_pods)


class PermitWaits:
    """When the waits of pods in Permit began, and when their timeouts end."""

    def __init__(self, waiting: PodsInPermit[SimulatedWait]) -> None:
        self._waiting = waiting
        self._since: dict[str, float] = {}

    def note(self, now: float) -> None:
        """Note the pods that have begun to wait."""
        for each in self._waiting:
            self._since.setdefault(each.pod.uid, now)

    def ended(self, uid: str) -> None:
        """Forget a pod whose binding has ended."""
        self._since.pop(uid, None)

    def first_timeout(self) -> float:
        """Return when the first timeout ends; infinity if no pod waits."""
        return min((self._end_of(each) for each in self._waiting), default=math.inf)

    def time_out(self, now: float) -> None:
        """Reject the pods whose first timeout has ended."""
        for each in self._waiting:
            if self._end_of(each) <= now:
                each.time_out_first()

    def _end_of(self, each: SimulatedWait) -> float:
        return self._since.get(each.pod.uid, 0.0) + each.timeout
