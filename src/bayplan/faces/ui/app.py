"""The web application: finds the page of a request, and renders it. htmx asks for parts of the pages again.

A page is a function of a `PageRequest`, and a line in `routes.py`.
"""

from __future__ import annotations

import logging
import mimetypes
import zlib
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qsl, quote, unquote

from aiohttp import web
from jinja2 import Environment, PackageLoader, StrictUndefined

from bayplan.answers.insight.answers import QuestionError
from bayplan.answers.snapshots import Snapshot
from bayplan.core.api.durations import human
from bayplan.core.api.times import with_zone
from bayplan.faces.asking.asking import Asking, Question, UnreadError
from bayplan.faces.asking.routing import Routes, UnknownRoute
from bayplan.faces.asking.sources import Source
from bayplan.faces.ui.addresses import at_moment, link, parse_moment_address, root_of, time_text, with_root
from bayplan.faces.ui.filters import UnknownName
from bayplan.faces.ui.guard import HEADERS, CookieGuard
from bayplan.faces.ui.moments import MomentSources
from bayplan.faces.ui.shadow_file import ShadowFile
from bayplan.foundations.http_server import BodyError, HttpServer, Limits, quoted

T = TypeVar("T")

GONE_PAUSE = 5
"""Seconds between two checks for a pod or a node that is gone."""
FORM_LIMIT = 64 * 1024
"""Bytes of a form."""
FIELDS = 200
"""The most fields of a form."""

log = logging.getLogger(__name__)

Page = Callable[..., Awaitable[web.Response]]
"""A page: gets the visit, and the variable parts of the path."""
Route = tuple[str, str, Page]
"""A method, a path whose variable parts are in braces, and the page."""

_STATIC = Path(__file__).with_name("static")


class PageError(Exception):
    """An answer that is a page with a status and a message."""

    def __init__(self, status: HTTPStatus, message: str) -> None:
        super().__init__(message)
        self.status = status


