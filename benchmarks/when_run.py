"""The run of `benchmarks/when_truth.py` on a control plane: jobs, snapshots while they run, and their starts."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import yaml
from tests.support.control_plane import ASSETS, ControlPlane

from bayplan.answers.backtest.running import open_history
from bayplan.answers.history.events import PodArrived, PodBound
from bayplan.client import HttpClient, load_kubeconfig
from bayplan.core.api.kinds import JOB, POD
from bayplan.insight import Snapshot
from bayplan_devcluster.kubelet import RUN_SECONDS, NodeShape, make_node
from truth_run import complete, nodes_ready, recorder, running_program
from when_jobs import CPU, Job, job_document, jobs

PROGRAMS = "etcd", "kube-apiserver", "kube-scheduler"
_SETTLED = 10.0
"""Seconds from the creation of jobs until a snapshot."""
_PAUSE = 45.0
"""Seconds between two snapshots."""
_PATIENCE = 900.0
_AT_ONCE = 20
"""Jobs that are created at the same time."""


def run(folder: Path, nodes: int, waiting: int, seed: int, scale: float) -> None:
    """Fill nodes with jobs, create more, take snapshots until all have started, and write when each one did."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    asyncio.run(_run(folder, nodes, waiting, seed, scale))
    _write_starts(folder)


async def _run(folder: Path, nodes: int, waiting: int, seed: int, scale: float) -> None:
    everything = jobs(waiting + nodes * CPU, seed, scale)
    filling, rest = _filling(everything, nodes * CPU)
    async with ControlPlane() as plane, HttpClient(load_kubeconfig(plane.admin)) as client:
        config = plane.folder / "scheduler.yaml"
        version = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        config.write_text(yaml.safe_dump(complete(version, plane.admin)))
        history, program = folder / "history", Path(os.environ[ASSETS]) / "kube-scheduler"
        shapes = [make_node(f"node-{number:03}", NodeShape(str(CPU), "32Gi")) for number in range(nodes)]
        async with (
            nodes_ready(client, shapes),
            running_program(history, program, "--config", config, "--secure-port=0"),
            recorder(history, plane.admin),
        ):
            await _create(client, filling)
            await asyncio.sleep(_SETTLED)
            await _create(client, rest[:waiting])
            async with asyncio.timeout(_PATIENCE):
                while await _any_lacks_its_pod(client):  # noqa: ASYNC110 - the server is asked
                    await asyncio.sleep(0.2)
            await _watch(client, plane.admin, folder)


def _filling(everything: list[Job], room: int) -> tuple[list[Job], list[Job]]:
    """The jobs that fill all nodes, and the others."""
    asked = 0
    for number, job in enumerate(everything):
        asked += job.kind.cpu
        if asked > room:
            return everything[:number], everything[number:]
    return everything, []


async def _create(client: HttpClient, wanted: list[Job]) -> None:
    for first in range(0, len(wanted), _AT_ONCE):
        async with asyncio.TaskGroup() as tasks:
            for job in wanted[first : first + _AT_ONCE]:
                document = job_document(job, {RUN_SECONDS: f"{job.runs:.1f}"})
                tasks.create_task(client.create(JOB, document, "default"))


async def _watch(client: HttpClient, kubeconfig: Path, folder: Path) -> None:
    """Take snapshots at intervals, until no pod waits. Each has the seconds since the first one as its name."""
    began = asyncio.get_running_loop().time() + _SETTLED
    async with asyncio.timeout(_PATIENCE):
        for number in range(100):
            await asyncio.sleep(began + number * _PAUSE - asyncio.get_running_loop().time())
            if not await _any_waits(client):
                return
            snapshot = await asyncio.to_thread(Snapshot.from_cluster, str(kubeconfig))
            await asyncio.to_thread(snapshot.save, folder / f"{number * _PAUSE:03.0f}.snapshot")


async def _any_lacks_its_pod(client: HttpClient) -> bool:
    found: list[Any] = (await client.list(JOB, "default")).items
    return any(not (job.status and (job.status.active or job.status.succeeded)) for job in found)


async def _any_waits(client: HttpClient) -> bool:
    pods: list[Any] = (await client.list(POD, "default")).items
    return any(pod.spec is not None and not pod.spec.nodeName for pod in pods)


def _write_starts(folder: Path) -> None:
    """Write when each job got its node, as the history says."""
    job_of: dict[str, str] = {}
    starts: dict[str, str] = {}
    for event in open_history(folder / "history").events():
        match event:
            case PodArrived(_, _, uid, _, owner, _) if owner is not None:
                job_of[uid] = owner.name
            case PodBound(time, _, uid, _) if uid in job_of:
                starts.setdefault(job_of[uid], time.isoformat())
    (folder / "starts.json").write_text(json.dumps(starts, indent=1))
