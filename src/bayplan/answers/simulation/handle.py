"""The handle of plugins where no scheduler runs: in simulations, replays, benchmarks and tests.

Time stands still, tasks are noted and never run, and an event is kept in a list. The handle of a
running scheduler is `bayplan.running.service.handle`; both implement `bayplan.core.framework.handle.Handle`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from bayplan.answers.simulation.waiting_pods import SimulatedWait
from bayplan.core.api.kinds import Kind, kind_of
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.feeds import Feed
from bayplan.core.framework.handle import ApiClient, StateHandle
from bayplan.core.framework.measurements import Unmeasured
from bayplan.core.framework.waiting_pods import PodsInPermit


@dataclass(frozen=True, slots=True)
class PluginEvent:
    """An event that a plugin recorded."""

    pod: PodInfo
    event_type: str
    reason: str
    action: str
    note: str


class OfflineHandle(StateHandle):
    """A handle without an API server, on which no time passes. Implements bayplan.core.framework.handle.Handle.

    `events`, `activated` and `started` are the events that plugins recorded, the pods that they activated and the tasks
    that they started; `watched` are the kinds that they read. `time` is the time of the plugins' clock.
    """

    client: ApiClient | None = None
    measurements = Unmeasured()

    def __init__(self, state: ClusterState) -> None:
        super().__init__(state)
        self.waiting_pods = PodsInPermit(SimulatedWait)
        self.events: list[PluginEvent] = []
        self.activated: list[PodInfo] = []
        self.started: list[tuple[str, Callable[[], Awaitable[object]]]] = []
        self.watched: set[Kind] = set()
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    def objects(self, kind: Kind | str) -> ObjectStore:
        """The store of a kind's objects, which is then one of the `watched`."""
        store = super().objects(kind)
        self.watched.add(kind_of(kind) if isinstance(kind, str) else kind)
        return store

    def feed(self, kind: str, name: str) -> Feed:
        """The feed of a kind, whose objects are then among the `watched`: a snapshot or a recording may have them."""
        feed = super().feed(kind, name)
        self.watched.add(feed.kind)
        return feed

    @property
    def served(self) -> set[Kind]:
        """The `watched` kinds that an API server may have: all but those of feeds."""
        return self.watched - self.feeds.keys()

    async def until(self, done: Callable[[], bool], stores: Iterable[ObjectStore], seconds: float) -> bool:
        """Call `done` once: nothing changes while a plugin waits."""
        return done()

    def now(self) -> datetime:
        """The time."""
        return self.time

    def monotonic(self) -> float:
        """The time in seconds."""
        return self.time.timestamp()

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Record which pods a plugin activates."""
        self.activated.extend(pods)

    def start(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Record a task, and do not run it."""
        self.started.append((name, work))

    def record(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        """Record an event."""
        self.events.append(PluginEvent(pod, event_type, reason, action, note))
