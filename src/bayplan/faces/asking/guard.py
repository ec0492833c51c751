"""Who may ask: requests with the token, to a name that can't be rebound, that no page of another site sends.

Programs send the token in each request (`BearerGuard`); browsers get a cookie from the page (`ui/guard.py`).
"""

from __future__ import annotations

import hmac
import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from urllib.parse import urlsplit

ELSEWHERE = {"cross-site", "same-site"}
"""What browsers send as Sec-Fetch-Site if another site, or another port of this machine, led to the request."""

_SCHEME = "bearer "
_LOCAL_NAMES = {"localhost", "ip6-localhost"}


class OwnNames:
    """The Host headers that a server on `address` answers to.

    A name in the header could be an attacker's that resolves to this address (DNS rebinding). So the header must be
    this machine's name, or an IP address: of the loopback interface if the server listens there.
    """

    def __init__(self, address: str) -> None:
        self._loopback = is_loopback(address)
        self._names = _LOCAL_NAMES if self._loopback else _LOCAL_NAMES | {socket.gethostname().lower(), address.lower()}

    def __contains__(self, header: str) -> bool:
        name = header.rpartition("]")[0].removeprefix("[") if "]" in header else header.partition(":")[0]
        if name.lower() in self._names:
            return True
        try:
            address = ipaddress.ip_address(name)
        except ValueError:
            return False
        return address.is_loopback or not self._loopback


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
        if headers.get("Sec-Fetch-Site") in ELSEWHERE or (origin is not None and not is_same_host(origin, host)):
            return RefusedRequest(
                HTTPStatus.FORBIDDEN, f"the request is from a page of another site, not of http://{host}"
            )
        given = headers.get("Authorization", "")
        if given[: len(_SCHEME)].lower() != _SCHEME or not same_token(given[len(_SCHEME) :].strip(), self._token):
            expected = "expected the token as in Authorization: Bearer TOKEN"
            return RefusedRequest(HTTPStatus.UNAUTHORIZED, expected, {"WWW-Authenticate": "Bearer"})
        return None


def same_token(given: str, token: str) -> bool:
    """Return whether a token is the given one, in a time that doesn't depend on where they differ."""
    return hmac.compare_digest(given.encode(errors="replace"), token.encode())


def is_loopback(address: str) -> bool:
    """Return whether only this machine can reach the address."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address.lower() in _LOCAL_NAMES


def is_same_host(origin: str, host: str) -> bool:
    """Return whether an Origin header names the host of a request."""
    try:
        return urlsplit(origin).netloc.lower() == host.lower()
    except ValueError:
        return False
