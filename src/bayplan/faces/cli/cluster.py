"""`bayplan cluster`: the embedded cluster, for kubectl and other clients."""

from __future__ import annotations

import asyncio
import re
import secrets
from pathlib import Path

import click

from bayplan.answers.snapshots import SnapshotError
from bayplan.core.api import quantity
from bayplan.core.api.requests import is_extended
from bayplan.core.config import PluginLoadError, load_plugins
from bayplan.core.versions import OLDEST, VERSIONS, emulated_version, of_gangs, read_gates
from bayplan.faces.cli import cluster_detached
from bayplan.faces.cli.cluster_contents import read_contents
from bayplan.faces.cli.cluster_detached import UnusableClusterError
from bayplan.faces.cli.cluster_serving import Extras, check_kubeconfig, serve
from bayplan.faces.cli.hosts_option import accept_hosts_option
from bayplan.faces.cli.shared_options import Checked, plugin_option
from bayplan.faces.cli.ui import need_extra
from bayplan.foundations.clock import RunningClock
from bayplan.foundations.manifest_files import ManifestError
from bayplan_devcluster.apiserver import ADMIN, Address, ApiServer, Tls
from bayplan_devcluster.cluster import DevCluster
from bayplan_devcluster.kubelet import KubeletDelays, NodeShape, make_nodes

NODES = 3
"""The nodes of a cluster, unless it restores nodes."""


def _quantity(value: str) -> str:
    """A Kubernetes quantity that isn't negative, as in 500m or 32Gi."""
    if quantity.parse(value) < 0:
        raise ValueError(f"{value} is negative")
    return value


def _extended_resource(value: str) -> tuple[str, str]:
    """An extended resource with its amount, as in nvidia.com/gpu=8."""
    resource, _, amount = value.partition("=")
    if not (_RESOURCE_NAME.fullmatch(resource) and is_extended(resource)):
        raise ValueError(f"{resource!r} is no extended resource: expected a name with a domain, as in nvidia.com/gpu=8")
    if not (amount.isascii() and amount.isdigit()):
        raise ValueError(f"{resource}: expected an integer that isn't negative as the amount, not {amount!r}")
    return resource, amount


_RESOURCE_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")

_QUANTITY = Checked("quantity", _quantity)


