"""URLs. Mirrors Kubernetes' pkg/cel/library/urls.go and Go's net/url."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, unquote_to_bytes

from bayplan.plugins.dynamic_resources.cel.values import URL, CelError

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):(.*)", re.ASCII | re.DOTALL)
_PORT = re.compile(r"(:[0-9]*)?", re.ASCII)
_USER = re.compile(r"[A-Za-z0-9._:~!$&'()*+,;=%@-]*", re.ASCII)
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})(.{0,2})", re.DOTALL)
_HOST_CHARACTERS = frozenset("!$&'()*+,;=:[]<>\"-_.~")
_PATH_SAFE = "$&+,/:;=@"
_ENCODED_PATH = re.compile(r"[A-Za-z0-9_.~!$&'()*+,;=:@\[\]%/-]*", re.ASCII)


def request_problem(text: str) -> str:
    """Why a text is no absolute URI nor an absolute path; nothing if it is one."""
    try:
        _parse(text, of_request=True)
    except ValueError as error:
        escaped = text.replace("\\", "\\\\").replace('"', '\\"')
        return f'parse "{escaped}": {error}'
    return ""


def _url(text: str) -> URL:
    problem = request_problem(text)
    if problem:
        raise CelError(f"URL parse error during conversion from string: {problem}")
    whole, hash_, fragment = text.partition("#")
    _check_escapes(fragment)
    parsed = _parse(whole, of_request=False)
    return URL(f"{parsed.text}#{fragment}", *_parts(parsed)) if hash_ else parsed


def _parts(url: URL) -> tuple[str, ...]:
    return url.scheme, url.host, url.hostname, url.port, url.path, url.query


def _parse(text: str, of_request: bool) -> URL:
    if any(each < " " or each == "\x7f" for each in text):
        raise ValueError("net/url: invalid control character in URL")
    if not text and of_request:
        raise ValueError("empty url")
    if text == "*":
        return URL("*", "", "", "", "", "*", "")
    scheme, rest = _scheme(text)
    rest, _, query = rest.partition("?")
    authority = ""
    if not rest.startswith("/"):
        if scheme:  # what follows is opaque: mailto:someone
            return URL(f"{scheme}:{rest}?{query}", scheme, "", "", "", "", query)
        if of_request:
            raise ValueError("invalid URI for request")
        if ":" in rest.partition("/")[0]:
            raise ValueError("first path segment in URL cannot contain colon")
    if (scheme or (not of_request and not rest.startswith("///"))) and rest.startswith("//"):
        authority, slash, path = rest[2:].partition("/")
        rest = slash + path
    host = _host(authority)
    hostname, port = _split_port(host)
    _check_escapes(rest)
    return URL(f"{scheme}://{authority}{rest}?{query}", scheme, host, hostname, port, _escaped_path(rest), query)


def _scheme(text: str) -> tuple[str, str]:
    if text.startswith(":"):
        raise ValueError("missing protocol scheme")
    match = _SCHEME.fullmatch(text)
    return (match[1].lower(), match[2]) if match else ("", text)


def _host(authority: str) -> str:
    user, at, host = authority.rpartition("@")
    if at and not _USER.fullmatch(user):
        raise ValueError("net/url: invalid userinfo")
    _check_escapes(user)
    if host.startswith("["):
        end = host.rfind("]")
        if end < 0:
            raise ValueError("missing ']' in host")
        port = host[end + 1 :]
    else:
        place = host.rfind(":")
        port = host[place:] if place >= 0 else ""
    if not _PORT.fullmatch(port):
        raise ValueError(f'invalid port "{port}" after host')
    zone = host.find("%25") if host.startswith("[") else -1
    for place, each in enumerate(host):
        if each == "%":
            code = host[place + 1 : place + 3]
            if not re.fullmatch(r"[0-9a-fA-F]{2}", code, re.ASCII):
                raise ValueError(f'invalid URL escape "%{code}"')
            if code != "25" and int(code, 16) < 0x80 and not 0 <= zone < place:
                raise ValueError(f'invalid URL escape "%{code}"')
        elif each.isascii() and not each.isalnum() and each not in _HOST_CHARACTERS:
            raise ValueError(f'invalid character "{each}" in host name')
    return unquote_to_bytes(host).decode(errors="replace") if "%" in host else host


def _split_port(host: str) -> tuple[str, str]:
    place = host.rfind(":")
    port = ""
    if place >= 0 and _PORT.fullmatch(host[place:]):
        host, port = host[:place], host[place + 1 :]
    return (host[1:-1] if host.startswith("[") and host.endswith("]") else host), port


def _check_escapes(text: str) -> None:
    match = _BAD_ESCAPE.search(text)
    if match:
        raise ValueError(f'invalid URL escape "%{match[1]}"')


def _escaped_path(path: str) -> str:
    return path if _ENCODED_PATH.fullmatch(path) else quote(unquote_to_bytes(path), safe=_PATH_SAFE)


def _query(url: URL) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for pair in url.query.split("&"):
        if not pair or ";" in pair or _BAD_ESCAPE.search(pair):
            continue
        key, _, value = (
            unquote_to_bytes(part.replace("+", " ")).decode(errors="replace") for part in pair.partition("=")
        )
        found.setdefault(key, []).append(value)
    return found


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "url": _url,
    "isURL": lambda text: not request_problem(text),
    "getScheme": lambda url: url.scheme,
    "getHost": lambda url: url.host,
    "getHostname": lambda url: url.hostname,
    "getPort": lambda url: url.port,
    "getEscapedPath": lambda url: url.path,
    "getQuery": _query,
}
