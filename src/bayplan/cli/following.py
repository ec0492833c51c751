"""What the commands share that serve a cluster which they follow."""

from __future__ import annotations

import asyncio
import signal
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from bayplan.cli.insight.cluster_options import Followed
from bayplan.cli.insight.messages import fail

if TYPE_CHECKING:
    from bayplan.insight import Insight
    from bayplan.ui.sources import Source

LOOPBACK = "127.0.0.1"


def stop_signal() -> asyncio.Event:
    """Return an event that SIGINT or SIGTERM sets."""
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def followed_source(followed: Followed, insight: Insight, stack: AsyncExitStack) -> Source:
    """Return the source that the options name. Asks a cluster for its nodes, so that a wrong address is an error."""
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
