"""`bayplan serve`: answers questions about a cluster, which it only reads, as JSON over HTTP."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

import click

from bayplan.faces.cli.following import ListeningOptions, followed_source, serving_options, stop_signal
from bayplan.faces.cli.insight.follow_options import Followed, follow_options
from bayplan.faces.cli.insight.messages import fail
from bayplan.foundations.lazy import on_use

with on_use():
    from bayplan.answers.backtest import errors
    from bayplan.faces.serve import server


@click.command()
@serving_options
@follow_options
def serve(followed: Followed, serving: ListeningOptions) -> None:
    """Answer questions about a cluster as JSON over HTTP: the questions of the commands, and transactions.

    The server follows the cluster, or the file of --from. It only reads. Every request must have the printed token, as
    in `Authorization: Bearer TOKEN`. GET /openapi.json describes all requests.
    """
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(_serve(followed, serving, serving.token()))


async def _serve(followed: Followed, serving: ListeningOptions, token: str) -> None:
    stop = stop_signal()
    answering = followed.insight()
    async with AsyncExitStack() as stack:
        source = await followed_source(followed, answering, stack)
        served = server.serving(
            source,
            answering,
            followed.insight,
            address=serving.address,
            port=serving.port,
            token=token,
            longest=serving.longest,
            history=serving.history,
        )
        try:
            await serving.until(stop, served)
        except errors.BacktestError as error:
            fail(str(error))
