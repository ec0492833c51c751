"""Cluster events, and the hints by which plugins say which of them can help a pod that they turned down.

Mirrors ClusterEvent, ActionType and QueueingHintFn of k8s.io/kube-scheduler/framework/types.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, IntFlag, auto
from typing import Any

from bayplan.cluster.pod_info import PodInfo


class Action(IntFlag):
    """What happened to an object; several may have happened at once."""

    ADD = auto()
    DELETE = auto()
    UPDATE_NODE_ALLOCATABLE = auto()
    UPDATE_NODE_LABEL = auto()
    UPDATE_NODE_TAINT = auto()
    """Taints, or whether the node is cordoned."""
    UPDATE_NODE_CONDITION = auto()
    UPDATE_NODE_ANNOTATION = auto()
    UPDATE_NODE_DECLARED_FEATURE = auto()
    UPDATE_POD_LABEL = auto()
    UPDATE_POD_SCALE_DOWN = auto()
    """Any resource request went down."""
    UPDATE_POD_TOLERATION = auto()
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = auto()
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = auto()
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
    )
    ALL = ADD | DELETE | UPDATE


POD = "Pod"
NODE = "Node"
ANY = "*"
"""The resource of an event that concerns every pod, such as the periodic flush."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """Something that happened to an object of a kind.

    `resource` is the kind's name for Kubernetes' own (`Pod`, `Node`, `PersistentVolumeClaim`, ...), or
    `plural.version.group` for custom resources. `label` is what metrics and logs call it.
    """

    resource: str
    action: Action
    label: str = ""

    def matches(self, happened: ClusterEvent) -> bool:
        """Whether an event that happened is one of those that this one, as registered, stands for.

        An update of which nothing particular is known (UPDATE) is none of the particular updates, and an event that
        concerns every pod is matched by ALL_EVENTS alone. Mirrors MatchClusterEvents.
        """
        return self.resource in {ANY, happened.resource} and happened.action in self.action


class Hint(Enum):
    """What a hint says of an event."""

    QUEUE = "Queue"
    """The pod may fit now: look again."""
    SKIP = "QueueSkip"
    """The event does not help this pod."""


HintFunction = Callable[[PodInfo, Any, Any], Hint]
"""(pod that waits, old object or None, new object or None) -> hint. Pods come as PodInfo, others as their models.

A hint that raises counts as QUEUE.
"""


@dataclass(frozen=True, slots=True)
class EventHint:
    """An event that a plugin registers, and the hint to ask when it happens; without one it always helps."""

    event: ClusterEvent
    hint: HintFunction | None = None


ALL_EVENTS = ClusterEvent(ANY, Action.ALL)
"""What a plugin registers that says nothing of events: anything may help."""
