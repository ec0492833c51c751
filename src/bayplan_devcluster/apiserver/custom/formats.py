"""The formats of strings and numbers in schemas. Mirrors kube-openapi's pkg/validation/strfmt.

Like upstream, unknown formats are ignored.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable
from datetime import date, datetime
from functools import partial
from typing import Any

from bayplan.core.api.names import name_errors

_DURATION = re.compile(r"-?((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))+|[+-]?0")
_LONG_DURATION = re.compile(
    r"\d+ *(ns|nanos?|nanoseconds?|us|micros?|ms|millis?|s|secs?|seconds?|m|mins?|minutes?|"
    r"h|hrs?|hours?|d|days?|w|weeks?)"
)


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


def _matches(pattern: str) -> Callable[[str], bool]:
    compiled = re.compile(pattern)
    return lambda text: compiled.fullmatch(text) is not None


def _uuid(version: str) -> Callable[[str], bool]:
    variant = "[0-9a-f]" if version in {"[0-9a-f]", "3"} else "[89ab]"
    return _matches(f"(?i)[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}[0-9a-f]{{3}}-?{variant}[0-9a-f]{{3}}-?[0-9a-f]{{12}}")


_TEXTS: dict[str, Callable[[str], bool]] = {
    "bsonobjectid": _matches("[0-9a-fA-F]{24}"),
    "byte": _parses(partial(base64.b64decode, validate=True)),
    "cidr": lambda text: "/" in text and _parses(lambda given: ipaddress.ip_network(given, strict=False))(text),
    "date": lambda text: len(text) == len("2006-01-02") and _parses(date.fromisoformat)(text),
    "datetime": _date_time,
    "duration": lambda text: bool(_DURATION.fullmatch(text) or _LONG_DURATION.fullmatch(text)),
    "email": _matches(r"[^@\s<>]+@[^@\s<>]+"),
    "hexcolor": _matches("#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})"),
    "hostname": lambda text: not name_errors(text.lower(), "subdomain"),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "k8slongname": lambda text: not name_errors(text, "subdomain"),
    "k8sshortname": lambda text: not name_errors(text, "label"),
    "mac": _matches("(?i)[0-9a-f]{2}([:-][0-9a-f]{2}){5,7}|[0-9a-f]{4}([.][0-9a-f]{4}){2,3}"),
    "password": lambda _text: True,
    "rgbcolor": _matches(r"rgb\(\s*(\d{1,3}\s*,\s*){2}\d{1,3}\s*\)"),
    "ssn": _matches(r"\d{3}[- ]?\d{2}[- ]?\d{4}"),
    "uri": _matches(r"[A-Za-z][A-Za-z0-9+.-]*:\S+|/\S*"),
    "uuid": _uuid("[0-9a-f]"),
    "uuid3": _uuid("3"),
    "uuid4": _uuid("4"),
    "uuid5": _uuid("5"),
}
_NUMBERS: dict[str, tuple[str, ...]] = {"integer": ("int32", "int64"), "number": ("float", "double")}

INTEGERS: dict[str, tuple[int, int]] = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
"""The smallest and the largest number of each format."""


def known_format(kind: str, name: str) -> str:
    """The format of a schema of a type, "" if it has none or the format is unknown for the type."""
    if kind in {"", "string"}:
        return name if name.replace("-", "") in _TEXTS else ""
    return name if name in _NUMBERS.get(kind, ()) else ""


def has_format(text: str, name: str) -> bool:
    """Whether a string has a known format."""
    return _TEXTS[name.replace("-", "")](text)
