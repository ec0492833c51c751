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
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bayplan.insight import Changes, Insight, Snapshot
from process_usage import peak_mib
from served_cluster import served
from workload_cluster import NODES, PENDING, RUNNING, cluster, pod, scaled

COPIES, DRAINED = 100_000, 100


def main() -> None:
    """Ask each question once, and print the figures."""
    options = _options()
    scale = options.scale
    report = Report(options.only)
    nodes, pending, drained = scaled(NODES, scale), scaled(PENDING, scale), scaled(DRAINED, scale)
    print(f"{nodes:,} nodes, {scaled(RUNNING, scale):,} running pods, {pending:,} pending pods")
    with tempfile.TemporaryDirectory(prefix="bayplan-benchmark-") as folder:
        file = Path(folder) / "cluster.snapshot"
        with served(Path(folder), cluster, scale, pending) as kubeconfig:
            snapshot = report.time("snapshot from a server", lambda: Snapshot.from_cluster(kubeconfig))
        if snapshot is None:
            snapshot = Snapshot.of(cluster(scale, pending))
        report.time("saving a snapshot", lambda: snapshot.save(file))
        if file.exists():
            snapshot = report.time("snapshot from a file", lambda: Snapshot.open(file)) or snapshot
    insight = report.time("first question", lambda: _asked(snapshot)) or _asked(snapshot)
    report.time("explain a pending pod", lambda: insight.explain("default/pending-0"))
    report.time("explain a running pod", lambda: insight.explain("default/running-0"))
    report.time("explain all pending pods", insight.explain_all)
    report.time("why-not", lambda: insight.why_not("default/pending-1", "node-1"))
    report.time("fit", lambda: insight.fit([pod(f"new-{number}", number) for number in range(100)]))
    copies = scaled(COPIES, scale)
    report.time(f"capacity of {copies:,}", lambda: insight.capacity([pod("copy", 0)], most=copies))
    names = [f"node-{number * nodes // drained}" for number in range(drained)]
    report.time(f"drain of {drained} nodes", lambda: insight.drain(names))
    report.time("shrink", insight.shrink)
    report.time(f"what-if without {drained} nodes", lambda: insight.what_if(Changes(remove_nodes=names)))
    report.time("scale-up", insight.scale_up)
    large = [pod(f"large-{number}", 0) for number in range(100)]
    for each in large:
        each["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "30"
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


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="the part of the cluster's size; default: 1")
    parser.add_argument("--only", default="", help="run the steps with this text in their names")
    return parser.parse_args()


if __name__ == "__main__":
    main()
