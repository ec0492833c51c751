"""One run of `benchmarks/truth.py`: a workload on a real control plane with kube-scheduler, recorded to a history."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml
from lightkube.models import core_v1
from tests.support.cleaners import CLEANERS
from tests.support.control_plane import ASSETS, ControlPlane

from bayplan.client import ApiError, HttpClient, load_kubeconfig
from bayplan.core.api.kinds import NODE, PRIORITY_CLASS
from bayplan.foundations.clock import RunningClock
from bayplan_devcluster.controllers.informers import Informers
from bayplan_devcluster.controllers.manager import WORKLOADS, ControllerManager
from bayplan_devcluster.kubelet import KubeletDelays, Kubelets
from truth_workload import URGENT, Action, Size, nodes_of, workload_of

PATIENCE = 120.0


async def run(history: Path, size: Size, configuration: Mapping[str, Any]) -> None:
    """Start a control plane, let the workload happen, and record it to `history`."""
    async with ControlPlane() as plane, HttpClient(load_kubeconfig(plane.admin)) as client:
        await client.create(PRIORITY_CLASS, {"metadata": {"name": URGENT}, "value": 1000})
        config = plane.folder / "scheduler.yaml"
        config.write_text(yaml.safe_dump(complete(configuration, plane.admin)))
        async with (
            nodes_ready(client, nodes_of(size)),
            running_program(
                history, Path(os.environ[ASSETS]) / "kube-scheduler", "--config", config, "--secure-port=0"
            ),
            recorder(history, plane.admin),
        ):
            await _perform(client, workload_of(size), size.seconds)


def complete(configuration: Mapping[str, Any], kubeconfig: Path) -> dict[str, Any]:
    """A configuration as kube-scheduler reads it. The limits of its client are the default ones."""
    connection = {"kubeconfig": str(kubeconfig)}
    return {**configuration, "clientConnection": connection, "leaderElection": {"leaderElect": False}}


@asynccontextmanager
async def nodes_ready(client: HttpClient, nodes: Sequence[core_v1.Node]) -> AsyncIterator[None]:
    """Run controllers, and the kubelets of nodes. Yields when all of these are ready."""
    clock, informers = RunningClock(), Informers(client)
    delays = KubeletDelays(start=0.5)
    kubelets = Kubelets(client, clock, nodes, informers=informers, delays=delays)
    manager = ControllerManager(client, clock, (*WORKLOADS, *CLEANERS), informers=informers)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part.run()) for part in (informers, kubelets, manager)]
        try:
            async with asyncio.timeout(PATIENCE):
                while not await _all_ready(client, len(nodes)):  # noqa: ASYNC110 - others make them ready
                    await asyncio.sleep(0.2)
            yield
        finally:
            for task in running:
                task.cancel()


async def _all_ready(client: HttpClient, number: int) -> bool:
    nodes = (await client.list(NODE)).items
    return len(nodes) == number and not any(node.spec is not None and node.spec.taints for node in nodes)


@asynccontextmanager
async def running_program(history: Path, program: Path, *arguments: Any) -> AsyncIterator[asyncio.subprocess.Process]:
    """A program that is ended with SIGINT. What it says is in a file beside the history."""
    with history.with_name(f"{history.name}.{program.name}.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(program, *map(str, arguments), stdout=log, stderr=log)
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            await process.wait()


@asynccontextmanager
async def recorder(history: Path, kubeconfig: Path) -> AsyncIterator[None]:
    """Record. Yields when everything has been listed."""
    program = Path(sys.executable).with_name("bayplan")
    log = history.with_name(f"{history.name}.{program.name}.log")
    async with running_program(history, program, "record", history, "--kubeconfig", kubeconfig) as process:
        async with asyncio.timeout(PATIENCE):
            while "Recording " not in log.read_text():
                if process.returncode is not None:
                    raise SystemExit(f"bayplan record ended: {log.read_text()}")
                await asyncio.sleep(0.1)
        yield


async def _perform(client: HttpClient, actions: Sequence[Action], seconds: float) -> None:
    """Do what users do, each at its time."""
    began = asyncio.get_running_loop().time()
    async with asyncio.TaskGroup() as tasks:
        for action in actions:
            await asyncio.sleep(began + action.at - asyncio.get_running_loop().time())
            tasks.create_task(_do(client, action))
        await asyncio.sleep(began + seconds - asyncio.get_running_loop().time())


async def _do(client: HttpClient, action: Action) -> None:
    if action.what == "create":
        await client.create(action.kind, action.document, "default")
    elif action.what == "replicas":
        await client.patch(action.kind, action.name, action.document, "default")
    else:
        try:
            await client.delete(action.kind, action.name, "default")
        except ApiError as error:  # it was preempted
            if error.status != 404:
                raise
