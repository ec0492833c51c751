"""A shadow beside a scheduler in a process of its own: Bayplan, and the stock kube-scheduler where there is one.

Pods come and go, preempt, use volumes and spread. `make test-shadow` runs it with kube-scheduler and 1,000 nodes.
"""

import asyncio
import os
import random
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from running import bayplan_run
from tests.support.control_plane import ASSETS
from tests.support.storage_documents import ZONE, claim, storage_class, using
from tests.support.waiting import PATIENCE, until
from workloads import NAME, amounts, pod

from bayplan.answers.shadow.comparisons import ShadowSubject
from bayplan.answers.shadow.record import ShadowRecord
from bayplan.client import ApiError
from bayplan.core.api.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, PRIORITY_CLASS, STORAGE_CLASS
from bayplan_devcluster.controllers.csi_provisioner import CsiProvisioner

STOCK = "default-scheduler"


@pytest.fixture
async def scheduler(backend, cluster, tmp_path):
    """The name of the scheduler that runs: Bayplan's on the embedded API server, kube-scheduler on a real one."""
    if backend is None:
        async with bayplan_run("--kubeconfig", cluster.scheduler_kubeconfig) as process:
            await until(lambda: process.logged("scheduling pods with schedulerName"))
            yield NAME
        return
    program = Path(os.environ[ASSETS]) / "kube-scheduler"
    if not program.exists():
        pytest.skip(f"{ASSETS} names a folder without kube-scheduler")
    plane, _, _ = backend
    flags = ("--leader-elect=false", "--secure-port=0", f"--kubeconfig={plane.admin}")
    async with process_of(program, *flags):
        yield STOCK


@asynccontextmanager
async def process_of(program, *arguments):
    """A process that is ended with SIGTERM, and the lines that it prints."""
    process = await asyncio.create_subprocess_exec(
        program, *map(str, arguments), stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    lines = []

    async def read():
        while line := await process.stdout.readline():
            lines.append(line.decode().rstrip())

    reading = asyncio.create_task(read())
    try:
        yield process, lines
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(PATIENCE):
            await process.wait()
            await reading


async def create_all(cluster, kind, documents):
    gate = asyncio.Semaphore(20)

    async def create(document):
        async with gate:
            await cluster.client.create(kind, document)

    async with asyncio.TaskGroup() as tasks:
        for document in documents:
            tasks.create_task(create(document))


def node(number):
    """A node so small that the pods don't all fit."""
    room = amounts(("1", "2", "4")[number % 3], "32Gi")
    metadata = {
        "name": f"node-{number}",
        "labels": {ZONE: f"z{number % 3}", "kubernetes.io/hostname": f"node-{number}"},
    }
    return {"metadata": metadata, "status": {"capacity": room, "allocatable": room}}


def random_pod(chance, number, scheduler):
    """A pod, and the claim that it needs, if any."""
    app, spec = {"app": f"app-{number % 5}"}, {"terminationGracePeriodSeconds": 0}
    kind = chance.random()
    needed = None
    if kind < 0.15:
        needed = claim(f"claim-{number}", "made")
        spec |= using(f"claim-{number}")
    elif kind < 0.4:
        spread = {"maxSkew": 1, "topologyKey": ZONE, "labelSelector": {"matchLabels": app}}
        spread["whenUnsatisfiable"] = chance.choice(("DoNotSchedule", "ScheduleAnyway"))
        spec["topologySpreadConstraints"] = [spread]
    elif kind < 0.5:
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": app}}
        spec["affinity"] = {
            "podAntiAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 50, "podAffinityTerm": term}]
            }
        }
    elif kind < 0.6:
        spec["priorityClassName"] = "urgent"
    cpu = chance.choice(("250m", "500m", "1", "2", "3")) if kind < 0.6 else chance.choice(("500m", "1"))
    made = pod(f"pod-{number}", cpu, scheduler=scheduler, **spec)
    made["metadata"]["labels"] = app
    return made, needed


async def remove(cluster, kind, *name):
    """Delete an object, unless it is gone: a pod may have been preempted."""
    try:
        await cluster.client.delete(kind, *name, grace_period_seconds=0)
    except ApiError as error:
        if error.status != 404:
            raise


async def churn(cluster, scheduler, *, pods, rate, room):
    """Create pods and delete others at random, so that about `room` are there: more than fit."""
    chance, alive = random.Random(7), []
    for number in range(pods):
        made, needed = random_pod(chance, number, scheduler)
        if needed is not None:
            await cluster.client.create(PERSISTENT_VOLUME_CLAIM, needed)
        await cluster.client.create(POD, made)
        alive.append(made["metadata"]["name"])
        if len(alive) > room:
            await remove(cluster, POD, alive.pop(chance.randrange(len(alive))), "default")
        if number % 10 == 9:
            await asyncio.sleep(10 / rate)


async def test_a_shadow_agrees_with_the_scheduler(backend, cluster, scheduler, tmp_path):
    nodes, pods, room, rate = (12, 150, 32, 30) if backend is None else (1000, 4000, 2600, 50)
    await create_all(cluster, NODE, map(node, range(nodes)))
    await cluster.client.create(STORAGE_CLASS, storage_class("made", late=True))
    await cluster.client.create(PRIORITY_CLASS, {"metadata": {"name": "urgent"}, "value": 1000})
    kubeconfig = tmp_path / "admin.yaml" if backend is None else backend[0].admin
    state = tmp_path / "shadow.json"
    program = Path(sys.executable).with_name("bayplan")
    flags = (
        "shadow",
        "--kubeconfig",
        kubeconfig,
        "--scheduler-name",
        scheduler,
        "--state",
        state,
        "--output",
        "lines",
        "--all",
    )
    await until(lambda: len(cluster.observer.nodes) == nodes)
    async with cluster.controlled_by(CsiProvisioner), process_of(program, *flags) as (shadow, lines):
        await until(lambda: any("Press Ctrl-C to stop" in line for line in lines))  # it has listed everything
        await churn(cluster, scheduler, pods=pods, rate=rate, room=room)
        urgent = pod("last", "250m", scheduler=scheduler, priorityClassName="urgent")
        await cluster.client.create(POD, urgent)
        await until(lambda: any("pod default/last:" in line for line in lines))  # it has seen all that came before
        shadow.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            await shadow.wait()
    tally = ShadowRecord.load(state, [scheduler]).tally
    for each in tally.counts:  # what docs/shadow.md says; `make test-shadow` shows it
        print(f"{each.subject}: {each.outcome} {each.cause}: {each.number}")  # noqa: T201
    assert tally.total(ShadowSubject.BINDING) >= 0.5 * pods
    assert tally.total(ShadowSubject.NOMINATION) > 0
    assert tally.share(ShadowSubject.BINDING) >= 0.99
    assert tally.unknown == 0


@pytest.fixture(autouse=True)
async def _cleanup(cluster):
    yield
    pods = (await cluster.client.list(POD, "default")).items
    for batch in range(0, len(pods), 50):  # deleting thousands in one request takes longer than a request may
        names = [each.metadata.name for each in pods[batch : batch + 50]]
        await asyncio.gather(*(remove(cluster, POD, name, "default") for name in names))
    for kind in (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS):
        await cluster.client.request("DELETE", kind.path("default" if kind.namespaced else None))
    await remove(cluster, PRIORITY_CLASS, "urgent")
