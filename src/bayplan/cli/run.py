"""`bayplan run`: the scheduler for a real cluster."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from bayplan.cli.dump_signal import DumpSignal
from bayplan.cli.run_logging import DEBUG_LEVEL, INFO_LEVEL, JSON, TEXT, configure_logging
from bayplan.cli.run_options import PYTHON_FILE, RunCommand, kube_scheduler_flags

if TYPE_CHECKING:  # all that takes time to import is imported when it is known that something will run
    from bayplan.cli.run_preparation import Preparation
    from bayplan.client import HttpClient
    from bayplan.client.http import RequestObserver
    from bayplan.config import KubeSchedulerConfiguration
    from bayplan.extender.client import HttpExtenders
    from bayplan.service.leader_election import Leadership
    from bayplan.service.scheduler import Scheduler

log = logging.getLogger(__name__)


@click.command(cls=RunCommand)
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
@click.option(
    "--scheduler-name",
    help="Schedule the pods whose spec.schedulerName is this. Default: bayplan-scheduler, or as --config says.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE|MODULE[:NAME]",
    type=PYTHON_FILE,
    help="A policy of your own; may be repeated. Takes part in everything, or with --config where that names it.",
)
@click.option("--seed", type=int, help="Make the choice among equally good nodes repeatable.")
@click.option("-v", "--verbose", "verbosity", count=True, help="Say what happens to every pod; -vv says why.")
@kube_scheduler_flags
def run(
    context: str | None,
    scheduler_name: str | None,
    plugins: tuple[str, ...],
    seed: int | None,
    verbosity: int,
    **flags: Any,
) -> None:
    """Schedule the pods of a cluster that ask for this scheduler by name, and no others.

    The flags of kube-scheduler are taken under their names, so that its manifests work here.

    SIGTERM or Ctrl-C ends it when what is being bound has arrived; a second one ends it at once. SIGUSR2 writes what it
    knows to the log: nodes, the pods on them, and the queue, and what the API server has otherwise.
    """
    with DumpSignal() as dump_signal:  # before anything that takes time
        _prepare_and_run(dump_signal, context, scheduler_name, plugins, seed, verbosity, flags)


def _prepare_and_run(
    dump_signal: DumpSignal,
    context: str | None,
    scheduler_name: str | None,
    plugins: tuple[str, ...],
    seed: int | None,
    verbosity: int,
    flags: dict[str, Any],
) -> None:
    form = flags["logging_format"] or TEXT
    configure_logging(max(flags["v"] or 0, {0: 0, 1: INFO_LEVEL}.get(verbosity, DEBUG_LEVEL)), form)
    from bayplan.cli.run_preparation import prepare

    prepared = prepare(flags, plugins, scheduler_name)
    for warning in prepared.warnings:
        if form == JSON:
            log.warning("%s", warning)
        else:
            click.echo(warning, err=True)
    if not prepared.problems and flags["write_config_to"]:
        _write_configuration(prepared, Path(flags["write_config_to"]))
        return
    if prepared.problems:
        _refuse(*prepared.problems)
    extenders = _extenders(prepared.configuration, flags["config"])
    _schedule(prepared, extenders, flags["master"], context, seed, dump_signal)


def _refuse(*lines: str) -> NoReturn:
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(2)


def _write_configuration(prepared: Preparation, path: Path) -> None:
    from bayplan.config.writing import written

    try:
        path.write_text(written(prepared.configuration, prepared.catalog), encoding="utf-8")
    except OSError as error:
        _refuse(f"bayplan run: --write-config-to: {path} cannot be written: {error.strerror}")


def _extenders(configuration: KubeSchedulerConfiguration, path: str) -> HttpExtenders | None:
    """Those that the configuration names, if it names any: refused if their certificates are of no use."""
    if not configuration.extenders:
        return None
    from bayplan.config import ConfigurationError
    from bayplan.extender.client import HttpExtenders

    try:
        return HttpExtenders(configuration.extenders)
    except ConfigurationError as error:
        _refuse(*(f"{path}: {fault}" for fault in error.faults))


def _schedule(
    prepared: Preparation,
    extenders: HttpExtenders | None,
    master: str | None,
    context: str | None,
    seed: int | None,
    dump_signal: DumpSignal,
) -> None:
    from bayplan.cli.serving import RefusedError
    from bayplan.client import ConfigError
    from bayplan.config import ConfigurationError, PluginLoadError
    from bayplan.service.heap import keep_heap
    from bayplan.service.leader_election import LeaseLostError
    from bayplan.service.scheduler import SchedulingEndedError
    from bayplan.service.serving.options import ServingError

    keep_heap()
    try:
        asyncio.run(_run(prepared, extenders, master, context, seed, dump_signal))
    except ConfigurationError as error:
        _refuse(*str(error).splitlines())
    except (ConfigError, PluginLoadError, RefusedError, ServingError) as error:
        _refuse(f"bayplan run: {error}")
    except SchedulingEndedError as error:
        click.echo(f"bayplan run: {error}", err=True)
        raise SystemExit(1) from None
    except LeaseLostError as error:
        click.echo(f"bayplan run: {error}: another instance may decide now; start this one again", err=True)
        raise SystemExit(1) from None


async def _run(
    prepared: Preparation,
    extenders: HttpExtenders | None,
    master: str | None,
    context: str | None,
    seed: int | None,
    dump_signal: DumpSignal,
) -> None:
    from bayplan.cli.serving import check_access, stop_on_signals
    from bayplan.service.leader_election import LeaderElection
    from bayplan.service.metrics.measuring import Metrics
    from bayplan.service.scheduler import Scheduler

    def open_client(observer: RequestObserver | None = None) -> HttpClient:
        return _client(prepared.configuration, master, context, observer)

    stop, dump_asked, metrics = stop_on_signals("what is being bound"), dump_signal.asked(), Metrics()
    async with open_client(metrics) as client, extenders or nullcontext():
        await check_access(client)
        election = prepared.election
        async with nullcontext() if election is None else LeaderElection(open_client, election) as leadership:
            scheduler = Scheduler(
                client,
                prepared.build_profiles,
                prepared.settings(seed),
                extenders=extenders,
                leadership=leadership,
                metrics=metrics,
                dump_asked=dump_asked,
            )
            if election is not None and leadership is not None:
                metrics.leading[election.name] = leadership.leads
            with _endpoints(prepared, scheduler, open_client, leadership):
                await scheduler.run(stop)


def _endpoints(
    prepared: Preparation, scheduler: Scheduler, connect: Callable[[], HttpClient], leadership: Leadership | None
) -> AbstractContextManager[object]:
    """The endpoints that flags ask for. `connect` opens the client that tokens and access are reviewed with."""
    if prepared.serving is None:
        return nullcontext()
    import yaml

    from bayplan.client import HttpClient, load_kubeconfig
    from bayplan.config.writing import written
    from bayplan.service.serving.endpoints import Endpoints

    def connect_with(kubeconfig: str) -> Callable[[], HttpClient]:
        return (lambda: HttpClient(load_kubeconfig(kubeconfig))) if kubeconfig else connect

    return Endpoints(
        prepared.serving.options,
        scheduler,
        connect_with(prepared.serving.authentication_kubeconfig),
        connect_authorization=connect_with(prepared.serving.authorization_kubeconfig),
        configuration=lambda: yaml.safe_load(written(prepared.configuration, prepared.catalog)),
        flags=prepared.flags,
        leadership=leadership,
        selection=prepared.metrics,
    )


def _client(
    configuration: KubeSchedulerConfiguration,
    master: str | None,
    context: str | None,
    observer: RequestObserver | None = None,
) -> HttpClient:
    """The client that flags and configuration ask for. Raises ConfigError.

    A server given alone is asked without credentials: those that lie about are another one's. Mirrors
    clientcmd.BuildConfigFromFlags.
    """
    from dataclasses import replace

    from bayplan.client import ClusterAccess, HttpClient, load_kubeconfig

    kubeconfig = configuration.clientConnection.kubeconfig or None
    if master and kubeconfig is None and context is None:
        access = ClusterAccess(server=master, source="--master")
    else:
        access = load_kubeconfig(kubeconfig, context)
        if master:
            access = replace(access, server=master, source=f"--master and {access.source}")
    limit = configuration.clientConnection.limit
    if limit is None:
        return HttpClient(access, observer=observer)
    return HttpClient(access, qps=limit[0], burst=limit[1], observer=observer)
