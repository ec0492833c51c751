#!/usr/bin/env python3
"""Measures how many pods of gangs the decision core places per second of CPU, on 5,000 nodes.

    benchmarks/gangs.py                      # gangs of 4 and of 64: each case three times, about 4 minutes
    benchmarks/gangs.py --cases anywhere one-zone priorities
    benchmarks/gangs.py --sizes 4 --pods 400

The gangs are PodGroups of Kubernetes 1.37, one after the other, as they would be created. Their cases:

- `anywhere`: without a constraint.
- `one-zone`: all pods of a gang in one of 10 zones, the best of all.
- `priorities`: without a constraint, created at once with priorities from 0 to 9, and placed in their order.
- `preempting`: all nodes are full of pods with a lower priority, and each gang evicts as many as it needs. Only ten
  gangs are placed, because each looks at all pods of the cluster.

What counts is all that the core does: it decodes and queues the pods, gates them until their gang is complete, decides,
reserves and assumes, and handles the events that confirm it. The best of several runs is printed, because other work on
the machine only makes a run slower.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any

from bayplan.benchmarking.core import Core
from bayplan.benchmarking.workloads import Workload
from bayplan.core.api.kinds import NODE, POD, custom_kind
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.versions import gates_of
from bayplan.testing.virtual_time import VirtualTime

GATES = gates_of("1.37").but("GenericWorkload", "TopologyAwareWorkloadScheduling")
KIND = custom_kind(POD_GROUPS)
ZONE = "topology.kubernetes.io/zone"
ZONES = 10
PUBLISHED = 630
"""Pods per second of kube-scheduler: 492 to 630 with gangs of 4 on 5,000 nodes, in one of 50 racks, of which it tries 5
for each gang (kubernetes#140611)."""


def main() -> None:
    """Run all cases, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=2048, help="pods of each case that does not preempt")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--sizes", type=int, nargs="+", default=[4, 64])
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    print(f"{options.nodes:,} nodes\n\n| gangs of | case | pods | pods per second of CPU | of {PUBLISHED} pods/s |")
    print("|---|---|---|---|---|")
    for size in options.sizes:
        for name in options.cases:
            case = CASES[name]
            gangs = 10 if case is preempting else max(options.pods // size, 1)
            repeat = 1 if case is preempting else options.repeat
            rate = max(_measure(case, options.nodes, gangs, size) for _ in range(repeat))
            print(f"| {size} | {name} | {gangs * size:,} | {rate:,.0f} | {rate / PUBLISHED:.1f} |", flush=True)


def _measure(case: Callable[..., Any], nodes: int, gangs: int, size: int) -> float:
    """Run a case in virtual time. Returns the pods that were placed per second of CPU."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        seconds: float = runner.run(case(nodes, gangs, size))
    return gangs * size / seconds


async def _cluster(nodes: int) -> Core:
    """A cluster of empty nodes in 10 zones, with room for 8 pods each."""
    core = Core(Workload("gangs", (), None, None), gates=GATES)
    room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
    await core.create(NODE, (_node(number, room) for number in range(nodes)))
    return core


def _node(number: int, room: dict[str, str]) -> dict[str, Any]:
    metadata = {"name": f"node-{number}", "labels": {ZONE: f"zone-{number % ZONES}"}}
    return {"metadata": metadata, "status": {"allocatable": room, "capacity": room}}


def _group(core: Core, name: str, size: int, *, topology: str = "", priority: int = 0) -> None:
    """Create the PodGroup of a gang."""
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": size}}, "priority": priority}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    metadata = {"name": name, "namespace": "default", "uid": name, "resourceVersion": str(core.number())}
    core.store(KIND, KIND.type(apiVersion="scheduling.k8s.io/v1beta1", metadata=metadata, spec=spec))


def _pods(name: str, size: int, *, group: str = "", priority: int = 0) -> Iterator[dict[str, Any]]:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}}
    spec: dict[str, Any] = {"containers": [container], "priority": priority, "terminationGracePeriodSeconds": 0}
    if group:
        spec["schedulingGroup"] = {"podGroupName": group}
    yield from ({"metadata": {"name": f"{name}-{number}"}, "spec": spec} for number in range(size))


async def _placed(core: Core, gangs: int, size: int) -> None:
    """Wait until all pods of so many gangs have a node."""
    pods = core.objects[POD]
    for number in range(gangs):
        for place in range(size):
            while not pods[f"default/gang-{number}-{place}"].node_name:  # noqa: ASYNC110 - virtual time passes
                await asyncio.sleep(0.1)


async def _one_after_the_other(core: Core, gangs: int, size: int, **fields: Any) -> float:
    """Create gangs, each once the one before it is placed. Returns the seconds of CPU."""
    working = asyncio.create_task(core.scheduler.run())
    with core.collecting():
        began = time.process_time()
        for number in range(gangs):
            name = f"gang-{number}"
            _group(core, name, size, **fields)
            await core.create(POD, _pods(name, size, group=name, priority=fields.get("priority", 0)), "default")
        await _placed(core, gangs, size)
        seconds = time.process_time() - began
    working.cancel()
    return seconds


async def anywhere(nodes: int, gangs: int, size: int) -> float:
    """Gangs without a constraint."""
    return await _one_after_the_other(await _cluster(nodes), gangs, size)


async def in_one_zone(nodes: int, gangs: int, size: int) -> float:
    """Gangs that need nodes of one zone."""
    return await _one_after_the_other(await _cluster(nodes), gangs, size, topology=ZONE)


async def by_priority(nodes: int, gangs: int, size: int) -> float:
    """Gangs with different priorities, which are all there before the first one is attempted."""
    core = await _cluster(nodes)
    with core.collecting():
        began = time.process_time()
        for number in range(gangs):
            name, priority = f"gang-{number}", number % 10
            _group(core, name, size, priority=priority)
            for pod in _pods(name, size, group=name, priority=priority):
                core.put_new_pod(pod, "default")
        working = asyncio.create_task(core.scheduler.run())
        await _placed(core, gangs, size)
        seconds = time.process_time() - began
    working.cancel()
    return seconds


async def preempting(nodes: int, gangs: int, size: int) -> float:
    """Gangs that evict pods of a lower priority."""
    core = await _cluster(nodes)
    for number in range(nodes):
        for pod in _pods(f"low-{number}", 8):
            pod["spec"] = {**pod["spec"], "nodeName": f"node-{number}"}
            core.put_new_pod(pod, "default")
    return await _one_after_the_other(core, gangs, size, priority=10)


CASES: dict[str, Callable[..., Any]] = {
    "anywhere": anywhere,
    "one-zone": in_one_zone,
    "priorities": by_priority,
    "preempting": preempting,
}

if __name__ == "__main__":
    main()
