"""The sample history: a week of a small shop, made up at first use, for those who have no history yet."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayplan.history.format import HistoryManifest
from bayplan.history.sources.synthesis import Synthesis, synthesize
from bayplan.insight.snapshot import Snapshot

TAKEN = datetime(2026, 3, 2, 14, 0, tzinfo=UTC)
"""The moment of its snapshot: a Monday, at the peak of the day."""
_NAMESPACE = "shop"
_ZONES = ("eu-1a", "eu-1b", "eu-1c")
_NODES = 24
_SERVICES = {
    # name -> replicas, cpu, memory
    "web": (18, "500m", "1Gi"),
    "checkout": (12, "750m", "1Gi"),
    "search": (10, "1500m", "4Gi"),
    "catalog": (12, "500m", "2Gi"),
    "images": (8, "1", "1Gi"),
    "recommendations": (6, "2", "6Gi"),
    "accounts": (8, "250m", "512Mi"),
    "emails": (4, "250m", "512Mi"),
    "gateway": (6, "1", "1Gi"),
    "reports": (3, "1", "3Gi"),
}
_DATABASES = {"orders-db": (3, "2", "8Gi"), "sessions": (3, "1", "4Gi")}
_CRON_JOBS = {
    # name -> schedule, pods, seconds, cpu, memory
    "sync-prices": ("*/15 * * * *", 2, 240, "1", "1Gi"),
    "export-orders": ("5 * * * *", 4, 900, "2", "4Gi"),
    "train-model": ("0 1 * * *", 8, 7200, "4", "12Gi"),
    "clean-up": ("30 3 * * *", 1, 1200, "500m", "512Mi"),
}


def write_sample(folder: Path, *, days: float = 7.0) -> HistoryManifest:
    """Write the sample history to a folder that is new or empty. It is the same each time. Raises HistoryError."""
    return synthesize(sample_snapshot(), folder, Synthesis(days=days, rollout_days=3.0))[0]


def sample_snapshot() -> Snapshot:
    """The cluster that the sample history is made up from: 24 nodes in three zones, and the workloads of a shop."""
    return Snapshot.of(_objects(), source="the sample cluster", taken=TAKEN)


def _objects() -> Iterator[dict[str, Any]]:
    nodes = [f"node-{number:02}" for number in range(1, _NODES + 1)]
    for number, name in enumerate(nodes):
        yield _node(name, _ZONES[number % len(_ZONES)])
    yield {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": _NAMESPACE}}
    place = 0
    for name, (replicas, cpu, memory) in _SERVICES.items():
        yield from _deployment(name, replicas, cpu, memory)
        for number in range(replicas):
            yield _pod(
                f"{name}-r1-{number}", name, _owner("apps/v1", "ReplicaSet", f"{name}-r1"), cpu, memory, nodes[place]
            )
            place = (place + 1) % _NODES
    for name, (replicas, cpu, memory) in _DATABASES.items():
        yield _workload(
            "apps/v1", "StatefulSet", name, {"replicas": replicas, "serviceName": name, **_selecting(name, cpu, memory)}
        )
        for number in range(replicas):
            yield _pod(f"{name}-{number}", name, _owner("apps/v1", "StatefulSet", name), cpu, memory, nodes[place])
            place = (place + 1) % _NODES
    for name, (schedule, pods, seconds, cpu, memory) in _CRON_JOBS.items():
        template = {
            "metadata": {"labels": {"app": name}},
            "spec": {"restartPolicy": "Never", **_containers(cpu, memory)},
        }
        job = {"parallelism": pods, "completions": pods, "template": template}
        yield _workload("batch/v1", "CronJob", name, {"schedule": schedule, "jobTemplate": {"spec": job}})
        yield _finished_job(name, job, seconds)


def _node(name: str, zone: str) -> dict[str, Any]:
    amounts = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "m.2xlarge",
        "topology.kubernetes.io/zone": zone,
        "topology.kubernetes.io/region": "eu-1",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels, "creationTimestamp": "2026-02-01T00:00:00Z"},
        "spec": {},
        "status": {
            "allocatable": amounts,
            "capacity": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def _containers(cpu: str, memory: str) -> dict[str, Any]:
    resources = {"requests": {"cpu": cpu, "memory": memory}}
    return {"containers": [{"name": "main", "image": "registry.example/app:1", "resources": resources}]}


def _selecting(name: str, cpu: str, memory: str) -> dict[str, Any]:
    template = {"metadata": {"labels": {"app": name}}, "spec": _containers(cpu, memory)}
    return {"selector": {"matchLabels": {"app": name}}, "template": template}


def _deployment(name: str, replicas: int, cpu: str, memory: str) -> Iterator[dict[str, Any]]:
    spec = {"replicas": replicas, **_selecting(name, cpu, memory)}
    yield _workload("apps/v1", "Deployment", name, spec)
    owned = _workload("apps/v1", "ReplicaSet", f"{name}-r1", spec)
    owned["metadata"]["ownerReferences"] = [_owner("apps/v1", "Deployment", name)]
    yield owned
    yield {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": _NAMESPACE},
        "spec": {"selector": {"app": name}, "ports": [{"port": 80}]},
    }
    if replicas >= 6:
        budget = {"maxUnavailable": "25%", "selector": {"matchLabels": {"app": name}}}
        yield _workload("policy/v1", "PodDisruptionBudget", name, budget)


def _workload(api_version: str, kind: str, name: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": name, "namespace": _NAMESPACE, "uid": f"uid-{kind}-{name}"},
        "spec": dict(spec),
    }


def _owner(api_version: str, kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{kind}-{name}", "controller": True}


def _pod(name: str, app: str, owner: dict[str, Any], cpu: str, memory: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": _NAMESPACE,
            "uid": f"uid-{name}",
            "labels": {"app": app},
            "ownerReferences": [owner],
            "creationTimestamp": "2026-03-01T00:00:00Z",
        },
        "spec": {"nodeName": node, "schedulerName": "default-scheduler", **_containers(cpu, memory)},
        "status": {"phase": "Running", "startTime": "2026-03-01T00:00:05Z"},
    }


def _finished_job(cron_job: str, spec: dict[str, Any], seconds: int) -> dict[str, Any]:
    """A Job that shows how long the runs of a CronJob take."""
    job = _workload("batch/v1", "Job", f"{cron_job}-29541600", spec)
    job["metadata"]["ownerReferences"] = [_owner("batch/v1", "CronJob", cron_job)]
    began = datetime(2026, 3, 2, tzinfo=UTC)
    ended = datetime.fromtimestamp(began.timestamp() + seconds, UTC)
    job["status"] = {"startTime": began.isoformat(), "completionTime": ended.isoformat(), "succeeded": 1}
    return job
