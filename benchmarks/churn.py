#!/usr/bin/env python3
"""Schedules pods that come and go while nodes are replaced and the API server is killed, and checks what remains.

    benchmarks/churn.py                                      # an hour: 60 pods/s, a kill every 4 minutes
    benchmarks/churn.py --minutes 5 --kill-every 60          # a short form
    KUBEBUILDER_ASSETS=DIR benchmarks/churn.py --real        # on etcd and kube-apiserver, with kill -9

Without --real, the embedded API server runs in a process of its own. A kill closes its sockets without notice for some
seconds, and its data survives, like that of a kube-apiserver in etcd. The scheduler is a `bayplan run`.

The benchmark prints the scheduler's memory every minute. It exits with 1 if, at the end, the scheduler's state differs
from the API server, a pod that fits is pending or was bound twice, the scheduler logged a traceback or has exited, or
its memory has grown by more than a tenth since the first ten minutes (in short runs: the first third).
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from statistics import quantiles
from typing import Any

from bayplan.client import ApiError, HttpClient, TransportError, connect
from bayplan.core.api.kinds import NODE, POD
from bayplan.foundations.clock import RunningClock
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.controllers.informers import Informers
from bayplan_devcluster.controllers.manager import WORKLOADS, ControllerManager
from bayplan_devcluster.kubelet import Kubelets
from process_usage import resident_mib

BAYPLAN = Path(sys.executable).with_name("bayplan")
SCHEDULER = "bayplan-churn"
NAMESPACE = "default"
TOO_LARGE = "64"
"""CPUs that no node has."""
AT_ONCE = 30


class Server(ABC):
    """An API server that can be killed."""

    kubeconfig: Path

    @abstractmethod
    async def kill(self, seconds: float) -> None:
        """Kill the server, and start it again after so many seconds."""


class EmbeddedServer(Server):
    """The embedded API server, in another process."""

    def __init__(self, process: BaseProcess, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self._process = process

    async def kill(self, seconds: float) -> None:
        """Close its sockets for so many seconds."""
        assert self._process.pid is not None
        os.kill(self._process.pid, signal.SIGUSR1)
        await asyncio.sleep(seconds)
        os.kill(self._process.pid, signal.SIGUSR2)


class RealServer(Server):
    """kube-apiserver."""

    def __init__(self, plane: Any) -> None:
        self.kubeconfig = plane.admin
        self._plane = plane

    async def kill(self, seconds: float) -> None:
        """Kill the process."""
        self._plane.stop_api_server(kill=True)
        await asyncio.sleep(seconds)
        await self._plane.start_api_server()


def serve(kubeconfig: Path) -> None:
    """Serve the embedded API server: until SIGTERM, and not between SIGUSR1 and SIGUSR2."""
    asyncio.run(_serve(kubeconfig))


async def _serve(kubeconfig: Path) -> None:
    loop = asyncio.get_running_loop()
    requested: asyncio.Queue[signal.Signals] = asyncio.Queue()
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, requested.put_nowait, number)
    async with ApiServer() as server:
        kubeconfig.write_text(server.kubeconfig(), encoding="utf-8")  # noqa: ASYNC240 - nothing else runs yet
        while (number := await requested.get()) is not signal.SIGTERM:
            await (server.stop() if number is signal.SIGUSR1 else server.start())


@dataclass
class Watcher:
    """Records the pods, how long each took to be bound, and those that changed their node."""

    created: dict[str, float] = field(default_factory=dict)
    """Of pods that are not bound, when they were seen first."""
    latencies: list[float] = field(default_factory=list)
    moved: list[str] = field(default_factory=list)

    def see(self, old: Any, new: Any) -> None:
        """Record a change of a pod."""
        if new is None:
            self.created.pop(old.metadata.name, None)
            return
        name, node = new.metadata.name, new.spec.nodeName
        before = old.spec.nodeName if old is not None and old.metadata.uid == new.metadata.uid else None
        if before and node != before:
            self.moved.append(f"{name}: {before} -> {node}")
        if not node:
            self.created.setdefault(name, time.monotonic())
        elif name in self.created:
            self.latencies.append(time.monotonic() - self.created.pop(name))


class Churn:
    """Creates and deletes pods and nodes."""

    def __init__(self, client: HttpClient, rate: int, nodes: int, lifetime: int) -> None:
        self.pods = self.nodes = 0
        self._client = client
        self._rate = rate
        self._living_nodes: list[str] = []
        self._waves: list[list[str]] = []
        self._lifetime = lifetime
        self._initial_nodes = nodes
        self._gate = asyncio.Semaphore(AT_ONCE)

    async def add_nodes(self) -> None:
        """Create the initial nodes."""
        for _ in range(self._initial_nodes):
            await self._add_node()

    async def run(self, seconds: float) -> None:
        """Replace a node and some pods each second."""
        ends_at = time.monotonic() + seconds
        while (began := time.monotonic()) < ends_at:
            async with asyncio.TaskGroup() as tasks:
                self._waves.append([self._create_pod(tasks) for _ in range(self._rate)])
                if len(self._waves) > self._lifetime:
                    for name in self._waves.pop(0):
                        tasks.create_task(self._delete(POD, name, NAMESPACE))
                await self._add_node()
                await self._delete(NODE, self._living_nodes.pop(0))
            await asyncio.sleep(max(0.0, began + 1 - time.monotonic()))

    def _create_pod(self, tasks: asyncio.TaskGroup) -> str:
        self.pods += 1
        name = f"pod-{self.pods}"
        pod = _pod(self.pods, name)
        tasks.create_task(self._persist(lambda: self._client.create(POD, pod), fine=409))
        return name

    async def _add_node(self) -> None:
        self.nodes += 1
        name = f"node-{self.nodes}"
        room = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": f"zone-{self.nodes % 3}"}
        node = {"metadata": {"name": name, "labels": labels}, "status": {"capacity": room, "allocatable": room}}
        await self._persist(lambda: self._client.create(NODE, node), fine=409)
        self._living_nodes.append(name)

    async def _delete(self, kind: Any, name: str, namespace: str | None = None) -> None:
        await self._persist(lambda: self._client.delete(kind, name, namespace, grace_period_seconds=0), fine=404)

    async def _persist(self, request: Callable[[], Awaitable[object]], fine: int) -> None:
        """Send a request until it succeeds or fails with a status that is fine."""
        async with self._gate:
            while True:
                try:
                    await request()
                    return
                except ApiError as error:
                    if error.status == fine:
                        return
                    if error.status < 500 and error.status != 429:
                        raise
                except TransportError:
                    pass
                await asyncio.sleep(0.2)


def _pod(number: int, name: str) -> dict[str, Any]:
    container: dict[str, Any] = {
        "name": "c",
        "image": "pause",
        "resources": {"requests": {"cpu": TOO_LARGE if number % 200 == 0 else "100m", "memory": "50Mi"}},
    }
    labels = {"app": f"app-{number % 50}", "own": name}
    spec: dict[str, Any] = {"schedulerName": SCHEDULER, "containers": [container]}
    if number % 10 == 1:
        container["ports"] = [{"containerPort": 80, "hostPort": 8000 + number % 100}]
    if number % 10 == 2:
        spec["topologySpreadConstraints"] = [
            {
                "topologyKey": "topology.kubernetes.io/zone",
                "maxSkew": 5,
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {"app": labels["app"]}},
            }
        ]
    if number % 10 == 3:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"own": name}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}, "spec": spec}


class Scheduler:
    """A `bayplan run`, whose log goes to a file."""

    def __init__(self, process: asyncio.subprocess.Process, log: Path) -> None:
        self.process = process
        self._log = log

    @property
    def lines(self) -> list[str]:
        """The log so far."""
        return self._log.read_text(encoding="utf-8", errors="replace").splitlines()

    @property
    def memory(self) -> float:
        """The resident memory in MiB; 0 after its end."""
        with suppress(OSError):
            return resident_mib(self.process.pid)
        return 0.0

    async def differences(self) -> int | None:
        """Compare its state with the API server. Returns None if it does not reply within a minute."""
        pattern = re.compile(r"comparison: .*?(\d+) differences")
        before = sum(bool(pattern.search(line)) for line in self.lines)
        for _ in range(12):
            if self.process.returncode is not None:
                return None
            self.process.send_signal(signal.SIGUSR2)
            await asyncio.sleep(5)
            found = [match[1] for line in self.lines if (match := pattern.search(line))]
            if len(found) > before:
                return int(found[-1])
        return None


async def main() -> None:
    """Run the churn and print the report."""
    options = _options()
    logging.disable(logging.WARNING)  # the controllers' own failures during outages
    seconds = 60 * options.minutes
    async with AsyncExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayplan-churn-")))
        server = await _start_server(stack, folder, real=options.real)
        client = await stack.enter_async_context(connect(server.kubeconfig))
        watcher = await _run_cluster(stack, client)
        churn = Churn(client, options.rate, options.nodes, options.lifetime)
        await churn.add_nodes()
        log = options.log or folder / "scheduler.log"
        scheduler = await _start_scheduler(stack, server.kubeconfig, log)
        began = time.monotonic()
        watching = asyncio.create_task(_watch(scheduler, churn, watcher, began))
        killing = asyncio.create_task(_kill_every(server, options.kill_every, options.outage))
        await churn.run(seconds)
        killing.cancel()
        kills = await _result_of(killing)
        watching.cancel()
        memory = await _result_of(watching)
        await _until(lambda: not _pending(watcher), 60)
        memory.append(scheduler.memory)
        failed = await _report(scheduler, churn, watcher, memory, kills, time.monotonic() - began)
    if failed:
        raise SystemExit(1)


async def _start_server(stack: AsyncExitStack, folder: Path, *, real: bool) -> Server:
    if real:
        sys.path.insert(0, str(Path(__file__).parents[1]))
        from tests.support.control_plane import ControlPlane

        return RealServer(await stack.enter_async_context(ControlPlane()))
    kubeconfig = folder / "kubeconfig"
    process = multiprocessing.get_context("spawn").Process(target=serve, args=(kubeconfig,), daemon=True)
    process.start()
    stack.callback(process.join)
    stack.callback(process.terminate)
    await _until(kubeconfig.exists, 60)
    return EmbeddedServer(process, kubeconfig)


async def _run_cluster(stack: AsyncExitStack, client: HttpClient) -> Watcher:
    """Run kubelets and controllers. Returns the watcher of the pods."""
    clock, informers, watcher = RunningClock(), Informers(client), Watcher()
    kubelets = Kubelets(client, clock, informers=informers, adopt=True)
    manager = ControllerManager(client, clock, WORKLOADS, informers=informers)
    informers.of(POD).listen(watcher.see)
    tasks = [asyncio.create_task(part.run()) for part in (kubelets, manager, informers)]

    async def stop() -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    stack.push_async_callback(stop)
    return watcher


async def _start_scheduler(stack: AsyncExitStack, kubeconfig: Path, log: Path) -> Scheduler:
    arguments = [
        "run",
        "--kubeconfig",
        str(kubeconfig),
        "--scheduler-name",
        SCHEDULER,
        "--secure-port=0",
        "--leader-elect",
    ]
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(str(BAYPLAN), *arguments, stdout=output, stderr=output)

    async def stop() -> None:
        if process.returncode is None:
            process.terminate()
        await process.wait()

    stack.push_async_callback(stop)
    return Scheduler(process, log)


async def _kill_every(server: Server, every: float, outage: float) -> int:
    """Kill the server again and again, until cancelled. Returns how often; the server is up at the end."""
    kills = 0
    try:
        while True:
            await asyncio.sleep(every)
            kills += 1
            killing = asyncio.create_task(server.kill(outage))
            try:
                await asyncio.shield(killing)
            finally:
                await killing
    except asyncio.CancelledError:
        return kills


async def _watch(scheduler: Scheduler, churn: Churn, watcher: Watcher, began: float) -> list[float]:
    """Print a line a minute, until cancelled. Returns the memory at each."""
    memory: list[float] = []
    try:
        while True:
            await asyncio.sleep(60)
            memory.append(scheduler.memory)
            minutes = (time.monotonic() - began) / 60
            print(
                f"{minutes:5.1f} min: {churn.pods:7} pods created, {len(watcher.latencies):7} bound, "
                f"{churn.nodes:5} nodes, {memory[-1]:6.0f} MiB",
                flush=True,
            )
    except asyncio.CancelledError:
        return memory


async def _report(
    scheduler: Scheduler, churn: Churn, watcher: Watcher, memory: list[float], kills: int, seconds: float
) -> bool:
    """Print the results. Returns whether something is wrong."""
    differences = await scheduler.differences()
    lines, pending = scheduler.lines, _pending(watcher)
    tracebacks = sum("Traceback (most recent call last)" in line for line in lines)
    first = memory[min(10, len(memory) // 3)]
    cuts = quantiles(watcher.latencies or [0.0, 0.0], n=1000)
    print(f"{churn.pods} pods ({churn.pods / seconds:.0f}/s) and {churn.nodes} nodes, {kills} kills of the API server")
    print(f"  bound {len(watcher.latencies)}; p50 {cuts[499]:.3f} s, p99 {cuts[989]:.3f} s, p99.9 {cuts[998]:.3f} s")
    print(f"  differences {differences}, bound twice {len(watcher.moved)}, pending though they fit {len(pending)}")
    print(f"  tracebacks {tracebacks}, memory {first:.0f} MiB early and {memory[-1]:.0f} MiB at the end")
    kinds = Counter(
        re.sub(r"\d[\d.:]*", "N", line[:100]) for line in lines if re.match(r"\S+ \S+ [WE] ", line)
    ).most_common(8)
    for text, number in kinds:
        print(f"  {number:5} x {text}")
    for text in (*watcher.moved[:5], *pending[:5]):
        print(f"  {text}")
    exited = scheduler.process.returncode is not None
    if exited:
        print(f"  the scheduler has exited with status {scheduler.process.returncode}: {lines[-1:]}")
    return exited or differences != 0 or bool(watcher.moved or pending or tracebacks) or memory[-1] > 1.1 * first


def _pending(watcher: Watcher) -> list[str]:
    return [name for name in watcher.created if int(name.removeprefix("pod-")) % 200]


async def _result_of(task: asyncio.Task[Any]) -> Any:
    return await task


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:  # noqa: ASYNC110 - a file or a process has no event
        await asyncio.sleep(0.1)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--rate", type=int, default=60, help="pods created and deleted each second")
    parser.add_argument("--nodes", type=int, default=50)
    parser.add_argument("--lifetime", type=int, default=15, help="seconds for which pods live")
    parser.add_argument("--kill-every", type=float, default=240, help="seconds between kills of the API server")
    parser.add_argument("--outage", type=float, default=4, help="seconds until it is started again")
    parser.add_argument("--real", action="store_true", help="use etcd and kube-apiserver from KUBEBUILDER_ASSETS")
    parser.add_argument("--log", type=Path, help="keep the scheduler's log in this file")
    return parser.parse_args()


if __name__ == "__main__":
    asyncio.run(main())
