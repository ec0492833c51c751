"""`bayplan run`: runs the scheduler."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, closing, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from bayplan.faces.cli.dump_signal import DumpSignal
from bayplan.faces.cli.run_logging import DEBUG_LEVEL, INFO_LEVEL, JSON, TEXT, configure_logging
from bayplan.faces.cli.run_options import RunCommand, kube_scheduler_flags
from bayplan.faces.cli.run_recording import RecordOptions
from bayplan.faces.cli.shared_options import plugin_option

if TYPE_CHECKING:  # slow imports happen only if the scheduler will run
    from bayplan.core.config import KubeSchedulerConfiguration
    from bayplan.faces.cli.ending import ProcessEnding
    from bayplan.faces.cli.run_preparation import Preparation
    from bayplan.running.client.http import HttpClient, RequestObserver
    from bayplan.running.extender.client import HttpExtenders
    from bayplan.running.service.scheduler import Scheduler

log = logging.getLogger(__name__)


@click.command(cls=RunCommand)
@click.option("--context", help="Context of the kubeconfig. Default: the current context.")
@click.option(
    "--scheduler-name",
    help="Schedule pods with this spec.schedulerName. Default: that of --config, or bayplan-scheduler.",
)
@plugin_option("Your own plugins. With --config, they run where it enables them, else everywhere. May be repeated.")
@click.option("--seed", type=int, help="Seed for choosing among nodes with the same score.")
@click.option(
    "--record",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Record all that decisions rest on to DIR, for `bayplan replay` and `bayplan why`.",
)
@click.option(
    "--record-keep",
    metavar="24h|2Gi",
    help="How much of this process's recording to keep: a duration or a size. Default: all of it.",
)
@click.option(
    "--record-redact",
    is_flag=True,
    help="Record with other names, and without texts, so that the recording can be shared. The key that makes the "
    "names is in a file beside DIR: keep that to yourself.",
)
@click.option("-v", "--verbose", "verbosity", count=True, help="Log what happens to each pod; -vv also logs why.")
@kube_scheduler_flags
def run(
    context: str | None,
    scheduler_name: str | None,
    plugins: tuple[str, ...],
    seed: int | None,
    record: str | None,
    record_keep: str | None,
    record_redact: bool,
    verbosity: int,
    **flags: Any,
) -> None:
    """Schedule the pods of a cluster that select this scheduler by name.

    The flags of kube-scheduler have the same names here, so that you can use its manifests.

    SIGTERM or Ctrl-C finishes in-flight bindings, then exits. A second one exits at once. SIGUSR2 logs the scheduler's
    state (nodes, their pods, and the queue) and its differences from the API server.
    """
    if record is None and (record_redact or record_keep is not None):
        raise click.UsageError("--record-keep and --record-redact say how to record: use them with --record")
    with DumpSignal() as dump_signal:  # before anything that takes time
        form = flags["logging_format"] or TEXT
        configure_logging(max(flags["v"] or 0, {0: 0, 1: INFO_LEVEL}.get(verbosity, DEBUG_LEVEL)), form)
        from bayplan.faces.cli.run_preparation import prepare

        prepared = prepare(flags, plugins, scheduler_name)
        for warning in prepared.warnings:
            if warning in prepared.doubtful:
                continue
            if form == JSON:
                log.warning("%s", warning)
            else:
                click.echo(warning, err=True)
        if prepared.problems:
            _fail(*prepared.problems)
        if flags["write_config_to"]:
            _write_configuration(prepared, Path(flags["write_config_to"]))
            return
        extenders = _extenders(prepared.configuration, flags["config"])
        recording = None if record is None else RecordOptions(record, record_keep, record_redact, plugins)
        _run_until_done(partial(_run, prepared, extenders, flags["master"], context, seed, recording, dump_signal))


def _fail(*lines: str) -> NoReturn:
    for line in lines:
        click.echo(line, err=True)
    raise SystemExit(2)


def _write_configuration(prepared: Preparation, path: Path) -> None:
    from bayplan.core.config.writing import to_yaml
    from bayplan.foundations.file_replacement import replace_text

    try:
        replace_text(path, to_yaml(prepared.configuration, prepared.catalog))
    except OSError as error:
        _fail(f"bayplan run: --write-config-to: {path} cannot be written: {error.strerror}")


def _extenders(configuration: KubeSchedulerConfiguration, path: str) -> HttpExtenders | None:
    """The extenders of the configuration, if any. Exits with status 2 if their certificates are invalid."""
    if not configuration.extenders:
        return None
    from bayplan.core.config import ConfigurationError
    from bayplan.running.extender.client import HttpExtenders

    try:
        return HttpExtenders(configuration.extenders)
    except ConfigurationError as error:
        _fail(*(f"{path}: {fault}" for fault in error.faults))


def _run_until_done(scheduling: Callable[[ProcessEnding], Coroutine[Any, Any, None]]) -> None:
    """Run the scheduler. Exits with status 2 if it can't start, and 1 if it lost its lease."""
    from bayplan.core.config import ConfigurationError, PluginLoadError
    from bayplan.faces.cli.ending import ProcessEnding
    from bayplan.faces.cli.serving import NoAccessError, run_until_done
    from bayplan.foundations.heap import keep_heap
    from bayplan.running.client.errors import ConfigError, NoKubeconfigError
    from bayplan.running.recording.files import RecordingError
    from bayplan.running.service.leader_election import LeaseLostError
    from bayplan.running.service.scheduler import SchedulingEndedError
    from bayplan.running.service.serving.options import ServingError

    keep_heap()
    with ProcessEnding() as ending:
        try:
            run_until_done(scheduling(ending), ending)
        except ConfigurationError as error:
            _fail(*str(error).splitlines())
        except NoKubeconfigError as error:
            _fail(f"bayplan run: {error}; --kubeconfig names a file, and `bayplan cluster` starts a cluster")
        except (ConfigError, PluginLoadError, NoAccessError, RecordingError, ServingError) as error:
            _fail(f"bayplan run: {error}")
        except SchedulingEndedError as error:
            click.echo(f"bayplan run: {error}", err=True)
            raise SystemExit(1) from None
        except LeaseLostError as error:
            click.echo(f"bayplan run: {error}: another instance may lead now; restart this one", err=True)
            raise SystemExit(1) from None


