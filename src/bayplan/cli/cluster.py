"""`bayplan cluster`: the embedded cluster, for kubectl and other clients."""

from __future__ import annotations

import asyncio
import errno
import re
import shlex
import signal
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import click

from bayplan.api import quantity
from bayplan.api.kinds import NODE
from bayplan.api.requests import is_extended
from bayplan.cli.run_options import accept_hosts_option
from bayplan.cli.serving import unless
from bayplan.clock import RunningClock
from bayplan.collector import keep_pauses_short
from bayplan.devcluster import manifests
from bayplan.devcluster.cluster import CONTEXT, DevCluster
from bayplan.devcluster.kubelet import KubeletDelays, NodeShape, make_nodes
from bayplan.devcluster.manifests import Manifest
from bayplan.manifest_files import ManifestError

DEFAULT_SCHEDULER = "default-scheduler"
"""The scheduler of pods that name none."""


class UnusableError(Exception):
    """The cluster can't be started as requested. The message is one line."""


class _Quantity(click.ParamType[str]):
    """A Kubernetes quantity that isn't negative, as in 500m or 32Gi."""

    name = "quantity"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            negative = quantity.parse(value) < 0
        except quantity.InvalidQuantity as error:
            self.fail(str(error), param, ctx)
        if negative:
            self.fail(f"{value} is negative", param, ctx)
        return value


class _ExtendedResource(click.ParamType[tuple[str, str]]):
    """An extended resource with its amount, as in nvidia.com/gpu=8."""

    name = "name=amount"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        resource, _, amount = value.partition("=")
        if not (_RESOURCE_NAME.fullmatch(resource) and is_extended(resource)):
            self.fail(f"{resource!r} is no extended resource: expected a name with a domain, as in nvidia.com/gpu=8")
        if not (amount.isascii() and amount.isdigit()):
            self.fail(f"{resource}: expected an integer that isn't negative as the amount, not {amount!r}")
        return resource, amount


_RESOURCE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")


@click.command()
@click.option("--nodes", type=click.IntRange(0), default=3, show_default=True, help="Simulated nodes.")
@click.option("--zones", type=click.IntRange(1), default=3, show_default=True, help="Zones of the nodes.")
@click.option("--cpu", default="8", show_default=True, type=_Quantity(), help="CPUs per node.")
@click.option("--memory", default="32Gi", show_default=True, type=_Quantity(), help="Memory per node.")
@click.option("--pods", type=click.IntRange(0), default=110, show_default=True, help="Maximum number of pods per node.")
@click.option(
    "--extended-resource",
    "extended",
    multiple=True,
    type=_ExtendedResource(),
    help="A resource of each node, as in nvidia.com/gpu=8; may be repeated.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port on 127.0.0.1. Default: a free one.")
@accept_hosts_option
@click.option("--tls", is_flag=True, help="Serve HTTPS with a new certificate.")
@click.option(
    "--rbac",
    is_flag=True,
    help="Enforce RBAC with the default roles. The kubeconfig is an administrator's. Implies --tls.",
)
@click.option(
    "--pod-groups",
    is_flag=True,
    help="Serve PodGroups and Workloads (scheduling.k8s.io/v1alpha2), like the feature gate GenericWorkload.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file or directory of objects to create at startup, in YAML or JSON. May be repeated.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Where to write the kubeconfig of the cluster.",
)
@click.option(
    "--clock-rate",
    type=click.FloatRange(0, min_open=True),
    default=1.0,
    show_default=True,
    help="How many times faster than real time the cluster's clock runs.",
)
@click.option(
    "--run-seconds",
    type=click.FloatRange(0),
    default=KubeletDelays().job,
    show_default=True,
    help="How long pods of Jobs run by default, in seconds of the cluster's clock.",
)
@click.option("--scheduler", is_flag=True, help="Also run a scheduler, for pods that don't name another one.")
@click.option("--controllers/--no-controllers", default=True, help="Run the controllers.")
@click.option("--kubelets/--no-kubelets", default=True, help="Run simulated kubelets. Without them there are no nodes.")
def cluster(
    nodes: int,
    zones: int,
    cpu: str,
    memory: str,
    pods: int,
    extended: tuple[tuple[str, str], ...],
    port: int,
    accept_hosts: str | None,
    tls: bool,
    rbac: bool,
    pod_groups: bool,
    files: tuple[Path, ...],
    kubeconfig: Path | None,
    clock_rate: float,
    run_seconds: float,
    scheduler: bool,
    controllers: bool,
    kubelets: bool,
) -> None:
    """Serve an embedded Kubernetes cluster on 127.0.0.1, for kubectl and other clients, until SIGTERM or Ctrl-C.

    Its nodes are simulated and run no containers, and its state is in memory. Without --scheduler it has no scheduler:
    use `bayplan run` or your own.
    """
    shape = NodeShape(cpu=cpu, memory=memory, pods=str(pods), extended=dict(extended))
    try:
        loaded = manifests.read(files)
        _check_kubeconfig(kubeconfig)
        served = DevCluster(
            make_nodes(nodes, shape, zones=zones),
            clock=RunningClock(clock_rate),
            port=port,
            accept_hosts=accept_hosts,
            tls=tls or rbac,  # kubectl sends tokens only over HTTPS
            rbac=rbac,
            alpha=pod_groups,
            controllers=controllers,
            kubelets=kubelets,
            delays=KubeletDelays(job=run_seconds),
        )
        asyncio.run(_serve(served, loaded, kubeconfig, scheduler=scheduler))
    except (ManifestError, UnusableError) as error:
        click.echo(f"bayplan cluster: {error}", err=True)
        raise SystemExit(2) from None


