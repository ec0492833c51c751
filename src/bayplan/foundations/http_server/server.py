"""The server: accepts connections within its limits, and checks the Host header of requests.

asyncio's own servers accept without limit, and log a traceback for each connection that they cannot accept.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable

from aiohttp import web

from bayplan.foundations.http_server.bodies import Bodies, BodyError
from bayplan.foundations.http_server.connections import Connections
from bayplan.foundations.http_server.hosts import HostNames
from bayplan.foundations.http_server.limits import Limits
from bayplan.foundations.http_server.refusals import Refusals, quoted

Handle = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

_BACKLOG = 128
_GOODBYE = 1.0
"""Seconds for which a TLS connection that closes waits for the client's close_notify."""


class HttpServer:
    """Serves requests between `start` and `stop`.

    At the limit of connections, a new one replaces the one that has waited longest for a request. If all are serving
    requests, the new one is closed. `hosts` decides which Host headers are answered, by default all; others get status
    403. With `cancels`, a handler is cancelled if its client disconnects.

    A handler gets the body of a request from `body`; bodies that it doesn't ask for are not read. They have at most
    `body_limit` bytes; with `inflate`, compressed ones are inflated, and the limit holds for the result.
    """

    def __init__(
        self,
        handle: Handle,
        *,
        log: logging.Logger,
        limits: Limits = Limits(),  # noqa: B008 - immutable
        tls: ssl.SSLContext | None = None,
        hosts: HostNames | None = None,
        refusals: Refusals | None = None,
        body_limit: int = 0,
        inflate: bool = False,
        cancels: bool = False,
    ) -> None:
        self.limits = limits
        self.refusals = refusals or Refusals(log, limits.log_every)
        self._handle = handle
        self._hosts = hosts
        self._tls = tls
        self._log = log
        self._bodies = Bodies(limits, body_limit, inflate=inflate)
        self._cancels = cancels
        self._connections: Connections | None = None
        self._listeners: list[socket.socket] = []
        self._pauses: set[asyncio.TimerHandle] = set()
        self._establishing: set[asyncio.Task[None]] = set()

    def start(self, listeners: Iterable[socket.socket]) -> None:
        """Accept connections on these sockets, which the server closes at the end."""
        self._listeners = list(listeners)
        self._connections = Connections(self._serve, self.limits, self.refusals, log=self._log, cancels=self._cancels)
        for listener in self._listeners:
            listener.setblocking(False)
            listener.listen(_BACKLOG)
            self._expect_connections(listener, self._connections)

    async def stop(self, seconds: float) -> None:
        """Close the sockets, give requests in progress that many seconds, and close all connections."""
        connections, self._connections = self._connections, None
        if connections is None:
            return
        for pause in self._pauses:
            pause.cancel()
        for listener in self._listeners:
            asyncio.get_running_loop().remove_reader(listener)
        for connection in list(connections.waiting):
            connection.drop()  # first: asyncio ignores the abort of a TLS connection that was closed twice
        await asyncio.gather(*self._establishing, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        still_open = [*connections.waiting, *connections.serving]
        connections.pre_shutdown()
        await connections.shutdown(seconds)
        for connection in still_open:
            connection.drop()  # a TLS client that sends no close_notify would keep it open
        await asyncio.sleep(0)  # let the transports close before the loop does
        self.refusals.close()

    def _expect_connections(self, listener: socket.socket, connections: Connections) -> None:
        asyncio.get_running_loop().add_reader(listener, self._accept, listener, connections)

    def _accept(self, listener: socket.socket, connections: Connections) -> None:
        """Accept the next connection. The loop calls it while there is one."""
        try:
            accepted, peer = listener.accept()
        except (BlockingIOError, InterruptedError, ConnectionAbortedError):
            return
        except OSError as error:
            self.refusals.record("cannot accept connections", error.strerror or str(error))
            loop = asyncio.get_running_loop()
            loop.remove_reader(listener)
            self._pauses = {pause for pause in self._pauses if pause.when() > loop.time()}
            self._pauses.add(loop.call_later(self.limits.pause, self._expect_connections, listener, connections))
            return
        accepted.setblocking(False)
        if self._has_room(connections):
            task = asyncio.create_task(self._establish(connections, accepted, peer[0]))
            self._establishing.add(task)
            task.add_done_callback(self._establishing.discard)
        else:
            accepted.close()

    def _has_room(self, connections: Connections) -> bool:
        """Whether a connection can be added. Drops one that waits, if necessary."""
        if len(connections) < self.limits.connections:
            return True
        longest = next(iter(connections.waiting), None)
        if longest is None:
            self.refusals.record(f"refused a connection, because {self.limits.connections} serve requests")
            return False
        self.refusals.record(f"closed a waiting connection, because {self.limits.connections} are open")
        longest.drop()
        return True

    async def _establish(self, connections: Connections, accepted: socket.socket, peer: str) -> None:
        """Make a connection, with its TLS handshake."""
        connection = connections.add(accepted)
        loop = asyncio.get_running_loop()
        try:
            if self._tls is None:
                await loop.connect_accepted_socket(lambda: connection, accepted)
            else:
                await loop.connect_accepted_socket(
                    lambda: connection,
                    accepted,
                    ssl=self._tls,
                    ssl_handshake_timeout=self.limits.handshake,
                    ssl_shutdown_timeout=_GOODBYE,
                )
        except OSError as error:
            self.refusals.record("TLS handshake failed", f"{error} (from {peer})")
        finally:
            if connection.wire is None:
                connections.forget(connection)
                accepted.close()

    async def body(self, request: web.BaseRequest) -> bytes:
        """Return the body of a request. Raises BodyError; if the handler doesn't catch it, it becomes the response."""
        return await self._bodies.read(request)

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        host = request.headers.get("Host", "")
        if self._hosts is not None and not self._hosts.accept(host):
            self.refusals.record("refused a request for another host", f"Host {host!r}")
            return web.Response(status=403, text="the Host header is not a name of this server; see --accept-hosts\n")
        try:
            return await self._handle(request)
        except BodyError as error:
            self.refusals.record(
                "refused a body", f"{request.method} {quoted(request.path)}: {error} (from {request.remote})"
            )
            return web.Response(status=error.status, text=f"{error}\n", headers={"Connection": "close"})
        finally:
            self._bodies.release(request)


async def bind(host: str, port: int) -> list[socket.socket]:
    """Bind a socket to each address of a host; `port` 0 is a free port. Raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    bound: list[socket.socket] = []
    try:
        for family, *_, address in dict.fromkeys(found):
            bound.append(socket.create_server(address[:2], family=family))
    except OSError:
        for each in bound:
            each.close()
        raise
    return bound
