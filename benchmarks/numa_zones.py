#!/usr/bin/env python3
"""Measures what NodeResourceTopologyMatch costs: pods per second of the decision core with and without it.

    benchmarks/numa_zones.py                 # 5,000 nodes with 2 zones, 2,000 pods of 4 kinds

Pods are decided and assumed one after the other, as by the scheduler, in turns with pods of a profile without the
plugin, so that a slow moment of the machine counts for both. `told`: after each placement, the API server reports a
newer topology of the node. All times are CPU times.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterable
from typing import Any

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import custom_kind
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import build_profile, parse_configuration
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import Point
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.foundations.heap import keep_heap
from bayplan.testing import make_node, make_pod
from turns import rates_in_turns

NAME = "NodeResourceTopologyMatch"
TOPOLOGIES = "noderesourcetopologies.v1alpha2.topology.node.k8s.io"
KIND = custom_kind(TOPOLOGIES)
SIZES = ("1", "2", "500m", "4")


def main() -> None:
    """Print a line for each kind of cache and strategy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--zones", type=int, default=2)
    parser.add_argument("--pods", type=int, default=2000)
    asked = parser.parse_args()
    keep_heap()
    over = {"cacheResyncPeriodSeconds": 5}
    for name, args, told, scope in (
        ("Passthrough, pod scope", {}, False, "SingleNUMANodePodLevel"),
        ("Passthrough, container scope", {}, False, "SingleNUMANodeContainerLevel"),
        ("Passthrough, told", {}, True, "SingleNUMANodePodLevel"),
        ("OverReserve", over, False, "SingleNUMANodePodLevel"),
        ("OverReserve, told", over, True, "SingleNUMANodePodLevel"),
        ("LeastNUMANodes", {"scoringStrategy": {"type": "LeastNUMANodes"}}, False, "BestEffortPodLevel"),
    ):
        plain = Measured(asked, None, policy=scope)
        with_plugin = Measured(asked, args, told=told, policy=scope)
        of, rate = rates_in_turns(asked.pods, plain, with_plugin)
        print(f"{name:<30} {rate:8,.0f} pods/s of {of:8,.0f}  {rate / of:5.2f}", flush=True)


class Measured:
    """A cluster with a profile. `seconds`: of CPU that its pods took."""

    def __init__(
        self, asked: argparse.Namespace, args: dict[str, Any] | None, *, told: bool = False, policy: str = ""
    ) -> None:
        self._state = state = ClusterState()
        self._zones, self._policy, self._told = asked.zones, policy, told
        for number in range(asked.nodes):
            state.set_node(make_node(f"node-{number}", cpu="64", memory="256Gi"))
            state.objects[KIND].set(f"node-{number}", topology(f"node-{number}", asked.zones, policy))
        document = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        plugins = {"multiPoint": {"enabled": [{"name": NAME}]}} if args is not None else {}
        profile_of = {"plugins": plugins, "pluginConfig": [{"name": NAME, "args": args}] if args is not None else []}
        self._profile = build_profile(
            parse_configuration({**document, "profiles": [profile_of]}).profiles[0], OfflineHandle(state)
        )
        self._start, self._random = Sharing(self._profile).start, random.Random(0)
        self._reserving = [plugin for plugin in self._profile.at(Point.RESERVE) if plugin.name == NAME]
        self.seconds = 0.0

    def place(self, numbers: Iterable[int]) -> None:
        """Decide and assume pods."""
        pods = [pod(f"p{number}", SIZES[number // 8 % len(SIZES)]) for number in numbers]
        began = time.process_time()
        for each in pods:
            decision = decide(self._profile, self._state, each, self._random, start=self._start)
            assert decision.node, decision.message
            self._state.assume(each, decision.node)
            for plugin in self._reserving:
                plugin.reserve(CycleState(), each, decision.node)
            if self._told:
                newer = topology(decision.node, self._zones, self._policy, left="31")
                self._state.objects[KIND].set(decision.node, newer)
        self.seconds += time.process_time() - began


def topology(name: str, zones: int, policy: str, left: str = "32") -> CustomObject:
    """The topology of a node."""
    amounts = {"cpu": left, "memory": "128Gi"}
    resources = [{"name": each, "capacity": v, "allocatable": v, "available": v} for each, v in amounts.items()]
    listed = [{"name": f"node-{number}", "type": "Node", "resources": resources} for number in range(zones)]
    return CustomObject({"metadata": {"name": name}, "topologyPolicies": [policy], "zones": listed})


def pod(name: str, cpu: str) -> PodInfo:
    """A guaranteed pod."""
    return make_pod(name, resources={"cpu": cpu, "memory": "1Gi"})


if __name__ == "__main__":
    main()
