"""Who may see the page: requests with the token, to a name that can't be rebound, that come from the page itself.

The token comes in the printed address once, then in a cookie. Other requests get 403.
"""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode

from aiohttp import web

from bayplan.faces.asking.guard import ELSEWHERE, OwnNames, is_same_host, same_token

PARAMETER = "token"
HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
"""The headers of every response."""

_READING = {"GET", "HEAD"}


class CookieGuard:
    """Refuses requests. `address` is the one that the server listens on; `token` is what requests must have.

    The Host header must be one of `OwnNames`.

    A page of another site can link to this one, or send it a form, and the browser may add the cookie. Such a request
    asks nothing and changes nothing: one that opens a page gets a link to it, which the user may follow.
    """

    def __init__(self, token: str, address: str, cookie: str = "bayplan") -> None:
        self._token = token
        self._names = OwnNames(address)
        self._cookie = cookie

    def refusal(self, request: web.BaseRequest) -> web.Response | None:
        """Return the response to a request that may not be answered; None for one that may."""
        host = request.headers.get("Host", "")
        if host not in self._names:
            return _text(HTTPStatus.FORBIDDEN, "The Host header is not an address of this server.")
        if request.method not in {*_READING, "POST"}:
            response = _text(HTTPStatus.METHOD_NOT_ALLOWED, "Use GET, or POST for the forms of the page.")
            response.headers["Allow"] = "GET, HEAD, POST"
            return response
        given = request.query.get(PARAMETER)
        if given is not None and request.method in _READING and self._is_token(given):
            response = web.Response(status=HTTPStatus.SEE_OTHER, headers={"Location": _without_token(request)})
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="Strict")
            return response
        if request.method in _READING and request.headers.get("Sec-Fetch-Site") in ELSEWHERE:
            return _link(request)
        if given is not None or not self._is_token(request.cookies.get(self._cookie, "")):
            return _text(HTTPStatus.FORBIDDEN, "Open the address that bayplan ui has printed: it has a token.")
        if request.method == "POST" and not _is_same_origin(request, host):
            return _text(HTTPStatus.FORBIDDEN, f"The request is not from this page: its Origin must be http://{host}.")
        return None

    def _is_token(self, given: str) -> bool:
        return same_token(given, self._token)


def _is_same_origin(request: web.BaseRequest, host: str) -> bool:
    """Whether a page of this server sends the request. Browsers say that in one of two headers."""
    site = request.headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    return is_same_host(request.headers.get("Origin", ""), host)


def _without_token(request: web.BaseRequest) -> str:
    """The path and the query of a request without the token, on this server."""
    query = urlencode([each for each in parse_qsl(request.rel_url.raw_query_string) if each[0] != PARAMETER])
    path = "/" + request.rel_url.raw_path.lstrip("/\\").replace("\\", "%5C")
    return f"{path}?{query}" if query else path


def _link(request: web.BaseRequest) -> web.Response:
    address = escape(_without_token(request))
    return web.Response(
        status=HTTPStatus.FORBIDDEN,
        content_type="text/html",
        text="<!doctype html><html lang=en><title>Bayplan</title><meta name=color-scheme content='light dark'>"
        f"<p>Another site led here. Nothing has been asked yet.<p><a href='{address}'>Open {address}</a></html>\n",
    )


def _text(status: HTTPStatus, text: str) -> web.Response:
    return web.Response(status=status, text=f"{status.value} {status.phrase}\n{text}\n")
