"""The Prometheus metrics of a shadow, and the server that has them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from bayplan.answers.shadow.following import ShadowFollower
from bayplan.foundations.http_server import HttpServer, bind

log = logging.getLogger(__name__)

_GRACE = 1.0
"""Seconds that open requests have to end."""


class ShadowCollector:
    """Reads the counts of a shadow when it is scraped."""

    def __init__(self, follower: ShadowFollower) -> None:
        self._follower = follower

    def collect(self) -> Iterator[Metric]:
        """All families."""
        follower, shadow = self._follower, self._follower.shadow
        tally = shadow.tally
        compared = CounterMetricFamily(
            "bayplan_shadow_comparisons",
            "Decisions of the scheduler that were compared, by subject, outcome and cause of the difference.",
            labels=("subject", "outcome", "cause"),
        )
        for each in tally.counts:
            compared.add_metric((each.subject.value, each.outcome.value, each.cause.value), each.number)
        yield compared
        yield CounterMetricFamily(
            "bayplan_shadow_missed", "Decisions of the scheduler that could not be compared.", value=tally.missed
        )
        yield CounterMetricFamily(
            "bayplan_shadow_score_difference",
            "How much higher Bayplan scores its own nodes than the scheduler's, summed up over all bindings.",
            value=tally.loss,
        )
        yield GaugeMetricFamily(
            "bayplan_shadow_waiting", "Differences that wait to be explained.", value=shadow.waiting
        )
        yield GaugeMetricFamily(
            "bayplan_shadow_late_seconds", "How many seconds the shadow is behind the cluster.", value=follower.late
        )
        likely = GaugeMetricFamily(
            "bayplan_shadow_likely_configuration",
            "The share of bindings that fit the configuration that a scheduler seems to have. A guess.",
            labels=("scheduler", "settings"),
        )
        for guess in shadow.guesses:
            if guess.settings:
                likely.add_metric((guess.scheduler, " ".join(guess.settings)), guess.explained / guess.bindings)
        yield likely
        yield GaugeMetricFamily(
            "bayplan_shadow_synced", "Whether the cluster is followed.", value=follower.synced.is_set()
        )


@asynccontextmanager
async def metrics_served(follower: ShadowFollower, address: str, port: int) -> AsyncIterator[int]:
    """Serve /metrics, /livez and /readyz in the context. Yields the port. Raises OSError if it can't be used."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(ShadowCollector(follower))
    ProcessCollector(registry=registry)

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0)
        if request.path == "/metrics":
            encoder, content_type = choose_encoder(request.headers.get("Accept", ""))
            return web.Response(body=encoder(registry), headers={"Content-Type": content_type})
        if request.path == "/livez" or (request.path == "/readyz" and follower.synced.is_set()):
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
