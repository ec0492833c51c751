"""Converts updates of objects to cluster events, and defines the events with special labels.

Most updates (heartbeats, statuses) don't affect scheduling, so comparing the old and the new object has to be
cheap. Mirrors pkg/scheduler/framework/events.go.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from lightkube.models.core_v1 import Node, NodeSpec, NodeStatus
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api import quantity
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import ANY, NODE, POD, Action, ClusterEvent

ASSIGNED_POD_ADD = ClusterEvent(POD, Action.ADD, "AssignedPodAdd")
ASSIGNED_POD_UPDATE = ClusterEvent(POD, Action.UPDATE, "AssignedPodUpdate")
ASSIGNED_POD_DELETE = ClusterEvent(POD, Action.DELETE, "AssignedPodDelete")
UNSCHEDULED_POD_ADD = ClusterEvent(POD, Action.ADD, "UnschedulablePodAdd")
UNSCHEDULED_POD_UPDATE = ClusterEvent(POD, Action.UPDATE, "UnschedulablePodUpdate")
UNSCHEDULED_POD_DELETE = ClusterEvent(POD, Action.DELETE, "UnschedulablePodDelete")
NODE_ADD = ClusterEvent(NODE, Action.ADD, "NodeAdd")
NODE_DELETE = ClusterEvent(NODE, Action.DELETE, "NodeDelete")
UNSCHEDULABLE_TIMEOUT = ClusterEvent(ANY, Action.ALL, "UnschedulableTimeout")
"""A pod has been unschedulable for so long that it is requeued without any other event."""
FORCE_ACTIVATE = ClusterEvent(ANY, Action.ALL, "ForceActivate")
"""A plugin activated a pod, or the pod turned out to be another one."""


@lru_cache(maxsize=1024)
def object_event(resource: str, action: Action) -> ClusterEvent:
    """Return the event for an object of a kind that was added, updated or deleted."""
    return ClusterEvent(resource, action, f"{resource}{_LABELS[action]}")


def pod_changes(old: PodInfo, new: PodInfo, *, scale_ups: bool = False) -> list[ClusterEvent]:
    """Return the events for an update of a pod; the general update event if no specific one applies.

    `scale_ups`: whether larger requests are an event, too. Mirrors PodSchedulingPropertiesChange.
    """
    assigned = bool(new.node_name)
    events = []
    if old.labels != new.labels:
        events.append(_pod_update(assigned, Action.UPDATE_POD_LABEL))
    if old.requested != new.requested:
        if _scaled_down(old, new):
            events.append(_pod_update(assigned, Action.UPDATE_POD_SCALE_DOWN))
        if scale_ups and _scaled_down(new, old):
            events.append(_pod_update(assigned, Action.UPDATE_POD_SCALE_UP))
    if old.scheduling_gates and not new.scheduling_gates:
        events.append(_pod_update(assigned, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED))
    old_tolerations, old_claims = _tolerations_and_claims(old)
    new_tolerations, new_claims = _tolerations_and_claims(new)
    if old_tolerations != new_tolerations:
        events.append(_pod_update(assigned, Action.UPDATE_POD_TOLERATION))
    if old_claims != new_claims:
        events.append(_pod_update(assigned, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM))
    if not assigned and _fixed_fields_changed(old, new):
        events.append(FORCE_ACTIVATE)
    return events or [ASSIGNED_POD_UPDATE if assigned else UNSCHEDULED_POD_UPDATE]


def _fixed_fields_changed(old: PodInfo, new: PodInfo) -> bool:
    """Return whether a pending pod has changed in what the API server lets no client change, unless a gate holds it.

    An earlier version was read wrongly then, as from a broken proxy. No event says what follows for the pod, because
    the hints have judged earlier events by the wrong version.
    """
    if old.spec is new.spec or old.scheduling_gates:
        return False
    return any(getattr(old.spec, name) != getattr(new.spec, name) for name in _FIXED_FIELDS) or (
        [container.ports for container in old.spec.containers] != [container.ports for container in new.spec.containers]
    )


_FIXED_FIELDS = (
    "affinity",
    "hostNetwork",
    "nodeSelector",
    "overhead",
    "priority",
    "resourceClaims",
    "topologySpreadConstraints",
    "volumes",
)


def only_status_changed(old: PodInfo, new: PodInfo) -> bool:
    """Return whether an update of a pending pod changes only its status, apart from its claims.

    The scheduler itself writes that, so it is no reason to retry the pod.
    """
    return (
        old.labels == new.labels
        and old.deletion_timestamp == new.deletion_timestamp
        and old.metadata.annotations == new.metadata.annotations
        and old.spec == new.spec
        and _tolerations_and_claims(old) == _tolerations_and_claims(new)
    )


def node_changes(old: Node, new: Node) -> list[ClusterEvent]:
    """Return the events for an update of a node; an empty list for a heartbeat.

    Cordoning a node is no event, because it cannot make a pod schedulable. Mirrors NodeSchedulingPropertiesChange.
    """
    old_spec, new_spec = old.spec or _NO_SPEC, new.spec or _NO_SPEC
    old_status, new_status = old.status or _NO_STATUS, new.status or _NO_STATUS
    old_metadata, new_metadata = old.metadata or _NO_METADATA, new.metadata or _NO_METADATA
    events = []
    if not _same_amounts(old_status.allocatable, new_status.allocatable):
        events.append(object_event(NODE, Action.UPDATE_NODE_ALLOCATABLE))
    if (old_metadata.labels or {}) != (new_metadata.labels or {}):
        events.append(object_event(NODE, Action.UPDATE_NODE_LABEL))
    uncordoned = bool(old_spec.unschedulable) and not new_spec.unschedulable
    if uncordoned or (old_spec.taints or []) != (new_spec.taints or []):
        events.append(object_event(NODE, Action.UPDATE_NODE_TAINT))
    if _condition_statuses(old_status) != _condition_statuses(new_status):
        events.append(object_event(NODE, Action.UPDATE_NODE_CONDITION))
    if (old_metadata.annotations or {}) != (new_metadata.annotations or {}):
        events.append(object_event(NODE, Action.UPDATE_NODE_ANNOTATION))
    if (old_status.declaredFeatures or []) != (new_status.declaredFeatures or []):
        events.append(object_event(NODE, Action.UPDATE_NODE_DECLARED_FEATURE))
    if old_spec.podPreemptionPolicy != new_spec.podPreemptionPolicy:
        events.append(object_event(NODE, Action.UPDATE_NODE_PREEMPTION_POLICY))
    return events


_NO_SPEC, _NO_STATUS, _NO_METADATA = NodeSpec(), NodeStatus(), ObjectMeta()

_LABELS = {
    action: "".join(part.capitalize() for part in name.split("_")) for name, action in Action.__members__.items()
}


@lru_cache(maxsize=64)
def _pod_update(assigned: bool, action: Action) -> ClusterEvent:
    return ClusterEvent(POD, action, f"{'Assigned' if assigned else 'Unschedulable'}Pod{_LABELS[action]}")


def _scaled_down(old: PodInfo, new: PodInfo) -> bool:
    return any(name not in new.requested or amount > new.requested[name] for name, amount in old.requested.items())


_FACTS = (__name__, "tolerations and claims")


def _tolerations_and_claims(pod: PodInfo) -> tuple[int, Any]:
    """Return the number of tolerations (which can only be added to), and the claims that were generated for the pod.

    They are cached with the pod, because the old version's decoded object may have been released already.
    """
    facts: tuple[int, Any] | None = pod.cache.get(_FACTS)
    if facts is None:
        whole = pod.object
        spec, status = whole.spec, whole.status
        tolerations = len(spec.tolerations or ()) if spec else 0
        claims = (status.resourceClaimStatuses or [], status.extendedResourceClaimStatus) if status else ([], None)
        facts = pod.cache[_FACTS] = (tolerations, claims)
    return facts


def _same_amounts(old: dict[str, str] | None, new: dict[str, str] | None) -> bool:
    """Whether two resource lists are equal, however their quantities are written (1 or 1000m)."""
    old, new = old or {}, new or {}
    if old == new:
        return True
    if old.keys() != new.keys():
        return False
    try:
        return all(quantity.parse(amount) == quantity.parse(new[name]) for name, amount in old.items())
    except quantity.InvalidQuantity:
        return False


def _condition_statuses(status: NodeStatus) -> dict[str, str]:
    return {condition.type: condition.status for condition in status.conditions or ()}
