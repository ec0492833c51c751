"""Taints that a controller keeps on a node: their removal doesn't last, and pods that tolerate them don't run.

Explanations say why a taint would come back. A hypothetical new node doesn't have the taints of a moment.
"""

from __future__ import annotations

from types import MappingProxyType

from bayplan.core.api.tolerations import Taint
from bayplan.core.cluster.nodes import NodeInfo

_CONDITIONS = MappingProxyType(
    {
        "node.kubernetes.io/not-ready": ("Ready", "False"),
        "node.kubernetes.io/unreachable": ("Ready", "Unknown"),
        "node.kubernetes.io/memory-pressure": ("MemoryPressure", "True"),
        "node.kubernetes.io/disk-pressure": ("DiskPressure", "True"),
        "node.kubernetes.io/pid-pressure": ("PIDPressure", "True"),
        "node.kubernetes.io/network-unavailable": ("NetworkUnavailable", "True"),
    }
)
"""The condition of a node, and its status, for which the node lifecycle controller sets a taint."""
_LEAVING = MappingProxyType(
    {
        "ToBeDeletedByClusterAutoscaler": "Cluster Autoscaler is deleting the node",
        "karpenter.sh/disrupted": "Karpenter is deleting the node",
        "karpenter.sh/disruption": "Karpenter is deleting the node",
        "karpenter.sh/unregistered": "the node has not joined the cluster yet",
        "node.cloudprovider.kubernetes.io/shutdown": "the node's machine is shut down",
        "node.cloudprovider.kubernetes.io/uninitialized": "the cloud provider has not initialized the node yet",
    }
)
"""What other taints say of a node that comes or goes."""


def is_of_a_moment(key: str) -> bool:
    """Return whether a taint belongs to one node for some time, and not to a pool: a new node doesn't have it."""
    return key.startswith("node.kubernetes.io/") or key in _LEAVING


def reason_of(node: NodeInfo, taint: Taint) -> str:
    """Return why a taint would come back, or its node goes, in parentheses after a space; "" if neither is known."""
    if taint[0] in _LEAVING:
        return f" ({_LEAVING[taint[0]]})"
    wanted = _CONDITIONS.get(taint[0])
    status = node.object.status
    for each in (status.conditions if status is not None else None) or ():
        if wanted == (each.type, each.status):
            why = f": {each.message or each.reason}" if each.message or each.reason else ""
            return f" (the taint stays while the node's condition {each.type} is {each.status}{why})"
    return ""
