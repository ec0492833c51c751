"""How to reach an API server and whom to be there, once a kubeconfig is understood."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from bayplan.client.errors import ConfigError


class Credentials(Protocol):
    """What a request is sent with. `str()` of it says whose they are, without secrets."""

    tls: ssl.SSLContext | None
    """The context that carries a client certificate, where that may change; None: the server's own."""

    async def headers(self) -> Mapping[str, str]:
        """The headers that authenticate a request. Raises ConfigError if credentials cannot be had."""

    async def refresh(self, refused: Mapping[str, str]) -> bool:
        """After a 401 for a request with the headers `refused`: whether there is something else to try."""


class Anonymous:
    """No credentials, or a fixed client certificate in the server's TLS context."""

    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        return "no token"

    async def headers(self) -> Mapping[str, str]:
        """None."""
        return {}

    async def refresh(self, refused: Mapping[str, str]) -> bool:
        """There is nothing else to try."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """One API server and how to be let in. Used in one event loop: a client in another thread loads its own."""

    server: str
    """Its URL, `https://host:port`, possibly with a path."""
    credentials: Credentials = field(default_factory=Anonymous)
    tls: ssl.SSLContext | None = None
    """How its certificate is verified; None: as the system does."""
    server_hostname: str | None = None
    """The name that its certificate is checked against, if not the URL's host."""
    proxy: str | None = None
    """The HTTP proxy on the way, if any."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every request beside the credentials': impersonation."""
    namespace: str = "default"
    source: str = "given as a URL"
    """Where all this was found, for messages: `context dev of ~/.kube/config`."""

    def __post_init__(self) -> None:
        """Raises ConfigError for a server that no request could be sent to."""
        try:
            parts = urlsplit(self.server)
            usable = parts.scheme in {"http", "https"} and bool((parts.hostname or "").encode("idna"))
            _ = parts.port
        except ValueError:
            usable = False
        if not usable:
            raise ConfigError(f"{self.source}: the server must be a URL such as https://host:6443, not {self.server!r}")