async def _run(
    prepared: Preparation,
    extenders: HttpExtenders | None,
    master: str | None,
    context: str | None,
    seed: int | None,
    recording: RecordOptions | None,
    dump_signal: DumpSignal,
    ending: ProcessEnding,
) -> None:
    from bayplan.faces.cli.run_recording import open_recorder, with_seed
    from bayplan.faces.cli.run_reports import RunReports, report_recording, report_start, report_version
    from bayplan.faces.cli.serving import DeniedError, NoAccessError, check_access, stop_on_signals, unless
    from bayplan.running.service.leader_election import ElectionThread
    from bayplan.running.service.metrics.measuring import Metrics
    from bayplan.running.service.scheduler import Peers, Scheduler

    def open_client(observer: RequestObserver | None = None) -> HttpClient:
        return _client(prepared.configuration, master, context, observer)

    stop, metrics = stop_on_signals("in-flight bindings", ending), Metrics()
    async with open_client(metrics) as client, open_client(metrics) as events, extenders or nullcontext():
        report_start(
            client.access,
            [profile.schedulerName for profile in prepared.configuration.profiles],
            [plugin.name for plugin in prepared.plugins],
            prepared.serving.options if prepared.serving is not None else None,
        )
        try:
            if not await unless(stop, check_access(client)):
                return
        except DeniedError as error:
            report = await Scheduler(client, prepared.build_profiles).report_permissions(error.response)
            raise NoAccessError(report or str(error)) from None
        prepared = await _as_the_cluster(prepared, client)
        report_version(prepared.gates, chosen=prepared.as_version is None)
        election = prepared.election
        async with nullcontext() if election is None else ElectionThread(open_client, election) as leadership:
            settings = prepared.settings(seed)
            if recording is None:
                recorder = None
            else:
                settings = with_seed(settings)
                recorder = open_recorder(recording, prepared, settings, client.access.server)
                report_recording(recording.folder)
                ending.before_force.append(recorder.close)
            peers = Peers(extenders, leadership, events, recorder)
            scheduler = Scheduler(client, prepared.build_profiles, settings, peers, metrics)
            dump_signal.connect(scheduler.dump_asked)
            if election is not None and leadership is not None:
                ending.before_force.append(leadership.close)
                metrics.leading[election.name] = leadership.leads
            reports = RunReports(scheduler, leadership, election, client.longest_wait)
            with _endpoints(prepared, scheduler, open_client), nullcontext() if recorder is None else closing(recorder):
                async with reports.reporting():
                    await scheduler.run(stop)


async def _as_the_cluster(prepared: Preparation, client: HttpClient) -> Preparation:
    """The preparation for the version of the cluster, unless --emulated-version names one. May exit with status 2."""
    from bayplan.core.versions import version_followed
    from bayplan.running.client.server_version import server_version

    if prepared.as_version is None:
        return prepared
    followed = version_followed(await server_version(client))
    if followed.note:
        log.warning("%s; --emulated-version names another one", followed.note)
    again = prepared
    if followed.version != prepared.gates.version:
        again = prepared.as_version(followed.version)
        again.as_version = prepared.as_version
    for warning in again.warnings:
        if warning in prepared.doubtful or warning not in prepared.warnings:
            log.warning("%s", warning)
    if again.problems:
        _fail(*(f"{problem} (the cluster has Kubernetes {followed.version})" for problem in again.problems))
    return again


def _endpoints(
    prepared: Preparation, scheduler: Scheduler, connect: Callable[[], HttpClient]
) -> AbstractContextManager[object]:
    """The endpoints, if flags enable them. `connect` opens the default client for token and access reviews."""
    if prepared.serving is None:
        return nullcontext()
    import yaml

    from bayplan.core.config.writing import to_yaml
    from bayplan.running.client.http import HttpClient
    from bayplan.running.client.kubeconfig import load_kubeconfig
    from bayplan.running.service.serving.endpoints import Endpoints, Published
    from bayplan.running.service.serving.server import ReviewClients

    def connect_with(kubeconfig: str) -> Callable[[], HttpClient]:
        return (lambda: HttpClient(load_kubeconfig(kubeconfig))) if kubeconfig else connect

    serving = prepared.serving
    clients = ReviewClients(
        connect_with(serving.authentication_kubeconfig), connect_with(serving.authorization_kubeconfig)
    )
    published = Published(
        configuration=lambda: yaml.safe_load(to_yaml(prepared.configuration, prepared.catalog)),
        flags=prepared.flags,
        metrics=prepared.metrics,
        gates=prepared.gates,
    )
    return Endpoints(serving.options, scheduler, clients, published)


def _client(
    configuration: KubeSchedulerConfiguration,
    master: str | None,
    context: str | None,
    observer: RequestObserver | None = None,
) -> HttpClient:
    """The client for the flags and the configuration. Raises ConfigError.

    With only --master, requests have no credentials, because those of the default kubeconfig belong to another server.
    Mirrors clientcmd.BuildConfigFromFlags.
    """
    from dataclasses import replace

    from bayplan.running.client.access import ClusterAccess
    from bayplan.running.client.http import HttpClient
    from bayplan.running.client.kubeconfig import load_kubeconfig

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
