#!/usr/bin/env python3
"""Measures what provisioning requests cost a scheduler: open ones while nothing changes, and a fresh answer.

    benchmarks/provisioning.py                                  # 5,000 nodes, 1,000 open requests
    benchmarks/provisioning.py --nodes 500 --requests 100 --seconds 5

The scheduler and an API server in memory run in this process, in real time. All CPU time of the process counts, that of
the API server included. Each node has room for two of the small pods that fresh requests ask for, and for no large one:
the open requests ask for these, and stay open. Fresh requests ask for 8 pods, and for 100; half of them for large ones.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from statistics import median
from typing import Any

import yaml

from bayplan.core.api.kinds import NODE, POD, POD_TEMPLATE
from bayplan.core.api.provisioning import PROVISIONED, PROVISIONING_REQUEST, ProvisioningRequest
from bayplan.core.config import default_profile
from bayplan.running.provisioning.desk import Desk
from bayplan.running.provisioning.options import CHECK_CAPACITY
from bayplan.running.service.scheduler import Scheduler
from bayplan.running.service.settings import Peers, Settings
from bayplan.testing.in_memory import load, make_client
from bayplan_devcluster.in_memory import InMemoryClient

DEFINITION = Path(__file__).parents[1] / "deploy" / "provisioningrequest-crd.yaml"
SCHEDULER = "default-scheduler"
PODS_PER_SECOND = 50
ENDING = 100
"""On how many nodes pods end."""
SIZES = {"small": "1", "large": "3"}
"""The templates, and the cpu of their pods."""


def node(number: int) -> dict[str, Any]:
    """A node with 4 CPUs."""
    room = {"cpu": "4", "memory": "16Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": f"n-{number}", "topology.kubernetes.io/zone": f"z-{number % 5}"}
    return {
        "apiVersion": "v1",
        "kind": NODE.kind,
        "metadata": {"name": f"n-{number}", "labels": labels},
        "status": {"allocatable": room, "capacity": room},
    }


def spec_of(cpu: str) -> dict[str, Any]:
    """The spec of a pod."""
    requests = {"cpu": cpu, "memory": "1Gi"}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return {"containers": [container], "schedulerName": SCHEDULER}


def pod(number: int, cpu: str = "2", name: str = "") -> dict[str, Any]:
    """A pod on a node, by default one that takes half of it."""
    spec = {**spec_of(cpu), "nodeName": f"n-{number}"}
    return {
        "apiVersion": "v1",
        "kind": POD.kind,
        "metadata": {"name": name or f"p-{number}", "namespace": "default"},
        "spec": spec,
    }


def template(name: str) -> dict[str, Any]:
    """The PodTemplate of a size."""
    return {
        "apiVersion": "v1",
        "kind": POD_TEMPLATE.kind,
        "metadata": {"name": name, "namespace": "default"},
        "template": {"spec": spec_of(SIZES[name])},
    }


async def ask(client: InMemoryClient, name: str, size: str, count: int) -> None:
    """Create a request."""
    sets = [{"podTemplateRef": {"name": size}, "count": count}]
    spec = {"provisioningClassName": CHECK_CAPACITY, "podSets": sets}
    await client.create(PROVISIONING_REQUEST, {"metadata": {"name": name}, "spec": spec}, "default")


async def answer(client: InMemoryClient, name: str) -> str:
    """Wait for the answer to a request: True or False."""
    while True:
        request = ProvisioningRequest.of(await client.get(PROVISIONING_REQUEST, name, "default"))
        if PROVISIONED in request.conditions:
            return request.conditions[PROVISIONED].status
        await asyncio.sleep(0.005)


@asynccontextmanager
async def running(client: InMemoryClient) -> AsyncIterator[Scheduler]:
    """Run a scheduler that answers requests until the end of the block."""
    scheduler = Scheduler(
        client,
        lambda handle: {SCHEDULER: default_profile(SCHEDULER, handle)},
        Settings(seed=0, freeze=True),
        Peers(provisioning=Desk()),
    )
    stop = asyncio.Event()
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(scheduler.run(stop))
        await scheduler.synced.wait()
        try:
            yield scheduler
        finally:
            stop.set()


async def end_pods(client: InMemoryClient, scheduler: Scheduler, seconds: float, cpu: str, leaves: str) -> None:
    """Let pods of a size end, and other ones take their room."""
    decisions, before, ended = scheduler.decisions, time.process_time(), 0
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        number = ended % ENDING if cpu != "2" else 0
        load(client.server, pod(number, cpu, f"ends-{ended}"))
        await asyncio.sleep(1 / PODS_PER_SECOND)
        await client.delete(POD, f"ends-{ended}", "default", grace_period_seconds=0)
        ended += 1
    share = (time.process_time() - before) / seconds
    decided = scheduler.decisions - decisions
    print(f"{ended / seconds:.0f} pods a second end, which leaves {leaves}: {share:.2%} of a core, {decided} decisions")


async def measure(nodes: int, requests: int, seconds: float, rounds: int) -> None:
    """Measure, and print the figures."""
    objects = [yaml.safe_load(DEFINITION.read_text(encoding="utf-8")), *map(template, SIZES)]
    async with make_client(*objects) as client:
        load(client.server, *map(node, range(nodes)), *map(pod, range(nodes)))
        async with running(client) as scheduler:
            began = time.process_time()
            for number in range(requests):
                await ask(client, f"open-{number}", "large", 4)
            for number in range(requests):
                assert await answer(client, f"open-{number}") == "False"
            used = time.process_time() - began
            print(f"{requests:,} requests at {nodes:,} nodes answered in {used:.1f} s of CPU", flush=True)
            await asyncio.sleep(2)
            decisions, before = scheduler.decisions, time.process_time()
            await asyncio.sleep(seconds)
            share = (time.process_time() - before) / seconds
            print(f"nothing changes: {share:.2%} of a core, {scheduler.decisions - decisions} decisions", flush=True)
            await end_pods(client, scheduler, seconds, "0.5", "room for no pod of a request")
            await client.delete(POD, "p-0", "default", grace_period_seconds=0)
            await end_pods(client, scheduler, seconds, "2", "room for one of the four pods of a request")
            for count in (8, 100):
                for size, expected in (("small", "True"), ("large", "False")):
                    costs = []
                    for round_ in range(rounds):
                        name = f"fresh-{size}-{count}-{round_}"
                        before = time.process_time()
                        await ask(client, name, size, count)
                        assert await answer(client, name) == expected
                        costs.append(1000 * (time.process_time() - before))
                        await client.delete(PROVISIONING_REQUEST, name, "default")
                        await asyncio.sleep(0.2 if expected == "False" else 1.0)
                    what = "yes" if expected == "True" else "no"
                    print(
                        f"a fresh {what} for {count} pods: {median(costs):.1f} ms of CPU (most: {max(costs):.1f})",
                        flush=True,
                    )


def main() -> None:
    """Parse the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20, help="how long nothing changes")
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    asyncio.run(measure(options.nodes, options.requests, options.seconds, options.rounds))


if __name__ == "__main__":
    main()
