"""The web application: its pages, all of them read-only and made on the server. htmx asks for parts of them again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from bayplan.insight import Insight, QuestionError
from bayplan.ui.asking import Asking
from bayplan.ui.basket import CHOICE, TITLES, Basket, compare_sides
from bayplan.ui.bay_plan import BayPlan, bay_plan
from bayplan.ui.guard import Guard
from bayplan.ui.reports import PodRow, node_report, pod_row, search

FEW_NODES = 600
SMALL_PAUSE, LARGE_PAUSE = 2, 10
"""Seconds between two checks for changes, for at most FEW_NODES nodes and for more."""
POD_PAUSE, QUEUE_PAUSE, GONE_PAUSE = 3, 5, 5
"""Seconds between two checks of a pod or a node, of the queue, and for a pod or a node that is gone."""
PATIENCE = 5.0
"""Seconds to wait for the first snapshot. The browser then asks again."""
WAITING_SHOWN = 24
"""The most pending pods to show next to the plan."""

_VERSION = "bayplan.version"
"""The key of a request's scope for the version of the cluster that the answer is about."""

logger = logging.getLogger(__name__)


def application(asking: Asking, token: str, address: str = "127.0.0.1", cookie: str = "bayplan") -> ASGIApp:
    """Return the ASGI application. `token` and `address`: see `Guard`."""
    pages = _Pages(asking, f"{cookie}-basket")
    app = Starlette(
        routes=[
            Route("/", pages.plan),
            Route("/queue", pages.queue),
            Route("/pods/{namespace}/{name}", pages.pod),
            Route("/nodes/{name}", pages.node),
            Route("/search", pages.search),
            Route("/what-if", pages.what_if),
            Mount("/static", StaticFiles(directory=Path(__file__).with_name("static"))),
        ],
        exception_handlers={
            QuestionError: pages.no_answer,
            HTTPException: pages.http_error,
            Exception: pages.failure,
        },
    )
    return Guard(GZipMiddleware(app), token, address, cookie)


