"""Runs `bayplan extender`: reads and checks the files, serves, and reports errors."""

from __future__ import annotations

import errno
import logging
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

import click

from bayplan.core.config import (
    ConfigurationError,
    ExtraPlugin,
    LoadedConfiguration,
    PluginLoadError,
    load_plugins,
    read_configuration,
)
from bayplan.core.framework.handle import Handle
from bayplan.faces.cli.ending import ProcessEnding
from bayplan.faces.cli.serving import NoAccessError, check_access, run_until_done, stop_on_signals, unless
from bayplan.foundations.heap import keep_heap
from bayplan.running.client.client import Client
from bayplan.running.client.connection import connect
from bayplan.running.client.errors import ConfigError
from bayplan.running.extender.paths import DEFAULT_PATHS, PREEMPT
from bayplan.running.extender.plugins import ExtenderProfiles, profile_of_plugins, profiles_of
from bayplan.running.extender.running import BuildExtenderProfiles, RunningExtender, running_extender
from bayplan.running.extender.server import ServerSettings
from bayplan.running.extender.snippet import extenders_snippet

log = logging.getLogger(__name__)


class UnusableExtenderError(Exception):
    """The extender can't be started as requested. The message is one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExtenderOptions:
    """Where to serve, and the cluster to watch: that of a kubeconfig or, with `watch`, the one that kubectl would use.

    `accept_hosts`: the host names to answer to (see `HostNames`). `client_ca_file` is the CA that client certificates
    are required from.
    """

    kubeconfig: str | None
    context: str | None
    watch: bool
    host: str
    port: int
    paths: Sequence[tuple[str, str]]
    tls_cert_file: str | None
    tls_private_key_file: str | None
    client_ca_file: str | None
    accept_hosts: str | None


def serve(plugins: Sequence[str], config: str | None, options: ExtenderOptions) -> None:
    """Serve until a signal arrives. If that isn't possible, print all errors and exit with status 2."""
    keep_heap()
    try:
        kubeconfig = options.kubeconfig
        loaded = load_plugins(plugins)
        reading = read_configuration(Path(config), loaded) if config is not None else None
        if reading is not None:
            for line in reading.warning_lines():
                click.echo(line, err=True)
            problem = f"is not enabled in any profile of {config}: enable it in plugins.multiPoint"
            for name in reading.unused_plugins():
                click.echo(f"bayplan extender: warning: plugin {name!r} {problem}", err=True)
            kubeconfig = kubeconfig or reading.configuration.clientConnection.kubeconfig or None
        settings = ServerSettings(
            host=options.host,
            port=options.port,
            paths=_paths(dict(options.paths)),
            tls=_tls(options),
            accept_hosts=options.accept_hosts,
            freeze=True,
        )
        build = _builder(reading, loaded)
        connected = options.watch or kubeconfig is not None or options.context is not None
        where = (kubeconfig, options.context) if connected else None
        with ProcessEnding() as ending:
            run_until_done(_run(build, where, settings, _tls_config(options), ending), ending)
    except ConfigurationError as error:
        click.echo(str(error), err=True)
        raise SystemExit(2) from None
    except (ConfigError, PluginLoadError, NoAccessError, UnusableExtenderError) as error:
        click.echo(f"bayplan extender: {error}", err=True)
        raise SystemExit(2) from None


def _builder(reading: LoadedConfiguration | None, plugins: Sequence[ExtraPlugin]) -> BuildExtenderProfiles:
    def build(handle: Handle) -> ExtenderProfiles:
        if reading is None:
            return profile_of_plugins(plugins, handle)
        try:
            return profiles_of(reading.configuration, reading.plugins, handle)
        except ConfigurationError as error:
            document = reading.document
            raise ConfigurationError(document.in_order(error.faults), document.source, document.line_of) from None

    return build


def _paths(given: Mapping[str, str]) -> Mapping[str, str]:
    paths = {**DEFAULT_PATHS, **given}
    for verb, path in paths.items():
        other = next((other for other in paths if other != verb and paths[other] == path), None)
        if other is not None:
            raise UnusableExtenderError(f"--path: {verb} and {other} have the same path, {path}")
    return paths


def _tls(options: ExtenderOptions) -> ssl.SSLContext | None:
    certificate, key, authority = options.tls_cert_file, options.tls_private_key_file, options.client_ca_file
    if certificate is None:
        for option, value in (("--tls-private-key-file", key), ("--client-ca-file", authority)):
            if value is not None:
                raise UnusableExtenderError(f"{option} requires --tls-cert-file")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    problem = f"--tls-cert-file {certificate} with key {key or 'in the same file'}"
    try:
        context.load_cert_chain(certificate, key)
        if authority is not None:
            problem = f"--client-ca-file {authority}"
            context.load_verify_locations(authority)
            context.verify_mode = ssl.CERT_OPTIONAL  # health checks don't need a certificate
    except (OSError, ValueError) as error:
        raise UnusableExtenderError(f"{problem} cannot be used: {error}") from error
    return context


def _tls_config(options: ExtenderOptions) -> Mapping[str, str] | None:
    """Hints for the tlsConfig of the other scheduler. Only its administrator knows the paths of its files."""
    if options.tls_cert_file is None:
        return None
    hints = {"caFile": f"the CA that signed {options.tls_cert_file}"}
    if options.client_ca_file is not None:
        hints |= {"certFile": f"a certificate of {options.client_ca_file}", "keyFile": "the key of that certificate"}
    return hints


async def _run(
    build: BuildExtenderProfiles,
    connection: tuple[str | None, str | None] | None,
    settings: ServerSettings,
    tls_config: Mapping[str, str] | None,
    ending: ProcessEnding,
) -> None:
    stop = stop_on_signals("open requests", ending)
    async with AsyncExitStack() as stack:
        client: Client | None = None
        if connection is not None:
            client = await stack.enter_async_context(connect(*connection))
            if not await unless(stop, check_access(client)):
                return
        try:
            running = await stack.enter_async_context(running_extender(build, client, settings))
        except OSError as error:
            problem = f"cannot serve on {settings.host}:{settings.port}: {error.strerror}"
            if error.errno == errno.EADDRINUSE:
                problem = f"port {settings.port} on {settings.host} is in use: choose another with --port"
            raise UnusableExtenderError(problem) from error
        click.echo(_announcement(running, settings, tls_config))
        await stop.wait()


def _announcement(running: RunningExtender, settings: ServerSettings, tls_config: Mapping[str, str] | None) -> str:
    url, verbs, watches = running.server.url, running.verbs, running.watched is not None
    remarks = running.profiles.unused_points()
    if PREEMPT not in verbs and PREEMPT in running.profiles.verbs(connected=True):
        remarks.append("preempt and bind need a connection to the cluster: use --kubeconfig FILE or --watch")
    snippet = extenders_snippet(
        url, verbs, settings.paths, weight=running.profiles.weight, watches=watches, tls=tls_config
    )
    notes = "".join(f"Note: {remark}.\n" for remark in remarks)
    where = "as the scheduler reaches it" if settings.host in {"0.0.0.0", "::"} else "if it runs on the same machine"  # noqa: S104 - compared
    return (
        f"Serving {', '.join(verbs)} at {url}.\n{notes}"
        f"Add this to the configuration of the other scheduler (urlPrefix {where}):\n\n{snippet}"
    )
