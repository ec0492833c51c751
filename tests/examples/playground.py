"""Runs the examples as users do: in separate processes, against a cluster on a socket."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from bayplan.core.api.kinds import KINDS
from bayplan.testing.observer import Observer
from bayplan_devcluster.cluster import DevCluster

EXAMPLES = Path(__file__).parents[2] / "examples"
KIND_OF = {(kind.api_version, kind.kind): kind for kind in KINDS}


class Playground:
    """A cluster, a observer of its objects, and a way to run examples on it."""

    def __init__(self, cluster: DevCluster, observer: Observer, kubeconfig: Path) -> None:
        self.cluster = cluster
        self.observer = observer
        self.kubeconfig = kubeconfig

    async def create(self, *documents: dict[str, Any]) -> None:
        for document in documents:
            await self.cluster.client.create(KIND_OF[document["apiVersion"], document["kind"]], document)

    @asynccontextmanager
    async def running(self, *command: str) -> AsyncIterator[Output]:
        """Run a process. It must still be running at the end, without having printed a traceback."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            *command,
            "--kubeconfig",
            str(self.kubeconfig),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            env=environment(),
        )
        assert process.stdout is not None
        output = Output()
        reading = asyncio.create_task(output.read(process.stdout))
        try:
            yield output
            assert process.returncode is None, f"the process exited:\n{output}"
            assert "Traceback" not in str(output), f"the process failed:\n{output}"
        finally:
            with suppress(ProcessLookupError):
                process.terminate()
            await process.wait()
            await reading


class Output:
    def __init__(self) -> None:
        self._pieces: list[bytes] = []

    async def read(self, stream: asyncio.StreamReader) -> None:
        while piece := await stream.read(1 << 16):
            self._pieces.append(piece)

    def __contains__(self, text: str) -> bool:
        return text in str(self)

    def __str__(self) -> str:
        return b"".join(self._pieces).decode()


def environment() -> dict[str, str]:
    """This process's environment, without the user's kubeconfig."""
    return {name: value for name, value in os.environ.items() if name != "KUBECONFIG"} | {"PYTHONUNBUFFERED": "1"}


def manifest(name: str, scheduler_name: str) -> list[dict[str, Any]]:
    """Return the objects of a manifest, with another scheduler name."""
    text = (EXAMPLES / "manifests" / name).read_text(encoding="utf-8")
    assert "schedulerName: bayplan-scheduler\n" in text
    return list(yaml.safe_load_all(text.replace("bayplan-scheduler", scheduler_name)))
