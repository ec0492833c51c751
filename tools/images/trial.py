"""`make test-image`: builds the images on a base made here, twice, and runs them as the manifests say.

Each runs beside an embedded cluster. The scheduler binds 100 pods with a plugin from a mounted file, and serves
/healthz. The shadow, which is the same image, serves its metrics. The recorder writes a history, which is read
afterwards. All of them end on SIGTERM with status 0.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import sys
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import yaml
from tools.commit import ROOT, read_commit
from tools.images.base import make_base
from tools.images.builders import Builder, Request, find_builder
from tools.images.building import FOLDER, LIBRARIES, archive_of, build_image
from tools.images.workloads import running_workload
from tools.problems import Problem, output

PODS = 100
NAME = "bayplan-scheduler"
SIZE = 120
"""The most megabytes that the scheduler's image may have over its base"""
PLUGIN = """from bayplan import filter_plugin


@filter_plugin
def tier(pod, node):
    if node.name == "node-0":
        return "node-0 is for others"
"""


@click.command("try")
@click.option(
    "--builder", metavar="COMMAND", help="buildah, docker or podman, with options. Default: the first that works."
)
@click.option("--base", help="The base to try. Default: Debian, made by debootstrap.")
@click.option("--mirror", help="Where debootstrap gets Debian's packages. Default: where this machine gets its own.")
@click.option("--folder", type=click.Path(path_type=Path, file_okay=False), help="Keep the base in this folder.")
def try_images(builder: str | None, base: str | None, mirror: str | None, folder: Path | None) -> None:
    """Build the images and run them, and say how large they are and how fast they start."""
    found = find_builder(builder)
    if reason := _missing(found, base):
        click.echo(f"SKIPPED: {reason}")
        return
    assert found is not None, "it isn't missing"
    with TemporaryDirectory(prefix="bayplan-image-") as temporary:
        if base is None:
            base, kept = "localhost/bayplan-base", folder or Path(temporary) / "base"
            kept.mkdir(parents=True, exist_ok=True)
            make_base(found, base, kept.resolve(), mirror)
        _try_all(found, base, Path(temporary))


def _missing(builder: Builder | None, base: str | None) -> str | None:
    """Return what this machine lacks for the trial."""
    if builder is None:
        return "needs docker (with its daemon), podman or buildah on the PATH"
    if base is None and shutil.which("debootstrap") is None:
        return "needs debootstrap, which makes the base, or --base"
    if builder.program == "buildah" and os.geteuid() != 0:
        return "needs root to run an image that buildah built"
    return None


def _try_all(builder: Builder, base: str, folder: Path) -> None:
    commit = read_commit()
    for libraries in LIBRARIES:
        name = f"localhost/bayplan:{libraries}"
        request = Request(name, base, libraries, archive_of(folder, commit.version, libraries), cached=False)
        image = build_image(builder, request, commit)
        again = build_image(builder, replace(request, archive=folder / "again.tar"), commit)
        if again.digest != image.digest:
            raise Problem(f"two builds of {name} differ: {image.digest} and {again.digest}")
        click.echo(f"{name}: two builds have the same digest")
        over = image.size_over(FOLDER) / 1e6
        if libraries == "runtime" and over > SIZE:
            raise Problem(f"{name} has {over:.1f} MB over its base, and may have {SIZE}")
    _try_scheduler(builder, folder)
    _try_bytecode(builder, folder / "bytecode")
    _try_shadow(builder, folder)
    _try_recorder(builder, folder)


def _try_scheduler(builder: Builder, folder: Path) -> None:
    image, port = "localhost/bayplan:runtime", _free_port()
    (folder / "policy.py").write_text(PLUGIN)
    (folder / "pods.json").write_text(yaml.safe_dump_all(_pod(f"crowd-{number}") for number in range(PODS)))
    manifests = _manifests("--plugin", str(folder / "policy.py"))
    files = [folder / "pods.json"]
    with running_workload(builder, image, manifests, folder, files=files, arguments=[f"--secure-port={port}"]) as it:
        address = f"https://127.0.0.1:{port}"
        alive = it.container.until(lambda: _answer(f"{address}/healthz") == "ok", "/healthz says ok")
        ready = it.container.until(lambda: _answer(f"{address}/readyz") == "ok", "/readyz says ok")
        cpu = it.container.cpu_seconds()
        bound = it.container.until(lambda: len(it.cluster.nodes_of(NAME)) == PODS, f"{PODS} pods are bound")
        nodes = set(it.cluster.nodes_of(NAME))
        if "node-0" in nodes or len(nodes) < 2:
            raise Problem(f"the mounted plugin rejects node-0, but pods are on {', '.join(sorted(nodes))}")
        ended = it.container.terminate()
    click.echo(
        f"scheduler: /healthz after {alive:.2f} s, ready after {ready:.2f} s and {cpu:.2f} s of CPU, "
        f"{PODS} pods bound after {bound:.2f} s, ended {ended:.2f} s after SIGTERM"
    )


