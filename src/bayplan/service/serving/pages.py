"""The pages: metrics, and what the scheduler runs with.

Mirrors newEndpointsHandler of cmd/kube-scheduler/app/server.go, and k8s.io/apiserver/pkg/server/{flagz,statusz}.
"""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from bayplan.api.times import rfc3339
from bayplan.service.metrics.process import KUBERNETES
from bayplan.service.serving.answers import answer, json_answer, wants_json
from bayplan.service.serving.server import Page

COMPONENT = "bayplan"
ZPAGES = "config.k8s.io/v1beta1"

_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)


def metrics_page(registry: CollectorRegistry, *, hidden: Callable[[], bool] = lambda: False) -> Page:
    """The metrics of a registry, in the form that the client asks for; nothing while they are `hidden`."""

    async def page(request: web.BaseRequest) -> web.Response:
        encoder, content_type = choose_encoder(request.headers.get("Accept", ""))
        # Not in this loop: collecting may wait for the scheduler, and take time where there are many pods.
        body = b"" if hidden() else await asyncio.to_thread(encoder, registry)
        response = answer(body, content_type)
        response.enable_compression()
        return response

    return page


def configz_page(configuration: Callable[[], Any]) -> Page:
    """The configuration in effect."""

    async def page(_: web.BaseRequest) -> web.Response:
        return json_answer({"componentconfig": configuration()})

    return page


def flagz_page(flags: Mapping[str, str]) -> Page:
    """The command line's flags in effect."""

    async def page(request: web.BaseRequest) -> web.Response:
        if wants_json(request):
            return json_answer(_zpage("Flagz", {"flags": dict(flags)}))
        lines = "".join(f"{name}={value}\n" for name, value in sorted(flags.items()))
        return answer(f"\n{COMPONENT} flagz\n{_WARNING}\n{lines}")

    return page


def statusz_page(started: datetime, paths: Callable[[], Sequence[str]], now: Callable[[], datetime]) -> Page:
    """What runs here, since when."""
    ours, emulated = version("bayplan"), ".".join(KUBERNETES)

    async def page(request: web.BaseRequest) -> web.Response:
        seconds = int((now() - started).total_seconds())
        if wants_json(request):
            return json_answer(
                _zpage(
                    "Statusz",
                    {
                        "startTime": rfc3339(started),
                        "uptimeSeconds": seconds,
                        "goVersion": "",
                        "binaryVersion": ours,
                        "emulationVersion": emulated,
                        "paths": list(paths()),
                    },
                )
            )
        lines = (
            f"Started: {started.astimezone(UTC).strftime('%a %b %e %H:%M:%S UTC %Y')}",
            f"Up: {seconds // 3600} hr {seconds // 60 % 60:02} min {seconds % 60:02} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {ours}",
            f"Emulation version: {emulated}",
            f"Paths: {' '.join(paths())}",
        )
        return answer("\n".join((f"\n{COMPONENT} statusz\n{_WARNING}\n", *lines, "")))

    return page


def _zpage(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": ZPAGES, "metadata": {"name": COMPONENT}, **content}
