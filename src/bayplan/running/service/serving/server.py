"""The HTTPS server: its thread, event loop and API clients, and the authorization of requests.

Mirrors buildHandlerChain of cmd/kube-scheduler/app/server.go.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

from aiohttp import web

from bayplan.foundations.http_server import HttpServer, Refusals
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ConfigError
from bayplan.running.service.serving.authentication import Authentication, InvalidCredentialsError
from bayplan.running.service.serving.certificates import Certificates
from bayplan.running.service.serving.cluster_authentication import ClientTrust, ClusterAuthentication
from bayplan.running.service.serving.health import HealthChecks
from bayplan.running.service.serving.options import ServingError, ServingOptions
from bayplan.running.service.serving.responses import failure, forbidden, internal_error, respond
from bayplan.running.service.serving.reviews import PRIVILEGED, ReviewFailedError, Reviews

log = logging.getLogger(__name__)

Page = Callable[[web.BaseRequest], Awaitable[web.Response]]
Connect = Callable[[], AbstractAsyncContextManager[Client]]
"""Opens a client for the event loop it is called in. Raises ConfigError."""

_REFRESH_SECONDS = 5.0
_GRACE_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ReviewClients:
    """How to open the clients for token reviews and for access reviews.

    Without the first, tokens are ignored; without the second, clients can access only the open paths.
    """

    authentication: Connect | None = None
    authorization: Connect | None = None


class EndpointServer:
    """Serves pages and health checks over HTTPS between `start` and `stop`."""

    def __init__(
        self,
        options: ServingOptions,
        pages: Mapping[str, Page],
        health: HealthChecks,
        clients: ReviewClients = ReviewClients(),
    ) -> None:
        self._options = options
        self._pages = pages
        self._health = health
        self._clients = clients
        self._cluster: ClusterAuthentication | None = None
        self._certificates = Certificates(options, self._cluster_trust)
        self._started = threading.Event()
        self._error: Exception | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="endpoints", daemon=True)
        self.port = 0
        """The port, after `start`."""

    def start(self) -> None:
        """Start the thread. Returns when the socket is open. Raises ServingError or ConfigError."""
        self._thread.start()
        self._started.wait()
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """Stop the thread. Requests in progress get a second to finish."""
        loop = self._loop
        if loop is not None and self._thread.is_alive():
            try:
                loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:  # the loop is closed
                log.debug("the endpoints have already stopped")
            self._thread.join()

    def _cluster_trust(self) -> ClientTrust:
        return ClientTrust() if self._cluster is None else self._cluster.trust

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except (ServingError, ConfigError) as error:
            self._error = error
        except Exception as error:
            log.exception("the endpoints have stopped unexpectedly")
            self._error = error
        finally:
            self._started.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        async with AsyncExitStack() as stack:
            authenticating, authorizing = [
                None if connect is None else await stack.enter_async_context(connect())
                for connect in (self._clients.authentication, self._clients.authorization)
            ]
            if authenticating is not None and self._needs_lookup:
                await stack.enter_async_context(self._follow_cluster(authenticating))
            access = _Access(
                self._options.authorization.always_allow_paths,
                Authentication(Reviews(authenticating, self._options), self._certificates),
                Reviews(authorizing, self._options),
            )
            limits = self._options.limits
            refusals = Refusals(log, limits.log_every)
            handler = _Handler(access, self._pages, self._health, refusals)
            server = HttpServer(
                handler.handle, log=log, limits=limits, tls=self._certificates.context, refusals=refusals
            )
            listener = self._listen()
            self.port = listener.getsockname()[1]
            server.start([listener])
            stack.push_async_callback(server.stop, _GRACE_SECONDS)
            self._started.set()
            while not self._stop.is_set():
                self._certificates.refresh()
                try:
                    async with asyncio.timeout(_REFRESH_SECONDS):
                        await self._stop.wait()
                except TimeoutError:
                    continue

    @property
    def _needs_lookup(self) -> bool:
        options = self._options.authentication
        complete = options.client_ca_file is not None and options.requestheader_client_ca_file is not None
        return not options.skip_lookup and not complete

    @asynccontextmanager
    async def _follow_cluster(self, client: Client) -> AsyncIterator[None]:
        """Follow the cluster's authentication settings.

        Raises ServingError if they cannot be read, unless that is tolerated. In that case the server doesn't wait for
        them: health checks must respond even if the API server doesn't.
        """
        self._cluster = cluster = ClusterAuthentication(client, self._certificates.refresh)
        if not self._options.authentication.tolerate_lookup_failure:
            try:
                await cluster.read()
            except ServingError as error:
                raise ServingError(f"{error}; see --authentication-tolerate-lookup-failure") from error
        task = asyncio.create_task(cluster.follow(), name="cluster authentication")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait([task])

    def _listen(self) -> socket.socket:
        options = self._options.secure
        family = socket.AF_INET6 if ":" in options.bind_address else socket.AF_INET
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if options.permit_port_sharing:
                listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            listener.bind((options.bind_address, options.port))
        except OSError as error:
            listener.close()
            address = f"{options.bind_address}, port {options.port}"
            raise ServingError(
                f"cannot serve on {address}: {error.strerror or error}; choose with --bind-address and --secure-port "
                "(0: serve nothing)"
            ) from error
        listener.setblocking(False)
        return listener


class _Access:
    """Authenticates and authorizes requests."""

    def __init__(self, open_paths: Iterable[str], authentication: Authentication, authorization: Reviews) -> None:
        paths = [path.lstrip("/") for path in open_paths]
        self._open_paths = frozenset(path for path in paths if not path.endswith("*"))
        self._open_prefixes = tuple(path[:-1] for path in paths if path.endswith("*"))
        self._authentication = authentication
        self._authorization = authorization

    async def denial(self, request: web.BaseRequest) -> web.Response | None:
        """A 403, or None if the request is allowed. Raises InvalidCredentialsError or ReviewFailedError."""
        user = await self._authentication.user_of(request)
        if PRIVILEGED in user.groups or self._is_open(request.path):
            return None
        if not self._authorization.available:
            return forbidden(user.name, request.method, request.path, "")
        allowed, reason = await self._authorization.authorize(user, request.method.lower(), request.path)
        return None if allowed else forbidden(user.name, request.method, request.path, reason)

    def _is_open(self, path: str) -> bool:
        path = path.removeprefix("/")
        return path in self._open_paths or path.startswith(self._open_prefixes)


class _Handler:
    """Dispatches authorized requests to pages and health checks."""

    def __init__(self, access: _Access, pages: Mapping[str, Page], health: HealthChecks, refusals: Refusals) -> None:
        self._access = access
        self._pages = pages
        self._health = health
        self._refusals = refusals

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Handle one request."""
        try:
            return await self._access.denial(request) or await self._dispatch(request)
        except InvalidCredentialsError as error:
            self._refusals.record("refused invalid credentials", f"{request.method} {request.path}: {error}")
            return failure(401, "Unauthorized", "Unauthorized")
        except ReviewFailedError as error:
            self._refusals.record("could not authorize a request", f"{request.method} {request.path}: {error}")
            return internal_error(request.path_qs, str(error))
        except Exception:
            log.exception("%s %s failed", request.method, request.path)
            return failure(500, "InternalError", "Internal error occurred: see the scheduler's log")

    async def _dispatch(self, request: web.BaseRequest) -> web.Response:
        health, page = self._health.find(request.path), self._pages.get(request.path)
        if health is None and page is None:
            return respond("404 page not found\n", status=404)
        if request.method not in {"GET", "HEAD"}:
            return failure(405, "MethodNotAllowed", "only GET and HEAD are allowed")
        if page is not None:
            return await page(request)
        assert health is not None
        result = self._health.check(
            *health, verbose="verbose" in request.query, exclude=request.query.getall("exclude", [])
        )
        return respond(result.text, status=200 if result.healthy else 500)
