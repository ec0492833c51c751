"""`bayplan ui`: serves a page about a cluster, which it only reads."""

from __future__ import annotations

import asyncio
import logging
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import click

from bayplan.cli.insight.cluster_options import Followed, fail, follow_options

if TYPE_CHECKING:
    from bayplan.insight import Insight
    from bayplan.ui.sources import Source

LOOPBACK = "127.0.0.1"


@click.command()
@click.option("--address", default=LOOPBACK, show_default=True, help="The address to listen on.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port to listen on. Default: a free one.")
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

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    insight = Insight(Snapshot(), followed.configuration, followed.plugins, seed=followed.seed)
    async with AsyncExitStack() as stack:
        source = await _source(followed, insight, stack)
        try:
            url = await stack.enter_async_context(serving(source, insight, address=address, port=port))
        except OSError as error:
            fail(f"cannot listen on {address} port {port}: {error.strerror}")
        click.echo(f"{url}\n\nOpen this address in a browser. Press Ctrl-C to stop.")
        await stop.wait()


async def _source(followed: Followed, insight: Insight, stack: AsyncExitStack) -> Source:
    """The source that the options name. A cluster is asked once for its nodes, so that a wrong address is an error."""
    from bayplan.api.kinds import NODE
    from bayplan.client import ApiError, TransportError, connect
    from bayplan.ui.sources import ClusterSource, FileSource

    source = followed.source
    if source.path is not None:
        snapshot = await asyncio.to_thread(source.read)
        return FileSource(snapshot, None if source.path == "-" else source.path)
    client = await stack.enter_async_context(connect(source.kubeconfig, source.context))
    server = client.access.server
    try:
        async for _ in client.pages(NODE, limit=1, decode=bytes):
            break
    except (ApiError, TransportError) as error:
        fail(f"cannot read the nodes of {server}: {error}")
    return ClusterSource(client, f"cluster {server}", insight.world.handle.watched)
