"""Shared by commands that watch a cluster: checking access, and stopping on signals."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

from bayplan.api.kinds import NODE, POD
from bayplan.client import ApiError, Client, TransportError

log = logging.getLogger(__name__)


class RefusedError(Exception):
    """The cluster denies access. The message has the request and the response."""


async def check_access(client: Client) -> None:
    """List nodes and pods once, to report missing permissions before watches retry forever. Raises RefusedError."""
    for kind in (NODE, POD):
        try:
            await client.request("GET", kind.path(), params={"limit": 1})
        except ApiError as error:
            raise RefusedError(f"cannot list {kind.plural}: {error}") from error
        except TransportError as error:
            raise RefusedError(f"cannot reach the API server: {error}") from error


def stop_on_signals(waiting_for: str) -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets. The second one exits at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop_or_exit() -> None:
        if stop.is_set():
            os._exit(1)
        log.warning("stopping after %s have finished; signal again to exit at once", waiting_for)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop_or_exit)
    return stop
