"""Services: what a scheduler on an API server works with: client, clock, metrics, writers and tasks.

`ports()` are those of the executor: real time, and requests to the API server. A simulation's are
`bayplan.answers.simulation.ports`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from bayplan.core.cluster.state import ClusterState
from bayplan.core.executor.extenders import Extenders
from bayplan.core.executor.giving_way import TimeSlice
from bayplan.core.executor.intake import Intake
from bayplan.core.executor.ports import Ports
from bayplan.foundations.clock import Clock, SystemClock
from bayplan.foundations.failures import Failures
from bayplan.running.client.client import Client
from bayplan.running.service.binding import ApiBinder
from bayplan.running.service.event_recorder import EventRecorder
from bayplan.running.service.evictions import ApiEvictor
from bayplan.running.service.metrics.measuring import Metrics
from bayplan.running.service.pod_status import PodStatusWriter
from bayplan.running.service.tasks import PodTasks
from bayplan.running.service.waiting_pods import AwaitedPod, AwaitedPods


@dataclass(frozen=True, slots=True)
class Services:
    """A client of the API server, the time, and the writers and tasks of one scheduler.

    `work` is set whenever the queue may have a pod to schedule. `tasks`: the running bindings and evictions. `slice`:
    how long the current attempt has been working.
    """

    client: Client
    clock: Clock
    metrics: Metrics
    state: ClusterState
    recorder: EventRecorder
    status: PodStatusWriter
    tasks: PodTasks
    intake: Intake
    slice: TimeSlice
    waiting: AwaitedPods
    work: asyncio.Event

    @classmethod
    def of(
        cls,
        client: Client,
        clock: Clock | None = None,
        metrics: Metrics | None = None,
        *,
        state: ClusterState | None = None,
        events: Client | None = None,
    ) -> Services:
        """Make the services of a client. `events` writes events (default: `client`)."""
        clock = clock or SystemClock()
        metrics = metrics or Metrics(clock)
        work, failures = asyncio.Event(), metrics.failures
        return cls(
            client,
            clock,
            metrics,
            state or ClusterState(),
            EventRecorder(events or client, clock, failures),
            PodStatusWriter(client, clock, failures),
            PodTasks(failures),
            Intake(work.set, metrics),
            TimeSlice(clock.monotonic),
            AwaitedPods(AwaitedPod),
            work,
        )

    @property
    def failures(self) -> Failures:
        """Failures of background work."""
        return self.metrics.failures

    def ports(self, extenders: Extenders | None = None, leads: Callable[[], bool] = lambda: True) -> Ports:
        """The ports of an executor: real time, and requests to the API server.

        An extender may bind instead of the profile's Bind plugins. `leads`: whether this process may let it.
        """
        return Ports(
            now=self.clock.monotonic,
            wake=self.work.set,
            run=self.tasks.start,
            assumptions=self.state,
            binder=ApiBinder(self.client, self.tasks, self.status, extenders, leads, self._has_node),
            evictor=ApiEvictor(self.client, self.clock, self.recorder, self.failures),
            statuses=self.status,
            recorder=self.recorder,
            measures=self.metrics,
        )

    def _has_node(self, name: str) -> bool:
        return self.state.nodes.position(name) is not None
