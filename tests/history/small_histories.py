"""Small histories for the tests: objects as a watch reports them, and the folder that they make."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from bayplan.answers.history.following import Following, HistoryChange
from bayplan.answers.history.format import HistoryManifest
from bayplan.answers.history.writing import write_history
from bayplan.core.api.kinds import NODE, POD, PRIORITY_CLASS

BEGIN = datetime(2026, 3, 2, 8, 0, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def node(name: str, cpu: str = "4", **labels: str) -> dict[str, Any]:
    return {
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, "resourceVersion": "17"},
        "spec": {},
        "status": {
            "allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-03-02T08:00:00Z"}],
        },
    }


def pod(name: str, *, cpu: str = "500m", on: str = "", phase: str = "Pending", **status: Any) -> dict[str, Any]:
    token = f"kube-api-access-{abs(hash(name)) % 90000 + 10000}"
    spec: dict[str, Any] = {
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app:1",
                "resources": {"requests": {"cpu": cpu, "memory": "128Mi"}},
                "volumeMounts": [{"name": token, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}],
            }
        ],
        "volumes": [{"name": token, "projected": {"sources": []}}],
        "priority": 7,
    }
    if on:
        spec["nodeName"] = on
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-03-02T07:59:00Z",
            "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}],
        },
        "spec": spec,
        "status": {"phase": phase, **status},
    }


def small_changes() -> Iterator[HistoryChange]:
    """Two nodes and a bound pod at the start; then a pod that arrives, is bound and succeeds, and a node that goes."""
    following = Following()
    priority = {"metadata": {"name": "high"}, "value": 7}
    yield from following.put(PRIORITY_CLASS, priority, at(0), initial=True)
    for name in ("a", "b"):
        yield from following.put(NODE, node(name), at(0), initial=True)
    running = pod("old", on="a", phase="Running", startTime="2026-03-02T07:59:05Z")
    yield from following.put(POD, running, at(0), initial=True)
    yield from following.put(POD, pod("new"), at(10))
    yield from following.put(POD, pod("new", on="b"), at(11))
    yield from following.put(NODE, node("a", cpu="8"), at(20))
    yield from following.put(POD, pod("new", on="b", phase="Succeeded"), at(70))
    yield from following.removed(NODE, "a", at(80))
    yield from following.removed(POD, "default/new", at(90))


def write_small(folder: Path) -> HistoryManifest:
    return write_history(folder, small_changes(), source="a test")
