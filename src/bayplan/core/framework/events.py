"""Cluster events, and the queueing hints that plugins register for them.

A hint decides whether an event may make a pod schedulable that the plugin rejected. Mirrors ClusterEvent, ActionType
and QueueingHintFn of k8s.io/kube-scheduler/framework/types.go.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import Enum, IntFlag, auto
from typing import Any

from bayplan.core.cluster.pod_info import PodInfo


class Action(IntFlag):
    """The kind of change of an object. Members can be combined."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    """The node's taints, or `spec.unschedulable`."""
    UPDATE_NODE_CONDITION = auto()
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    """A resource request was reduced."""
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()
    UPDATE_NODE_PREEMPTION_POLICY = auto()
    """The node's `spec.podPreemptionPolicy`."""
    UPDATE_POD_SCALE_UP = auto()
    """A resource request of a pod on a node was increased. It is reported only where resizes may preempt."""
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
        | UPDATE_NODE_PREEMPTION_POLICY
        | UPDATE_POD_SCALE_UP
    )
    ALL = ADD | DELETE | UPDATE


POD = "Pod"
NODE = "Node"
ANY = "*"
"""The resource of an event that concerns every pod, such as UnschedulableTimeout."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that happened to an object.

    `resource` is the kind (`Pod`, `Node`, `PersistentVolumeClaim`, ...), or `plural.version.group` for a custom
    resource. `label` names the event in metrics and logs.
    """

    resource: str
    action: Action
    label: str = ""

    def matches(self, happened: ClusterEvent) -> bool:
        """Return whether this event, as registered by a plugin, covers an event that happened.

        A general update (UPDATE) is not covered by more specific ones such as UPDATE_NODE_LABEL. An event for all
        resources is covered only by ALL_EVENTS. Mirrors MatchClusterEvents.
        """
        return self.resource in {ANY, happened.resource} and happened.action in self.action


class Hint(Enum):
    """The result of a hint."""

    QUEUE = "Queue"
    """The pod may be schedulable now: requeue it."""
    SKIP = "QueueSkip"
    """The event does not make the pod schedulable."""


HintFunction = Callable[[PodInfo, Any, Any], Hint]
"""`(pod, old, new)` -> Hint. `pod`: the unschedulable pod; `old`, `new`: the object before and after the event, or
None.

Pods are passed as PodInfo, other objects as API types. A hint that raises counts as QUEUE.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Topics:
    """Finds the pods that a hint has to be called for, without calling it for all pods.

    `of_pod`: the topics that an unschedulable pod waits for. `of_event`: the topics of an event, given its object
    before and after; None calls the hint for all pods. For a pod without any topic of an event, the hint must return
    SKIP. Topics are hashable. Those of a pod must not change, except when the pod is updated.
    """

    of_pod: Callable[[PodInfo], Collection[Hashable]]
    of_event: Callable[[Any, Any], Collection[Hashable] | None]


NO_TOPICS = Topics(lambda _pod: (), lambda _old, _new: ())
"""No pod and no event has a topic."""


@dataclass(frozen=True, slots=True)
class EventHint:
    """An event that a plugin registers, and the hint to call when it happens. Without a hint, it always requeues.

    `topics`: narrows down the pods that the hint is called for. They save time where many pods wait for few of the
    events. `still_gated`: the UIDs of pods that PreEnqueue of the plugin gates now. It needn't be called for them.

    The hint, its topics and `still_gated` are pure: asked twice, they answer the same, and they change nothing. They
    may be asked for events that requeue nothing.
    """

    event: ClusterEvent
    hint: HintFunction | None = None
    topics: Topics | None = None
    still_gated: Callable[[], AbstractSet[str]] | None = None


ALL_EVENTS = ClusterEvent(ANY, Action.ALL)
"""Registered for plugins without `events`: every event requeues their pods."""
