#!/usr/bin/env python3
"""Measures the questions of `bayplan.insight` on a large cluster: how long each takes, and the memory of the process.

    benchmarks/insight.py                    # 5,000 nodes, 50,000 pods
    benchmarks/insight.py --scale 0.1        # a tenth of everything
    benchmarks/insight.py --only drain       # the steps with this text in their names

The cluster is read from an API server in another process over loopback, and from a saved snapshot. 45,000 of the pods
run, and 5,000 of 50 kinds are pending. All times are elapsed times; quote them with the machine. The memory is the peak
of the process until then.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bayplan.insight import Changes, Insight, Snapshot
from process_usage import peak_mib
from served_cluster import served

NODES, RUNNING, PENDING, KINDS, COPIES, DRAINED = 5000, 45_000, 5000, 50, 100_000, 100
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WORKLOADS = 500

Document = dict[str, Any]


def main() -> None:
    """Ask each question once, and print the figures."""
    options = _options()
    scale = options.scale
    report = Report(options.only)
    nodes, drained = _scaled(NODES, scale), _scaled(DRAINED, scale)
    print(f"{nodes:,} nodes, {_scaled(RUNNING, scale):,} running pods, {_scaled(PENDING, scale):,} pending pods")
    with tempfile.TemporaryDirectory(prefix="bayplan-benchmark-") as folder:
        file = Path(folder) / "cluster.snapshot"
        with served(Path(folder), _cluster, scale) as kubeconfig:
            snapshot = report.time("snapshot from a server", lambda: Snapshot.from_cluster(kubeconfig))
        if snapshot is None:
            snapshot = Snapshot.of(_cluster(scale))
        report.time("saving a snapshot", lambda: snapshot.save(file))
        if file.exists():
            snapshot = report.time("snapshot from a file", lambda: Snapshot.open(file)) or snapshot
    insight = report.time("first question", lambda: _asked(snapshot)) or _asked(snapshot)
    report.time("explain a pending pod", lambda: insight.explain("default/pending-0"))
    report.time("explain a running pod", lambda: insight.explain("default/running-0"))
    report.time("explain all pending pods", insight.explain_all)
    report.time("why-not", lambda: insight.why_not("default/pending-1", "node-1"))
    report.time("fit", lambda: insight.fit([_pod(f"new-{number}", number) for number in range(100)]))
    copies = _scaled(COPIES, scale)
    report.time(f"capacity of {copies:,}", lambda: insight.capacity([_pod("copy", 0)], most=copies))
    names = [f"node-{number * nodes // drained}" for number in range(drained)]
    report.time(f"drain of {drained} nodes", lambda: insight.drain(names))
    report.time("shrink", insight.shrink)
    report.time(f"what-if without {drained} nodes", lambda: insight.what_if(Changes(remove_nodes=names)))
    report.time("scale-up", insight.scale_up)
    large = [_pod(f"large-{number}", 0) for number in range(100)]
    for pod in large:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "30"
    report.time("scale-up for 100 large pods", lambda: insight.scale_up(large))
    report.time("usage", insight.usage)
    report.time("balance", insight.balance)
    report.time("diff", lambda: insight.diff(_asked(snapshot.but(remove=[]))))
    report.time("what-if --replace-all", lambda: insight.what_if(Changes(replace_all=True)))


class Report:
    """Prints one line per step. `only`: a text in the names of the steps to run."""

    def __init__(self, only: str) -> None:
        self._only = only

    def time(self, name: str, step: Callable[[], Any]) -> Any:
        """Run a step and print its time; returns its result, or None if it isn't wanted."""
        if self._only not in name:
            return None
        began = time.perf_counter()
        result = step()
        took = time.perf_counter() - began
        print(f"{name:34}{took:8.2f} s {peak_mib(os.getpid()):8.0f} MiB", flush=True)
        return result


def _asked(snapshot: Snapshot) -> Insight:
    insight = Insight(snapshot)
    insight.explain("default/pending-0")
    return insight


# The cluster


def _cluster(scale: float) -> Iterator[Document]:
    nodes = _scaled(NODES, scale)
    for number in range(WORKLOADS):
        yield _owner(f"app-{number}")
    for number in range(nodes):
        yield _node(number)
    for number in range(_scaled(RUNNING, scale)):
        pod = _pod(f"running-{number}", number)
        pod["spec"]["nodeName"] = f"node-{number % nodes}"
        pod["status"] = {"phase": "Running"}
        yield pod
    for number in range(_scaled(PENDING, scale)):
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


def _owner(app: str) -> Document:
    """The ReplicaSet of pods: without it, the API server's garbage collector deletes them."""
    labels = {"app": app}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": f"{app}:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": app, "namespace": "default", "uid": app},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }


def _pod(name: str, number: int) -> Document:
    app = f"app-{number % WORKLOADS}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": app, "uid": app, "controller": True}
    requests = {"cpu": f"{100 + 50 * (number % 7)}m", "memory": f"{128 * (1 + number % 5)}Mi"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": app}, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "main", "image": f"{app}:1", "resources": {"requests": requests}}]},
        "status": {"phase": "Pending"},
    }


def _pending(number: int) -> Document:
    """A pod of one of the kinds: too large for all nodes, or for a label that no node has."""
    kind = number % KINDS
    pod = _pod(f"pending-{number}", kind)
    if kind % 2:
        pod["spec"]["nodeSelector"] = {"disk": f"nvme-{kind}"}
    else:
        pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = f"{33 + kind}"
    return pod


def _scaled(number: int, scale: float) -> int:
    return max(round(number * scale), 1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="the part of the cluster's size; default: 1")
    parser.add_argument("--only", default="", help="run the steps with this text in their names")
    return parser.parse_args()


if __name__ == "__main__":
    main()
