"""What commands that stay and watch a cluster have in common: getting in, and ending when they are told to."""

from __future__ import annotations

import asyncio
import logging
import os
import signal

from bayplan.api.kinds import NODE, POD
from bayplan.client import ApiError, Client, TransportError

log = logging.getLogger(__name__)


class RefusedError(Exception):
    """The cluster does not let us in. The message says what was asked for and what the answer was."""


async def check_access(client: Client) -> None:
    """Read what is watched first: whoever is not let in should hear it now, and not in a loop of retries.

    Raises RefusedError.
    """
    for kind in (NODE, POD):
        try:
            await client.request("GET", kind.path(), params={"limit": 1})
        except ApiError as error:
            raise RefusedError(f"the API server does not let us list {kind.plural}: {error}") from error
        except TransportError as error:
            raise RefusedError(f"cannot reach the API server: {error}") from error


def stop_on_signals(waiting_for: str) -> asyncio.Event:
    """An event that the first SIGTERM or SIGINT sets. The second one ends the process there and then."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def asked() -> None:
        if stop.is_set():
            os._exit(1)
        log.warning("stopping: waiting for %s; once more to stop at once", waiting_for)
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, asked)
    return stop
