"""Who may see the page: requests with the token, to a name that can't be rebound. All others get 403.

The token comes in the printed address once, then in a cookie. Only GET and HEAD are served.
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from http import HTTPStatus
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PARAMETER = "token"
_LOCAL_NAMES = {"localhost", "ip6-localhost"}
_HEADERS = {
    "Content-Security-Policy": "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'self'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


class Guard:
    """ASGI middleware. `address` is the one that the server listens on; `token` is what requests must have.

    A name in the Host header could be an attacker's that resolves to this address (DNS rebinding). So the header must
    be this machine's name, or an IP address: of the loopback interface if the server listens there.
    """

    def __init__(self, app: ASGIApp, token: str, address: str, cookie: str = "bayplan") -> None:
        self._app = app
        self._token = token
        self._loopback = is_loopback(address)
        self._names = _LOCAL_NAMES if self._loopback else _LOCAL_NAMES | {socket.gethostname().lower(), address.lower()}
        self._cookie = cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            response = self._refusal(Request(scope))
            await (response or self._app)(scope, receive, _with_headers(send))

    def _refusal(self, request: Request) -> Response | None:
        if not self._is_own(Headers(scope=request.scope).get("host", "")):
            return _text(HTTPStatus.FORBIDDEN, "The Host header is not an address of this server.")
        if request.method not in {"GET", "HEAD"}:
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "This page only reads: use GET.")
        given = request.query_params.get(PARAMETER)
        if given is not None and self._is_token(given):
            response = RedirectResponse(_without_token(request), HTTPStatus.SEE_OTHER)
            response.set_cookie(self._cookie, self._token, httponly=True, samesite="lax")
            return response
        if given is None and self._is_token(request.cookies.get(self._cookie, "")):
            return None
        return _text(HTTPStatus.FORBIDDEN, "Open the address that bayplan ui has printed: it has a token.")

    def _is_token(self, given: str) -> bool:
        return hmac.compare_digest(given.encode(), self._token.encode())

    def _is_own(self, header: str) -> bool:
        name = header.rpartition("]")[0].removeprefix("[") if "]" in header else header.partition(":")[0]
        if name.lower() in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() in _LOCAL_NAMES


def _without_token(request: Request) -> str:
    """The path and the query of a request without the token, on this server."""
    query = urlencode([(name, value) for name, value in parse_qsl(request.url.query) if name != PARAMETER])
    path = "/" + request.url.path.lstrip("/\\")
    return f"{path}?{query}" if query else path


def _text(status: HTTPStatus, text: str) -> Response:
    return PlainTextResponse(f"{status.value} {status.phrase}\n{text}\n", status)


def _with_headers(send: Send) -> Send:
    async def with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return with_headers
