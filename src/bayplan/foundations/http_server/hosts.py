"""The host names that a server answers to.

A web page of another site can reach a server on loopback through a host name that resolves to 127.0.0.1 (DNS
rebinding). Its requests have that name in their Host header. Mirrors `kubectl proxy` (pkg/proxy/proxy_server.go).
"""

from __future__ import annotations

import ipaddress
import re


class HostNames:
    """Decides whether a server answers to the Host header of a request.

    `address` itself is always accepted, with any port. If it is a loopback address, so are `localhost` and the other
    loopback addresses; otherwise all names are. `patterns` are regular expressions, separated by commas, that replace
    this default: a host is accepted if one of them matches a part of it, without the port. Raises ValueError for
    invalid patterns.
    """

    def __init__(self, address: str, patterns: str | None = None) -> None:
        self._address = address.lower()
        self._patterns: list[re.Pattern[str]] | None = None
        if patterns is not None:
            try:
                self._patterns = [re.compile(pattern, re.IGNORECASE) for pattern in patterns.split(",") if pattern]
            except re.error as error:
                raise ValueError(f"{error.pattern!r} is not a regular expression: {error.msg}") from error
        self._all = patterns is None and not _is_loopback(self._address)

    def accept(self, header: str) -> bool:
        """Whether requests with this Host header are answered. "" stands for a missing header."""
        if self._all:
            return True
        host = _without_port(header)
        if host == self._address:
            return True
        if self._patterns is None:
            return _is_loopback(host)
        return any(pattern.search(host) or pattern.search(f"[{host}]") for pattern in self._patterns)


def _without_port(header: str) -> str:
    header = header.strip().lower()
    if header.startswith("["):
        return header[1:].partition("]")[0]
    host, _, port = header.rpartition(":")
    return host if host and port.isdecimal() and ":" not in host else header


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
