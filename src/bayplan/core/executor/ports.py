"""The ports of the executor: what a plan's effects are made of.

A service gives them an API server and real time, a simulation a cluster in memory and virtual time, and a benchmark
counters. The executor decides what happens and in which order; a port only does it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.calling import Caller
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.status import Code, Status
from bayplan.core.queue import QueuedPod
from bayplan.core.scheduling import Plan, Preemption

UNSCHEDULABLE = "Unschedulable"
"""The reason of pods that no node can run now."""
SCHEDULER_ERROR = "SchedulerError"
"""The reason of pods whose attempt failed."""


class Stopwatch(Protocol):
    """Times the plugins of one attempt of a profile. `weight`: the number of attempts that it stands for."""

    profile: str
    weight: int

    @property
    def call(self) -> Caller:
        """Calls a plugin and times it."""

    def finish(self) -> None:
        """End a phase of the attempt: the decision, or the binding."""


class Binding(NamedTuple):
    """A pod that is being bound to a node. `pod` is the assumed one."""

    queued: QueuedPod
    pod: PodInfo
    node_name: str
    profile: Profile
    cycle: CycleState
    times: Stopwatch | None = None
    """Where the plugins' times are recorded, if they are measured."""


class Assumptions(Protocol):
    """Assume: pods that count on a node before they are bound. `ClusterState` is one."""

    def assume(self, pod: PodInfo, node_name: str) -> PodInfo:
        """Count a pod on a node, and return it with its node."""

    def forget(self, uid: str) -> None:
        """Undo `assume`, unless the pod is bound by now."""


class Binder(Protocol):
    """Bind: the awaited part of a binding cycle. Its methods return the failures that they expect as a Status."""

    async def pre_bind(self, binding: Binding, plugins: Sequence[Any]) -> Status:
        """Run PreBind plugins, up to the first that does not succeed."""

    async def bind(self, binding: Binding) -> Status:
        """Bind the pod. The status is final: either the pod is bound, or it will never be."""

    def cancel_pre_bind(self, uid: str, why: str) -> bool:
        """Let a pod's running PreBind fail. Returns False for a pod that is not in PreBind."""

    def survives_cancellation(self) -> bool:
        """Whether the cancellation that a binding cycle has just caught was not meant to end it."""


class Evictor(Protocol):
    """Evict: deletes the victims of a preemption."""

    async def evict(self, preemption: Preemption, victims: Sequence[PodInfo]) -> bool:
        """Delete some of the victims at the same time. Returns whether all of them are gone or terminating."""


class Statuses(Protocol):
    """Nominate, and requeue: what pending pods say of themselves."""

    def not_scheduled(self, pod: PodInfo, reason: str, message: str, nominated_node: str | None = None) -> None:
        """Say why a pod is pending. `nominated_node`: None keeps its nomination, "" clears it."""

    def nominate(self, pod: PodInfo, node_name: str) -> None:
        """Say which node a pod is being bound to, while its binding takes long."""

    def clear_nomination(self, pod: PodInfo) -> None:
        """Take back a nomination."""

    def forget(self, uid: str) -> None:
        """Say nothing more about a bound or deleted pod."""


class EventSubject(Protocol):
    """The pod that an event is about, for instance a PodInfo."""

    namespace: str
    name: str
    uid: str
    resource_version: str


class Recorder(Protocol):
    """Record: events about pods."""

    def record(
        self, pod: EventSubject, controller: str, event_type: str, reason: str, action: str, note: str, /
    ) -> None:
        """Record an event. `controller` is the scheduler's name."""


class Measures(Protocol):
    """Durations and counts, on which nothing depends."""

    @property
    def now(self) -> Callable[[], float]:
        """The seconds of a clock."""

    def stopwatch(self) -> Stopwatch | None:
        """What times the plugins of the next attempt, if it is measured."""

    def attempted(self, plan: Plan, pods: Mapping[str, QueuedPod], times: Stopwatch | None) -> None:
        """Record an attempt of these pods, by uid."""

    def ended(self, binding: Binding, status: Status) -> None:
        """Record the end of a binding cycle: success once the pod is bound."""

    def failed(self, queued: QueuedPod, *, error: bool) -> None:
        """Record an attempt after which the pod is pending."""

    def permit_waited(self, code: Code, began: float) -> None:
        """Record the end of a wait in Permit."""

    def evicted(self, began: float, *, success: bool) -> None:
        """Record the end of a preemption's evictions."""

    def handled(self, event: str, began: float) -> None:
        """Record the handling of a watch event."""


Run = Callable[[str, PodInfo, Coroutine[Any, Any, None]], None]
"""`(what, pod, work)` runs work that belongs to a pod: its binding cycle, or the evictions for it."""


@dataclass(frozen=True, slots=True)
class Ports:
    """What a run is made of.

    `now`: the time in seconds, which never decreases. `wake` is called when the queue may have a pod to attempt.
    """

    now: Callable[[], float]
    wake: Callable[[], None]
    run: Run
    assumptions: Assumptions
    binder: Binder
    evictor: Evictor
    statuses: Statuses
    recorder: Recorder
    measures: Measures
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("bayplan.core.executor"))
