"""Runs a server about a source: the web server, and what follows the source, until the caller stops it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress

from bayplan.answers.insight.answers import QuestionError
from bayplan.faces.asking.asking import Asking
from bayplan.foundations.http_server import HttpServer

GRACE = 2
"""Seconds that open requests have to end; then their connections are aborted."""


@asynccontextmanager
async def running(asking: Asking, http: HttpServer, listeners: Iterable[socket.socket]) -> AsyncIterator[None]:
    """Serve on these sockets in the context, and follow the source."""
    try:
        http.start(listeners)
        async with following(asking):
            yield
    finally:
        await http.stop(GRACE)


@asynccontextmanager
async def following(asking: Asking) -> AsyncIterator[None]:
    """Follow the source in the context. The first question is prepared at once; those that are open at the end end."""
    try:
        async with asyncio.TaskGroup() as tasks:
            source = tasks.create_task(asking.source.run(), name="source")
            warming = tasks.create_task(_warm(asking), name="warming")
            try:
                yield
            finally:
                source.cancel()
                warming.cancel()
    finally:
        asking.close()


async def _warm(asking: Asking) -> None:
    with suppress(QuestionError):  # the pages say why
        await asking.ask("warm", lambda _, __: None)


def host_of(address: str) -> str:
    """Return the address as it is written in a URL; one that means all interfaces becomes this machine's name."""
    if address in {"0.0.0.0", "::", ""}:  # noqa: S104 - the user has chosen it
        return socket.gethostname()
    return f"[{address}]" if ":" in address else address
