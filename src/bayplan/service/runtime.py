"""Runtime: the objects that the parts of a running scheduler share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from bayplan.client import Client
from bayplan.clock import Clock, SystemClock
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.failures import Failures
from bayplan.framework.events import ClusterEvent
from bayplan.queue import SchedulingQueue
from bayplan.service.event_recorder import EventRecorder
from bayplan.service.giving_way import TimeSlice
from bayplan.service.intake import Intake
from bayplan.service.metrics.measuring import Metrics
from bayplan.service.pod_status import PodStatusWriter
from bayplan.service.tasks import PodTasks
from bayplan.service.waiting_pods import AwaitedPod, AwaitedPods


@dataclass(slots=True)
class Runtime:
    """One scheduler's state, queue, clock and writers.

    `events_client` writes events (default: `client`). `work` is set whenever the queue may have a pod to schedule.
    `tasks`: the running bindings and evictions. `leads`: whether this process may write. `queue` is set once the
    profiles are built. `slice`: how long the current attempt has been working.
    """

    client: Client
    clock: Clock = field(default_factory=SystemClock)
    metrics: Metrics = None  # type: ignore[assignment]  # made from the clock by default
    state: ClusterState = field(default_factory=ClusterState)
    waiting: AwaitedPods = field(default_factory=lambda: AwaitedPods(AwaitedPod))
    work: asyncio.Event = field(default_factory=asyncio.Event)
    leads: Callable[[], bool] = lambda: True
    events_client: Client | None = None
    tasks: PodTasks = field(init=False)
    recorder: EventRecorder = field(init=False)
    status: PodStatusWriter = field(init=False)
    intake: Intake = field(init=False)
    queue: SchedulingQueue = field(init=False)
    slice: TimeSlice = field(init=False)

    def __post_init__(self) -> None:
        self.metrics = self.metrics or Metrics(self.clock)
        self.tasks = PodTasks(self.failures)
        self.recorder = EventRecorder(self.events_client or self.client, self.clock, self.failures)
        self.status = PodStatusWriter(self.client, self.clock, self.failures)
        self.intake = Intake(self.work.set, self.metrics)
        self.slice = TimeSlice(self.now)

    @property
    def failures(self) -> Failures:
        """Failures of background work."""
        return self.metrics.failures

    def now(self) -> float:
        """Seconds on the monotonic clock."""
        return self.clock.monotonic()

    def move(
        self, event: ClusterEvent, old: object, new: object, only: Callable[[PodInfo], bool] | None = None
    ) -> None:
        """Requeue the pods that an event may make schedulable. See `SchedulingQueue.move_on_event`."""
        self.queue.move_on_event(event, old, new, self.now(), only)

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pods to the active queue, whatever they wait for."""
        self.queue.activate(pods, self.now())
        self.work.set()
