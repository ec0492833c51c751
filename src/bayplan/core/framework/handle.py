"""The handle: gives plugins access to the scheduler's state and services.

A plugin whose `__init__` has a parameter `handle` receives it there. Mirrors fwk.Handle
(k8s.io/kube-scheduler/framework).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from collections.abc import Set as AbstractSet
from datetime import datetime
from typing import Any, Protocol

from bayplan.core.api.kinds import Kind, custom_kind, kind_of
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.feeds import Feed
from bayplan.core.framework.measurements import Measurements

Verb = Callable[..., Awaitable[Any]]


class Handle(Protocol):
    """The services that the scheduler offers to plugins. Use them in the event loop's thread only.

    The state that a plugin reads through its handle does not change during an attempt.
    """

    @property
    def nodes(self) -> Nodes:
        """All nodes with their pods, assumed pods included. Reflects the current state, not a snapshot."""

    @property
    def nominations(self) -> Nominations:
        """The pods that are nominated to nodes."""

    def objects(self, kind: Kind | str) -> ObjectStore:
        """Return the store of a kind's objects, keyed by `namespace/name` (or `name`); the same store for each call.

        Call it in `__init__`: the scheduler then watches the kind. A custom resource is named as
        `plural.version.group`. The store of pods holds `PodInfo` values, and no terminated pods. Raises ValueError if
        there is no such kind, and RuntimeError if it is called after `__init__` for a kind that is not watched.
        """

    def feed(self, kind: str, name: str) -> Feed:
        """Return the feed of a kind of the plugin's own; the same feed for each call.

        It has objects from elsewhere than the API server, such as metrics. Call it in `__init__`, and put objects in
        `background`. `kind`: as `plural.version.group`. `name`: the `kind` that its objects have, such as LoadReport.
        """

    def preempting(self, uid: str) -> bool:
        """Return whether the pod with this UID, or the PodGroup, still waits for its victims to be evicted."""

    @property
    def evicting(self) -> AbstractSet[str]:
        """The UIDs of pods that are `preempting`. It may lack some that wait for their last victim. Read-only."""

    @property
    def client(self) -> ApiClient | None:
        """A client for the API server; None if there is no server, as in a simulation."""

    @property
    def waiting_pods(self) -> WaitingPods:
        """The pods that wait in Permit."""

    async def until(self, done: Callable[[], bool], stores: Iterable[ObjectStore], seconds: float) -> bool:
        """Wait until `done()` returns true. It is called at once and after every change of the stores.

        Returns False after `seconds`. Exceptions that `done` raises are propagated. In a simulation, where nothing
        changes, `done` is called once.
        """

    def now(self) -> datetime:
        """Return the time of the scheduler's clock, in UTC."""

    def monotonic(self) -> float:
        """Return the seconds of the scheduler's monotonic clock, for durations and deadlines."""

    def as_recorded(self, outcome: bool) -> bool:
        """Return the outcome of a comparison; in a replay of a redacted recording, the outcome that was recorded.

        For comparisons that depend on names, such as with a hash of names: redaction replaces names, so that what was
        equal isn't any more. Make it for the same events in the same order, as decisions are made.
        """

    def give_way(self, *, long: bool = False) -> None:
        """Stop the attempt, by an exception, if it has worked for so long that other pods should have their turn.

        The attempt is repeated soon. A plugin whose method can take seconds calls this between the steps of its work,
        and keeps what it has found, so that it goes on from there the next time. The exception must not be caught, and
        the plugin must not leave anything half done. Does nothing outside of attempts, and where no scheduler runs.

        `long`: whether the attempt takes long for sure, so that it doesn't even begin while other pods have their turn.
        """

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Move pods to the active queue, whatever they wait for. Pods that are not pending are ignored."""

    @property
    def measurements(self) -> Measurements:
        """Counters and durations that the plugin adds to the scheduler's metrics."""

    def start(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Run `work()` in a background task and return at once.

        Use it to write to the API server from methods that are not `async`, such as `post_filter` and `unreserve`. An
        exception is logged with `name`. A scheduler that shuts down lets started tasks finish for a while. A simulation
        does not run `work`.
        """

    def record(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        """Record an event about a pod and return at once. `event_type` is Normal or Warning.

        The event names the pod's scheduler as its reporting controller.
        """


class StateHandle:
    """The part of a handle that reads the cluster state. Implementations of `Handle` derive from it."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.feeds: dict[Kind, Feed] = {}
        """The feeds that plugins asked for."""

    @property
    def nodes(self) -> Nodes:
        """All nodes, as they are now."""
        return self._state.nodes

    @property
    def nominations(self) -> Nominations:
        """The pods that are nominated to nodes."""
        return self._state.nominations

    def objects(self, kind: Kind | str) -> ObjectStore:
        """The store of a kind's objects, which may be empty."""
        return self._state.objects[kind_of(kind) if isinstance(kind, str) else kind]

    def feed(self, kind: str, name: str) -> Feed:
        """The feed of a kind."""
        fed = custom_kind(kind)
        if fed not in self.feeds:
            self.feeds[fed] = Feed(fed, name, self._state.objects[fed])
        return self.feeds[fed]

    def as_recorded(self, outcome: bool) -> bool:
        """The outcome: nothing was recorded."""
        return outcome

    def give_way(self, *, long: bool = False) -> None:
        """Do nothing: there are no other pods to give way to."""

    def preempting(self, uid: str) -> bool:
        """Whether the victims of a pod are being evicted."""
        return self._state.preemptions.in_progress(uid)

    @property
    def evicting(self) -> AbstractSet[str]:
        """Pods whose victims are being evicted; see Preemptions."""
        return self._state.preemptions.evicting


class ApiClient(Protocol):
    """The verbs of `bayplan.running.client.Client`, which documents them.

    Use them in PreBind, Bind and `background`, and in tasks passed to `Handle.start`.
    """

    @property
    def get(self) -> Verb:
        """Read an object."""

    @property
    def list(self) -> Verb:
        """List objects, one page per call."""

    @property
    def create(self) -> Verb:
        """Create an object."""

    @property
    def update(self) -> Verb:
        """Replace an object."""

    @property
    def patch(self) -> Verb:
        """Change parts of an object."""

    @property
    def delete(self) -> Verb:
        """Delete an object."""

    @property
    def bind(self) -> Verb:
        """Bind a pod to a node."""


class WaitingPod(Protocol):
    """A pod that waits in Permit."""

    @property
    def pod(self) -> PodInfo:
        """The pod, with the node that it is assumed on."""

    @property
    def pending_plugins(self) -> list[str]:
        """The names of the plugins that have not allowed the pod yet."""

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of a plugin. The pod is bound when all pending plugins have allowed it."""

    def reject(self, plugin: str, message: str) -> None:
        """Reject the pod on behalf of a plugin."""


class WaitingPods(Protocol):
    """The pods that wait in Permit."""

    def get(self, uid: str) -> WaitingPod | None:
        """Return the waiting pod with this UID; None if there is none."""

    def __iter__(self) -> Iterator[WaitingPod]: ...

    def __len__(self) -> int: ...
