"""What the commands share that serve a cluster which they follow."""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.faces.cli.insight.cluster_options import Command, with_options
from bayplan.faces.cli.insight.follow_options import Followed
from bayplan.faces.cli.insight.messages import fail
from bayplan.faces.cli.insight.progress import reporting
from bayplan.faces.cli.shared_options import FilesOfKind
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.backtest import limited
    from bayplan.core.api import kinds
    from bayplan.faces.asking import sources
    from bayplan.foundations import http_server
    from bayplan.running.client import connection, errors


if TYPE_CHECKING:
    from prometheus_client.registry import Collector

    from bayplan.answers.insight.insight import Insight
    from bayplan.core.api.kinds import Kind
    from bayplan.faces.asking.sources import Source
    from bayplan.running.client.http import HttpClient

LOOPBACK = "127.0.0.1"
_SHORTEST = 16
"""Characters of a token in a file."""

address_option = click.option("--address", default=LOOPBACK, show_default=True, help="The address to listen on.")
port_option = click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on. Default: a free one."
)
_token_option = click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file with the token. If it does not exist, it gets a new one, which only you can read.",
)
_longest_option = click.option(
    "--longest",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a question may take.",
)
_history_option = click.option(
    "--history",
    type=FilesOfKind("path", ""),
    metavar="DIR",
    default="",
    help="A history, which `bayplan record` and `bayplan history` write, for questions about it, such as compare.",
)


@dataclass(frozen=True, slots=True)
class ListeningOptions:
    """The options of commands that answer questions at a port: where they listen, and how long a question may take.

    `history`: the folder of a history that questions may be about; "" for none.
    """

    address: str
    port: int
    token_file: Path | None
    longest: float
    history: str

    def token(self) -> str:
        """Return a new token, or that of the file, which is made if there is none. Ends the process for a bad one."""
        return _new_token() if self.token_file is None else _token_in(self.token_file)

    async def until(self, stop: asyncio.Event, served: AbstractAsyncContextManager[tuple[str, str]]) -> None:
        """Serve until the event is set, and print the URL and the token. Ends the process for an unusable address."""
        async with AsyncExitStack() as stack:
            with listening(self.address, self.port):
                url, token = await stack.enter_async_context(served)
            click.echo(f"url: {url}\ntoken: {token if self.token_file is None else f'in {self.token_file}'}")
            await stop.wait()


def serving_options(command: Command) -> Command:
    """Add the options of a command that answers questions at a port, which gets them as `serving`."""

    @functools.wraps(command)
    def call(
        *others: Any, address: str, port: int, token_file: Path | None, longest: float, history: str, **given: Any
    ) -> Any:
        return command(*others, serving=ListeningOptions(address, port, token_file, longest, history), **given)

    return with_options(call, (address_option, port_option, _token_option, _longest_option, _history_option))


def _new_token() -> str:
    return secrets.token_urlsafe(24)


def _token_in(file: Path) -> str:
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as new:
            token = _new_token()
            new.write(f"{token}\n")
            return token
    except FileExistsError:
        pass
    except OSError as error:
        fail(f"cannot write {file}: {error.strerror}")
    try:
        token = file.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        fail(f"cannot read {file}: {getattr(error, 'strerror', None) or 'expected ASCII'}")
    if len(token) < _SHORTEST or not token.isprintable() or " " in token:
        fail(f"{file}: expected a token of at least {_SHORTEST} characters without spaces")
    return token


def stop_signal() -> asyncio.Event:
    """Return an event that SIGINT or SIGTERM sets."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


@contextmanager
def listening(address: str, port: int) -> Iterator[None]:
    """End the process if the address can't be used in the context."""
    try:
        yield
    except OSError as error:
        fail(f"cannot listen on {address} port {port}: {error.strerror}")


@asynccontextmanager
async def serving_metrics(
    collector: Collector, ready: Callable[[], bool], address: str, port: int
) -> AsyncIterator[None]:
    """Serve metrics in the context, and say where. Ends the process if the address can't be used."""
    async with AsyncExitStack() as stack:
        with listening(address, port):
            used = await stack.enter_async_context(http_server.metrics_served(collector, ready, address, port))
        click.echo(f"metrics: http://{address}:{used}/metrics", err=True)
        yield


async def check_readable(client: HttpClient, *kinds: Kind) -> None:
    """End the process if one of the kinds can't be listed, so that a wrong address is an error."""
    for kind in kinds:
        try:
            async for _ in client.pages(kind, limit=1, decode=bytes):
                break
        except (errors.ApiError, errors.TransportError) as error:
            fail(f"cannot read the {kind.plural} of {client.access.server}: {error}")


def limit_plugins(followed: Followed) -> None:
    """Give a process that calls plugins of the user its limit of memory."""
    if followed.plugins:
        limited.limit_memory(followed.memory)


async def followed_source(followed: Followed, insight: Insight, stack: AsyncExitStack) -> Source:
    """Return the source that the options name. A process that calls plugins of the user has a limit of memory."""
    limit_plugins(followed)
    source = followed.source
    if followed.moment is not None:
        with reporting(f"Reading {source.path}"):
            return sources.FileSource(await asyncio.to_thread(followed.moment.read))
    if source.path is not None:
        snapshot = await asyncio.to_thread(source.read)
        return sources.FileSource(snapshot, None if source.path == "-" else source.path)
    client = await stack.enter_async_context(connection.connect(source.kubeconfig, source.context))
    await check_readable(client, kinds.NODE)
    handle = insight.world.handle
    return sources.ClusterSource(client, f"cluster {client.access.server}", handle.served, handle.feeds.values())
