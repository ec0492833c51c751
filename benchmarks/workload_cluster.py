"""The cluster that questions and placements are measured on, as documents: nodes, running pods and pending pods."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

NODES, RUNNING, PENDING, KINDS = 5000, 45_000, 5000, 50
WORKLOADS = 500
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"

Document = dict[str, Any]


def cluster(scale: float, pending: int = 0) -> Iterator[Document]:
    """Yield the objects. `scale`: the part of the size. `pending`: how many pods of KINDS kinds fit nowhere."""
    nodes = scaled(NODES, scale)
    for number in range(WORKLOADS):
        yield owner(f"app-{number}", f"app-{number}:1")
    for number in range(nodes):
        yield _node(number)
    for number in range(scaled(RUNNING, scale)):
        running = pod(f"running-{number}", number)
        running["spec"]["nodeName"] = f"node-{number % nodes}"
        running["status"] = {"phase": "Running"}
        yield running
    for number in range(pending):
        yield _pending(number)


def _node(number: int) -> Document:
    room = {"cpu": "32", "memory": "128Gi", "pods": "110"}
    labels = {HOSTNAME: f"node-{number}", ZONE: f"zone-{number % 3}", "pool": f"pool-{number % 10}"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"node-{number}", "labels": labels},
        "spec": {"taints": [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}]} if number % 10 == 0 else {},
        "status": {"allocatable": room, "capacity": room},
    }


def owner(app: str, image: str) -> Document:
    """The ReplicaSet of pods: without it, the API server's garbage collector deletes them."""
    labels = {"app": app}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": image}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": app, "namespace": "default", "uid": app},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def owner_reference(app: str) -> Document:
    """The reference of a pod to its ReplicaSet."""
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}


def pod(name: str, number: int) -> Document:
    """A pod of one of the workloads, which fits on nodes."""
    app = f"app-{number % WORKLOADS}"
    requests = {"cpu": f"{100 + 50 * (number % 7)}m", "memory": f"{128 * (1 + number % 5)}Mi"}
    metadata = {"name": name, "namespace": "default", "labels": {"app": app}, "ownerReferences": [owner_reference(app)]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "main", "image": f"{app}:1", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending"},
    }


def _pending(number: int) -> Document:
    """A pod of one of the kinds: too large for all nodes, or for a label that no node has."""
    kind = number % KINDS
    waiting = pod(f"pending-{number}", kind)
    if kind % 2:
        waiting["spec"]["nodeSelector"] = {"disk": f"nvme-{kind}"}
    else:
        waiting["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{33 + kind}"
    return waiting


def scaled(number: int, scale: float) -> int:
    """The part of a number, at least 1."""
    return max(round(number * scale), 1)
