#!/usr/bin/env python3
"""Measures how long the decision core takes to decide a preemption, in milliseconds.

    benchmarks/preemption.py                              # 5,000 nodes, 4 running pods on each
    benchmarks/preemption.py --pods-per-node 30 --all     # try every node instead of 10 % of them

Every node is full of low-priority pods. The benchmark reports the best, median and worst decision, for pods that find
victims and for pods that don't, and the median of PostFilter, which is the part that finds candidates by dry runs. On a
busy machine, the best result is the most meaningful.
"""

from __future__ import annotations

import argparse
import gc
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median
from typing import Any

from bayplan import PodInfo
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import KubeSchedulerConfiguration, build_profile, parse_configuration
from bayplan.core.framework.calling import call
from bayplan.core.scheduling import Decision, decide
from bayplan.foundations.heap import keep_heap
from bayplan.testing import make_node, make_pod

ZONES = 10
APP = {"app": "vip"}


@dataclass(frozen=True, slots=True)
class Case:
    """A kind of pod, and its expected outcome."""

    name: str
    pod: Callable[[int], PodInfo]
    expected: Callable[[Decision], bool]


class _PostFilterTime:
    """Calls the plugins of a decision, and adds up the seconds of their PostFilter."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def call(self, plugin: Any, point: str, method: Callable[..., Any], /, *arguments: Any) -> Any:
        if point != "PostFilter":
            return call(plugin, point, method, *arguments)
        began = time.perf_counter()
        try:
            return call(plugin, point, method, *arguments)
        finally:
            self.seconds += time.perf_counter() - began


def main() -> None:
    """Fill a cluster, run all cases, and print the results."""
    options = _options()
    keep_heap()
    state, cpu = _full_cluster(options.nodes, options.pods_per_node)
    profile = build_profile(_configuration(every_node=options.all).profiles[0], OfflineHandle(state))
    gc.collect()
    gc.freeze()  # like the scheduler once it knows the cluster; a full collection would dominate the worst result
    print(f"{options.nodes} nodes, {state.pod_count} running pods")
    for case in _cases(cpu):
        milliseconds, in_post_filter = [], []
        for number in range(options.repeat):
            pod, rng, post_filter = case.pod(number), random.Random(number), _PostFilterTime()
            began = time.perf_counter()
            decision = decide(profile, state, pod, rng, call=post_filter.call)
            milliseconds.append(1000 * (time.perf_counter() - began))
            in_post_filter.append(1000 * post_filter.seconds)
            if not case.expected(decision):
                raise SystemExit(f"{case.name}: {decision.message}, nominated to {decision.nominated_node}")
        figures = [("best", min(milliseconds)), ("median", median(milliseconds)), ("worst", max(milliseconds))]
        figures.append(("PostFilter", median(in_post_filter)))
        print(f"{case.name:36}" + "".join(f"  {name} {figure:6.1f} ms" for name, figure in figures))


def _full_cluster(nodes: int, pods_per_node: int) -> tuple[ClusterState, int]:
    """Return the cluster, and the CPU request of each running pod in millicores."""
    state, cpu = ClusterState(), 4000 // pods_per_node
    for number in range(nodes):
        name = f"node-{number}"
        state.set_node(make_node(name, labels={"topology.kubernetes.io/zone": f"zone-{number % ZONES}"}))
        for index in range(pods_per_node):
            pod = make_pod(
                f"low-{number}-{index}",
                cpu=f"{cpu}m",
                memory="100Mi",
                node=name,
                labels={"app": f"app-{index}"},
                priority=index % 3,
                status={"startTime": f"2026-01-01T00:{index % 60:02}:{number % 60:02}Z"},
            )
            state.set_pod(pod)
    return state, cpu


def _cases(cpu: int) -> list[Case]:
    spread = [_constraint("topology.kubernetes.io/zone"), _constraint("kubernetes.io/hostname")]
    away = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_term("kubernetes.io/hostname")]}}

    def vip(name: str, amount: int, *, priority: int = 1000, **others: object) -> Callable[[int], PodInfo]:
        return lambda number: make_pod(
            f"{name}-{number}", cpu=f"{amount}m", memory="100Mi", priority=priority, labels=APP, **others
        )

    def preempts(decision: Decision) -> bool:
        return bool(decision.victims)

    def waits(decision: Decision) -> bool:
        return decision.nominated_node == "" and not decision.victims

    def new_kind(number: int) -> PodInfo:
        return make_pod(f"new-{number}", cpu=f"{cpu}m", memory=f"{200 + number}Mi", priority=1000, labels=APP)

    return [
        Case("preempts one pod, first of its kind", new_kind, preempts),
        Case("preempts one pod", vip("one", cpu), preempts),
        Case("preempts two pods", vip("two", cpu + 1), preempts),
        Case("with anti-affinity to its own app", vip("away", cpu, affinity=away), preempts),
        Case("spread over zones and nodes", vip("spread", cpu, spec={"topologySpreadConstraints": spread}), preempts),
        Case("too large for every node", vip("huge", 5000), waits),
        Case("preemption does not free enough", vip("some", 4000, priority=2), waits),
        Case("no pod has a lower priority", vip("poor", cpu, priority=0), waits),
    ]


def _constraint(key: str) -> dict[str, object]:
    selector = {"matchLabels": APP}
    return {"maxSkew": 5, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}


def _term(key: str) -> dict[str, object]:
    return {"topologyKey": key, "labelSelector": {"matchLabels": APP}}


def _configuration(*, every_node: bool) -> KubeSchedulerConfiguration:
    args = {"minCandidateNodesPercentage": 100 if every_node else 10}
    return parse_configuration(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}],
        }
    )


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods-per-node", type=int, default=4)
    parser.add_argument("--repeat", type=int, default=11)
    parser.add_argument("--all", action="store_true", help="try every node instead of stopping at 10 %% of them")
    return parser.parse_args()


if __name__ == "__main__":
    main()
