"""The server: a thread with an event loop, sockets and an API client of its own; who is let in, and to what.

Mirrors buildHandlerChain of cmd/kube-scheduler/app/server.go, but that nobody is let in without saying who they are,
except to the paths that are open to anybody, for which the API server is never asked.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from aiohttp import web

from bayplan.client import Client, ConfigError
from bayplan.service.serving.answers import answer, refusal
from bayplan.service.serving.certificates import Certificates
from bayplan.service.serving.health import HealthChecks
from bayplan.service.serving.options import ServingError, ServingOptions
from bayplan.service.serving.reviews import ReviewFailedError, Reviews, User, user_of_certificate

log = logging.getLogger(__name__)

Page = Callable[[web.BaseRequest], Awaitable[web.Response]]
Connect = Callable[[], AbstractAsyncContextManager[Client]]
"""Opens a client for the loop that it is called in. Raises ConfigError."""

_LOOK_AT_FILES_SECONDS = 5.0
_GRACE_SECONDS = 1.0


class EndpointServer:
    """Serves pages and health checks over HTTPS between `start` and `stop`.

    `connect_authentication` and `connect_authorization` open the clients that tokens and access are reviewed with;
    None: with these nobody is let in to what is not open.
    """

    def __init__(
        self,
        options: ServingOptions,
        pages: Mapping[str, Page],
        health: HealthChecks,
        connect_authentication: Connect | None,
        connect_authorization: Connect | None,
    ) -> None:
        self._options = options
        self._pages = pages
        self._health = health
        self._connect_authentication = connect_authentication
        self._connect_authorization = connect_authorization
        self._open_paths = [path.lstrip("/") for path in options.always_allow_paths]
        self._certificates = Certificates(options)
        self._started = threading.Event()
        self._problem: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="endpoints", daemon=True)
        self.port = 0
        """Where it serves, once it has started."""

    def start(self) -> None:
        """Begin to serve. Returns when the socket is open. Raises ServingError or ConfigError."""
        self._thread.start()
        self._started.wait()
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        """Serve no more. Answers that are under way get a moment."""
        loop = self._loop
        if loop is not None and self._thread.is_alive():
            try:
                loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:  # it has just ended by itself
                log.debug("the endpoints had ended already")
            self._thread.join()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except (ServingError, ConfigError) as error:
            self._problem = error
        except Exception as error:
            log.exception("the endpoints are not served any more")
            self._problem = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            reviews = [
                Reviews(
                    None if connect is None else await stack.enter_async_context(connect()),
                    token_ttl=self._options.token_cache_ttl,
                    allowed_ttl=self._options.authorized_cache_ttl,
                    denied_ttl=self._options.unauthorized_cache_ttl,
                )
                for connect in (self._connect_authentication, self._connect_authorization)
            ]
            door = _Door(self._open_paths, self._pages, self._health, *reviews)
            server = web.Server(door.serve, access_log=None)
            runner = web.ServerRunner(server, shutdown_timeout=_GRACE_SECONDS)
            await runner.setup()
            stack.push_async_callback(_close, runner, server)
            await web.SockSite(runner, self._listen(), ssl_context=self._certificates.context).start()
            self.port = runner.addresses[0][1]
            self._started.set()
            while not self._stop.is_set():
                self._certificates.refresh()
                try:
                    async with asyncio.timeout(_LOOK_AT_FILES_SECONDS):
                        await self._stop.wait()
                except TimeoutError:
                    continue

    def _listen(self) -> socket.socket:
        options = self._options
        family = socket.AF_INET6 if ":" in options.bind_address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if options.permit_port_sharing:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind((options.bind_address, options.port))
        except OSError as error:
            listener.close()
            where = f"{options.bind_address}, port {options.port}"
            raise ServingError(
                f"cannot serve on {where}: {error.strerror or error}; choose with --bind-address and --secure-port "
                "(0: serve nothing)"
            ) from error
        listener.setblocking(False)
        return listener


async def _close(runner: web.ServerRunner, server: web.Server) -> None:
    """Let answers that are under way go out, and leave no connection open: clients keep theirs for the next scrape."""
    transports = [connection.transport for connection in server.connections]
    await runner.cleanup()
    for transport in transports:
        if transport is not None:
            transport.abort()
    await asyncio.sleep(0)  # so that the transports have gone when the loop goes


class _Door:
    """Lets requests in, or says why not."""

    def __init__(
        self,
        open_paths: list[str],
        pages: Mapping[str, Page],
        health: HealthChecks,
        authentication: Reviews,
        authorization: Reviews,
    ) -> None:
        self._open_paths = frozenset(path for path in open_paths if not path.endswith("*"))
        self._open_prefixes = tuple(path[:-1] for path in open_paths if path.endswith("*"))
        self._pages = pages
        self._health = health
        self._authentication = authentication
        self._authorization = authorization

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        """One request."""
        try:
            refused = None if self._is_open(request.path) else await self._refused(request)
            return refused or await self._answer(request)
        except ReviewFailedError as error:
            log.warning("%s %s was refused: %s", request.method, request.path, error)
            return refusal(500, "InternalError", f"Internal error occurred: {error}")
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return refusal(500, "InternalError", "Internal error occurred: see the scheduler's log")

    def _is_open(self, path: str) -> bool:
        path = path.removeprefix("/")
        return path in self._open_paths or path.startswith(self._open_prefixes)

    async def _refused(self, request: web.BaseRequest) -> web.Response | None:
        user = await self._user(request)
        if user is None:
            return refusal(401, "Unauthorized", "Unauthorized")
        verb = request.method.lower()
        allowed, reason = await self._authorization.may(user, verb, request.path)
        if allowed:
            return None
        said = f'forbidden: User "{user.name}" cannot {verb} path "{request.path}"{f": {reason}" if reason else ""}'
        return refusal(403, "Forbidden", said)

    async def _user(self, request: web.BaseRequest) -> User | None:
        certificate: Any = request.transport.get_extra_info("peercert") if request.transport is not None else None
        user = user_of_certificate(certificate)
        if user is not None:
            return user
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token or not token.isascii():
            return None
        return await self._authentication.user_of(token)

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        health, page = self._health.find(request.path), self._pages.get(request.path)
        if health is None and page is None:
            return answer("404 page not found\n", status=404)
        if request.method not in {"GET", "HEAD"}:
            return refusal(405, "MethodNotAllowed", "only GET and HEAD are allowed")
        if page is not None:
            return await page(request)
        assert health is not None
        said = self._health.answer(
            *health, verbose="verbose" in request.query, exclude=request.query.getall("exclude", [])
        )
        return answer(said.text, status=200 if said.healthy else 500)
