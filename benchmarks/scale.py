#!/usr/bin/env python3
"""Measures how a decision, the memory and the collector's pauses grow with the cluster.

    benchmarks/scale.py                              # 5,000 nodes, 50,000 pods
    benchmarks/scale.py --nodes 100000 --pods 1000000
    benchmarks/scale.py --new-selectors              # only selectors that no pod had before
    benchmarks/scale.py --json

Pods are decoded from JSON, decided, and assumed on their nodes, one after the other, as the scheduler does; all times
but those of the collector are CPU times. The pending pods are those of scheduler_perf: plain, with required affinity
to their own label within a zone, and spread over three zones. `--new-selectors` measures the first pod of each of many
selectors, and then a round robin over all of them, next to pods of a single one.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import fmean, median
from typing import Any

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import NODE
from bayplan.core.api.objects import convert, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import default_profile
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.foundations.collector import Collector
from bayplan.foundations.heap import keep_heap
from process_usage import peak_mib, resident_mib

ZONE = "topology.kubernetes.io/zone"
ZONES = 3
KINDS = ("plain", "affinity", "spreading")
_SPACE = {"cpu": "64", "memory": "512Gi", "pods": "400"}
_SINGLE = 2000
"""The number of pods of a single selector."""


class Cluster:
    """A cluster in memory, and the scheduler's decisions about it."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.state = ClusterState()
        self.profile = default_profile("default-scheduler", OfflineHandle(self.state))
        self.sharing = Sharing(self.profile)
        self._numbers = iter(range(10**9))
        self._rng = random.Random(0)
        for number in range(nodes):
            labels = {ZONE: f"zone-{number % ZONES}", "kubernetes.io/hostname": f"node-{number}"}
            document = {"metadata": {"name": f"node-{number}", "labels": labels}, "status": {"allocatable": _SPACE}}
            self.state.set_node(convert(NODE.type, document))
        for number in range(pods):
            bound = PodInfo.from_raw(self.pod("plain", node=f"node-{number % nodes}"))
            bound.release()
            self.state.set_pod(bound)

    def pod(self, kind: str, app: str = "", node: str = "") -> bytes:
        """Return the JSON of a new pod."""
        number = next(self._numbers)
        selector = {"matchLabels": {"app": app or kind}}
        spec: dict[str, Any] = {
            "containers": [
                {
                    "name": "pause",
                    "image": "registry.k8s.io/pause:3.10.2",
                    "resources": {"requests": {"cpu": "100m", "memory": "500Mi"}},
                }
            ]
        }
        if node:
            spec["nodeName"] = node
        if kind == "affinity":
            term = {"labelSelector": selector, "topologyKey": ZONE}
            spec["affinity"] = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
        if kind == "spreading":
            constraint = {"maxSkew": 5, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule"}
            spec["topologySpreadConstraints"] = [{**constraint, "labelSelector": selector}]
        metadata = {"name": f"{kind}-{number}", "namespace": "default", "uid": f"{number:032x}"}
        return encode({"metadata": {**metadata, "labels": {"app": app or kind}}, "spec": spec})

    def place(self, raw: bytes) -> float:
        """Decode, decide and assume a pod. Returns the CPU time."""
        began = time.process_time()
        pod = PodInfo.from_raw(raw)
        decision = decide(self.profile, self.state, pod, self._rng, start=self.sharing.start)
        if not decision.node:
            raise SystemExit(f"{pod.key}: {decision.message}")
        self.state.assume(pod, decision.node)
        return time.process_time() - began


def main() -> None:
    """Build a cluster, measure, and print the figures."""
    options = _options()
    keep_heap()
    gc.disable()  # as the scheduler does until it knows the cluster
    began = time.process_time()
    cluster = Cluster(options.nodes, options.pods)
    build = time.process_time() - began
    collector = Collector()
    collector.begin()
    figures: dict[str, float] = {"nodes": options.nodes, "pods": options.pods, "build_seconds": build}
    with _pauses() as pauses:
        if options.new_selectors:
            figures |= _new_selectors(cluster, options.selectors)
        else:
            figures |= _decisions(cluster, options.decisions)
    collector.end()
    figures["longest_pause_ms"] = 1000 * max(pauses, default=0.0)
    figures["memory_mib"] = resident_mib(os.getpid())
    figures["peak_mib"] = peak_mib(os.getpid())
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24} {value:12,.1f}")


def _decisions(cluster: Cluster, number: int) -> dict[str, float]:
    """Return the average time of a decision by kind of pod, in microseconds."""
    figures = {}
    for kind in KINDS:
        pods = [cluster.pod(kind) for _ in range(number)]
        for raw in pods[: number // 10]:
            cluster.place(raw)
        times = [cluster.place(raw) for raw in pods[number // 10 :]]
        figures[f"{kind}_us"] = 1e6 * fmean(times)
    return figures


def _new_selectors(cluster: Cluster, number: int) -> dict[str, float]:
    """Return the time of the first pod of a selector, of one of many selectors, and of a single one, in microseconds.

    The pods spread over zones. Each selector is that of another application.
    """
    first = [cluster.place(cluster.pod("spreading", f"app-{each}")) for each in range(number)]
    many = [cluster.place(cluster.pod("spreading", f"app-{each}")) for each in range(number) for _ in range(1)]
    one = [cluster.place(cluster.pod("spreading", "app-0")) for _ in range(_SINGLE)]
    return {"first_us": 1e6 * median(first), "robin_us": 1e6 * fmean(many), "single_us": 1e6 * fmean(one)}


@contextmanager
def _pauses() -> Iterator[list[float]]:
    """Collect the durations of the collector's runs, in seconds."""
    seconds: list[float] = []
    began = 0.0

    def note(phase: str, _: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.perf_counter()
        else:
            seconds.append(time.perf_counter() - began)

    gc.callbacks.append(note)
    try:
        yield seconds
    finally:
        gc.callbacks.remove(note)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=50_000)
    parser.add_argument("--decisions", type=int, default=2000, help="the number of pods of each kind")
    parser.add_argument("--new-selectors", action="store_true")
    parser.add_argument("--selectors", type=int, default=20_000)
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    main()
