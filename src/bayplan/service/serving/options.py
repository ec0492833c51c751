"""How the endpoints are served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class ServingError(Exception):
    """The endpoints cannot be served as asked for. The message says what is wrong, and with which option or file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """The secure-serving, authentication and authorization flags of kube-scheduler, under their names. Seconds."""

    port: int = 10259
    """`--secure-port`; 0 takes a free one. Who wants nothing to be served makes no endpoints."""
    bind_address: str = "0.0.0.0"  # noqa: S104 - the default of the flag: kubelets and Prometheus come from outside
    tls_cert_file: Path | None = None
    """With the key file: both are read again when they change. Without: self-signed, in memory only."""
    tls_private_key_file: Path | None = None
    tls_min_version: str = "VersionTLS12"
    tls_cipher_suites: tuple[str, ...] = ()
    """For TLS 1.2, by their names in Go; none: those that the TLS library has of itself."""
    client_ca_file: Path | None = None
    """Whose client certificates are believed: their common name is the user, their organizations the groups."""
    permit_port_sharing: bool = False
    token_cache_ttl: float = 10.0
    """`--authentication-token-webhook-cache-ttl`."""
    authorized_cache_ttl: float = 10.0
    unauthorized_cache_ttl: float = 10.0
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    """Served to anybody; a trailing `*` stands for any rest."""
    blocked_limit: float = 30.0
    """For how long the scheduler's event loop may be blocked before /livez fails."""
    scrape_timeout: float = 1.0
    """How long a scrape waits for the scheduler; then it gets what was seen last."""