async def _serve(served: DevCluster, loaded: Sequence[Manifest], kubeconfig: Path | None, *, scheduler: bool) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with AsyncExitStack() as stack:
        try:
            await stack.enter_async_context(served)
        except OSError as error:
            raise UnusableError(_explain(error, served.port)) from error
        if not await unless(stop, _prepare(served, loaded)):
            return
        if kubeconfig is None:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="bayplan-"))
            kubeconfig = Path(folder) / "kubeconfig"
        _write_kubeconfig(served, kubeconfig)
        stack.callback(asyncio.create_task(keep_pauses_short(), name="garbage collector").cancel)
        if scheduler:
            await stack.enter_async_context(_scheduling(kubeconfig))
        click.echo(_announcement(served, loaded, kubeconfig.absolute(), scheduler=scheduler))
        await stop.wait()


@asynccontextmanager
async def _scheduling(kubeconfig: Path) -> AsyncGenerator[None]:
    """Run a scheduler under the name of the stock one. It finishes its bindings at the end."""
    from bayplan.client import connect
    from bayplan.config import default_profile
    from bayplan.service.scheduler import Scheduler

    stop = asyncio.Event()
    async with connect(kubeconfig) as client, asyncio.TaskGroup() as tasks:
        scheduler = Scheduler(client, lambda handle: {DEFAULT_SCHEDULER: default_profile(DEFAULT_SCHEDULER, handle)})
        tasks.create_task(scheduler.run(stop), name="scheduler")
        try:
            yield
        finally:
            stop.set()


async def _prepare(served: DevCluster, loaded: Sequence[Manifest]) -> None:
    await served.nodes_ready()
    await manifests.create(served.client, loaded)
    await served.nodes_ready(_node_names(loaded))


def _node_names(loaded: Sequence[Manifest]) -> set[str]:
    names = (one.document["metadata"].get("name") for one in loaded if one.kind is NODE)
    return {name for name in names if name}


def _check_kubeconfig(path: Path | None) -> None:
    """Refuse to overwrite a file that isn't the kubeconfig of an embedded cluster."""
    if path is None or not path.exists():
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UnusableError(f"{path} exists and cannot be read: {error}") from error
    if text.strip() and f"current-context: {CONTEXT}\n" not in text:
        raise UnusableError(f"{path} exists and is not the kubeconfig of an embedded cluster: choose another file")


def _write_kubeconfig(served: DevCluster, path: Path) -> None:
    try:
        served.write_kubeconfig(path)
    except OSError as error:
        raise UnusableError(f"cannot write the kubeconfig {path}: {error.strerror}") from error


def _explain(error: OSError, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on 127.0.0.1 is in use: choose another with --port, or omit --port to use a free one"
    return f"cannot serve on port {port} of 127.0.0.1: {error.strerror or error}"


def _announcement(served: DevCluster, loaded: Sequence[Manifest], kubeconfig: Path, *, scheduler: bool) -> str:
    nodes = served.node_names | _node_names(loaded)
    count = "1 node" if len(nodes) == 1 else f"{len(nodes)} nodes"
    lines = [f"Serving an embedded Kubernetes cluster with {count} at {served.url}"]
    if loaded:
        lines.append(f"{len(loaded)} objects created")
    lines += ["", f"  export KUBECONFIG={shlex.quote(str(kubeconfig))}", ""]
    if scheduler:
        lines.append("A scheduler runs inside, for pods that don't set schedulerName.")
    else:
        lines += [
            "No scheduler runs yet: pods that don't set schedulerName stay Pending until you run this as well:",
            "",
            f"  bayplan run --scheduler-name {DEFAULT_SCHEDULER}",
            "",
        ]
    return "\n".join([*lines, "Press Ctrl-C to stop it. Its state is not saved."])
