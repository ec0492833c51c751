"""Runtime: what the parts of one scheduler share.

The loop, the executor, binding cycles, preemptions and the handlers of watch events get this one value. The service, a
simulation and a replay each make theirs, with other ports. Only the intake and the executor change `state`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.executor.intake import Intake
from bayplan.core.executor.ports import Ports
from bayplan.core.framework.events import ClusterEvent
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.waiting_pods import PodsInPermit
from bayplan.core.queue import SchedulingQueue
from bayplan.foundations.failures import Failures

Only = Callable[[PodInfo], bool]
"""Whether an event may requeue a pod."""


class MoveOnEvent(Protocol):
    """Requeues the pods that an event may make schedulable."""

    def __call__(self, event: ClusterEvent, old: object, new: object, only: Only | None = None, /) -> None:
        """Requeue pods by their hints. `old`, `new`: the object before and after. `only`: which may be requeued."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """A scheduler's profiles, the state and the queue that they decide on, and the ports through which it acts.

    `waiting`: the pods that wait in Permit. `intake`: the way in which events change the state and the queue.
    """

    profiles: Mapping[str, Profile]
    state: ClusterState
    queue: SchedulingQueue
    waiting: PodsInPermit[Any]
    intake: Intake
    ports: Ports
    failures: Failures

    def move(self, event: ClusterEvent, old: object, new: object, only: Only | None = None) -> None:
        """Requeue the pods that an event may make schedulable. See `SchedulingQueue.move_on_event`."""
        self.queue.move_on_event(event, old, new, self.ports.now(), only)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pods to the active queue, whatever they wait for."""
        self.queue.activate(pods, self.ports.now())
        self.ports.wake()

    def record(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        """Record an event about a pod, with its scheduler as the reporting controller."""
        self.ports.recorder.record(pod, pod.scheduler_name, event_type, reason, action, note)