def _try_bytecode(builder: Builder, folder: Path) -> None:
    """A start that compiles modules takes twice as long, each time, because the root is read-only."""
    folder.mkdir()
    image, port, verbose = "localhost/bayplan:runtime", _free_port(), {"PYTHONVERBOSE": "1"}
    arguments = [f"--secure-port={port}"]
    with running_workload(builder, image, _manifests(), folder, arguments=arguments, environment=verbose) as it:
        it.container.until(lambda: _answer(f"https://127.0.0.1:{port}/readyz") == "ok", "/readyz says ok")
        it.container.terminate()
        compiled = re.findall(r"^# code object from (/.*\.py)$", it.container.log.read_text(), re.MULTILINE)
    if compiled:
        raise Problem(f"{image} has no bytecode of {len(compiled)} modules that it imports, such as {compiled[0]}")


def _try_shadow(builder: Builder, folder: Path) -> None:
    port, kept = _free_port(), _owned(folder / "found")
    manifests = (ROOT / "deploy" / "shadow.yaml").read_text()
    image, arguments = "localhost/bayplan:runtime", [f"--port={port}"]
    with running_workload(builder, image, manifests, folder, arguments=arguments, kept=kept) as it:
        ready = it.container.until(lambda: _answer(f"http://127.0.0.1:{port}/readyz") is not None, "/readyz answers")
        if "bayplan_shadow" not in (_answer(f"http://127.0.0.1:{port}/metrics") or ""):
            raise Problem("the shadow serves no metrics of its own")
        ended = it.container.terminate()
    if not (kept / "shadow.json").exists():
        raise Problem("the shadow has not written what it found")
    click.echo(f"shadow: ready after {ready:.2f} s, ended {ended:.2f} s after SIGTERM")


def _try_recorder(builder: Builder, folder: Path) -> None:
    port, kept = _free_port(), _owned(folder / "history")
    manifests = (ROOT / "deploy" / "recorder.yaml").read_text()
    image, arguments = "localhost/bayplan:history", [f"--port={port}"]
    with running_workload(builder, image, manifests, folder, arguments=arguments, kept=kept) as it:
        ready = it.container.until(lambda: _answer(f"http://127.0.0.1:{port}/readyz") is not None, "/readyz answers")
        ended = it.container.terminate()
    shown = output([sys.executable, "-m", "bayplan", "history", "show", str(kept / "cluster")])
    click.echo(f"recorder: ready after {ready:.2f} s, ended {ended:.2f} s after SIGTERM; {shown.splitlines()[0]}")


def _manifests(*arguments: str) -> str:
    return output([sys.executable, "-m", "bayplan", "manifests", "--image", "localhost/bayplan:runtime", *arguments])


def _pod(name: str) -> dict[str, object]:
    requests = {"resources": {"requests": {"cpu": "100m", "memory": "64Mi"}}}
    container = {"name": "main", "image": "registry.example/main", **requests}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": NAME, "containers": [container]},
    }


def _owned(folder: Path) -> Path:
    """Return a folder that the user of the container may write to, as fsGroup makes a volume."""
    folder.mkdir()
    os.chown(folder, 65532, 65532)
    return folder


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def _answer(url: str) -> str | None:
    """Return what a page says; None if it doesn't say that all is well."""
    context = ssl._create_unverified_context()  # noqa: S323, SLF001 - a certificate that the scheduler signed itself
    try:
        with urllib.request.urlopen(url, timeout=5, context=context) as reply:  # noqa: S310 - on this machine
            return str(reply.read().decode())
    except (urllib.error.URLError, OSError):
        return None
