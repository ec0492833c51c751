"""Resizes of running pods that their kubelets have deferred, and the gates that decide what a scheduler does with them.

Behind RESIZES_PREEMPT, such a pod is queued as if it were pending, and others are evicted on its node. ATOMIC_RESIZES
changes what a resized pod requests.
"""

from __future__ import annotations

from lightkube.models.core_v1 import Node

from bayplan.core.api.requests import may_count_otherwise
from bayplan.core.cluster.pod_info import PodInfo

ATOMIC_RESIZES = "AtomicResizes"
"""The change of 1.37 after which the resources of a resized pod count for the pod as a whole."""

APPLIED_TO_PODS = frozenset({ATOMIC_RESIZES})
"""Changes that are applied to pods when they are read: schedulers of two versions may read other pods."""

RESIZES_PREEMPT = "InPlacePodVerticalScalingSchedulerPreemption"
"""The gate behind which pods whose resize is deferred are scheduled, so that others are evicted for it."""
_KEY = (__name__, "deferred")
_PENDING = "PodResizePending"


def may_be_read_otherwise(pod: PodInfo) -> bool:
    """Whether APPLIED_TO_PODS may change how a pod counts. For most pods, their bytes show it without decoding."""
    raw = pod.raw
    status = raw.find(b'"status":{')  # the only field of a pod with this name that is an object
    known = raw[status:] if status >= 0 else b""
    return (b'esources":' in known or _PENDING.encode() in known) and may_count_otherwise(pod.object)


def resize_deferred(pod: PodInfo) -> bool:
    """Whether the pod's kubelet has put off a resize until the node has room for it.

    Mirrors IsPodResizeDeferred (component-helpers' resource/helpers.go), which reads the reason of the condition only.
    """
    found: bool | None = pod.cache.get(_KEY)
    if found is None:
        found = pod.cache[_KEY] = _PENDING.encode() in pod.raw and _reason(pod) == "Deferred"
    return found


def forbids_preemption_for_resizes(node: Node) -> bool:
    """Whether the node's policy forbids that its pods are evicted for a resize."""
    policy = node.spec.podPreemptionPolicy if node.spec is not None else None
    return policy is not None and bool(policy.disableResizePreemption)


def _reason(pod: PodInfo) -> str | None:
    return next((each.reason for each in pod.status.conditions or () if each.type == _PENDING), None)