class _Pages:
    def __init__(self, asking: Asking, basket_cookie: str) -> None:
        self._asking = asking
        self._basket_cookie = basket_cookie
        self._templates = Environment(
            loader=PackageLoader("bayplan.ui"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    async def plan(self, request: Request) -> Response:
        """Return the bay plan and the list of pending pods."""
        resource = request.query_params.get("resource", "cpu")

        def draw(insight: Insight) -> tuple[BayPlan, list[PodRow], int]:
            pending = sorted(insight.world.pending.values(), key=lambda pod: (-pod.priority, pod.key))
            return bay_plan(insight.world, resource), [pod_row(pod) for pod in pending[:WAITING_SHOWN]], len(pending)

        plan, waiting, pending = await self._ask(request, ("plan", resource), draw)
        return self._page(
            request,
            "plan.html",
            plan=plan,
            waiting=waiting,
            pending=pending,
            every=SMALL_PAUSE if plan.nodes <= FEW_NODES else LARGE_PAUSE,
            title="Bay plan",
        )

    async def queue(self, request: Request) -> Response:
        """Return the pending pods by cause."""
        pending = await self._ask(request, "queue", lambda insight: insight.explain_all())
        return self._page(request, "queue.html", pending=pending, every=QUEUE_PAUSE, title="Queue")

    async def pod(self, request: Request) -> Response:
        """Return the explanation of a pod; with `?node=`, also what keeps it from that node."""
        key = f"{request.path_params['namespace']}/{request.path_params['name']}"
        node = request.query_params.get("node", "").strip()
        found, row = await self._ask(
            request, ("pod", key), lambda insight: (insight.explain(key), pod_row(insight.pod(key)))
        )
        why_not, problem = None, ""
        if node:
            try:
                why_not = await self._ask(request, ("why-not", key, node), lambda insight: insight.why_not(key, node))
            except QuestionError as error:
                problem = str(error)
        return self._page(
            request,
            "pod.html",
            pod=found,
            row=row,
            asked_node=node,
            why_not=why_not,
            problem=problem,
            every=POD_PAUSE,
            title=f"Pod {key}",
        )

    async def node(self, request: Request) -> Response:
        """Return what is on a node, and which pending pods it rejects."""
        name = request.path_params["name"]
        found = await self._ask(request, ("node", name), lambda insight: node_report(insight, name))
        return self._page(request, "node.html", node=found, every=POD_PAUSE, title=f"Node {name}")

    async def search(self, request: Request) -> Response:
        """Return the nodes and pods of a name. A single one is opened at once, unless htmx asks as the user types."""
        text = request.query_params.get("q", "")
        hits = await self._ask(request, ("search", text), lambda insight: search(insight, text))
        if len(hits) == 1 and "hx-request" not in request.headers:
            return RedirectResponse(f"/{hits[0].kind}s/{hits[0].name}", HTTPStatus.SEE_OTHER)
        return self._page(request, "search.html", hits=hits, text=text, every=0, title="Search")

    async def what_if(self, request: Request) -> Response:
        """Return the cluster after a basket of changes, next to today's.

        The basket is the query; without one, that of the cookie. With `add`, the query is added to the cookie's.
        """
        kept = Basket.read(unquote(request.cookies.get(self._basket_cookie, "")))
        given = Basket.of(request.query_params.multi_items())
        if "empty" in request.query_params:
            emptied = RedirectResponse("/what-if", HTTPStatus.SEE_OTHER)
            emptied.delete_cookie(self._basket_cookie)
            return emptied
        if CHOICE in request.query_params:
            return RedirectResponse(f"/what-if?{given.query() or 'empty=1'}", HTTPStatus.SEE_OTHER)
        if "add" in request.query_params or (kept.entries and not given.entries):
            query = kept.with_all(given).query() if given.entries else kept.query()
            return RedirectResponse(f"/what-if?{query}" if query else "/what-if?empty=1", HTTPStatus.SEE_OTHER)
        resource = request.query_params.get("resource", "cpu")
        sides, problem = None, ""
        if given.entries:
            try:
                sides = await self._ask(
                    request, ("what-if", given, resource), lambda insight: compare_sides(insight, given, resource)
                )
            except QuestionError as error:
                problem = str(error)
        response = self._page(
            request,
            "what_if.html",
            basket=given,
            titles=TITLES,
            sides=sides,
            problem=problem,
            every=LARGE_PAUSE if sides is not None and sides.after.nodes <= FEW_NODES else 0,
            title="What if",
        )
        response.set_cookie(self._basket_cookie, quote(given.query()), httponly=True, samesite="lax")
        return response

    async def no_answer(self, request: Request, error: Exception) -> Response:
        """Return the page for a question about something that doesn't exist. In a live cluster, it may come back."""
        return self._error(request, HTTPStatus.NOT_FOUND, str(error), every=GONE_PAUSE)

    async def http_error(self, request: Request, error: Exception) -> Response:
        """Return the page for an address that doesn't exist."""
        assert isinstance(error, HTTPException)
        status = HTTPStatus(error.status_code)
        message = f"there is no page {request.url.path}" if status is HTTPStatus.NOT_FOUND else error.detail
        return self._error(request, status, message)

    async def failure(self, request: Request, error: Exception) -> Response:
        """Return the page for a failure of the server, which goes to the log."""
        logger.error("%s failed", request.url.path)  # the web server logs the error
        return self._error(request, HTTPStatus.INTERNAL_SERVER_ERROR, "the question failed; the log says why")

    def _error(self, request: Request, status: HTTPStatus, message: str, every: float = 0) -> Response:
        context = {"status": status, "message": message, "every": every, "title": status.phrase}
        return self._page(request, "error.html", status, **context)

    async def _ask(self, request: Request, key: Any, question: Callable[[Insight], Any]) -> Any:
        try:
            async with asyncio.timeout(PATIENCE):
                await self._asking.source.ready()
        except TimeoutError:
            reasons = "; ".join(self._asking.problems) or "large clusters take up to half a minute"
            raise HTTPException(503, f"the cluster has not been read yet: {reasons}") from None
        request.scope.setdefault(_VERSION, self._asking.source.version)
        return await self._asking.ask(key, question)

    def _page(self, request: Request, template: str, code: HTTPStatus = HTTPStatus.OK, /, **context: Any) -> Response:
        """Render a page, or only its main part for htmx; nothing if it has that already."""
        source = self._asking.source
        part = request.headers.get("hx-target") if "hx-request" in request.headers else None
        version = request.scope.get(_VERSION, source.version)
        if part and request.query_params.get("seen") == str(version):
            return Response(status_code=HTTPStatus.NO_CONTENT)
        every = context["every"] if source.live else 0
        shown: Mapping[str, Any] = {
            **context,
            "every": every,
            "part": part,
            "path": request.url.path,
            "again": f"{request.url.path}?{request.url.include_query_params(seen=version).query}",
            "source": source.snapshot().source if source.version else "",
            "live": source.live,
            "problems": self._asking.problems,
        }
        return HTMLResponse(self._templates.get_template(template).render(shown), code)
