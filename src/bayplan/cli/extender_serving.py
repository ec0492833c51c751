"""What `bayplan extender` does once it is known what was asked for: read, check, serve, and say what goes wrong."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from bayplan.api.kinds import NODE, POD
from bayplan.cli.run import RefusedError
from bayplan.client import ApiError, Client, ConfigError, TransportError, connect
from bayplan.config import (
    ConfigurationError,
    ExtraPlugin,
    KubeSchedulerConfiguration,
    PluginLoadError,
    load_plugins,
    read_configuration,
)
from bayplan.extender.paths import DEFAULT_PATHS, PREEMPT
from bayplan.extender.plugins import ExtenderProfiles, plugins_alone, plugins_of
from bayplan.extender.running import BuildExtenderProfiles, RunningExtender, ServerSettings, running_extender
from bayplan.extender.snippet import extenders_snippet
from bayplan.framework.handle import Handle
from bayplan.service.heap import keep_heap

log = logging.getLogger(__name__)


class UnusableError(Exception):
    """The extender cannot be had as it was asked for. The message is one line."""


@dataclass(frozen=True, slots=True)
class Connection:
    """Which cluster to watch, if any: that of a kubeconfig, or with `watch` the one that kubectl would talk to."""

    kubeconfig: str | None = None
    context: str | None = None
    watch: bool = False


@dataclass(frozen=True, slots=True)
class Files:
    """What to serve HTTPS with, and whose clients to answer."""

    certificate: str | None = None
    key: str | None = None
    authority: str | None = None


def serve(
    plugins: Sequence[str],
    config: str | None,
    connection: Connection,
    host: str,
    port: int,
    paths: Mapping[str, str],
    files: Files,
) -> None:
    """Serve until a signal comes. Exits with status 2 where that cannot be, and a line for everything that is wrong."""
    keep_heap()
    try:
        loaded = load_plugins(plugins)
        configuration = _configuration(Path(config), loaded) if config is not None else None
        kubeconfig = connection.kubeconfig
        if configuration is not None:
            kubeconfig = kubeconfig or configuration.clientConnection.kubeconfig or None
        settings = ServerSettings(host=host, port=port, paths=_paths(paths), tls=_tls(files), freeze=True)
        build = _builder(configuration, loaded)
        connected = connection.watch or kubeconfig is not None or connection.context is not None
        where = (kubeconfig, connection.context) if connected else None
        asyncio.run(_run(build, where, settings, _tls_config(files)))
    except ConfigurationError as error:
        click.echo("\n".join(f"bayplan extender: {line}" for line in str(error).splitlines()), err=True)
        raise SystemExit(2) from None
    except (ConfigError, PluginLoadError, RefusedError, UnusableError) as error:
        click.echo(f"bayplan extender: {error}", err=True)
        raise SystemExit(2) from None


def _configuration(path: Path, plugins: Sequence[ExtraPlugin]) -> KubeSchedulerConfiguration:
    reading = read_configuration(path, plugins)
    for line in reading.warning_lines():
        click.echo(f"bayplan extender: {line}", err=True)
    return reading.configuration


def _builder(configuration: KubeSchedulerConfiguration | None, plugins: Sequence[ExtraPlugin]) -> BuildExtenderProfiles:
    def build(handle: Handle) -> ExtenderProfiles:
        if configuration is None:
            return plugins_alone(plugins, handle)
        return plugins_of(configuration, plugins, handle)

    return build


def _paths(given: Mapping[str, str]) -> Mapping[str, str]:
    paths = {**DEFAULT_PATHS, **given}
    for verb, path in paths.items():
        other = next((other for other in paths if other != verb and paths[other] == path), None)
        if other is not None:
            raise UnusableError(f"--path: {verb} and {other} are both to be served at {path}")
    return paths


def _tls(files: Files) -> ssl.SSLContext | None:
    certificate, key, authority = files.certificate, files.key, files.authority
    if certificate is None:
        for option, value in (("--tls-private-key-file", key), ("--client-ca-file", authority)):
            if value is not None:
                raise UnusableError(f"{option} is of no use without --tls-cert-file")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    problem = f"--tls-cert-file {certificate} with key {key or 'in the same file'}"
    try:
        context.load_cert_chain(certificate, key)
        if authority is not None:
            problem = f"--client-ca-file {authority}"
            context.load_verify_locations(authority)
            context.verify_mode = ssl.CERT_OPTIONAL  # health is for those without one, too
    except (OSError, ValueError) as error:
        raise UnusableError(f"{problem} cannot be used: {error}") from error
    return context


def _tls_config(files: Files) -> Mapping[str, str] | None:
    """What the scheduler in front has to be told to trust us; which files it has, only its administrator knows."""
    if files.certificate is None:
        return None
    told = {"caFile": f"the authority that signed {files.certificate}"}
    if files.authority is not None:
        told |= {"certFile": f"a certificate of {files.authority}", "keyFile": "the key of that certificate"}
    return told


async def _run(
    build: BuildExtenderProfiles,
    connection: tuple[str | None, str | None] | None,
    settings: ServerSettings,
    tls_config: Mapping[str, str] | None,
) -> None:
    stop = _stop_on_signals()
    async with AsyncExitStack() as stack:
        client: Client | None = None
        if connection is not None:
            client = await stack.enter_async_context(connect(*connection))
            await _check_access(client)
        try:
            running = await stack.enter_async_context(running_extender(build, client, settings))
        except OSError as error:
            raise UnusableError(f"cannot serve on {settings.host}:{settings.port}: {error.strerror}") from error
        click.echo(_announcement(running, settings, tls_config))
        await stop.wait()


def _announcement(running: RunningExtender, settings: ServerSettings, tls_config: Mapping[str, str] | None) -> str:
    url, verbs, watches = running.server.url, running.verbs, running.watched is not None
    remarks = running.profiles.not_asked()
    if PREEMPT not in verbs and PREEMPT in running.profiles.verbs(connected=True):
        remarks.append("preempt and bind need a connection to the cluster: --kubeconfig FILE or --watch")
    snippet = extenders_snippet(
        url, verbs, settings.paths, weight=running.profiles.weight, watches=watches, tls=tls_config
    )
    notes = "".join(f"Note: {remark}.\n" for remark in remarks)
    where = "as the scheduler reaches it" if settings.host in {"0.0.0.0", "::"} else "if it runs beside this"  # noqa: S104 - compared
    return (
        f"Serving {', '.join(verbs)} at {url}.\n{notes}"
        f"For the configuration of the scheduler in front (urlPrefix {where}):\n\n{snippet}"
    )


async def _check_access(client: Client) -> None:
    """Read what is going to be watched: whoever is not let in should hear it now, and not in a loop of retries."""
    for kind in (NODE, POD):
        try:
            await client.request("GET", kind.path(), params={"limit": 1})
        except ApiError as error:
            raise RefusedError(f"the API server does not let us list {kind.plural}: {error}") from error
        except TransportError as error:
            raise RefusedError(f"cannot reach the API server: {error}") from error


def _stop_on_signals() -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets. The second one ends the process there and then."""
    stop = asyncio.Event()

    def asked() -> None:
        if stop.is_set():
            os._exit(1)
        log.warning("stopping: waiting for open requests; once more to stop at once")
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asked)
    return stop
