"""`bayplan ui`: serves a page about a cluster, which it only reads."""

from __future__ import annotations

import asyncio
import logging
from contextlib import AsyncExitStack

import click

from bayplan.cli.following import address_option, followed_source, port_option, stop_signal
from bayplan.cli.insight.cluster_options import Followed, follow_options
from bayplan.cli.insight.messages import fail


@click.command()
@address_option
@port_option
@follow_options
def ui(followed: Followed, address: str, port: int) -> None:
    """Serve a page about a cluster: its bay plan, the queue with causes, pods, nodes and what-ifs.

    The page follows the cluster, or the file of --from. It only reads. Open the printed address: it has a token, which
    every request must have.
    """
    need_extra()
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(_ui(followed, address, port))


def need_extra() -> None:
    """End the process with status 2 if the package of the page is not installed."""
    try:
        import jinja2
    except ImportError as error:
        fail(f"the page needs {error.name}: pip install 'bayplan[ui]'")
    del jinja2


async def _ui(followed: Followed, address: str, port: int) -> None:
    from bayplan.insight import Insight, Snapshot
    from bayplan.ui.server import serving

    stop = stop_signal()
    insight = Insight(Snapshot(), followed.configuration, followed.plugins, seed=followed.seed)
    async with AsyncExitStack() as stack:
        source = await followed_source(followed, insight, stack)
        try:
            url = await stack.enter_async_context(serving(source, insight, address=address, port=port))
        except OSError as error:
            fail(f"cannot listen on {address} port {port}: {error.strerror}")
        click.echo(f"{url}\n\nOpen this address in a browser. Press Ctrl-C to stop.")
        await stop.wait()
