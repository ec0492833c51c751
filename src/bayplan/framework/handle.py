"""The handle: what a plugin may ask of the scheduler that runs it, and have it do.

A plugin gets it by an argument `handle` of its `__init__`. Mirrors fwk.Handle (k8s.io/kube-scheduler/framework).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from datetime import datetime
from typing import Any, Protocol

from bayplan.api.kinds import Kind
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.nominations import Nominations
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework.measurements import Measurements

Verb = Callable[..., Awaitable[Any]]


class Handle(Protocol):
    """What there is for plugins. All of it is for the event loop's thread only.

    While a plugin is being asked about a pod, what it sees through its handle stands still.
    """

    @property
    def nodes(self) -> Nodes:
        """All nodes with their pods, assumed ones included, as they are now."""

    @property
    def nominations(self) -> Nominations:
        """Which pods are nominated where."""

    def objects(self, kind: Kind | str) -> ObjectStore:
        """The known objects of a kind by `namespace/name` (or `name`); the same store at every call.

        A custom kind may be given as `plural.version.group`. To be asked for in `__init__`, for that is what makes the
        scheduler watch the kind. The pods of the store are PodInfos; those that are done are not among them. Raises
        ValueError for what is no kind, and RuntimeError for a kind that is asked for later and not watched.
        """

    def preempting(self, uid: str) -> bool:
        """Whether the victims of a pod are still being evicted."""

    @property
    def client(self) -> ApiClient | None:
        """The API server; None where there is none, as in a simulation."""

    @property
    def waiting_pods(self) -> WaitingPods:
        """The pods that wait in Permit."""

    async def until(self, done: Callable[[], bool], stores: Iterable[ObjectStore], seconds: float) -> bool:
        """Wait until `done` says so, which is asked at once and after every change of the stores.

        False when so many seconds have passed. What `done` raises passes. Where nothing changes, as in a simulation,
        the first answer is the last.
        """

    def now(self) -> datetime:
        """The time of day by the scheduler's clock, in UTC."""

    def monotonic(self) -> float:
        """Seconds by the scheduler's monotonic clock, for durations and deadlines."""

    def activate(self, pods: Iterable[PodInfo]) -> None:
        """Have pods tried soon, whatever they wait for. Those that are not waiting are left alone."""

    @property
    def measurements(self) -> Measurements:
        """Where to count and time what metrics are to tell of the plugin."""

    def start(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Have `work()` done beside everything else, in a task of the scheduler's own. Never waits.

        For what has to be written at a point that cannot wait, as PostFilter and Unreserve. An exception is logged with
        the name. A scheduler that stops gives time to what has been started; in a simulation nothing comes of it.
        """

    def record(self, pod: PodInfo, event_type: str, reason: str, action: str, note: str) -> None:
        """Write an event about a pod, in the name of its scheduler. `event_type` is Normal or Warning. Never waits."""


class ApiClient(Protocol):
    """The verbs of `bayplan.client.Client`, where they are documented.

    For PreBind, Bind and `background`, and for what is given to `start`.
    """

    @property
    def get(self) -> Verb:
        """An object."""

    @property
    def list(self) -> Verb:
        """A page of objects."""

    @property
    def create(self) -> Verb:
        """Create an object."""

    @property
    def update(self) -> Verb:
        """Replace an object."""

    @property
    def patch(self) -> Verb:
        """Change a part of an object."""

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
        """The pod, on the node that it was assumed on."""

    @property
    def pending_plugins(self) -> list[str]:
        """The plugins that have not allowed it yet."""

    def allow(self, plugin: str) -> None:
        """One plugin has nothing against it any more; when all have said so, the pod is bound."""

    def reject(self, plugin: str, message: str) -> None:
        """Turn it down in the name of a plugin."""


class WaitingPods(Protocol):
    """All pods that wait in Permit."""

    def get(self, uid: str) -> WaitingPod | None:
        """One of them."""

    def __iter__(self) -> Iterator[WaitingPod]: ...

    def __len__(self) -> int: ...
