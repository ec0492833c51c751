"""Who may ask: requests with the token, to a name that can't be rebound, that no web page sends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

from bayplan.ui.guard import ELSEWHERE, OwnNames, same_token

_SCHEME = "bearer "


@dataclass(frozen=True, slots=True)
class RefusedRequest:
    """Why a request isn't answered."""

    status: HTTPStatus
    message: str
    headers: Mapping[str, str] = field(default_factory=dict)


class BearerGuard:
    """Refuses requests. `address` is the one that the server listens on; `token` is what requests must have.

    Requests have the token as `Authorization: Bearer TOKEN`. The Host header must be one of `OwnNames`. Browsers tell
    with Origin and Sec-Fetch-Site that a page of another site sends a request; such requests are refused, too.
    """

    def __init__(self, token: str, address: str) -> None:
        self._token = token
        self._names = OwnNames(address)

    def refusal(self, headers: Mapping[str, str]) -> RefusedRequest | None:
        """Return why a request with these headers is not answered; None for one that is."""
        host, origin = headers.get("Host", ""), headers.get("Origin")
        if host not in self._names:
            return RefusedRequest(HTTPStatus.FORBIDDEN, "the Host header is not an address of this server")
        if headers.get("Sec-Fetch-Site") in ELSEWHERE or (origin is not None and not _is_same(origin, host)):
            return RefusedRequest(
                HTTPStatus.FORBIDDEN, f"the request is from a page of another site, not of http://{host}"
            )
        given = headers.get("Authorization", "")
        if given[: len(_SCHEME)].lower() != _SCHEME or not same_token(given[len(_SCHEME) :].strip(), self._token):
            expected = "expected the token as in Authorization: Bearer TOKEN"
            return RefusedRequest(HTTPStatus.UNAUTHORIZED, expected, {"WWW-Authenticate": "Bearer"})
        return None


def _is_same(origin: str, host: str) -> bool:
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
