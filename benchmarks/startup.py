#!/usr/bin/env python3
"""Measures how `bayplan run` starts on a large cluster, and how long it stops for the garbage collector after that.

    benchmarks/startup.py                            # 5,000 nodes, 150,000 running pods of 4 kB
    benchmarks/startup.py --nodes 500 --pods 10000

An embedded API server in another process holds the cluster. The benchmark reports the seconds from the start of the
process until it is ready, its peak memory, the longest run of the garbage collector since then, and the longest time
for which another thread of the process could not run, while pods are created and bound.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp

from bayplan.client import connect, kinds
from bayplan.testing.documents import Document
from process_usage import peak_mib
from served_cluster import served

SCHEDULER = "bayplan-benchmark"
POD_BYTES = 4000
_PER_SECOND = 100
_TICK = 0.001
_NOTABLE = 0.005
"""Seconds from which a pause is recorded."""


async def main() -> None:
    """Start the server and the scheduler, create pods, and print the figures."""
    options = _options()
    with tempfile.TemporaryDirectory(prefix="bayplan-benchmark-") as name:
        folder = Path(name)
        with served(folder, _cluster, options.nodes, options.pods) as kubeconfig:
            figures = await _measure(kubeconfig, folder / "pauses.json", options.seconds)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24} {value:10,.1f}")


async def _measure(kubeconfig: Path, pauses: Path, seconds: int) -> dict[str, float]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    arguments = ["run", "--kubeconfig", str(kubeconfig), "--scheduler-name", SCHEDULER, "--leader-elect=false"]
    arguments += ["--bind-address", "127.0.0.1", "--secure-port", port, "--authorization-always-allow-paths", "/readyz"]
    began = time.monotonic()
    command = [sys.executable, __file__, "--inside", str(pauses), *arguments]
    process = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)
    try:
        while not await _ready(f"https://127.0.0.1:{port}/readyz"):
            if process.returncode is not None:
                raise SystemExit("bayplan run ended early")
            await asyncio.sleep(0.05)
        ready = time.monotonic()
        peak = peak_mib(process.pid)
        async with connect(kubeconfig) as client:
            for number in range(seconds * _PER_SECOND):
                pod = _pod(f"new-{number}")
                pod["spec"]["schedulerName"] = SCHEDULER
                await client.create(kinds.POD, pod, namespace="default")
                await asyncio.sleep(max(0.0, ready + number / _PER_SECOND - time.monotonic()))
            pods = (await client.list(kinds.POD, "default", limit=0)).items
        bound = sum(pod.metadata.name.startswith("new-") and bool(pod.spec.nodeName) for pod in pods)
        peak_at_end = peak_mib(process.pid)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        await process.wait()
    figures = {"ready_seconds": ready - began, "peak_mib": peak, "peak_mib_at_end": peak_at_end, "bound": bound}
    return figures | _longest(pauses, ready)


def _longest(pauses: Path, ready: float) -> dict[str, float]:
    """Return the longest pause of each kind since a time, in milliseconds."""
    recorded = json.loads(pauses.read_text(encoding="utf-8"))
    return {
        f"longest_{name}_ms": 1000 * max((seconds for at, seconds in each if at > ready), default=0.0)
        for name, each in recorded
    }


async def _ready(url: str) -> bool:
    try:
        async with aiohttp.request("GET", url, ssl=False) as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


# In the process of the scheduler


def inside(file: Path, arguments: list[str]) -> None:
    """Run `bayplan`, and write its pauses to a file: (what, [(time, seconds), ...])."""
    from bayplan.faces.cli import main as bayplan

    collections: list[tuple[float, float]] = []
    stalls: list[tuple[float, float]] = []
    began = 0.0

    def note(phase: str, _: dict[str, int]) -> None:
        nonlocal began
        now = time.monotonic()
        if phase == "start":
            began = now
        elif now - began > _NOTABLE:
            collections.append((now, now - began))

    def watch() -> None:
        last = time.monotonic()
        while True:
            time.sleep(_TICK)
            now = time.monotonic()
            if now - last > _NOTABLE:
                stalls.append((now, now - last))
            last = now

    gc.callbacks.append(note)
    threading.Thread(target=watch, daemon=True).start()
    try:
        bayplan(arguments, prog_name="bayplan")
    finally:
        file.write_text(json.dumps([("collection", collections), ("stall", stalls)]), encoding="utf-8")


# The cluster


def _cluster(nodes: int, pods: int) -> Iterator[Document]:
    room = {"cpu": "64", "memory": "256Gi", "pods": "250"}
    for number in range(nodes):
        labels = {"topology.kubernetes.io/zone": f"zone-{number % 3}", "kubernetes.io/hostname": f"node-{number}"}
        yield {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": f"node-{number}", "labels": labels},
            "status": {"allocatable": room, "capacity": room},
        }
    for number in range(pods):
        pod = _pod(f"running-{number}")
        pod["metadata"]["annotations"] = {"example.com/filling": "x" * (POD_BYTES - 900)}
        pod["spec"]["nodeName"] = f"node-{number % nodes}"
        pod["status"] = {"phase": "Running", "podIP": "10.0.0.1", "startTime": "2026-01-01T00:00:00Z"}
        yield pod


def _pod(name: str) -> Document:
    resources = {"requests": {"cpu": "100m", "memory": "128Mi"}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "main", "image": "web:1", "resources": resources}]},
    }


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--seconds", type=int, default=20, help="how long to create pods")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(Path(sys.argv[2]), sys.argv[3:])
    else:
        asyncio.run(main())
