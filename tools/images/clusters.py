"""An embedded cluster beside a container: what its service account finds in its pod, and the pods that are bound."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from tools.problems import Problem

from bayplan.client import connect, kinds

ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"
NAMESPACE = "kube-system"


class Cluster:
    """A cluster that enforces permissions."""

    def __init__(self, kubeconfig: Path) -> None:
        """Read where it is."""
        self.kubeconfig = kubeconfig
        (entry,) = yaml.safe_load(kubeconfig.read_bytes())["clusters"]
        self._server = urlsplit(entry["cluster"]["server"])
        self._authority = base64.b64decode(entry["cluster"]["certificate-authority-data"])

    @property
    def environment(self) -> dict[str, str]:
        """What a kubelet sets in each container."""
        return {
            "KUBERNETES_SERVICE_HOST": str(self._server.hostname),
            "KUBERNETES_SERVICE_PORT": str(self._server.port),
        }

    def write_account(self, name: str, folder: Path) -> Path:
        """Write what a kubelet mounts at ACCOUNT: a token of the service account, and the authority."""

        async def token() -> str:
            async with connect(self.kubeconfig) as client:
                path = kinds.SERVICE_ACCOUNT.path(NAMESPACE, name, "token")
                return str(json.loads(await client.request("POST", path, body=b"{}"))["status"]["token"])

        folder.mkdir()
        (folder / "token").write_text(asyncio.run(token()))
        (folder / "ca.crt").write_bytes(self._authority)
        (folder / "namespace").write_text(NAMESPACE)
        return folder

    def nodes_of(self, scheduler: str) -> list[str]:
        """Return the nodes of the pods of a scheduler, one for each that is bound."""

        async def found() -> list[str]:
            async with connect(self.kubeconfig) as client:
                pods = (await client.list(kinds.POD)).items
            return [pod.spec.nodeName for pod in pods if pod.spec.schedulerName == scheduler and pod.spec.nodeName]

        return asyncio.run(found())


@contextmanager
def cluster(folder: Path, *arguments: str) -> Iterator[Cluster]:
    """Run `bayplan cluster` with RBAC until the block ends."""
    kubeconfig, log = folder / "kubeconfig", folder / "cluster.log"
    command = [sys.executable, "-m", "bayplan", "cluster", "--rbac", "--kubeconfig", str(kubeconfig), *arguments]
    with log.open("wb") as file:
        process = subprocess.Popen(command, stdout=file, stderr=file)  # noqa: S603
    try:
        deadline = time.monotonic() + 120
        while "export KUBECONFIG" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise Problem(f"the embedded cluster doesn't start: {log.read_text().strip().splitlines()[-1:]}")
            time.sleep(0.05)
        yield Cluster(kubeconfig)
    finally:
        process.terminate()
        process.wait(60)
