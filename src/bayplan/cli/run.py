"""`bayplan run`: the scheduler for a real cluster."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Mapping, Sequence

import click

from bayplan.api.kinds import NODE, POD
from bayplan.client import ApiError, Client, ConfigError, TransportError, connect
from bayplan.config import ExtraPlugin, PluginLoadError, default_profile, load_plugins
from bayplan.framework.handle import Handle
from bayplan.framework.profile import Profile
from bayplan.service.heap import keep_heap
from bayplan.service.scheduler import BuildProfiles, Scheduler, Settings

log = logging.getLogger(__name__)


@click.command()
@click.option(
    "--kubeconfig",
    type=click.Path(),
    help="Path to a kubeconfig. Default: KUBECONFIG, ~/.kube/config, or the pod's service account.",
)
@click.option("--context", help="Context of the kubeconfig. Default: its current one.")
@click.option(
    "--scheduler-name",
    default="bayplan-scheduler",
    show_default=True,
    help="Schedule the pods whose spec.schedulerName is this.",
)
@click.option(
    "--plugin",
    "plugins",
    multiple=True,
    metavar="FILE|MODULE[:NAME]",
    help="A policy of your own, beside the built-in plugins; may be repeated.",
)
@click.option("--seed", type=int, help="Make the choice among equally good nodes repeatable.")
@click.option("-v", "--verbose", "verbosity", count=True, help="Say what happens to every pod; -vv says everything.")
def run(
    kubeconfig: str | None,
    context: str | None,
    scheduler_name: str,
    plugins: tuple[str, ...],
    seed: int | None,
    verbosity: int,
) -> None:
    """Schedule the pods of a cluster that ask for this scheduler by name, and no others.

    SIGTERM or Ctrl-C ends it when what is being bound has arrived; a second one ends it at once.
    """
    configure_logging(verbosity)
    keep_heap()
    try:
        build = profiles_of(scheduler_name, load_plugins(plugins))
        asyncio.run(_run(kubeconfig, context, build, Settings(seed=seed, freeze=True)))
    except (ConfigError, PluginLoadError, RefusedError) as error:
        click.echo(f"bayplan run: {error}", err=True)
        raise SystemExit(2) from None


class RefusedError(Exception):
    """The cluster does not let us in. The message says what was asked for and what the answer was."""


def configure_logging(verbosity: int) -> None:
    """Log to standard error: what goes wrong, with -v what happens to every pod, with -vv everything."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname).1s %(message)s")
    logging.getLogger("bayplan").setLevel({0: logging.WARNING, 1: logging.INFO}.get(verbosity, logging.DEBUG))


def profiles_of(scheduler_name: str, plugins: Sequence[ExtraPlugin]) -> BuildProfiles:
    """How to make one profile of the built-in plugins and these."""

    def build(handle: Handle) -> Mapping[str, Profile]:
        return {scheduler_name: default_profile(scheduler_name, handle, plugins)}

    return build


async def _run(kubeconfig: str | None, context: str | None, build: BuildProfiles, settings: Settings) -> None:
    async with connect(kubeconfig, context) as client:
        await _check_access(client)
        scheduler = Scheduler(client, build, settings)
        await scheduler.run(_stop_on_signals())


async def _check_access(client: Client) -> None:
    """Read what the scheduler reads first: whoever is not let in should hear it now, and not in a loop of retries."""
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
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if stop.is_set():
            os._exit(1)
        log.warning("stopping: waiting for what is being bound; once more to stop at once")
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    return stop
