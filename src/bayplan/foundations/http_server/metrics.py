"""The metrics and the health of a process that follows a cluster, over HTTP: /metrics, /livez and /readyz.

The scheduler has more to serve, with authorization: `bayplan.running.service.serving`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from bayplan.foundations.http_server.server import HttpServer, bind

log = logging.getLogger(__name__)

_GRACE = 1.0
"""Seconds that open requests have to end."""


@asynccontextmanager
async def metrics_served(
    collector: Collector, ready: Callable[[], bool], address: str, port: int
) -> AsyncIterator[int]:
    """Serve them in the context. Yields the port. Raises OSError if it can't be used.

    `ready`: whether the cluster is followed.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(collector)
    ProcessCollector(registry=registry)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0)
        if request.path == "/metrics":
            encoder, content_type = choose_encoder(request.headers.get("Accept", ""))
            return web.Response(body=encoder(registry), headers={"Content-Type": content_type})
        if request.path == "/livez" or (request.path == "/readyz" and ready()):
            return web.Response(text="ok")
        if request.path == "/readyz":
            return web.Response(status=503, text="the cluster is not followed yet")
        return web.Response(status=404, text="expected /metrics, /livez or /readyz")

    listeners = await bind(address, port)
    server = HttpServer(handle, log=log)
    server.start(listeners)
    try:
        yield listeners[0].getsockname()[1]
    finally:
        await server.stop(_GRACE)
