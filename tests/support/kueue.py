"""The real Kueue on a real control plane, whose nodes, kubelets and Job controller are the embedded ones.

KUEUE names Kueue's program, and KUEUE_CRDS the folder of its CustomResourceDefinitions (config/components/crd/bases in
its sources). KUBEBUILDER_ASSETS names the folder of etcd and kube-apiserver. Kueue reads the certificate of its metrics
from a folder that it names itself (METRICS); whoever may write there can run it.
"""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml
from tests.support.certificates import Authority
from tests.support.control_plane import ASSETS, ControlPlane, ControlPlaneError
from tests.support.waiting import until

from bayplan.client import HttpClient, load_kubeconfig
from bayplan.core.api.kinds import CUSTOM_RESOURCE_DEFINITION, JOB, NAMESPACE, NODE, POD, Kind, custom_kind
from bayplan.foundations.clock import RunningClock
from bayplan_devcluster.controllers.informers import Informers
from bayplan_devcluster.controllers.manager import WORKLOADS, ControllerManager
from bayplan_devcluster.kubelet import KubeletDelays, Kubelets
from bayplan_devcluster.kubelet_pods import RUN_SECONDS

PROGRAM, DEFINITIONS = "KUEUE", "KUEUE_CRDS"
METRICS = Path("/etc/kueue/metrics/certs")
REQUESTS = Path(__file__).parents[2] / "deploy" / "provisioningrequest-crd.yaml"
SYSTEM = "kueue-system"
CHECK = "room"
_VERSION = "v1beta2"
_PATIENCE = 180.0
_CPU_OF_A_POD, _CPU_OF_A_NODE = "1500m", "4"
PODS_PER_JOB = PODS_PER_NODE = 2
"""A node has room for the pods of one job, and then a quarter of it is left, which no pod can use."""


class KueueError(Exception):
    """Kueue can't be run here. One line."""


def kueue_program(environ: Mapping[str, str] = os.environ) -> tuple[Path, Path]:
    """Kueue's program, and the folder of its definitions. Raises KueueError if something is missing."""
    for name in (PROGRAM, DEFINITIONS):
        if not environ.get(name):
            raise KueueError(f"{name} is not set: see tests/support/kueue.py")
    program, definitions = Path(environ[PROGRAM]), Path(environ[DEFINITIONS])
    if not os.access(program, os.X_OK):
        raise KueueError(f"{PROGRAM} names {program}, which is not a program")
    if not list(definitions.glob("*.yaml")):
        raise KueueError(f"{DEFINITIONS} names {definitions}, in which there are no definitions")
    try:
        METRICS.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise KueueError(f"{METRICS} can't be written: {error.strerror}") from None
    return program, definitions


@dataclass(frozen=True, slots=True)
class Count:
    """How the jobs stand: those that Kueue has started, those of these whose pods all have a node, and pods without."""

    started: int
    placed: int
    pending_pods: int


