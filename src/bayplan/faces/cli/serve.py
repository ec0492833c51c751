"""`bayplan serve`: answers questions about a cluster, which it only reads, as JSON over HTTP."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.faces.cli.following import (
    address_option,
    followed_source,
    history_option,
    listening,
    longest_option,
    port_option,
    stop_signal,
    token_in,
    token_option,
)
from bayplan.faces.cli.insight.follow_options import Followed, follow_options
from bayplan.faces.cli.insight.messages import fail
from bayplan.foundations.lazy import on_use

if TYPE_CHECKING:
    from bayplan.answers.insight.insight import Insight

with on_use():
    from bayplan import insight
    from bayplan.answers.backtest import errors
    from bayplan.faces.serve import server


@click.command()
@address_option
@port_option
@token_option
@longest_option
@history_option
@follow_options
def serve(followed: Followed, address: str, port: int, token_file: Path | None, longest: float, history: str) -> None:
    """Answer questions about a cluster as JSON over HTTP: the questions of the commands, and transactions.

    The server follows the cluster, or the file of --from. It only reads. Every request must have the printed token, as
    in `Authorization: Bearer TOKEN`. GET /openapi.json describes all requests.
    """
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(_serve(followed, address, port, token_in(token_file), token_file, longest, history))


async def _serve(
    followed: Followed, address: str, port: int, token: str, token_file: Path | None, longest: float, history: str
) -> None:

    stop = stop_signal()

    def make() -> Insight:
        return insight.Insight(insight.Snapshot(), followed.configuration, followed.plugins, seed=followed.seed)

    answering = make()
    async with AsyncExitStack() as stack:
        source = await followed_source(followed, answering, stack)
        served = server.serving(
            source, answering, make, address=address, port=port, token=token, longest=longest, history=history
        )
        try:
            with listening(address, port):
                url, _ = await stack.enter_async_context(served)
        except errors.BacktestError as error:
            fail(str(error))
        click.echo(f"url: {url}\ntoken: {token if token_file is None else f'in {token_file}'}")
        await stop.wait()
