#!/usr/bin/env python3
"""Measures throughput, latency and CPU time of pods scheduled through an API server, in separate processes.

    benchmarks/end_to_end.py                         # 5,000 nodes, 10,000 pods on `bayplan cluster`
    benchmarks/end_to_end.py --kubeconfig FILE       # on an existing cluster with ready nodes

Creates the pods, watches them, and checks at the end that each pod was bound exactly once and that no node is
overcommitted. Quote results with the machine, and compare only results of one run.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles
from typing import Any

from bayplan.client import HttpClient, connect, kinds
from bayplan.core.api.quantity import milli_value, parse
from process_usage import cpu_seconds

BAYPLAN = Path(sys.executable).with_name("bayplan")
SCHEDULER = "bayplan-benchmark"
NAMESPACE = "default"
CPU = "100m"


async def main() -> None:
    """Start the cluster and the scheduler, create the pods, and report."""
    options = _options()
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayplan-benchmark-")))
        kubeconfig = options.kubeconfig
        processes = {}
        if kubeconfig is None:
            kubeconfig = folder / "kubeconfig"
            arguments = ["cluster", "--nodes", str(options.nodes), "--kubeconfig", str(kubeconfig)]
            processes["bayplan cluster"] = await _start(stack, *arguments)
            await _until(kubeconfig.exists, 600, "the cluster is up")
        client = await stack.enter_async_context(connect(kubeconfig))
        arguments = ["run", "--kubeconfig", str(kubeconfig), "--scheduler-name", SCHEDULER]
        processes["bayplan run"] = await _start(stack, *arguments)
        nodes = len((await client.list(kinds.NODE, limit=0)).items)
        watcher = Watcher(options.pods)
        watching = asyncio.create_task(watcher.run(client))
        await _until_first_pod_is_bound(client, watcher)
        cpu_before = {name: cpu_seconds(process.pid) for name, process in processes.items()}
        print(f"{nodes} nodes, {options.pods} pods, {os.cpu_count()} CPUs", flush=True)
        began = time.monotonic()
        await _create(client, options.pods, watcher)
        created = time.monotonic()
        await asyncio.wait_for(watcher.all_bound.wait(), 1800)
        ended = time.monotonic()
        watching.cancel()
        await _report(client, watcher, began, created, ended)
        for name, process in processes.items():
            spent = cpu_seconds(process.pid) - cpu_before[name]
            print(f"  {name:<16} {spent:7.1f} s of CPU, {1e6 * spent / options.pods:6.0f} us per pod")


@dataclass
class Watcher:
    """Records when each pod is bound, and pods that change their node."""

    expected: int
    created: dict[str, float] = field(default_factory=dict)
    bound: dict[str, float] = field(default_factory=dict)
    nodes: dict[str, str] = field(default_factory=dict)
    moved: list[str] = field(default_factory=list)
    all_bound: asyncio.Event = field(default_factory=asyncio.Event)

    async def run(self, client: HttpClient) -> None:
        """Watch until cancelled."""
        version = (await client.list(kinds.POD, NAMESPACE, limit=1)).resource_version
        while True:
            events = client.watch(kinds.POD, NAMESPACE, resource_version=version)
            async with aclosing(events):
                async for event in events:
                    version = event.resource_version or version
                    if event.object is not None:
                        self._see(event.object)

    def _see(self, pod: Any) -> None:
        name, node = pod.metadata.name, pod.spec.nodeName
        if not node:
            return
        before = self.nodes.setdefault(name, node)
        if before != node:
            self.moved.append(name)
        if name not in self.bound:
            self.bound[name] = time.monotonic()
            if len(self.bound) == self.expected + 1:  # including the first pod
                self.all_bound.set()


async def _until_first_pod_is_bound(client: HttpClient, watcher: Watcher) -> None:
    """Wait until the scheduler has bound a first pod, and so knows the cluster."""
    await client.request("POST", kinds.POD.path(NAMESPACE), body=_pod("first"))
    await _until(lambda: "first" in watcher.bound, 600, "the scheduler is up")


async def _create(client: HttpClient, number: int, watcher: Watcher, at_once: int = 50) -> None:
    names = iter(f"pod-{index}" for index in range(number))

    async def create() -> None:
        for name in names:
            watcher.created[name] = time.monotonic()
            await client.request("POST", kinds.POD.path(NAMESPACE), body=_pod(name))

    async with asyncio.TaskGroup() as tasks:
        for _ in range(at_once):
            tasks.create_task(create())


async def _report(client: HttpClient, watcher: Watcher, began: float, created: float, ended: float) -> None:
    number = len(watcher.created)
    latencies = [watcher.bound[name] - moment for name, moment in watcher.created.items()]
    cuts = quantiles(latencies, n=100)
    print(f"  created          {number / (created - began):7.0f} pods/s")
    print(f"  bound            {number / (ended - began):7.0f} pods/s")
    print(f"  last pod bound {ended - created:.1f} s after the last one was created")
    print(f"  from creation to binding: p50 {1000 * cuts[49]:.0f} ms, p99 {1000 * cuts[98]:.0f} ms")
    pods = (await client.list(kinds.POD, NAMESPACE, limit=0)).items
    pending = [pod.metadata.name for pod in pods if not pod.spec.nodeName]
    taken = Counter(pod.spec.nodeName for pod in pods)
    room = {
        node.metadata.name: milli_value(parse(node.status.allocatable["cpu"])) // milli_value(parse(CPU))
        for node in (await client.list(kinds.NODE, limit=0)).items
    }
    overcommitted = [name for name, number in taken.items() if number > room.get(name, 0)]
    lost, twice = number + 1 - len(pods), len(watcher.moved)
    print(f"  lost {lost}, pending {len(pending)}, bound twice {twice}, overcommitted nodes {len(overcommitted)}")
    if lost or pending or twice or overcommitted:
        raise SystemExit(1)


async def _start(stack: AsyncExitStack, *arguments: str) -> asyncio.subprocess.Process:
    process = await asyncio.create_subprocess_exec(str(BAYPLAN), *arguments, stdout=asyncio.subprocess.DEVNULL)
    stack.push_async_callback(_stop, process)
    return process


async def _stop(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.send_signal(signal.SIGTERM)
    await process.wait()


async def _until(condition: Any, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SystemExit(f"timed out waiting until {what}")
        await asyncio.sleep(0.05)


def _pod(name: str) -> bytes:
    return (
        f'{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"schedulerName":"{SCHEDULER}",'
        f'"containers":[{{"name":"c","image":"pause","resources":{{"requests":{{"cpu":"{CPU}","memory":"50Mi"}}}}}}]}}}}'
    ).encode()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=10_000)
    parser.add_argument("--kubeconfig", type=Path, help="use this cluster instead of starting one")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