class KueueCluster:
    """A cluster with a queue that has quota for all jobs."""

    def __init__(self, client: HttpClient, kubeconfig: Path, folder: Path) -> None:
        self.client, self.kubeconfig, self.folder = client, kubeconfig, folder

    async def add_nodes(self, count: int) -> None:
        room = {"cpu": _CPU_OF_A_NODE, "memory": "16Gi", "pods": "110"}
        for number in range(count):
            status = {"allocatable": room, "capacity": room}
            await self.client.create(NODE, {"metadata": {"name": f"node-{number}"}, "status": status})

    async def add_queue(self, cpu: int, *, check: bool) -> None:
        """A queue with a quota. `check`: whether a job is admitted only if a scheduler has found room for it."""
        await self._create("ResourceFlavor", "resourceflavors", "default", {})
        quota = {"name": "cpu", "nominalQuota": str(cpu)}
        flavors = [{"name": "default", "resources": [quota]}]
        spec: dict[str, Any] = {
            "namespaceSelector": {},
            "resourceGroups": [{"coveredResources": ["cpu"], "flavors": flavors}],
        }
        if check:
            parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "ProvisioningRequestConfig", "name": CHECK}
            requests = {"provisioningClassName": "check-capacity.bayplan.dev", "managedResources": ["cpu"]}
            await self._create("ProvisioningRequestConfig", "provisioningrequestconfigs", CHECK, requests)
            controller = "kueue.x-k8s.io/provisioning-request"
            await self._create(
                "AdmissionCheck", "admissionchecks", CHECK, {"controllerName": controller, "parameters": parameters}
            )
            spec["admissionChecksStrategy"] = {"admissionChecks": [{"name": CHECK}]}
        await self._create("ClusterQueue", "clusterqueues", "all", spec)
        await self._create("LocalQueue", "localqueues", "queue", {"clusterQueue": "all"}, namespace="default")

    async def _create(self, kind: str, plural: str, name: str, spec: Any, *, namespace: str | None = None) -> None:
        custom = kueue_kind(plural, namespaced=namespace is not None)
        document = {"apiVersion": custom.api_version, "kind": kind, "metadata": {"name": name}, "spec": spec}
        await self.client.create(custom, document, namespace)

    async def add_jobs(self, count: int) -> None:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": _CPU_OF_A_POD}}}
        annotations = {RUN_SECONDS: "86400"}
        template = {
            "metadata": {"annotations": annotations},
            "spec": {"restartPolicy": "Never", "containers": [container]},
        }
        spec = {"suspend": True, "parallelism": PODS_PER_JOB, "completions": PODS_PER_JOB, "template": template}
        labels = {"kueue.x-k8s.io/queue-name": "queue"}
        for number in range(count):
            metadata = {"name": f"job-{number:03}", "labels": labels}
            await self.client.create(JOB, {"metadata": metadata, "spec": spec}, "default")

    async def end_jobs(self, count: int) -> None:
        """Let pods of running jobs succeed, and so free their nodes."""
        running = {job.metadata.name for job in (await self._running())[:count]}
        for pod in (await self.client.list(POD, "default")).items:
            if (pod.metadata.labels or {}).get("job-name") in running:
                succeeded = {"status": {"phase": "Succeeded"}}
                await self.client.patch(POD, pod.metadata.name, succeeded, "default", subresource="status")

    async def _running(self) -> list[Any]:
        """The jobs that Kueue has started, and that have not ended."""
        jobs = (await self.client.list(JOB, "default")).items
        return [job for job in jobs if not job.spec.suspend and not (job.status and job.status.completionTime)]

    async def count(self) -> Count:
        """How the jobs stand."""
        started = {job.metadata.name for job in await self._running()}
        pods = [pod for pod in (await self.client.list(POD, "default")).items if pod.status.phase != "Succeeded"]
        bound = Counter((pod.metadata.labels or {}).get("job-name") for pod in pods if pod.spec.nodeName)
        placed = sum(bound[name] == PODS_PER_JOB for name in started)
        return Count(len(started), placed, sum(not pod.spec.nodeName for pod in pods))

    async def until(self, expected: Count, *, stays: float = 5.0) -> Count:
        """Wait until the jobs stand as expected, and for so long as nothing else happens. Returns how they stand."""
        async with asyncio.timeout(_PATIENCE) as limit:
            try:
                since = None
                while True:
                    now, found = asyncio.get_running_loop().time(), await self.count()
                    since = (since if since is not None else now) if found == expected else None
                    if since is not None and now - since >= stays:
                        return found
                    await asyncio.sleep(0.5)
            except asyncio.CancelledError:
                if limit.expired():
                    return await asyncio.shield(self.count())
                raise

    @asynccontextmanager
    async def scheduler(self, *flags: str) -> AsyncIterator[None]:
        """Run `bayplan run` for pods of default-scheduler."""
        async with self._bayplan("run", "--scheduler-name=default-scheduler", *flags):
            yield

    @asynccontextmanager
    async def kube_scheduler(self) -> AsyncIterator[None]:
        """Run kube-scheduler, and `bayplan provision` beside it. Raises KueueError if there is no kube-scheduler."""
        program = Path(os.environ.get(ASSETS, "")) / "kube-scheduler"
        if not os.access(program, os.X_OK):
            raise KueueError(f"{ASSETS} names a folder without kube-scheduler")
        flags = (f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", f"--secure-port={_free_port()}")
        async with (
            _process(self.folder / "kube-scheduler.log", program, *flags, f"--cert-dir={self.folder}"),
            self._bayplan("provision", "--leader-elect=false"),
        ):
            yield

    @asynccontextmanager
    async def _bayplan(self, command: str, *flags: str) -> AsyncIterator[None]:
        program = Path(sys.executable).with_name("bayplan")
        arguments = (command, f"--kubeconfig={self.kubeconfig}", "--secure-port=0", *flags)
        async with _process(self.folder / "bayplan.log", program, *arguments):
            yield


def kueue_kind(plural: str, *, namespaced: bool = True) -> Kind:
    """A kind of Kueue."""
    return custom_kind(f"{plural}.{_VERSION}.kueue.x-k8s.io", namespaced=namespaced)


@asynccontextmanager
async def kueue_cluster() -> AsyncIterator[KueueCluster]:
    """A control plane with Kueue. Raises KueueError if it can't be run here, or does not start."""
    program, definitions = kueue_program()
    try:
        plane = ControlPlane()
    except ControlPlaneError as error:
        raise KueueError(str(error)) from None
    async with plane, HttpClient(load_kubeconfig(plane.admin)) as client:
        folder = Path(tempfile.mkdtemp(prefix="bayplan-kueue-", dir=plane.folder))
        await _define(client, [*sorted(definitions.glob("*.yaml")), REQUESTS])
        await client.create(NAMESPACE, {"metadata": {"name": SYSTEM}})
        _write_certificates(folder)
        environ = {"KUBECONFIG": str(plane.admin)}
        arguments = (f"--config={_configuration(folder)}", "--feature-gates=VisibilityOnDemand=false")
        async with (
            _alive(client),
            _process(folder / "kueue.log", program, *arguments, environ=environ),
        ):
            yield KueueCluster(client, plane.admin, folder)


async def _define(client: HttpClient, files: list[Path]) -> None:
    names = []
    for file in files:
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            if document and document["kind"] == "CustomResourceDefinition":
                await client.create(CUSTOM_RESOURCE_DEFINITION, document)
                names.append(document["metadata"]["name"])

    async def established(name: str) -> bool:
        return _is_established(await client.get(CUSTOM_RESOURCE_DEFINITION, name))

    for name in names:
        await until(partial(established, name), within=_PATIENCE, step=0.1)


def _is_established(definition: Any) -> bool:
    conditions = (definition.status.conditions if definition.status else None) or ()
    return any((each.type, each.status) == ("Established", "True") for each in conditions)


def _write_certificates(folder: Path) -> None:
    pair = Authority().server("localhost", "127.0.0.1")
    for place in (folder, METRICS):
        (place / "tls.crt").write_bytes(pair.certificate)
        (place / "tls.key").write_bytes(pair.key)


def _configuration(folder: Path) -> Path:
    document = {
        "apiVersion": f"config.kueue.x-k8s.io/{_VERSION}",
        "kind": "Configuration",
        "namespace": SYSTEM,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{_free_port()}"},
        "metrics": {"bindAddress": f"127.0.0.1:{_free_port()}"},
        "webhook": {"port": _free_port(), "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {"enable": False},
        "clientConnection": {"qps": 300, "burst": 600},
        "integrations": {"frameworks": ["batch/job"]},
    }
    path = folder / "kueue.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@asynccontextmanager
async def _process(
    log: Path, program: Path, *arguments: Any, environ: Mapping[str, str] | None = None
) -> AsyncIterator[None]:
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: ASYNC220 - it is started, and not waited for
            [program, *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environ or {})},
        )
    try:
        await asyncio.sleep(2)
        if process.poll() is not None:
            raise KueueError(f"{program.name} has ended with {process.returncode}: {_last_line(log)}")
        yield
    finally:
        process.kill()
        process.wait()


def _last_line(log: Path) -> str:
    return "".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-1:])


@asynccontextmanager
async def _alive(client: HttpClient) -> AsyncIterator[None]:
    """Run controllers, and the kubelets of all nodes."""
    clock, informers = RunningClock(), Informers(client)
    kubelets = Kubelets(client, clock, informers=informers, delays=KubeletDelays(start=0.1, stop=0.3), adopt=True)
    manager = ControllerManager(client, clock, WORKLOADS, informers=informers)
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(part.run()) for part in (kubelets, manager, informers)]
        try:
            yield
        finally:
            for task in running:
                task.cancel()
