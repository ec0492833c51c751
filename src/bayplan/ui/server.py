"""Serves the page: the web server, the source and the worker thread, until the caller stops it."""

from __future__ import annotations

import asyncio
import secrets
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

import uvicorn

from bayplan.insight import Insight
from bayplan.ui.app import application
from bayplan.ui.asking import Asking
from bayplan.ui.guard import PARAMETER
from bayplan.ui.sources import Source

GRACE = 2
"""Seconds that open requests have to end; then their connections are aborted."""


class _Server(uvicorn.Server):
    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Shut down, and leave no connection open.

        asyncio never closes a connection that it accepts while its server closes, so that accepting ends first. uvicorn
        leaves connections open that don't end within GRACE.
        """
        for listener in sockets or []:
            asyncio.get_running_loop().remove_reader(listener)
        for _ in range(2):  # accepted connections get their transports, then their protocols
            await asyncio.sleep(0)
        await super().shutdown(sockets)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)  # aborted transports close their sockets

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the command."""
        yield


@asynccontextmanager
async def serving(
    source: Source, insight: Insight, *, address: str = "127.0.0.1", port: int = 0, token: str = ""
) -> AsyncIterator[str]:
    """Serve the page of a source in the context, and follow the source. Yields the URL, with the token.

    `insight`: has the scheduler's configuration; only the page uses it from now on. `port`: 0 for a free one. `token`:
    by default a new one. Raises OSError if the address can't be used.
    """
    token = token or secrets.token_urlsafe(24)
    listener = _listen(address, port)
    port = listener.getsockname()[1]
    asking = Asking(source, insight)
    # Cookies are shared by all ports of a host, so that each server needs a name of its own.
    app = application(asking, token, address, cookie=f"bayplan-{port}")
    config = uvicorn.Config(
        app, log_config=None, access_log=False, lifespan="off", ws="none", timeout_graceful_shutdown=GRACE
    )
    server = _Server(config)
    try:
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(source.run(), name="page source")
            tasks.create_task(server.serve(sockets=[listener]), name="page server")
            warming = tasks.create_task(asking.ask("warm", lambda _: None), name="page warming")
            try:
                yield f"http://{_host(address)}:{port}/?{PARAMETER}={token}"
            finally:
                server.should_exit = True
                following.cancel()
                warming.cancel()
    finally:
        asking.close()
        listener.close()


def _listen(address: str, port: int) -> socket.socket:
    family, kind, protocol, _, target = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(target)
        listener.listen()
    except OSError:
        listener.close()
        raise
    return listener


def _host(address: str) -> str:
    """The address as it is written in a URL; one that means all interfaces becomes this machine's name."""
    if address in {"0.0.0.0", "::", ""}:  # noqa: S104 - the user has chosen it
        return socket.gethostname()
    return f"[{address}]" if ":" in address else address
