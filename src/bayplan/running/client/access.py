"""The address and credentials of an API server, as read from a kubeconfig."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol
from urllib.parse import urlsplit

from bayplan.running.client.errors import ConfigError


class Credentials(Protocol):
    """The credentials of requests. `str()` describes them without secrets."""

    tls: ssl.SSLContext | None
    """The TLS context with a client certificate that may change; None for that of `ClusterAccess`."""

    async def headers(self) -> Mapping[str, str]:
        """Returns the headers that authenticate a request. Raises ConfigError if there are no valid credentials."""

    async def refresh(self, refused: Mapping[str, str]) -> bool:
        """Returns whether there are other credentials, after a 401 for a request with the headers `refused`."""


class Anonymous:
    """No credentials, or a fixed client certificate in the server's TLS context."""

    tls: ssl.SSLContext | None = None

    def __str__(self) -> str:
        return "no token"

    async def headers(self) -> Mapping[str, str]:
        """No headers."""
        return {}

    async def refresh(self, refused: Mapping[str, str]) -> bool:
        """False: there are no other credentials."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterAccess:
    """One API server and the credentials for it.

    Use it in one event loop only: a client in another thread needs its own.
    """

    server: str
    """Its URL, `https://host:port`, possibly with a path."""
    credentials: Credentials = field(default_factory=Anonymous)
    tls: ssl.SSLContext | None = None
    """The TLS context that verifies the server's certificate; None for the system's default."""
    server_hostname: str | None = None
    """The name that the server's certificate must have, if not the host of the URL."""
    proxy: str | None = None
    """The URL of an HTTP proxy, if any."""
    headers: tuple[tuple[str, str], ...] = ()
    """Headers of every request in addition to those of the credentials, such as impersonation."""
    namespace: str = "default"
    source: str = "given as a URL"
    """Where these settings come from, for messages: `context dev of ~/.kube/config`."""

    def __post_init__(self) -> None:
        """Raises ConfigError if the server isn't a valid HTTP or HTTPS URL."""
        try:
            parts = urlsplit(self.server)
            usable = parts.scheme in {"http", "https"} and bool((parts.hostname or "").encode("idna"))
            _ = parts.port
        except ValueError:
            usable = False
        if not usable:
            raise ConfigError(f"{self.source}: the server must be a URL such as https://host:6443, not {self.server!r}")
