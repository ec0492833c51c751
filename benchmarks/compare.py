#!/usr/bin/env python3
"""Measures `bayplan compare` on a made-up week of 1,000 nodes and about 100,000 pods, with an autoscaler.

    benchmarks/compare.py [--days N] [ARGUMENT ...]

Services of 12,000 pods grow and shrink over the day and roll out, and CronJobs run every hour. The arguments are those
of `bayplan compare`; without any, packing (MostAllocated) is the candidate. Prints the seconds and memory of the
command, which simulates the week twice, and its answer.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bayplan.answers.history.sources.synthesis import Synthesis, synthesize
from bayplan.answers.snapshots.snapshot import Snapshot

NODES = 1000
SERVICES = 120
REPLICAS = 100
CRON_JOBS = 25
RUNS = 17
ZONES = ("a", "b", "c")
PACKING = ("--set", "NodeResourcesFit.scoringStrategy.type=MostAllocated", "--autoscaler", "cluster-autoscaler")


def containers(cpu: str, memory: str) -> dict[str, Any]:
    """The containers of a pod with these requests."""
    return {
        "containers": [{"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu, "memory": memory}}}]
    }


def made(api_version: str, kind: str, name: str, namespace: str | None = "shop", **fields: Any) -> dict[str, Any]:
    """An object with a name and a uid."""
    metadata = {"name": name, "uid": f"{kind}-{name}"} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata | fields.pop("metadata", {})} | fields


def owner(api_version: str, kind: str, name: str) -> dict[str, Any]:
    """The reference to a controller that `made` made."""
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"{kind}-{name}", "controller": True}


def node(number: int) -> dict[str, Any]:
    """A node of 16 CPUs in one of three zones."""
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    labels = {
        "kubernetes.io/hostname": f"n{number}",
        "topology.kubernetes.io/zone": ZONES[number % 3],
        "node.kubernetes.io/instance-type": "m.4xlarge",
    }
    status = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
    return made("v1", "Node", f"n{number}", None, metadata={"labels": labels}, spec={}, status=status)


def service(name: str, cpu: str, memory: str, nodes: Iterator[int]) -> Iterator[dict[str, Any]]:
    """A Deployment, its ReplicaSet, and its pods on nodes."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": containers(cpu, memory)}
    spec = {"replicas": REPLICAS, "selector": {"matchLabels": labels}, "template": template}
    yield made("apps/v1", "Deployment", name, spec=spec)
    references = [owner("apps/v1", "Deployment", name)]
    yield made("apps/v1", "ReplicaSet", f"{name}-1", metadata={"ownerReferences": references}, spec=spec)
    references = [owner("apps/v1", "ReplicaSet", f"{name}-1")]
    for number in range(REPLICAS):
        yield made(
            "v1",
            "Pod",
            f"{name}-1-{number}",
            metadata={"labels": labels, "ownerReferences": references},
            spec={"nodeName": f"n{next(nodes)}", "schedulerName": "default-scheduler", **containers(cpu, memory)},
            status={"phase": "Running", "startTime": "2026-03-01T00:00:05Z"},
        )


def cron_job(name: str, minute: int, cpu: str, memory: str) -> dict[str, Any]:
    """Pods that run each hour."""
    template = {"metadata": {"labels": {"app": name}}, "spec": {"restartPolicy": "Never", **containers(cpu, memory)}}
    job = {"parallelism": RUNS, "completions": RUNS, "template": template}
    return made("batch/v1", "CronJob", name, spec={"schedule": f"{minute} * * * *", "jobTemplate": {"spec": job}})


def cluster() -> Snapshot:
    """The cluster that the week is made up from."""
    rng = random.Random(1)
    objects: list[dict[str, Any]] = [node(number) for number in range(NODES)]
    objects.append(made("v1", "Namespace", "shop", None))
    places = iter(range(SERVICES * REPLICAS))
    nodes = (place % NODES for place in places)
    for number in range(SERVICES):
        cpu, memory = rng.choice((("250m", "512Mi"), ("500m", "2Gi"), ("1", "2Gi"), ("2", "6Gi")))
        objects.extend(service(f"web-{number}", cpu, memory, nodes))
    objects.extend(
        cron_job(f"job-{number}", 2 * number, rng.choice("124"), rng.choice(("1Gi", "4Gi", "8Gi")))
        for number in range(CRON_JOBS)
    )
    return Snapshot.of(objects, source="a made-up cluster", taken=datetime(2026, 3, 2, 14, tzinfo=UTC))


def main() -> None:
    """Run what the arguments say."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--days", type=float, default=7.0)
    known, arguments = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as folder:
        history = Path(folder) / "history"
        began = time.monotonic()
        manifest, _ = synthesize(cluster(), history, Synthesis(days=known.days, rollout_days=20.0))
        print(f"history of {known.days:g} days in {time.monotonic() - began:.1f} s: {manifest.counts}", flush=True)
        command = [sys.executable, "-m", "bayplan", "compare", "--history", str(history), *(arguments or PACKING)]
        began = time.monotonic()
        process = subprocess.Popen(command)  # noqa: S603 - bayplan
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.monotonic() - began
        print(
            f"compare: {seconds:.0f} s, {used.ru_utime + used.ru_stime:.0f} s of CPU, {used.ru_maxrss // 1024} MiB, "
            f"exit status {os.waitstatus_to_exitcode(status)}"
        )


if __name__ == "__main__":
    main()
