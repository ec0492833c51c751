"""URLs. Mirrors Kubernetes' pkg/cel/library/urls.go, which accepts the same texts as Go's url.ParseRequestURI."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qs, quote, unquote_to_bytes, urlsplit

from bayplan.core.devices.cel.library.quantities import reads
from bayplan.core.devices.cel.values import URL, CelError

_CONTROL = re.compile(r"[\x00-\x1f\x7f]|^ ")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2}).{0,2}", re.DOTALL)
_AUTHORITY = re.compile(
    r"(?:[A-Za-z0-9._:~!$&'()*+,;=%@-]*@)?"
    r"((\[[0-9A-Fa-f:.]*(?:%25[^\]]*)?\]|[^\x00-\x20\[\]:@/\\^`{|}#?]*)(?::([0-9]*))?)"
)
_ENCODED_PATH = re.compile(r"[A-Za-z0-9_.~!$&'()*+,;=:@\[\]%/-]*", re.ASCII)


def parse(text: str) -> URL:
    """Parse an absolute URI or an absolute path. Raises CelError."""

    def wrong(why: str) -> CelError:
        return CelError(f'URL parse error during conversion from string: parse "{text}": {why}')

    if _CONTROL.search(text):
        raise wrong("net/url: invalid control character in URL")
    try:
        parts: SplitResult = urlsplit(str(text), allow_fragments=False)
    except ValueError as error:
        raise wrong(str(error)) from None
    opaque = bool(parts.scheme) and not parts.netloc and not parts.path.startswith("/")
    if not parts.scheme and not str(text).startswith("/"):
        raise wrong("invalid URI for request" if text else "empty url")
    if not parts.scheme and parts.netloc:  # without a scheme, Go parses a leading // as part of the path
        parts = parts._replace(netloc="", path=str(text).partition("?")[0])
    authority = _AUTHORITY.fullmatch(parts.netloc)
    if authority is None:
        port = parts.netloc.rpartition(":")[2]
        raise wrong(f'invalid port ":{port}" after host' if ":" in parts.netloc else "invalid character in host name")
    escape = _BAD_ESCAPE.search(parts.netloc + parts.path)
    if escape and not opaque:
        raise wrong(f'invalid URL escape "{escape[0]}"')
    path = parts.path if _ENCODED_PATH.fullmatch(parts.path) else quote(unquote_to_bytes(parts.path), safe="$&+,/:;=@")
    host, hostname, port = (part or "" for part in authority.groups())
    return URL(str(text), parts.scheme, host, hostname.strip("[]"), port, "" if opaque else path, parts.query)


def _query(url: URL) -> dict[str, list[str]]:
    right = "&".join(pair for pair in url.query.split("&") if ";" not in pair and not _BAD_ESCAPE.search(pair))
    return parse_qs(right, keep_blank_values=True, errors="replace")


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "url": parse,
    "isURL": lambda text: reads(parse, text),
    "getScheme": lambda url: url.scheme,
    "getHost": lambda url: url.host,
    "getHostname": lambda url: url.hostname,
    "getPort": lambda url: url.port,
    "getEscapedPath": lambda url: url.path,
    "getQuery": _query,
}
