"""Pods, plugins and queues for the tests of the scheduling queue."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from lightkube.models.core_v1 import Container, Pod, PodSchedulingGate, PodSpec, PodStatus, ResourceRequirements
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.changes import NODE_ADD
from bayplan.core.framework.events import NO_TOPICS, POD, Action, ClusterEvent, EventHint, Hint, Topics
from bayplan.core.queue import QueuedPod, QueueProfile, RetryTimes, SchedulingQueue

SCHEDULER = "test-scheduler"
NODES = {"Fit": [EventHint(NODE_ADD)]}
"""Fit registers new nodes."""


def make_pod(
    name: str,
    *,
    priority: int = 0,
    version: str = "1",
    labels: Mapping[str, str] | None = None,
    gates: Sequence[str] = (),
    nominated: str = "",
    node: str = "",
    phase: str = "Pending",
    scheduler: str = SCHEDULER,
    cpu: str = "1",
) -> PodInfo:
    container = Container(name="c", resources=ResourceRequirements(requests={"cpu": cpu}))
    return PodInfo(
        Pod(
            metadata=ObjectMeta(
                name=name, namespace="ns", uid=f"uid-{name}", labels=dict(labels or {}), resourceVersion=version
            ),
            spec=PodSpec(
                containers=[container],
                priority=priority,
                schedulerName=scheduler,
                nodeName=node or None,
                schedulingGates=[PodSchedulingGate(name=gate) for gate in gates],
            ),
            status=PodStatus(phase=phase, nominatedNodeName=nominated or None),
        )
    )


def by_priority(pod: PodInfo, queued_at: float) -> tuple[int, float]:
    return (-pod.priority, queued_at)


def make_queue(
    hints: Mapping[str, Iterable[EventHint]] | None = None,
    *,
    pre_enqueue: Sequence[object] = (),
    sort_key: Callable[[PodInfo, float], object] = by_priority,
    own: Topics = NO_TOPICS,
    **times: float,
) -> SchedulingQueue:
    profile = QueueProfile(sort_key, pre_enqueue, {name: tuple(events) for name, events in (hints or {}).items()})
    return SchedulingQueue({SCHEDULER: profile}, Nominations(), times=RetryTimes(**times), own=own)


def queues(_pod: PodInfo, _old: object, _new: object) -> Hint:
    return Hint.QUEUE


def skips(_pod: PodInfo, _old: object, _new: object) -> Hint:
    return Hint.SKIP


def fail(
    queue: SchedulingQueue, queued: QueuedPod, now: float, plugins: Iterable[str] = (), pending: Iterable[str] = ()
) -> object:
    """Return a pod after a failed attempt; without plugins, it failed with an error."""
    queued.clear_rejectors()
    queued.unschedulable_plugins, queued.pending_plugins = frozenset(plugins), frozenset(pending)
    return queue.add_unschedulable(queued, now)


def attempt(
    queue: SchedulingQueue, pod: PodInfo, now: float, plugins: Iterable[str] = (), pending: Iterable[str] = ()
) -> QueuedPod:
    """Add a pod, pop it, and return it."""
    queue.add(pod, now)
    queued = queue.pop(now)
    assert queued is not None
    assert queued.uid == pod.uid
    fail(queue, queued, now, plugins, pending)
    return queued


def names(queue: SchedulingQueue, now: float) -> list[str]:
    """Pop all pods."""
    found = []
    while (queued := queue.pop(now)) is not None:
        found.append(queued.pod.name)
    return found


class Gate:
    """A PreEnqueue plugin that gates pods whose label `gate` is its name."""

    def __init__(self, name: str = "Gate") -> None:
        self.name = name
        self.asked: list[str] = []

    def pre_enqueue(self, pod: PodInfo) -> str | None:
        self.asked.append(pod.name)
        return f"held back by {self.name}" if pod.labels.get("gate") == self.name else None


def pod_in(place, **pod):
    """A queue with one pod `a` in a place."""
    gate = Gate()
    queue = make_queue(
        {"Fit": [EventHint(NODE_ADD), EventHint(ClusterEvent(POD, Action.UPDATE_POD_LABEL))], "Gate": []},
        pre_enqueue=[gate],
    )
    if place == "gated":
        queue.add(make_pod("a", labels={"gate": "Gate"}, **pod), 0)
        return queue, queue.get("uid-a")
    queue.add(make_pod("a", **pod), 0)
    if place != "active":
        queued = queue.pop(0)
        if place == "backoff":
            fail(queue, queued, 0)
        elif place == "unschedulable":
            fail(queue, queued, 0, ["Fit"])
    queued = queue.get("uid-a")
    assert queued.place.value == place
    return queue, queued


def counts(queue):
    pending = queue.pending_pods()
    return [pending.active, pending.backoff, pending.unschedulable, pending.gated, pending.in_flight]
