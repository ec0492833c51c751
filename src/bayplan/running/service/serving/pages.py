"""The pages: metrics, configuration, flags and status.

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

from bayplan.core.api.times import rfc3339
from bayplan.core.versions import GATES, FeatureGates
from bayplan.running.service.metrics.process import build_info
from bayplan.running.service.serving.responses import accepts_json, respond, respond_json
from bayplan.running.service.serving.server import Page

COMPONENT = "bayplan"
ZPAGES = "config.k8s.io/v1beta1"

_WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)


def metrics_page(registry: CollectorRegistry, *, hidden: Callable[[], bool] = lambda: False) -> Page:
    """The metrics of a registry, in the format that the client accepts; empty while `hidden` returns true."""

    async def page(request: web.BaseRequest) -> web.Response:
        encoder, content_type = choose_encoder(request.headers.get("Accept", ""))
        # In a thread: collecting may wait for the scheduler, and takes time if there are many pods.
        body = b"" if hidden() else await asyncio.to_thread(encoder, registry)
        response = respond(body, content_type)
        response.enable_compression()
        return response

    return page


def configz_page(configuration: Callable[[], Any], gates: FeatureGates) -> Page:
    """The configuration in effect, and the version of Kubernetes with its feature gates."""
    known = {name: name in gates.on for name, gate in GATES.items() if gate.stage(gates.version) is not None}

    async def page(_: web.BaseRequest) -> web.Response:
        kubernetes = {"emulatedVersion": gates.version, "featureGates": known}
        return respond_json({"componentconfig": configuration(), "kubernetes": kubernetes})

    return page


def flagz_page(flags: Mapping[str, str]) -> Page:
    """The command-line flags in effect."""

    async def page(request: web.BaseRequest) -> web.Response:
        if accepts_json(request):
            return respond_json(_zpage("Flagz", {"flags": dict(flags)}))
        lines = "".join(f"{name}={value}\n" for name, value in sorted(flags.items()))
        return respond(f"\n{COMPONENT} flagz\n{_WARNING}\n{lines}")

    return page


def version_page(gates: FeatureGates) -> Page:
    """The version of Kubernetes that the scheduler decides as, as a version.Info."""

    async def page(_: web.BaseRequest) -> web.Response:
        return respond_json(build_info(gates.version))

    return page


def statusz_page(
    started: datetime, paths: Callable[[], Sequence[str]], now: Callable[[], datetime], gates: FeatureGates
) -> Page:
    """Versions, start time and paths of this process."""
    binary, emulated = version("bayplan"), gates.version

    async def page(request: web.BaseRequest) -> web.Response:
        seconds = int((now() - started).total_seconds())
        if accepts_json(request):
            return respond_json(
                _zpage(
                    "Statusz",
                    {
                        "startTime": rfc3339(started),
                        "uptimeSeconds": seconds,
                        "goVersion": "",
                        "binaryVersion": binary,
                        "emulationVersion": emulated,
                        "paths": list(paths()),
                    },
                )
            )
        lines = (
            f"Started: {started.astimezone(UTC).strftime('%a %b %e %H:%M:%S UTC %Y')}",
            f"Up: {seconds // 3600} hr {seconds // 60 % 60:02} min {seconds % 60:02} sec",
            f"Python version: {platform.python_version()}",
            f"Binary version: {binary}",
            f"Emulation version: {emulated}",
            f"Paths: {' '.join(paths())}",
        )
        return respond("\n".join((f"\n{COMPONENT} statusz\n{_WARNING}\n", *lines, "")))

    return page


def _zpage(kind: str, content: dict[str, Any]) -> dict[str, Any]:
    return {"kind": kind, "apiVersion": ZPAGES, "metadata": {"name": COMPONENT}, **content}
