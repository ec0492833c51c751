"""Pods and nodes for the end-to-end tests, as documents that a user might write."""

from typing import Any

NAME = "bayplan-scheduler"
HOSTNAME = "kubernetes.io/hostname"


def pod(name: str, cpu: str = "100m", *, scheduler: str = NAME, **spec: Any) -> dict[str, Any]:
    """A pod of one container that requests `cpu`. `spec` is added to the pod's; `port` is a host port."""
    container: dict[str, Any] = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    if port := spec.pop("port", None):
        container["ports"] = [{"containerPort": port, "hostPort": port}]
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": scheduler, "containers": [container], **spec},
    }


def pods(prefix: str, count: int, cpu: str = "100m") -> list[dict[str, Any]]:
    return [pod(f"{prefix}-{number:04d}", cpu) for number in range(count)]


def node_affinity(key: str, operator: str, *values: str) -> dict[str, Any]:
    expression: dict[str, Any] = {"key": key, "operator": operator}
    if values:
        expression["values"] = list(values)
    terms = [{"matchExpressions": [expression]}]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def amounts(cpu: str, memory: str = "8Gi", most_pods: str = "110") -> dict[str, str]:
    return {"cpu": cpu, "memory": memory, "pods": most_pods}
