"""`bayplan serve`: answers questions about a cluster, which it only reads, as JSON over HTTP."""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
from contextlib import AsyncExitStack
from pathlib import Path

import click

from bayplan.cli.following import LOOPBACK, followed_source, stop_signal
from bayplan.cli.insight.cluster_options import Followed, follow_options
from bayplan.cli.insight.messages import fail

_SHORTEST = 16
"""Characters of a token in a file."""


@click.command()
@click.option("--address", default=LOOPBACK, show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on. Default: a free one.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="The file with the token. If it does not exist, it gets a new one, which only you can read.",
)
@click.option(
    "--longest",
    type=click.FloatRange(0, min_open=True),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="How long a question may take.",
)
@follow_options
def serve(followed: Followed, address: str, port: int, token_file: Path | None, longest: float) -> None:
    """Answer questions about a cluster as JSON over HTTP: the questions of the commands, and transactions.

    The server follows the cluster, or the file of --from. It only reads. Every request must have the printed token, as
    in `Authorization: Bearer TOKEN`. GET /openapi.json describes all requests.
    """
    logging.basicConfig(level=logging.ERROR)
    token = secrets.token_urlsafe(24) if token_file is None else token_in(token_file)
    asyncio.run(_serve(followed, address, port, token, token_file, longest))


def token_in(file: Path) -> str:
    """Return the token of a file, which is made if it doesn't exist. Ends the process for one that can't be used."""
    try:
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="ascii") as new:
            token = secrets.token_urlsafe(24)
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


async def _serve(
    followed: Followed, address: str, port: int, token: str, token_file: Path | None, longest: float
) -> None:
    from bayplan.insight import Insight, Snapshot
    from bayplan.serve.server import serving

    stop = stop_signal()

    def make() -> Insight:
        return Insight(Snapshot(), followed.configuration, followed.plugins, seed=followed.seed)

    insight = make()
    async with AsyncExitStack() as stack:
        source = await followed_source(followed, insight, stack)
        try:
            url, _ = await stack.enter_async_context(
                serving(source, insight, make, address=address, port=port, token=token, longest=longest)
            )
        except OSError as error:
            fail(f"cannot listen on {address} port {port}: {error.strerror}")
        click.echo(f"url: {url}\ntoken: {token if token_file is None else f'in {token_file}'}")
        await stop.wait()
