"""Control planes with Bayplan or with the compiled scheduler-plugins, and with a real Prometheus.

SCHEDULER_PLUGINS names a folder with the programs that the Makefile of scheduler-plugins builds: kube-scheduler and
controller.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml
from tests.support.control_plane import SCHEDULER_ROLES, ControlPlane, free_port
from tests.support.waiting import until

from bayplan.client import HttpClient, kind_of, load_kubeconfig
from bayplan.plugin import Plugin

COMPILED = "SCHEDULER_PLUGINS"
OURS, THEIRS = "bayplan", "scheduler-plugins"
DEFINITIONS = replace(kind_of("customresourcedefinitions.v1.apiextensions.k8s.io"), namespaced=False)
METRICS = "instance:node_cpu:ratio", "instance:node_memory_utilisation:ratio"
Program = subprocess.Popen[bytes]
_HOST = "127.0.0.1"
_EVERYTHING = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}


def compiled() -> Path | None:
    """The folder with the compiled programs; None if there is none."""
    named = os.environ.get(COMPILED)
    return Path(named) if named else None


@contextmanager
def program(folder: Path, *command: object, **environment: str) -> Iterator[Program]:
    """A program that ends with the context. What it says is in a file of the folder."""
    with (folder / f"{Path(str(command[0])).name}.log").open("wb") as log:
        process = subprocess.Popen(
            [*map(str, command)], stdout=log, stderr=log, stdin=subprocess.DEVNULL, env={**os.environ, **environment}
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def prepared(plane: ControlPlane, name: str, plugins: Sequence[type[Plugin]]) -> Path:
    """Define the custom resources of plugins. Returns a kubeconfig file for a scheduler with them."""
    async with HttpClient(load_kubeconfig(plane.admin)) as client:
        for definition in [each for plugin in plugins for each in plugin.definitions()]:
            await client.create(DEFINITIONS, definition)
            await until(partial(_established, client, definition["metadata"]["name"]), step=0.1)
    rules = [dict(rule) for plugin in plugins for rule in plugin.permissions] if name == OURS else [_EVERYTHING]
    return await plane.service_account("scheduler", cluster_roles=SCHEDULER_ROLES, rules=rules)


async def _established(client: HttpClient, name: str) -> bool:
    conditions = ((await client.get(DEFINITIONS, name)).get("status") or {}).get("conditions") or ()
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


@contextmanager
def scheduler(folder: Path, name: str, kubeconfig: Path, configuration: Mapping[str, Any]) -> Iterator[list[Program]]:
    """Run a scheduler with a configuration; the compiled one with its controllers. Yields all, the scheduler first."""
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    connection = {"kubeconfig": str(kubeconfig), "qps": 5000, "burst": 5000}
    config = folder / "scheduler.yaml"
    config.write_text(
        yaml.safe_dump(
            {**head, **configuration, "clientConnection": connection, "leaderElection": {"leaderElect": False}}
        )
    )
    with ExitStack() as stack:
        controllers = []
        if name == OURS:
            command: list[Any] = [Path(sys.executable).with_name("bayplan"), "run"]
        else:
            binaries = compiled()
            assert binaries is not None
            command = [binaries / "kube-scheduler"]
            controller = [binaries / "controller", "--metricsAddr=0", "--probeAddr=0"]
            controllers.append(stack.enter_context(program(folder, *controller, KUBECONFIG=str(kubeconfig))))
        arguments = [f"--config={config}", f"--secure-port={free_port()}"]
        yield [stack.enter_context(program(folder, *command, *arguments)), *controllers]


@contextmanager
def prometheus(folder: Path, loads: Mapping[str, float]) -> Iterator[str]:
    """A Prometheus that scrapes these loads of nodes. Yields its address, once it has them."""
    lines = [f'{metric}{{instance="{node}"}} {load}' for metric in METRICS for node, load in loads.items()]

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write("".join(f"{line}\n" for line in lines).encode())

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer((_HOST, 0), Exporter)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    target = f"{_HOST}:{server.server_address[1]}"
    job = {"job_name": "loads", "honor_labels": True, "static_configs": [{"targets": [target]}]}
    config = folder / "prometheus.yml"
    config.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s"}, "scrape_configs": [job]}))
    address = f"{_HOST}:{free_port()}"
    flags = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}"]
    try:
        with program(folder, str(shutil.which("prometheus")), *flags):
            _wait_for_samples(f"http://{address}", len(loads))
            yield f"http://{address}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _wait_for_samples(address: str, number: int) -> None:
    query = urllib.parse.urlencode({"query": f"avg_over_time({METRICS[1]}[15m])"})
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(f"{address}/api/v1/query?{query}") as reply:
                if len(json.load(reply)["data"]["result"]) == number:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    raise TimeoutError("Prometheus has scraped nothing within 60 s")


@contextmanager
def live(
    folder: Path, name: str, plugins: Sequence[type[Plugin]], configuration: Mapping[str, Any]
) -> Iterator[tuple[ControlPlane, list[Program]]]:
    """A control plane with a scheduler. It belongs to no event loop."""
    plane = ControlPlane()
    with asyncio.Runner() as runner, ExitStack() as stack:
        runner.run(plane.__aenter__())
        stack.callback(lambda: runner.run(plane.__aexit__()))
        kubeconfig = runner.run(prepared(plane, name, plugins))
        yield plane, stack.enter_context(scheduler(folder, name, kubeconfig, configuration))
