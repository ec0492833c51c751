"""The scheduler's side of plugins where there is no scheduler: in replays, benchmarks and tests."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from bayplan.api import kinds
from bayplan.api.kinds import kind_of
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo
from bayplan.cluster.state import ClusterState
from bayplan.framework.measurements import Unmeasured
from bayplan.service.waiting_pods import WaitingPods


@dataclass(frozen=True, slots=True)
class RecordedEvent:
    """An event that a plugin wrote, or would have written."""

    pod: PodInfo
    event_type: str
    reason: str
    action: str
    note: str


class OfflineHandle:
    """What plugins may ask where nothing is written and nobody waits. Implements framework.handle.Handle.

    `events`, `activated` and `started` are what plugins recorded, which pods they activated and what they want done;
    `time` is what their clock says.
    """

    client = None
    measurements = Unmeasured()

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.waiting_pods = WaitingPods()
        self.events: list[RecordedEvent] = []
        self.activated: list[PodInfo] = []
        self.started: list[tuple[str, Callable[[], Awaitable[object]]]] = []
        self.time = datetime(2026, 1, 1, tzinfo=UTC)

    @property
    def nodes(self) -> Nodes:
        """All nodes as they are now."""
        return self._state.nodes

    @property
    def nominations(self) -> Nominations:
        """Which pods are nominated where."""
        return self._state.nominations

    def objects(self, kind: kinds.Kind | str) -> ObjectStore:
        """The known objects of a kind by `namespace/name`."""
        return self._state.objects[kind_of(kind) if isinstance(kind, str) else kind]

    def preempting(self, uid: str) -> bool:
        """Whether the victims of a pod are still being evicted: never, where nothing is written."""
        return self._state.preemptions.in_progress(uid)

    async def until(self, done: Callable[[], bool], stores: Iterable[ObjectStore], seconds: float) -> bool:
        """What `done` says now: nothing changes while a plugin waits."""
        return done()

    def now(self) -> datetime:
        """The time."""
        return self.time

    def monotonic(self) -> float:
        """The time in seconds."""
        return self.time.timestamp()

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Note which pods a plugin activates."""
        self.activated.extend(pods)

    def start(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Note what a plugin wants done."""
        self.started.append((name, work))

    def record(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        """Note what a plugin records."""
        self.events.append(RecordedEvent(pod, event_type, reason, action, note))
