"""`bayplan extender`: plugins for a scheduler that is not Bayplan, over HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import ssl
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click

from bayplan.api.kinds import NODE, POD
from bayplan.cli.run import RefusedError, configure_logging
from bayplan.client import ApiError, Client, ConfigError, TransportError, connect
from bayplan.config import (
    ConfigurationError,
    ExtraPlugin,
    KubeSchedulerConfiguration,
    PluginLoadError,
    load_plugins,
    read_configuration,
)
from bayplan.extender.plugins import PREEMPT, VERBS, ExtenderProfiles, plugins_alone, plugins_of
from bayplan.extender.running import BuildExtenderProfiles, RunningExtender, ServerSettings, running_extender
from bayplan.extender.server import DEFAULT_PATHS
from bayplan.extender.snippet import extenders_snippet
from bayplan.framework.handle import Handle
from bayplan.service.heap import keep_heap

log = logging.getLogger(__name__)


class UnusableError(Exception):
    """The extender cannot be had as it was asked for. The message is one line."""


class _Path(click.ParamType[tuple[str, str]]):
    """Where a verb is served, as in filter=/predicates."""

    name = "path"

    def convert(
        self, value: str | tuple[str, str], param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        verb, _, path = value.partition("=")
        if verb not in VERBS or not path.strip("/"):
            self.fail(f"{value!r} is not VERB=PATH with one of the verbs {', '.join(VERBS)}", param, ctx)
        return verb, f"/{path.lstrip('/')}"


@click.command()
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE|MODULE[:NAME]",
    help="A policy of your own; may be repeated.",
)
@click.option(
    "--config",
    type=click.Path(path_type=Path),
    help="A KubeSchedulerConfiguration: its profiles say which plugins are asked, with which weights and arguments. "
    "Default: all of --plugin. In-tree plugins are asked only where it enables them by name.",
)
@click.option(
    "--kubeconfig",
    type=click.Path(),
    help="Path to a kubeconfig. With it, the extender watches nodes and pods itself, takes the names of nodes for an "
    "answer (nodeCacheCapable), and can bind.",
)
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
@click.option(
    "--watch",
    is_flag=True,
    help="As --kubeconfig, with KUBECONFIG, ~/.kube/config, or the pod's service account.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve on; 0.0.0.0 behind a Service.")
@click.option("--port", type=click.IntRange(0, 65535), default=8888, show_default=True, help="Port; 0 is a free one.")
@click.option(
    "--path",
    "paths",
    multiple=True,
    type=_Path(),
    metavar="VERB=PATH",
    help=f"Serve {', '.join(VERBS)} elsewhere than at /VERB; may be repeated.",
)
@click.option("--tls-cert-file", type=click.Path(), help="Serve HTTPS with this certificate.")
@click.option("--tls-private-key-file", type=click.Path(), help="The certificate's key.")
@click.option("--client-ca-file", type=click.Path(), help="Answer only clients with a certificate of this authority.")
@click.option(
    "-v", "--verbose", "verbosity", count=True, help="Say what becomes of every request; -vv says everything."
)
def extender(
    plugins: tuple[str, ...],
    config: Path | None,
    kubeconfig: str | None,
    context: str | None,
    watch: bool,
    host: str,
    port: int,
    paths: tuple[tuple[str, str], ...],
    tls_cert_file: str | None,
    tls_private_key_file: str | None,
    client_ca_file: str | None,
    verbosity: int,
) -> None:
    """Lend plugins to another scheduler, the stock kube-scheduler above all, which asks for them over HTTP.

    It prints what to put into that scheduler's configuration. SIGTERM or Ctrl-C ends it when open requests are
    answered; a second one ends it at once.
    """
    if not plugins and config is None:
        raise click.UsageError("give a --plugin, or a --config")
    configure_logging(verbosity)
    keep_heap()
    try:
        loaded = load_plugins(plugins)
        configuration = _configuration(config, loaded) if config is not None else None
        if configuration is not None:
            kubeconfig = kubeconfig or configuration.clientConnection.kubeconfig or None
        tls = _tls(tls_cert_file, tls_private_key_file, client_ca_file)
        settings = ServerSettings(host=host, port=port, paths=_paths(dict(paths)), tls=tls, freeze=True)
        build = _builder(configuration, loaded)
        connection = (kubeconfig, context) if watch or kubeconfig or context else None
        asyncio.run(_run(build, connection, settings, _tls_config(tls_cert_file, client_ca_file)))
    except (ConfigError, ConfigurationError, PluginLoadError, RefusedError, UnusableError) as error:
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


def _tls(certificate: str | None, key: str | None, authority: str | None) -> ssl.SSLContext | None:
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


def _tls_config(certificate: str | None, authority: str | None) -> Mapping[str, str] | None:
    """What the scheduler in front has to be told to trust us; which files it has, only its administrator knows."""
    if certificate is None:
        return None
    told = {"caFile": f"the authority that signed {certificate}"}
    if authority is not None:
        told |= {"certFile": f"a certificate of {authority}", "keyFile": "the key of that certificate"}
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
