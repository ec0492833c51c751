#!/usr/bin/env python3
"""Measures how many pods per second the decision core places with a filter and a score function.

    benchmarks/function_plugins.py             # 5,000 nodes, 1,000 pods of one template
    benchmarks/function_plugins.py --nodes 500

Each function is called node by node: first undeclared, then declared pure. Without `pure=True`, filtering stops when
enough nodes are feasible (percentageOfNodesToScore), as in a running scheduler. All times are CPU times.
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import time

from bayplan import NodeInfo, PodInfo, filter_plugin, score_plugin
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.config import default_profile
from bayplan.core.scheduling import Rotation, decide
from bayplan.core.sharing import Sharing
from bayplan.foundations.heap import keep_heap
from bayplan.testing import make_cluster, make_node, make_pod

TIER, PRICE = "example.com/tier", "example.com/price"


def tier(pod: PodInfo, node: NodeInfo) -> str | None:
    """Keep pods on the nodes of their tier."""
    return None if pod.labels.get(TIER) == node.labels.get(TIER) else "node is of another tier"


def cheap(_: PodInfo, node: NodeInfo) -> int:
    """Prefer cheap nodes with free CPU."""
    return (100 - int(node.labels[PRICE]) + min(100, node.allocatable_of("cpu") - node.requested_of("cpu"))) // 2


def main() -> None:
    """Measure undeclared and pure functions, and print pods per second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    keep_heap()
    figures = {name: _measure(options.nodes, options.pods, pure=name == "pure") for name in ("undeclared", "pure")}
    if options.json:
        print(json.dumps(figures))
    else:
        print("\n".join(f"{name:12} {rate:8,.0f} pods/s" for name, rate in figures.items()))


def _measure(nodes: int, pods: int, *, pure: bool) -> float:
    """Return the pods that are decided and assumed per second of CPU time."""
    state = make_cluster(*(_node(number) for number in range(nodes))).state
    plugins = [filter_plugin(pure=pure)(tier), score_plugin(pure=pure)(cheap)]
    profile = default_profile("default-scheduler", OfflineHandle(state), plugins)
    sharing, rotation, rng = Sharing(profile), Rotation(), random.Random(0)
    gc.collect()
    gc.freeze()
    seconds = 0.0
    for number in range(pods):
        pod = make_pod(f"web-{number}", cpu="100m", memory="100Mi", labels={TIER: "web"})
        began = time.process_time()
        decision = decide(profile, state, pod, rng, start=sharing.start, rotation=rotation)
        assert decision.node is not None
        state.assume(pod, decision.node)
        seconds += time.process_time() - began
    gc.unfreeze()
    return pods / seconds


def _node(number: int) -> object:
    """A node: nine of ten are of the pods' tier."""
    labels = {TIER: "web" if number % 10 else "control", PRICE: str(number % 100)}
    return make_node(f"node-{number}", cpu="32", memory="128Gi", labels=labels)


if __name__ == "__main__":
    main()
