#!/usr/bin/env python3
"""Measures what names that tenants choose leave behind after they come and go.

    benchmarks/tenants.py                    # 5,000 nodes, 20,000 running pods

After each kind of names, the benchmark prints the memory of the process, the time to update a node, the time to add and
remove a pod, and the time of a decision. All times are CPU times.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import os
import random
import time
from collections.abc import Callable
from statistics import median
from typing import Any

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import build_profile, parse_configuration
from bayplan.core.framework.profile import Profile
from bayplan.core.scheduling import decide
from bayplan.testing import make_node, make_pod
from process_usage import resident_mib

APPS, ZONES = 500, 10
ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


class Tenants:
    """A cluster, and tenants that make names."""

    def __init__(self, nodes: int, pods: int) -> None:
        self.state = ClusterState()
        self.profile: Profile = build_profile(parse_configuration(CONFIGURATION).profiles[0], OfflineHandle(self.state))
        for number in range(nodes):
            self.state.set_node(_node(f"node-{number}", number))
        for number in range(pods):
            labels = {"app": f"app-{number % APPS}"}
            self.state.set_pod(make_pod(f"p{number}", cpu="10m", node=f"node-{number % nodes}", labels=labels))

    def selector_keys(self, number: int) -> None:
        """Decide pods that each have a nodeSelector with a key of its own."""
        for each in range(number):
            self._decide(make_pod(f"selecting-{each}", node_selector={f"key-{each}": "a"}))

    def node_names(self, number: int) -> None:
        """Add and remove nodes, each with a name and a label key of its own, a hundred at a time."""
        for start in range(0, number, 100):
            names = [f"scaled-{each}" for each in range(start, start + 100)]
            for each, name in enumerate(names):
                self.state.set_node(make_node(name, labels={ZONE: "zone-1", f"pool-{start + each}": "yes"}))
            self._decide(make_pod(f"on-scaled-{start}", node_selector={f"pool-{start}": "yes"}))
            for name in names:
                self.state.remove_node(name)

    def label_values(self, number: int) -> None:
        """Add and remove pods that each have a label of their own, all at once."""
        pods = [make_pod(f"own-{each}", node="node-1", labels={f"k{each}": f"v{each}"}) for each in range(number)]
        self._come_and_go(pods)

    def resources_and_ports(self, number: int) -> None:
        """Add and remove pods that each request a resource of their own and use a host port of their own."""
        pods = [
            make_pod(f"r{each}", node="node-2", resources={f"example.com/r{each}": "1"}, host_ports=[1024 + each])
            for each in range(number)
        ]
        self._come_and_go(pods)

    def spread_selectors(self, number: int) -> None:
        """Decide pods that each spread over nodes with a selector of their own."""
        for each in range(number):
            spread = {"topologyKey": HOSTNAME, "maxSkew": 100, "whenUnsatisfiable": "DoNotSchedule"}
            selector = {"matchExpressions": [{"key": "app", "operator": "In", "values": [f"app-{each}", f"s{each}"]}]}
            self._decide(make_pod(f"spread-{each}", spread=[{**spread, "labelSelector": selector}]))

    def changes(self, number: int) -> None:
        """Add and remove plain pods, during which unused selectors are dropped."""
        for each in range(number // 2):
            pod = make_pod(f"change-{each}", node="node-3", labels={"app": "app-1"})
            self.state.set_pod(pod)
            self.state.remove_pod(pod.uid)

    def figures(self) -> str:
        """Return the memory and the times."""
        gc.collect()
        ctypes.CDLL("libc.so.6").malloc_trim(0)
        memory = resident_mib(os.getpid())
        nodes = [_node("node-7", number, heartbeat=str(number)) for number in range(51)]
        pods = [make_pod(f"next-{number}", node="node-8", labels={"app": "app-1"}) for number in range(51)]
        plain = [make_pod(f"plain-{number}", labels={"plain": str(number)}) for number in range(11)]

        def add_and_remove(pod: Any) -> None:
            self.state.set_pod(pod)
            self.state.remove_pod(pod.uid)

        update = _microseconds(self.state.set_node, nodes)
        change = _microseconds(add_and_remove, pods)
        decision = _microseconds(self._decide, plain) / 1000
        return f"{memory:8.0f} MiB  node {update:7.0f} µs  pod {change:6.0f} µs  decision {decision:6.2f} ms"

    def _come_and_go(self, pods: list[Any]) -> None:
        for pod in pods:
            self.state.set_pod(pod)
        for pod in pods:
            self.state.remove_pod(pod.uid)

    def _decide(self, pod: Any) -> None:
        decide(self.profile, self.state, pod, random.Random(0))


def main() -> None:
    """Let names come and go, and print the figures after each kind."""
    options = _options()
    tenants = Tenants(options.nodes, options.pods)
    steps: list[tuple[str, Callable[[int], None], int]] = [
        ("2,000 node selector keys", tenants.selector_keys, 2000),
        ("100,000 node names", tenants.node_names, 100_000),
        ("20,000 labels of pods", tenants.label_values, 20_000),
        ("1,000 resources and host ports", tenants.resources_and_ports, 1000),
        ("20,000 selectors of pods, in use", tenants.spread_selectors, 20_000),
        ("200,000 other pods since then", tenants.changes, 200_000),
    ]
    print(f"{'at first':34}{tenants.figures()}", flush=True)
    for name, step, number in steps:
        if options.only in name:
            began = time.process_time()
            step(number)
            took = time.process_time() - began
            print(f"{name:34}{tenants.figures()}  (took {took:.1f} s)", flush=True)


def _node(name: str, number: int, heartbeat: str = "") -> Any:
    node = make_node(name, labels={ZONE: f"zone-{number % ZONES}"})
    assert node.metadata is not None
    node.metadata.annotations = {"heartbeat": heartbeat}
    return node


def _microseconds(call: Callable[[Any], object], arguments: list[Any]) -> float:
    times = []
    for argument in arguments:
        began = time.process_time()
        call(argument)
        times.append(1e6 * (time.process_time() - began))
    return median(times)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=20000)
    parser.add_argument("--only", default="", help="run the steps with this text in their names")
    return parser.parse_args()


if __name__ == "__main__":
    main()