class Application:
    """Answers requests with pages. `http` serves it. `token`, `address` and `cookie`: see `CookieGuard`."""

    def __init__(
        self,
        asking: Asking,
        routes: Sequence[Route],
        token: str,
        address: str = "127.0.0.1",
        *,
        cookie: str = "bayplan",
        limits: Limits = Limits(),  # noqa: B008 - immutable
        moments: MomentSources | None = None,
        shadow: ShadowFile | None = None,
    ) -> None:
        self.asking = asking
        self.shadow = shadow
        self.moments = moments
        self.basket_cookie = f"{cookie}-basket"
        self.http = HttpServer(self.handle, log=log, limits=limits, body_limit=FORM_LIMIT, cancels=True)
        self._guard = CookieGuard(token, address, cookie)
        self._routes = Routes(routes)
        self.templates = Environment(
            loader=PackageLoader("bayplan.faces.ui"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.templates.globals.update(age=age, link=link, time_text=time_text)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request. Raises BodyError for a form that can't be read."""
        response = self._guard.refusal(request) or await self._answer(request)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if isinstance(response, web.Response) and response.body:
            response.enable_compression()
        return response

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        visit = PageRequest(self, request)
        try:
            if visit.missing:
                raise QuestionError(visit.missing)
            page, parts = await self._find(visit)
            if self.moments is not None and not visit.root and page is not static:
                return visit.redirect(at_moment(self.moments.first_shown, visit.with_query()))
            return await page(visit, *parts)
        except PageError as error:
            return visit.error(error.status, str(error))
        except UnknownName as error:
            links = [(name, visit.with_query(**{error.parameter: name})) for name in error.near]
            return visit.error(HTTPStatus.NOT_FOUND, str(error), links=links)
        except QuestionError as error:  # in a live cluster, what doesn't exist may come back
            return visit.error(HTTPStatus.NOT_FOUND, str(error), every=GONE_PAUSE)
        except BodyError:
            raise
        except Exception:
            log.exception("%s failed", quoted(request.path))
            return visit.error(HTTPStatus.INTERNAL_SERVER_ERROR, "the question failed; the log says why")

    async def _find(self, visit: PageRequest) -> tuple[Page, Iterable[str]]:
        """The page of a request, and the parts of its path that are variable. Raises PageError."""
        method = "GET" if visit.request.method == "HEAD" else visit.request.method
        try:
            page, parts = await self._routes.find(method, visit.raw_path)
        except UnknownRoute as error:
            if error.allowed:
                message = f"{visit.path} requires {', '.join(error.allowed)}"
                raise PageError(HTTPStatus.METHOD_NOT_ALLOWED, message) from None
            raise PageError(HTTPStatus.NOT_FOUND, f"there is no page {visit.path}") from None
        return page, parts.values()


class PageRequest:
    """A request for a page, with what pages need to answer it."""

    def __init__(self, application: Application, request: web.BaseRequest) -> None:
        self.request = request
        self.asking = application.asking
        self.moments = application.moments
        """The moments of the history that the page shows; None if it shows a cluster as it is."""
        self.shadow = application.shadow
        self.raw_path, self.missing = request.rel_url.raw_path, ""
        """The path without that of a moment, encoded; and why there is no such moment, or ""."""
        self.moment: int | None = None
        """The number of the moment."""
        if self.moments is not None and (found := parse_moment_address(self.raw_path)) is not None:
            self.missing = self.moments.missing(found[0])
            self.moment, self.raw_path = (None if self.missing else found[0]), found[1]
        self.root = "" if self.moment is None else root_of(self.moment)
        """What the addresses of all pages at this moment begin with."""
        self.path = unquote(self.raw_path)
        self.query: Mapping[str, str] = request.rel_url.query
        self.items = tuple(request.rel_url.query.items())
        """The parameters of the query, in their order."""
        self.part = request.headers.get("HX-Target", "") if "HX-Request" in request.headers else ""
        """The id of the element that htmx asks for."""
        self._application = application
        self._version: int | None = None
        """The version of the cluster that the answer is about."""

    @property
    def source(self) -> Source:
        """Where the cluster comes from."""
        if self.moments is None or self.moment is None:
            return self.asking.source
        return self.moments.of(self.moment)

    def with_query(self, **changed: str) -> str:
        """Return the address of this page, at any moment, with some parameters changed."""
        query = self.request.rel_url.update_query(changed).raw_query_string
        return f"{self.raw_path}?{query}" if query else self.raw_path

    async def snapshot(self) -> Snapshot:
        """Return the cluster as it is now, or was at the moment. Raises PageError or QuestionError."""
        source = self.source
        try:
            snapshot = await self.asking.read(source)
        except UnreadError as error:  # the browser asks again
            raise PageError(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
        if self._version is None:
            self._version = source.version
        return snapshot

    async def ask(self, key: Hashable, question: Question[T], *, ages: bool = False) -> T:
        """Ask about the cluster. `key` and `ages`: see Asking. Raises PageError, or what the question raises."""
        await self.snapshot()
        return await self.asking.ask(key, question, source=self.source, ages=ages)

    async def form(self) -> list[tuple[str, str]]:
        """Return the fields of a form that was sent. Raises PageError or BodyError."""
        body = await self._application.http.body(self.request)
        try:
            return parse_qsl(body.decode(), max_num_fields=FIELDS, errors="strict")
        except ValueError as error:
            raise PageError(HTTPStatus.BAD_REQUEST, f"the form can't be read: {error}") from None

    @property
    def basket(self) -> str:
        """The query of the basket in the cookie."""
        return unquote(self.request.cookies.get(self._application.basket_cookie, ""))

    def page(
        self, template: str, code: HTTPStatus = HTTPStatus.OK, /, *, changing: str = "", **context: Any
    ) -> web.Response:
        """Render a page, or only its main part for htmx; nothing if it has that already.

        `context`: what the template shows, with its `title` and `every`: seconds between two checks for changes.
        `changing`: differs with each change of what the page is about, if that isn't only the cluster.
        """
        source = self.source
        version = source.version if self._version is None else self._version
        problems = self.asking.problems_of(source) if source.version else []
        seen = f"{version}-{zlib.crc32(repr((source.lost, problems, changing)).encode())}"
        if self.part and self.query.get("seen") == seen:
            return web.Response(status=HTTPStatus.NO_CONTENT)
        shown: Mapping[str, Any] = {
            "namespace": "",
            **context,
            "every": context["every"] if source.live or changing else 0,
            "part": self.part,
            "path": self.path,
            "again": self.with_query(seen=seen),
            "source": source.snapshot().source if source.version else "",
            "follows": source.followed,
            "taken": source.snapshot().taken if source.version else None,
            "lost": source.lost,
            "problems": problems,
            "now": source.now,
            "banner": self._banner(),
            "has_shadow": self.shadow is not None,
        }
        text = self._application.templates.get_template(template).render(shown)
        if self.root:
            text = with_root(self.root, text)
        return web.Response(status=code, text=text, content_type="text/html")

    def _banner(self) -> Mapping[str, Any] | None:
        """What every page says about the moment that it shows; None if that is no moment of a history."""
        if self.moments is None or self.moment is None:
            return None
        here, last, page = self.moment, self.moments.last, self.with_query()
        return {
            "number": here,
            "last": last,
            "time": self.moments.moments.time(here),
            "before": at_moment(here - 1, page) if here else "",
            "after": at_moment(here + 1, page) if here < last else "",
        }

    def error(
        self, status: HTTPStatus, message: str, every: float = 0, links: Sequence[tuple[str, str]] = ()
    ) -> web.Response:
        """Render the page for an error. `links`: what the user may have meant, with their addresses."""
        title = status.phrase
        return self.page("error.html", status, status=status, message=message, every=every, title=title, links=links)

    def redirect(self, address: str, basket: str | None = None) -> web.Response:
        """Lead to another page of this server, at the same moment. `basket`: what its cookie has from now on."""
        if self.root and parse_moment_address(address) is None:
            address = f"{self.root}{address}"
        response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": address})
        if basket is not None:
            response.set_cookie(self._application.basket_cookie, quote(basket), httponly=True, samesite="Strict")
        return response


def age(moment: str, now: datetime) -> str:
    """Return how long ago a time of an object was, as kubectl prints it; "" if the object doesn't have it."""
    try:
        return human((now - with_zone(datetime.fromisoformat(moment))).total_seconds()) if moment else ""
    except ValueError:
        return moment


async def static(_: PageRequest, name: str) -> web.Response:
    """Return a file of `static/`."""
    files = {file.name: file for file in _STATIC.iterdir()}
    if name not in files:
        raise PageError(HTTPStatus.NOT_FOUND, f"there is no page /static/{name}")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return web.Response(body=files[name].read_bytes(), content_type=kind)
