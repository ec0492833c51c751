"""Runs an embedded cluster for `bayplan cluster`: its objects, its scheduler, its page and its announcement."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
import yaml

from bayplan.core.versions import DEFAULT_GATES, FeatureGates
from bayplan.faces.cli.cluster_contents import Contents
from bayplan.faces.cli.cluster_detached import UnusableClusterError, check_not_running, held, marked, stop_command
from bayplan.faces.cli.following import stop_signal
from bayplan.faces.cli.kubectl_context import ContextError, kubectl_file, restore_context, set_context
from bayplan.faces.cli.serving import unless
from bayplan.foundations.collector import keep_pauses_short
from bayplan.foundations.lazy import on_use
from bayplan_devcluster import manifests
from bayplan_devcluster.cluster import CONTEXT, DevCluster

with on_use():
    from bayplan import insight
    from bayplan.core import config
    from bayplan.core.config import types
    from bayplan.faces.asking import sources
    from bayplan.faces.ui import server
    from bayplan.running.client import connection
    from bayplan.running.service import scheduler as service_scheduler


if TYPE_CHECKING:
    from bayplan.core.config import ExtraPlugin

_MOST_LINES = 20
"""Objects that are left out and named."""


@dataclass(frozen=True, slots=True)
class Extras:
    """What to run besides the cluster itself."""

    contents: Contents
    kubeconfig: Path | None = None
    """Where to write the kubeconfig; None for a temporary file."""
    scheduler: bool = False
    plugins: Sequence[ExtraPlugin] = ()
    """The user's plugins for the scheduler inside."""
    gates: FeatureGates = DEFAULT_GATES
    """The version that this scheduler decides as, with its feature gates."""
    page: bool = False
    set_context: bool = False
    ready_fd: int | None = None
    """The pipe to announce the cluster on, in place of stdout; None in the foreground."""


async def serve(served: DevCluster, wanted: Extras) -> None:
    """Run a cluster until SIGTERM or SIGINT. Raises UnusableError and ManifestError if it can't be started."""
    stop = stop_signal()
    _warn_about(served.server.restore(wanted.contents.restored))
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(served)
        except OSError as error:
            assert served.server.address is not None  # only one that listens meets a port in use
            raise UnusableClusterError(_explain(error, served.server.address.port)) from error
        if not await unless(stop, _prepare(served, wanted.contents)):
            return
        kubeconfig = _write_kubeconfig(served, wanted, stack)
        stack.callback(asyncio.create_task(keep_pauses_short(), name="garbage collector").cancel)
        if wanted.scheduler:
            await stack.enter_async_context(_scheduling(kubeconfig, wanted.plugins, wanted.gates))
        page = await stack.enter_async_context(_page(kubeconfig, wanted.plugins)) if wanted.page else ""
        _announce(_announcement(served, wanted, kubeconfig.absolute(), page), wanted.ready_fd)
        await stop.wait()


def check_kubeconfig(path: Path | None) -> None:
    """Raise UnusableError if a file isn't the kubeconfig of an embedded cluster, or of one that runs."""
    if path is None or not path.exists():
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableClusterError(f"{path} exists and cannot be read: {error}") from error
    if text.strip() and f"current-context: {CONTEXT}\n" not in text:
        raise UnusableClusterError(
            f"{path} exists and is not the kubeconfig of an embedded cluster: choose another file"
        )
    check_not_running(path)


def _warn_about(problems: Sequence[str]) -> None:
    """Print which objects are not restored."""
    for problem in problems[:_MOST_LINES]:
        click.echo(f"warning: {problem}; the object is left out", err=True)
    if len(problems) > _MOST_LINES:
        click.echo(f"warning: {len(problems) - _MOST_LINES} more objects are left out", err=True)


async def _prepare(served: DevCluster, contents: Contents) -> None:
    await served.nodes_ready()
    await manifests.create(served.client, contents.created)
    await served.nodes_ready(contents.node_names)


