"""The HTTP proxy that environment variables select. Mirrors Go's golang.org/x/net/http/httpproxy."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from urllib.parse import urlsplit


def proxy_for(url: str, environ: Mapping[str, str]) -> str | None:
    """The proxy of HTTPS_PROXY or HTTP_PROXY (or in lower case) for `url`, unless NO_PROXY or loopback exempts it."""
    parts = urlsplit(url)
    name = f"{parts.scheme}_proxy"
    proxy = environ.get(name.upper()) or environ.get(name)
    host = parts.hostname or ""
    if not proxy or _is_loopback(host) or _exempt(host, parts.port, environ.get("NO_PROXY") or environ.get("no_proxy")):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _is_loopback(host: str) -> bool:
    address = address_of(host)
    return host == "localhost" or (address is not None and address.is_loopback)


def _exempt(host: str, port: int | None, no_proxy: str | None) -> bool:
    return any(_matches(host, port, entry.strip().lower()) for entry in (no_proxy or "").split(",") if entry.strip())


def _matches(host: str, port: int | None, entry: str) -> bool:
    """Whether one entry (`*`, a domain, an address, a network, each possibly with a port) covers the host."""
    if entry == "*":
        return True
    address = address_of(host)
    if "/" in entry and address is not None:
        try:
            return address in ipaddress.ip_network(entry, strict=False)
        except ValueError:
            return False
    if address_of(entry) is None and ":" in entry:
        entry, _, wanted = entry.rpartition(":")
        entry = entry.strip("[]")
        if wanted != str(port):
            return False
    if address is not None:
        return address_of(entry) == address
    domain = entry.removeprefix("*").removeprefix(".")
    return host.endswith(f".{domain}") or (host == domain and not entry.startswith((".", "*")))


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a host as an IP address; None if it is a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
