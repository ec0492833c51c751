#!/usr/bin/env python3
"""Measures what unschedulable pods of high priority cost while pods are deleted, and how long other pods wait.

    benchmarks/waking.py                      # 2,000 unschedulable pods, two deletions a second, on 100 nodes
    benchmarks/waking.py --waiting 500 --seconds 60

Every node is full of pods of the highest priority. The unschedulable pods fit on no node even after a deletion, but
each deletion may help them. They are alike, so one attempt per deletion is enough. Each second, a small pod of low
priority arrives, which fits. Time is virtual, except for the scheduler's work: the benchmark reports the share of a
core that it takes, and the seconds from the arrival of the small pods until they are bound.

An attempt whose message differs from the one before changes the condition of all these pods. The conditions are
written at a bounded rate. The benchmark counts them, but not the work of writing them to an API server.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
from statistics import median
from typing import Any, cast

from bayplan.benchmarking.core_objects import stored
from bayplan.benchmarking.core_scheduler import CoreScheduler
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.objects import convert, encode
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import default_profile
from bayplan.testing.virtual_time import VirtualTime

NAME = "default-scheduler"


class Waking:
    """The cluster, its scheduler, and what is measured."""

    def __init__(self, loop: VirtualTime, nodes: int, waiting: int) -> None:
        self._loop = loop
        self._numbers = iter(range(1, 10**9))
        self.busy = 0.0
        self.conditions = 0
        self.arrived: dict[str, float] = {}
        self.waits: list[float] = []
        self.scheduler = CoreScheduler(
            ClusterState(),
            cast("Any", None),
            loop,
            lambda handle: {NAME: default_profile(NAME, handle)},
            bound=self._bound,
            rejected=self._rejected,
            spend=self._spend,
        )
        for number in range(nodes):
            self._add_node(f"node-{number}")
            for index in range(4):
                self._add_pod(f"running-{number}-{index}", "900m", 10, f"node-{number}")
        for number in range(waiting):
            self._add_pod(f"waiting-{number}", "3", 10)

    def delete(self, key: str) -> None:
        """Delete a pod."""
        self.scheduler.removed(POD, key)

    def arrive(self, number: int) -> None:
        """Let a small pod arrive."""
        self.arrived[f"small-{number}"] = self._loop.time()
        self._add_pod(f"small-{number}", "1m", 0)

    def _add_node(self, name: str) -> None:
        document = {"metadata": {"name": name}, "status": {"capacity": {"cpu": "4", "memory": "32Gi", "pods": "110"}}}
        self.scheduler.put(NODE, name, convert(NODE.type, stored(NODE, document, None, next(self._numbers))))

    def _add_pod(self, name: str, cpu: str, priority: int, node: str = "") -> None:
        container = {"name": "c", "resources": {"requests": {"cpu": cpu}}}
        spec = {"containers": [container], "priority": priority} | ({"nodeName": node} if node else {})
        pod = stored(POD, {"metadata": {"name": name}, "spec": spec}, "default", next(self._numbers))
        self.scheduler.put_pod(encode(pod))

    def _bound(self, pod: PodInfo) -> None:
        if pod.name in self.arrived:
            self.waits.append(self._loop.time() - self.arrived[pod.name])

    def _rejected(self, _key: str) -> None:
        self.conditions += 1

    def _spend(self, seconds: float) -> None:
        self.busy += seconds
        self._loop.seconds += seconds


async def measure(options: argparse.Namespace) -> None:
    """Run the benchmark, and print the results."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, VirtualTime)
    waking = Waking(loop, options.nodes, options.waiting)
    gc.collect()
    gc.freeze()
    running = [asyncio.create_task(each) for each in (waking.scheduler.run(), waking.scheduler.write_messages())]
    await asyncio.sleep(30)
    began, busy, conditions = loop.time(), waking.busy, waking.conditions
    for number in range(options.seconds):
        waking.arrive(number)
        for half in (0, 1):
            each = 2 * number + half
            waking.delete(f"default/running-{each % options.nodes}-{each // options.nodes}")
            await asyncio.sleep(0.5)
    for task in running:
        task.cancel()
    seconds = loop.time() - began
    print(f"{options.waiting} unschedulable pods, two deletions a second for {seconds:.0f} s")
    print(f"changed conditions per second {(waking.conditions - conditions) / seconds:6.1f}")
    print(f"share of a core             {100 * (waking.busy - busy) / seconds:7.1f} %")
    waits = f"{median(waking.waits):7.3f} s (median), {max(waking.waits):.3f} s (worst)"
    print(f"small pods wait             {waits}, {len(waking.waits)} of {options.seconds} bound")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--waiting", type=int, default=2000)
    parser.add_argument("--seconds", type=int, default=40)
    return parser.parse_args()


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        runner.run(measure(_options()))