def _write_kubeconfig(served: DevCluster, wanted: Extras, stack: AsyncExitStack) -> Path:
    """Write the kubeconfig and hold its lock. With --set-context, make it kubectl's until the end."""
    path = wanted.kubeconfig
    if path is None:
        path = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bayplan-"))) / "kubeconfig"
    file = kubectl_file() if wanted.set_context else None
    try:
        path.touch(mode=0o600)
        path.write_text(marked(served.kubeconfig(), context_in=file), encoding="utf-8")
        stack.enter_context(held(path))
    except OSError as error:
        raise UnusableClusterError(f"cannot write the kubeconfig {path}: {error.strerror}") from error
    if file is not None:
        try:
            set_context(file, yaml.safe_load(served.kubeconfig()))
        except ContextError as error:
            raise UnusableClusterError(f"--set-context: {error}") from None
        stack.callback(_restore, file)
    return path


def _restore(file: Path) -> None:
    try:
        restore_context(file, CONTEXT)
    except ContextError as error:
        click.echo(f"bayplan cluster: cannot restore kubectl's context: {error}", err=True)


@asynccontextmanager
async def _scheduling(kubeconfig: Path, plugins: Sequence[ExtraPlugin], gates: FeatureGates) -> AsyncGenerator[None]:
    """Run a scheduler under the names of the stock one and of `bayplan run`. It finishes its bindings at the end."""
    stop = asyncio.Event()
    names = (types.DEFAULT_SCHEDULER_NAME, types.OUR_SCHEDULER_NAME)
    async with connection.connect(kubeconfig) as client, asyncio.TaskGroup() as tasks:
        scheduler = service_scheduler.Scheduler(
            client, lambda handle: {name: config.default_profile(name, handle, plugins, gates) for name in names}
        )
        tasks.create_task(scheduler.run(stop), name="scheduler")
        try:
            yield
        finally:
            stop.set()


@asynccontextmanager
async def _page(kubeconfig: Path, plugins: Sequence[ExtraPlugin]) -> AsyncGenerator[str]:
    """Serve the page of `bayplan ui` about the cluster. Yields its address."""
    answering = insight.Insight(insight.Snapshot(), None, plugins)
    async with connection.connect(kubeconfig) as client:
        handle = answering.world.handle
        source = sources.ClusterSource(client, f"cluster {client.access.server}", handle.served, handle.feeds.values())
        async with server.serving(source, answering) as address:
            yield address


def _explain(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on 127.0.0.1 is in use: choose another with --port, or omit --port to use a free one"
    return f"cannot serve on port {port} of 127.0.0.1: {error.strerror or error}"


def _announce(text: str, ready_fd: int | None) -> None:
    if ready_fd is None:
        click.echo(text)
        return
    with os.fdopen(ready_fd, "w", encoding="utf-8") as pipe:
        pipe.write(text)


def _announcement(served: DevCluster, wanted: Extras, kubeconfig: Path, page: str) -> str:
    nodes = served.node_names | wanted.contents.node_names
    count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    lines = [f"Serving an embedded Kubernetes cluster with {count} at {served.url}"]
    if wanted.contents.restored:
        lines.append(f"{len(wanted.contents.restored)} objects restored")
    if wanted.contents.created:
        lines.append(f"{len(wanted.contents.created)} objects created")
    if wanted.set_context:
        lines += ["", f"It is kubectl's current context, {CONTEXT}, until it stops.", ""]
    else:
        lines += ["", f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}", ""]
    if page:
        lines += [f"Its page: {page}", ""]
    if wanted.scheduler:
        lines.append("A scheduler runs inside, for pods that don't set schedulerName.")
    else:
        lines += [
            "No scheduler runs yet: pods that don't set schedulerName stay Pending until you run this as well:",
            "",
            f"  bayplan run --scheduler-name {types.DEFAULT_SCHEDULER_NAME}",
            "",
        ]
    how = "Press Ctrl-C to stop it." if wanted.ready_fd is None else f"Stop it with `{stop_command(kubeconfig)}`."
    return "\n".join([*lines, f"{how} Its state is not saved."])