class ClusterCommand(click.Command):
    """A command that keeps its arguments, so that it can be run again in the background."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        ctx.meta[ARGUMENTS] = list(args)
        return super().parse_args(ctx, args)


ARGUMENTS = "bayplan.arguments"


@click.command(cls=ClusterCommand)
@click.option(
    "--nodes",
    type=click.IntRange(0),
    default=None,
    help=f"Simulated nodes.  [default: {NODES}; 0 if --filename has the nodes of another cluster]",
)
@click.option("--zones", type=click.IntRange(1), default=3, show_default=True, help="Zones of the nodes.")
@click.option("--cpu", default="8", show_default=True, type=_QUANTITY, help="CPUs per node.")
@click.option("--memory", default="32Gi", show_default=True, type=_QUANTITY, help="Memory per node.")
@click.option("--pods", type=click.IntRange(0), default=110, show_default=True, help="Maximum number of pods per node.")
@click.option(
    "--extended-resource",
    "extended",
    multiple=True,
    type=Checked("name=amount", _extended_resource),
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
    help="Serve PodGroups and Workloads (scheduling.k8s.io), like the feature gate GenericWorkload.",
)
@click.option(
    "--emulated-version",
    "version",
    type=Checked("version", emulated_version),
    help=f"The version of Kubernetes to emulate: {' or '.join(VERSIONS)}.  [default: {OLDEST}, or the one that serves "
    "the objects of --filename]",
)
@click.option(
    "--feature-gates",
    "gate_values",
    multiple=True,
    metavar="A=true,B=false",
    help="The feature gates of the API server and of --scheduler.",
)
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A file or directory of objects to start with: manifests, what `kubectl get -o json` prints, or a snapshot of "
    "`bayplan snapshot`. May be repeated.",
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
@plugin_option("Your own plugins for that scheduler. Implies --scheduler. May be repeated.")
@click.option("--ui", is_flag=True, help="Also serve the page of `bayplan ui`.")
@click.option(
    "--set-context", is_flag=True, help="Make it kubectl's current context, and restore the previous one at the end."
)
@click.option("--detach", is_flag=True, help="Return when the cluster is ready, and run it in the background.")
@click.option("--stop", is_flag=True, help="Stop a cluster that runs in the background, which --kubeconfig names.")
@click.option("--ready-fd", type=int, hidden=True, help="Announce the cluster here, and close it.")
@click.option("--controllers/--no-controllers", default=True, help="Run the controllers.")
@click.option("--kubelets/--no-kubelets", default=True, help="Run simulated kubelets. Without them there are no nodes.")
@click.pass_context
def cluster(
    ctx: click.Context,
    /,
    nodes: int | None,
    zones: int,
    cpu: str,
    memory: str,
    pods: int,
    extended: tuple[tuple[str, str], ...],
    tls: bool,
    rbac: bool,
    pod_groups: bool,
    version: str | None,
    gate_values: tuple[str, ...],
    files: tuple[Path, ...],
    kubeconfig: Path | None,
    clock_rate: float,
    run_seconds: float,
    scheduler: bool,
    plugins: tuple[str, ...],
    ui: bool,
    set_context: bool,
    detach: bool,
    stop: bool,
    ready_fd: int | None,
    port: int,
    accept_hosts: str | None,
    **parts: bool,
) -> None:
    """Serve an embedded Kubernetes cluster on 127.0.0.1, for kubectl and other clients, until SIGTERM or Ctrl-C.

    Its nodes are simulated and run no containers, and its state is in memory. Without --scheduler it has no scheduler:
    use `bayplan run` or your own.
    """
    try:
        if stop:
            click.echo(cluster_detached.stop(kubeconfig or cluster_detached.current_kubeconfig()))
            return
        if detach:
            _detach(ctx.meta[ARGUMENTS], kubeconfig)
            return
        if ui:
            need_extra()
        contents = read_contents(files)
        version = version or contents.version
        read = read_gates([*(of_gangs(version) if pod_groups else ()), *gate_values], version)
        if read.problems:
            raise UnusableClusterError(f"--feature-gates: {read.problems[0]}")
        gates = read.gates
        check_kubeconfig(kubeconfig)
        wanted = Extras(
            contents=contents,
            kubeconfig=kubeconfig,
            scheduler=scheduler or bool(plugins),
            gates=gates,
            plugins=load_plugins(plugins),
            page=ui,
            set_context=set_context,
            ready_fd=ready_fd,
        )
        shape = NodeShape(cpu=cpu, memory=memory, pods=str(pods), extended=dict(extended))
        count = (0 if contents.have_nodes else NODES) if nodes is None else nodes
        clock, secure = RunningClock(clock_rate), tls or rbac  # kubectl sends tokens only over HTTPS
        server = ApiServer(
            clock=clock,
            address=Address(port=port, tls=Tls.create() if secure else None, accept_hosts=accept_hosts),
            # Over TLS, kubectl asks for a password if the kubeconfig has no credentials.
            tokens={secrets.token_urlsafe(): ADMIN} if secure else None,
            rbac=rbac,
            version=version,
            alpha=pod_groups or contents.need_alpha or gates.enabled("GenericWorkload"),
            gates=gates,
        )
        delays = KubeletDelays(job=run_seconds)
        served = DevCluster(make_nodes(count, shape, zones=zones), clock=clock, server=server, delays=delays, **parts)
        asyncio.run(serve(served, wanted))
    except (ManifestError, PluginLoadError, SnapshotError, UnusableClusterError) as error:
        click.echo(f"bayplan cluster: {error}", err=True)
        raise SystemExit(2) from None


def _detach(arguments: list[str], kubeconfig: Path | None) -> None:
    """Run the command again without --detach, in the background."""
    arguments = [argument for argument in arguments if argument != "--detach"]
    path = kubeconfig or cluster_detached.default_kubeconfig()
    if kubeconfig is None:
        arguments += ["--kubeconfig", str(path)]
    click.echo(cluster_detached.start(arguments, path.absolute()))
