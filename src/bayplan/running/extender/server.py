"""The HTTP server of an extender: paths, methods, bodies, health checks, and errors in the form that schedulers expect.

Mirrors what pkg/scheduler/extender.go sends and accepts: POST, JSON, and only status 200.
"""

from __future__ import annotations

import logging
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from aiohttp import web

from bayplan.core.framework.status import PluginError
from bayplan.foundations.failures import Failures
from bayplan.foundations.http_server import HostNames, HttpServer, Limits, bind
from bayplan.running.client.answers import Identity
from bayplan.running.extender import wire
from bayplan.running.extender.binding import PodBinder
from bayplan.running.extender.paths import ALIASES, BIND, DEFAULT_PATHS, FILTER, PREEMPT, PRIORITIZE
from bayplan.running.extender.problems import NotYet, Unanswerable
from bayplan.running.extender.verbs import NodeSource, Verbs

log = logging.getLogger(__name__)

BODY_LIMIT = 256 * 2**20
"""The most bytes of a body, inflated. For scale, 5,000 nodes of 10 kB are 50 MB."""

NO_BINDING = "this extender is not connected to the cluster: start it with --kubeconfig FILE or --watch"

_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The settings of an extender except its plugins.

    `paths` are the paths by verb. The log names a plugin that blocks for `blocked_after` seconds. Open requests and
    recorded events may take `drain` seconds at the end. `accept_hosts` are the patterns of `HostNames`. `freeze`
    excludes the synced cluster from garbage collection, for the whole process.
    """

    host: str = "127.0.0.1"
    port: int = 0
    paths: Mapping[str, str] = field(default_factory=lambda: DEFAULT_PATHS)
    tls: ssl.SSLContext | None = None
    blocked_after: float = 2.0
    drain: float = 10.0
    accept_hosts: str | None = None
    limits: Limits = field(default_factory=Limits)
    freeze: bool = False


class ExtenderServer:
    """Serves the verbs while it is entered. `port` 0 means a free port.

    With `tls`, it serves HTTPS. If that context requests client certificates, verbs require one, and health checks
    don't. Raises ValueError for invalid `accept_hosts`.
    """

    def __init__(
        self,
        verbs: Verbs,
        known: NodeSource,
        settings: ServerSettings,
        binding: PodBinder | None = None,
        failures: Failures | None = None,
    ) -> None:
        self._known = known
        self._verbs = verbs
        self._binding = binding
        self._failures = failures or Failures()
        self._settings = settings
        self._port = settings.port
        paths = settings.paths
        self._verb_of = {path: verb for path, verb in ALIASES.items() if path not in paths.values()}
        self._verb_of |= {path: verb for verb, path in paths.items()}
        self._answers: Mapping[str, Callable[[bytes], Awaitable[tuple[Any, str]]]] = {
            FILTER: self._filter,
            PRIORITIZE: self._prioritize,
            PREEMPT: self._preempt,
            BIND: self._bind,
        }
        self._http = HttpServer(
            self._serve,
            log=log,
            limits=settings.limits,
            tls=settings.tls,
            hosts=HostNames(settings.host, settings.accept_hosts),
            body_limit=BODY_LIMIT,
            inflate=True,
        )

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start serving. Raises OSError if it can't listen on the address."""
        listeners = await bind(self._settings.host, self._port)
        self._port = listeners[0].getsockname()[1]
        self._http.start(listeners)

    async def stop(self) -> None:
        """Stop accepting requests, finish open ones, and close."""
        await self._http.stop(self._settings.drain)

    @property
    def url(self) -> str:
        """The URL, once it has started."""
        address = self._settings.host
        host = f"[{address}]" if ":" in address else address
        return f"{'http' if self._settings.tls is None else 'https'}://{host}:{self._port}"

    async def _serve(self, http: web.BaseRequest) -> web.StreamResponse:
        verb = self._verb_of.get(http.path)
        if verb is None:
            return self._other(http)
        if http.method != "POST":
            return _text(405, f"{http.path} requires POST, not {http.method}", Allow="POST")
        tls = self._settings.tls
        if tls is not None and tls.verify_mode is not ssl.CERT_NONE and not _has_certificate(http):
            self._http.refusals.record("refused a request without a client certificate", f"from {http.remote}")
            return _text(401, "a client certificate from a CA of --client-ca-file is required")
        began = time.perf_counter()
        body = await self._http.body(http)
        status, answer, summary = await self._answer(verb, body)
        if status != 200:
            self._http.refusals.record(f"{verb} failed with status {status}", summary)
        elif log.isEnabledFor(logging.INFO):
            log.info("%s: %s, %.1f ms", verb, summary, 1000 * (time.perf_counter() - began))
        return web.Response(body=answer, content_type=_JSON) if status == 200 else _text(status, summary)

    async def _answer(self, verb: str, body: bytes) -> tuple[int, bytes, str]:
        """The status, the body, and a summary for the log."""
        try:
            answer, summary = await self._answers[verb](body)
            return 200, wire.write(answer), summary
        except wire.WireError as error:
            return _failure(verb, 400, str(error))
        except Unanswerable as error:
            return _failure(verb, error.status, str(error))
        except PluginError as error:
            error.record(self._failures, verb)
            return _failure(verb, 500, str(error))
        except Exception as error:  # a bug must not end the connection without a response
            log.exception("%s failed", verb)
            return _failure(verb, 500, f"{type(error).__name__} in the extender; see its log")

    async def _filter(self, body: bytes) -> tuple[Any, str]:
        args = wire.read(wire.ExtenderArgs, body)
        result = self._verbs.filter(args)
        passed = len(result.NodeNames or () if result.Nodes is None else result.Nodes.items)
        total = passed + len(result.FailedNodes or ()) + len(result.FailedAndUnresolvableNodes or ())
        return result, f"{Identity.of(args.Pod).key}: {passed} of {total} nodes"

    async def _prioritize(self, body: bytes) -> tuple[Any, str]:
        args = wire.read(wire.ExtenderArgs, body)
        scores = self._verbs.prioritize(args)
        best = max((score.Score for score in scores), default=0)
        return scores, f"{Identity.of(args.Pod).key}: {len(scores)} nodes, best score {best}"

    async def _preempt(self, body: bytes) -> tuple[Any, str]:
        args = wire.read(wire.ExtenderPreemptionArgs, body)
        result = self._verbs.preempt(args)
        return result, f"{Identity.of(args.Pod).key}: {len(result.NodeNameToMetaVictims or ())} candidates remain"

    async def _bind(self, body: bytes) -> tuple[Any, str]:
        args = wire.read(wire.ExtenderBindingArgs, body)
        if self._binding is None:
            raise Unanswerable(NO_BINDING)
        result = await self._binding.bind(args)
        return result, result.Error or f"{args.PodNamespace}/{args.PodName} to {args.Node}"

    def _other(self, http: web.BaseRequest) -> web.Response:
        """Serve health checks, and errors for unknown paths."""
        if http.path not in {"/healthz", "/livez", "/readyz"}:
            there = ", ".join(sorted(self._verb_of))
            return _text(
                404, f"{http.path} does not exist; use POST with {there}, or GET with /healthz, /livez, /readyz"
            )
        if http.method not in {"GET", "HEAD"}:
            return _text(405, f"{http.path} requires GET, not {http.method}", Allow="GET, HEAD")
        if http.path == "/readyz" and not self._known.ready:
            return _text(NotYet.status, str(NotYet()))
        return _text(200, "ok")


def _failure(verb: str, status: int, problem: str) -> tuple[int, bytes, str]:
    """An error as the scheduler expects it: in the result if it has a field for it, else as an HTTP status."""
    if verb == FILTER:
        return 200, wire.write(wire.ExtenderFilterResult(Error=problem)), f"Error: {problem}"
    if verb == BIND:
        return 200, wire.write(wire.ExtenderBindingResult(Error=problem)), f"Error: {problem}"
    return status, b"", problem


def _has_certificate(http: web.BaseRequest) -> bool:
    return http.transport is not None and bool(http.transport.get_extra_info("peercert"))


def _text(status: int, text: str, **headers: str) -> web.Response:
    return web.Response(status=status, text=text + "\n", headers=headers)
