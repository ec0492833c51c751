"""The formats of texts and numbers that schemas may name. Mirrors kube-openapi's pkg/validation/strfmt.

A format that is not listed is not checked, as upstream does with formats that it does not know.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

from bayplan.devcluster.apiserver.validation.meta import name_errors

_UUID = re.compile(r"(?i)[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}")
_DURATION = re.compile(r"-?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|[+-]?0")
_LONG_DURATION = re.compile(
    r"\d+ *(ns|nanos?|nanoseconds?|us|micros?|ms|millis?|s|secs?|seconds?|m|mins?|minutes?|"
    r"h|hrs?|hours?|d|days?|w|weeks?)"
)
_EMAIL = re.compile(r"[^@\s<>]+@[^@\s<>]+")
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+|/\S*")


def _parses(read: Callable[[str], Any]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            read(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _date_time(text: str) -> bool:
    if not re.match(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d", text):
        return False
    return _parses(datetime.fromisoformat)(text.upper())


def _base64(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


TEXTS: dict[str, Callable[[str], bool]] = {
    "byte": _parses(_base64),
    "cidr": lambda text: "/" in text and _parses(lambda given: ipaddress.ip_network(given, strict=False))(text),
    "date": lambda text: len(text) == len("2006-01-02") and _parses(date.fromisoformat)(text),
    "date-time": _date_time,
    "datetime": _date_time,
    "duration": lambda text: bool(_DURATION.fullmatch(text) or _LONG_DURATION.fullmatch(text)),
    "email": lambda text: bool(_EMAIL.fullmatch(text)),
    "hostname": lambda text: not name_errors(text.lower(), "subdomain"),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "uri": lambda text: bool(_URI.fullmatch(text)),
    "uuid": lambda text: bool(_UUID.fullmatch(text)),
}
"""Whether a text has the format."""

INTEGERS: dict[str, tuple[int, int]] = {
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
"""The least and the greatest number of a format."""
