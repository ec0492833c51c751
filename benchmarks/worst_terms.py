"""200 pods of 500 anti-affinity terms each: what they cost, how long other pods wait, and what they leave behind.

With the environment variable PYTHONMALLOC=malloc, the scheduler gives back the memory of small objects, too.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from lightkube.models.core_v1 import Node

from bayplan import PodInfo
from bayplan.client import HttpClient, connect, kinds
from bayplan.foundations.collector import CHECK_SECONDS
from bayplan.testing import make_node, make_pod
from process_usage import cpu_seconds, resident_mib
from served_cluster import served

BAYPLAN = Path(sys.executable).with_name("bayplan")
HOSTNAME = "kubernetes.io/hostname"
NODES, RUNNING, PODS, TERMS, APPS = 300, 3000, 200, 500, 500
ROUNDS, LATER = 2, 3000
Selector = Callable[[str, int], dict[str, Any]]


def measure(only: str) -> None:
    """Print the times and the memory of the cases with this text in their names."""
    print(f"{PODS} pods of {TERMS} anti-affinity terms, {NODES} nodes, {RUNNING} running pods")
    times = f"{'CPU':>8} {'others':>8} {'all':>8}"
    print(f"{'selectors that':16} {times}   memory before, with them, a minute after them, again")
    for name, selector in SELECTORS.items():
        if only in name:
            with (
                tempfile.TemporaryDirectory(prefix="bayplan-benchmark-") as folder,
                served(Path(folder), _objects) as kubeconfig,
            ):
                asyncio.run(_measure(kubeconfig, name, selector))


async def _measure(kubeconfig: Path, name: str, selector: Selector) -> None:
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(kubeconfig))
        pid = await stack.enter_async_context(_scheduler(kubeconfig))
        await _create(client, make_pod("first"))
        await _until_bound(client, "first")
        memory, cpu = [resident_mib(pid)], 0.0
        longest = whole = 0.0
        for number in range(ROUNDS):
            before = cpu_seconds(pid)
            waited, took = await _all_at_once(client, pid, selector, number)
            cpu += (cpu_seconds(pid) - before) / ROUNDS
            longest, whole = max(longest, waited), max(whole, took)
            memory.append(resident_mib(pid))
            await _delete(client, [f"w-{number}-{each}" for each in range(PODS)])
            await _let_others_follow(client)
            await asyncio.sleep(1.1 * CHECK_SECONDS)  # until memory was given back
            memory.append(resident_mib(pid))
        numbers = ", ".join(f"{each:.0f}" for each in memory)
        print(f"{name:16} {cpu:6.1f} s {longest:6.2f} s {whole:6.2f} s   {numbers} MiB", flush=True)


async def _all_at_once(client: HttpClient, pid: int, selector: Selector, number: int) -> tuple[float, float]:
    """Create the pods while the scheduler is stopped, then other pods one after the other until all are decided.

    Returns the longest time until another pod was bound, and the time until the expensive pods were decided.
    """
    os.kill(pid, signal.SIGSTOP)
    for each in range(PODS):
        await _create(client, _pod(f"{number}-{each}", selector))
    os.kill(pid, signal.SIGCONT)
    began, longest, each = time.monotonic(), 0.0, 0
    while True:
        created = time.monotonic()
        await _create(client, make_pod(f"other-{number}-{each}", cpu="1m"))
        await _until_bound(client, f"other-{number}-{each}")
        longest, each = max(longest, time.monotonic() - created), each + 1
        if each % 10 == 0 and await _all_decided(client):
            return longest, time.monotonic() - began


async def _all_decided(client: HttpClient) -> bool:
    pods = (await client.list(kinds.POD, "default", limit=0)).items
    return all(pod.spec.nodeName or pod.status.conditions for pod in pods)


async def _let_others_follow(client: HttpClient) -> None:
    """Add and remove plain pods, during which unused selectors are dropped."""
    for number in range(LATER):
        await _create(client, make_pod(f"later-{number}", node="node-3", labels={"app": "app-1"}))
        await _delete(client, [f"later-{number}"])


@asynccontextmanager
async def _scheduler(kubeconfig: Path) -> AsyncIterator[int]:
    process = await asyncio.create_subprocess_exec(
        BAYPLAN,
        *("run", f"--kubeconfig={kubeconfig}", "--scheduler-name=default-scheduler", "--secure-port=0"),
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        yield process.pid
    finally:
        process.kill()
        await process.wait()


async def _create(client: HttpClient, pod: PodInfo) -> None:
    await client.request("POST", kinds.POD.path("default"), body=pod.raw)


async def _delete(client: HttpClient, names: list[str]) -> None:
    for name in names:
        await client.request("DELETE", kinds.POD.path("default", name), body=b'{"gracePeriodSeconds": 0}')


async def _until_bound(client: HttpClient, name: str) -> None:
    while True:
        pod = await client.get(kinds.POD, name, "default")
        if pod.spec.nodeName:
            return
        await asyncio.sleep(0.005)


def _objects() -> Iterator[Node | PodInfo]:
    for number in range(NODES):
        yield make_node(f"node-{number}", cpu="64", pods=1000, labels={HOSTNAME: f"node-{number}"})
    for number in range(RUNNING):
        labels = {"app": f"app-{number % APPS}"}
        yield make_pod(f"p{number}", cpu="10m", node=f"node-{number % NODES}", labels=labels)


def _pod(name: str, selector: Selector) -> PodInfo:
    terms = [{"topologyKey": HOSTNAME, "labelSelector": selector(name, each)} for each in range(TERMS)]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
    return make_pod(f"w-{name}", cpu="10m", labels={"worst": name}, affinity={"podAntiAffinity": required})


def _app(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "app", "operator": operator, "values": [*values]}]}


SELECTORS: dict[str, Selector] = {
    "match no pod": lambda name, number: {"matchLabels": {"app": f"{name}-{number}"}},
    "match six pods": lambda name, number: _app("In", f"app-{number}", name),
    "match all pods": lambda name, number: _app("NotIn", f"{name}-{number}"),
}
