"""Addresses of pages. At a moment of a history, they begin with /at/NUMBER, so that all links stay there.

Nothing about a moment is kept in the server or in a cookie: the address says it all.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from urllib.parse import quote, urlencode

LONGEST_NUMBER = 12
"""More digits than the number of a moment has."""

_AT = re.compile(rf"/at/([0-9]{{1,{LONGEST_NUMBER}}})(/.*)")
_ADDRESS = re.compile(r'((?:href|action|hx-get)=")/(?!static/|at/)')
"""Where a rendered page has the address of another one. Text of objects has no quotes: the templates escape them."""


def link(path: str, **parameters: object) -> str:
    """Return an address of this server. Parameters that are empty are left out."""
    query = urlencode({name: value for name, value in parameters.items() if value})
    return f"{quote(path)}?{query}" if query else quote(path)


def at_moment(number: int, address: str) -> str:
    """Return the address of a page at a moment."""
    return f"{root_of(number)}{address}"


def root_of(number: int) -> str:
    """Return what the addresses of all pages at a moment begin with."""
    return f"/at/{number}"


def parse_moment_address(address: str) -> tuple[int, str] | None:
    """Return the number of the moment of an address, and the address without it; None if it has none."""
    found = _AT.fullmatch(address)
    return None if found is None else (int(found[1]), found[2])


def with_root(root: str, page: str) -> str:
    """Return a rendered page whose links and forms lead to the same moment."""
    return _ADDRESS.sub(rf"\1{root}/", page)


def time_text(time: datetime) -> str:
    """Return the time of a moment for people."""
    utc = time.astimezone(UTC)
    return f"{utc:%Y-%m-%d %H:%M:%S}{f'.{utc.microsecond // 1000:03}' if utc.microsecond else ''} UTC"
