#!/usr/bin/env python3
"""Measures how many pods per second the decision core places with a plugin of scheduler-plugins, beside plain pods.

    benchmarks/scheduler_plugins.py                             # all of them, 5,000 nodes, 2,000 pods
    benchmarks/scheduler_plugins.py --plugin Peaks --nodes 500

Each plugin has what it decides by: loads of all nodes, AppGroups with placed pods, seccomp profiles. It runs in
addition to the default plugins, and takes turns of 100 pods with these alone, so that a slow moment of the machine
counts for both. A pod is decided and assumed; all times are CPU times. Prints pods per second, and the fraction of
plain pods.
"""

from __future__ import annotations

import argparse
import json
import random
import time
import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.config import build_profiles, parse_configuration
from bayplan.core.scheduling import Rotation, decide
from bayplan.core.sharing import Sharing
from bayplan.foundations.heap import keep_heap
from bayplan.plugin import CustomObject, PodInfo
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan_plugins.network_aware.groups import (
    APP_GROUPS,
    GROUP_LABEL,
    NETWORK_TOPOLOGIES,
    REGION,
    WORKLOAD_LABEL,
    ZONE,
)
from turns import rates_in_turns

WATCHER = {"watcherAddress": "http://watcher"}
ARGUMENTS: Mapping[str, Mapping[str, Any]] = {
    "NodeResourcesAllocatable": {"mode": "Most"},
    "NodeMetadata": {
        "metadataKey": "example.com/price",
        "metadataSource": "Label",
        "metadataType": "Number",
        "scoringStrategy": "Lowest",
    },
    "TargetLoadPacking": WATCHER,
    "LoadVariationRiskBalancing": WATCHER,
    "LowRiskOverCommitment": WATCHER,
    "Peaks": {**WATCHER, "nodePowerModel": {f"node-{at}": {"k0": 400, "k1": -90, "k2": -0.07} for at in range(5000)}},
    "PreemptionToleration": {},
    "NetworkOverhead": {"networkTopologyName": "costs"},
    "SySched": {"defaultProfileName": "profile-0"},
    "PodState": {},
}
POST_FILTER = frozenset({"PreemptionToleration"})


class Measured:
    """A cluster with a profile. `seconds`: of CPU that its pods took."""

    def __init__(self, plugin: str | None, nodes: int) -> None:
        self.state = make_cluster(*(_node(at) for at in range(nodes))).state
        handle = OfflineHandle(self.state)
        (self._profile,) = build_profiles(parse_configuration(_configuration(plugin)), handle).values()
        if plugin is not None:
            _fill(handle, nodes)
        for pod in _placed(nodes):
            self.state.set_pod(pod)
        self._start = Sharing(self._profile).start
        self._rotation, self._random = Rotation(), random.Random(0)
        self.seconds = 0.0

    def place(self, numbers: Iterable[int]) -> None:
        """Decide and assume pods."""
        pods = [_pod(number) for number in numbers]
        began = time.process_time()
        for pod in pods:
            decision = decide(self._profile, self.state, pod, self._random, start=self._start, rotation=self._rotation)
            assert decision.node is not None
            self.state.assume(pod, decision.node)
        self.seconds += time.process_time() - began


def main() -> None:
    """Measure each plugin beside plain pods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=2000)
    parser.add_argument("--plugin", choices=ARGUMENTS, action="append", help="measure these plugins only")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    keep_heap()
    figures = {}
    for name in options.plugin or ARGUMENTS:
        plain, with_plugin = Measured(None, options.nodes), Measured(name, options.nodes)
        of, rate = rates_in_turns(options.pods, plain, with_plugin)
        figures[name] = {"plain": of, "plugin": rate}
        if not options.json:
            print(f"{name:28} {rate:8,.0f} pods/s of {of:8,.0f} ({rate / of:.2f})", flush=True)
    if options.json:
        print(json.dumps(figures))


def _configuration(plugin: str | None) -> dict[str, Any]:
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    if plugin is None:
        return {**head, "profiles": [{}]}
    enabled = [{"name": plugin}]
    plugins = (
        {"postFilter": {"enabled": enabled, "disabled": [{"name": "*"}]}}
        if plugin in POST_FILTER
        else {"multiPoint": {"enabled": enabled}}
    )
    arguments = [{"name": plugin, "args": ARGUMENTS[plugin]}] if ARGUMENTS[plugin] else []
    return {**head, "profiles": [{"plugins": plugins, "pluginConfig": arguments}]}


def _fill(handle: OfflineHandle, nodes: int) -> None:
    """Put what the plugins decide by: objects that only one of them reads are of no weight for the others."""
    draw = random.Random(1)
    loads = {
        f"node-{at}": [load := draw.uniform(5, 60), load, draw.uniform(1, 8), draw.uniform(5, 60), draw.uniform(1, 8)]
        for at in range(nodes)
    }
    for feed in handle.feeds.values():
        key = f"load-watcher-{zlib.crc32(WATCHER['watcherAddress'].encode()):08x}"
        feed.put(key, {"end": 1_790_000_000, "nodes": loads})
    dependencies = [{"workload": {"selector": "db"}, "maxNetworkCost": 50}]
    workloads = [{"workload": {"selector": "web"}, "dependencies": dependencies}]
    metadata = {"name": "shop", "namespace": "default"}
    handle.objects(APP_GROUPS).set("default/shop", CustomObject(metadata=metadata, spec={"workloads": workloads}))
    zones = [
        {"origin": f"z{a}", "costList": [{"destination": f"z{b}", "networkCost": abs(a - b)} for b in range(20)]}
        for a in range(20)
    ]
    parts = [{"topologyKey": ZONE, "originList": zones}]
    topology = {"weights": [{"name": "UserDefined", "topologyList": parts}]}
    handle.objects(NETWORK_TOPOLOGIES).set("default/costs", CustomObject(metadata={"name": "costs"}, spec=topology))
    for number in range(5):
        calls = [f"call-{number + at}" for at in range(100)]
        profile = CustomObject(
            metadata={"name": f"profile-{number}", "namespace": "default"},
            spec={"syscalls": [{"action": "SCMP_ACT_ALLOW", "names": calls}]},
        )
        profiles = "seccompprofiles.v1beta1.security-profiles-operator.x-k8s.io"
        handle.objects(profiles).set(f"default/profile-{number}", profile)


def _node(number: int) -> Any:
    labels = {"example.com/price": str(number % 100), REGION: "r", ZONE: f"z{number % 20}"}
    return make_node(f"node-{number}", cpu="32", memory="128Gi", labels=labels)


def _placed(nodes: int) -> Iterable[PodInfo]:
    """Two pods on each node."""
    for number in range(2 * nodes):
        labels = {GROUP_LABEL: "shop", WORKLOAD_LABEL: "db"} if number < 40 else {}
        yield make_pod(
            f"old-{number}",
            cpu="500m",
            memory="1Gi",
            node=f"node-{number % nodes}",
            labels=labels,
            status={"startTime": "2026-01-01T00:00:00Z"},
            spec={"securityContext": _context(number)},
        )


def _pod(number: int) -> PodInfo:
    labels = {GROUP_LABEL: "shop", WORKLOAD_LABEL: "web"}
    spec = {"securityContext": _context(0)}
    return make_pod(f"web-{number}", cpu="100m", memory="100Mi", labels=labels, spec=spec)


def _context(number: int) -> dict[str, Any]:
    path = f"operator/default/profile-{number % 5}.json"
    return {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}


if __name__ == "__main__":
    main()
