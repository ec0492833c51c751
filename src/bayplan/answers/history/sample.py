"""The cluster of the sample history: a small shop, with the workloads whose arrivals are made up from it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from lightkube.models.core_v1 import PodTemplateSpec

from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.objects import convert
from bayplan.core.api.well_known_labels import HOSTNAME, POD_TEMPLATE_HASH, REVISION, ZONE
from bayplan.core.expansion.rollout import pod_template_hash

TAKEN = datetime(2026, 3, 2, 14, 0, tzinfo=UTC)
"""The moment of its snapshot: a Monday, at the peak of the day."""
_NAMESPACE = "shop"
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""What generated names end with."""
_SUFFIX = 5
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
        version = _version(name, cpu, memory)
        yield from _deployment(name, version, replicas, cpu, memory)
        owner = _owner("apps/v1", "ReplicaSet", f"{name}-{version}")
        for number in range(replicas):
            labels = {"app": name, POD_TEMPLATE_HASH: version}
            yield _pod(generated(owner["name"], str(number)), labels, owner, cpu, memory, nodes[place])
            place = (place + 1) % _NODES
    for name, (replicas, cpu, memory) in _DATABASES.items():
        yield _workload(
            "apps/v1", "StatefulSet", name, {"replicas": replicas, "serviceName": name, **_selecting(name, cpu, memory)}
        )
        for number in range(replicas):
            labels = {"app": name, "statefulset.kubernetes.io/pod-name": f"{name}-{number}"}
            owner = _owner("apps/v1", "StatefulSet", name)
            yield _pod(f"{name}-{number}", labels, owner, cpu, memory, nodes[place])
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
        HOSTNAME: name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node.kubernetes.io/instance-type": "m.2xlarge",
        ZONE: zone,
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


def generated(prefix: str, of: str) -> str:
    """A name as controllers generate them, which follows from `of`."""
    digest = blake2b(f"{prefix} {of}".encode(), digest_size=_SUFFIX).digest()
    return f"{prefix}-" + "".join(_LETTERS[byte % len(_LETTERS)] for byte in digest)


def _version(name: str, cpu: str, memory: str) -> str:
    """The hash of a Deployment's template, which its ReplicaSet and pods have in their names and labels."""
    return pod_template_hash(convert(PodTemplateSpec, _selecting(name, cpu, memory)["template"]), None)


def _deployment(name: str, version: str, replicas: int, cpu: str, memory: str) -> Iterator[dict[str, Any]]:
    spec = {"replicas": replicas, **_selecting(name, cpu, memory)}
    deployment = _workload("apps/v1", "Deployment", name, spec)
    deployment["metadata"]["annotations"] = {REVISION: "1"}
    yield deployment
    template = {**spec["template"], "metadata": {"labels": {"app": name, POD_TEMPLATE_HASH: version}}}
    selector = {"matchLabels": {"app": name, POD_TEMPLATE_HASH: version}}
    owned = _workload(
        "apps/v1", "ReplicaSet", f"{name}-{version}", {"replicas": replicas, "selector": selector, "template": template}
    )
    owned["metadata"] |= {
        "annotations": {REVISION: "1"},
        "labels": selector["matchLabels"],
        "ownerReferences": [_owner("apps/v1", "Deployment", name)],
    }
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


def _pod(name: str, labels: dict[str, str], owner: dict[str, Any], cpu: str, memory: str, node: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": _NAMESPACE,
            "uid": f"uid-{name}",
            "labels": labels,
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
