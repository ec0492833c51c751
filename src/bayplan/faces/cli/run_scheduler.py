"""Runs the scheduler for `bayplan run`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import click
import yaml

from bayplan.core.config import ConfigurationError, KubeSchedulerConfiguration, PluginLoadError
from bayplan.core.versions import version_followed
from bayplan.faces.cli.dump_signal import DumpSignal
from bayplan.faces.cli.ending import ProcessEnding
from bayplan.faces.cli.run_logging import JSON
from bayplan.faces.cli.run_preparation import Preparation, prepare
from bayplan.faces.cli.run_reports import RunReports, report_recording, report_requests, report_start, report_version
from bayplan.faces.cli.serving import DeniedError, NoAccessError, check_access, run_until_done, stop_on_signals, unless
from bayplan.foundations.file_replacement import replace_text
from bayplan.foundations.heap import keep_heap
from bayplan.foundations.lazy import on_use
from bayplan.running.client.access import ClusterAccess
from bayplan.running.client.errors import ConfigError, NoKubeconfigError
from bayplan.running.client.http import HttpClient, RequestObserver
from bayplan.running.client.kubeconfig import load_kubeconfig
from bayplan.running.client.server_version import server_version
from bayplan.running.provisioning.options import ProvisioningOptions
from bayplan.running.service.leader_election import ElectionThread, LeaseLostError
from bayplan.running.service.metrics.measuring import Metrics
from bayplan.running.service.scheduler import Scheduler, SchedulingEndedError
from bayplan.running.service.serving.options import ServingError
from bayplan.running.service.settings import Peers

with on_use():
    from bayplan.core.config import writing
    from bayplan.faces.cli import run_recording
    from bayplan.running.extender import client
    from bayplan.running.provisioning import desk as desks
    from bayplan.running.recording import files
    from bayplan.running.service.serving import endpoints, server


log = logging.getLogger(__name__)

_RUN = "bayplan run"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """Bayplan's own options of a run. `provisioning`: how provisioning requests are answered; None to answer none."""

    scheduler_name: str | None = None
    context: str | None = None
    seed: int | None = None
    recording: run_recording.RecordOptions | None = None
    provisioning: ProvisioningOptions | None = None


def run_scheduler(
    flags: Mapping[str, Any], plugins: Sequence[str], options: RunOptions, dump_signal: DumpSignal
) -> None:
    """Prepare and run the scheduler until a signal. Exits with status 2 for bad input. `flags`: by parameter name."""
    prepared = prepare(flags, plugins, options.scheduler_name)
    for warning in prepared.warnings:
        if warning in prepared.doubtful:
            continue
        if flags["logging_format"] == JSON:
            log.warning("%s", warning)
        else:
            click.echo(_of_this_command(warning), err=True)
    if prepared.problems:
        _fail(*prepared.problems)
    if flags["write_config_to"]:
        _write_configuration(prepared, Path(flags["write_config_to"]))
        return
    extenders = _extenders(prepared.configuration, flags["config"])
    _run_until_done(partial(_run, prepared, extenders, flags["master"], options, dump_signal))


def _fail(*lines: str) -> NoReturn:
    for line in lines:
        click.echo(_of_this_command(line), err=True)
    raise SystemExit(2)


def _of_this_command(line: str) -> str:
    """A line for the user, with the name of the command that runs."""
    context = click.get_current_context(silent=True)
    name = "run" if context is None else context.info_name
    return line.replace(f"{_RUN}:", f"bayplan {name}:", 1) if line.startswith(f"{_RUN}:") else line


def _write_configuration(prepared: Preparation, path: Path) -> None:

    try:
        replace_text(path, writing.to_yaml(prepared.configuration, prepared.catalog))
    except OSError as error:
        _fail(f"bayplan run: --write-config-to: {path} cannot be written: {error.strerror}")


def _extenders(configuration: KubeSchedulerConfiguration, path: str) -> client.HttpExtenders | None:
    """The extenders of the configuration, if any. Exits with status 2 if their certificates are invalid."""
    if not configuration.extenders:
        return None

    try:
        return client.HttpExtenders(configuration.extenders)
    except ConfigurationError as error:
        _fail(*(f"{path}: {fault}" for fault in error.faults))


def _run_until_done(scheduling: Callable[[ProcessEnding], Coroutine[Any, Any, None]]) -> None:
    """Run the scheduler. Exits with status 2 if it can't start, and 1 if it lost its lease."""
    keep_heap()
    with ProcessEnding() as ending:
        try:
            run_until_done(scheduling(ending), ending)
        except ConfigurationError as error:
            _fail(*str(error).splitlines())
        except NoKubeconfigError as error:
            _fail(f"bayplan run: {error}; --kubeconfig names a file, and `bayplan cluster` starts a cluster")
        except (ConfigError, PluginLoadError, NoAccessError, files.RecordingError, ServingError) as error:
            _fail(f"bayplan run: {error}")
        except SchedulingEndedError as error:
            click.echo(_of_this_command(f"bayplan run: {error}"), err=True)
            raise SystemExit(1) from None
        except LeaseLostError as error:
            why = f"bayplan run: {error}: another instance may lead now; restart this one"
            click.echo(_of_this_command(why), err=True)
            raise SystemExit(1) from None


async def _run(
    prepared: Preparation,
    extenders: client.HttpExtenders | None,
    master: str | None,
    options: RunOptions,
    dump_signal: DumpSignal,
    ending: ProcessEnding,
) -> None:
    recording, desk = options.recording, None if options.provisioning is None else desks.Desk(options.provisioning)

    def open_client(observer: RequestObserver | None = None) -> HttpClient:
        return _client(prepared.configuration, master, options.context, observer)

    stop, metrics = stop_on_signals("in-flight bindings", ending), Metrics()
    observer = metrics.requests
    async with open_client(observer) as client, open_client(observer) as events, extenders or nullcontext():
        requests = options.provisioning
        names = [profile.schedulerName for profile in prepared.configuration.profiles]
        report_start(
            client.access,
            [] if requests is not None and requests.alone else names,
            prepared.added,
            prepared.serving.options if prepared.serving is not None else None,
        )
        if requests is not None:
            report_requests(requests.classes)
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
            settings = prepared.settings(options.seed)
            if recording is None:
                recorder = None
            else:
                settings = run_recording.with_seed(settings)
                answers = () if requests is None else requests.classes
                recorder = run_recording.open_recorder(recording, prepared, settings, client.access.server, answers)
                report_recording(recording.folder)
                ending.before_force.append(recorder.close)
            peers = Peers(extenders, leadership, events, recorder, desk)
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

    def connect_with(kubeconfig: str) -> Callable[[], HttpClient]:
        return (lambda: HttpClient(load_kubeconfig(kubeconfig))) if kubeconfig else connect

    serving = prepared.serving
    clients = server.ReviewClients(
        connect_with(serving.authentication_kubeconfig), connect_with(serving.authorization_kubeconfig)
    )
    published = endpoints.Published(
        configuration=lambda: yaml.safe_load(writing.to_yaml(prepared.configuration, prepared.catalog)),
        flags=prepared.flags,
        metrics=prepared.metrics,
        gates=prepared.gates,
    )
    return endpoints.Endpoints(serving.options, scheduler, clients, published)


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
