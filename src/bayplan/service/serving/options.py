"""How the endpoints are served."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


class ServingError(Exception):
    """The endpoints cannot be served as asked for. The message says what is wrong, and with which option or file."""


@dataclass(frozen=True, slots=True)
class NamedCertificate:
    """One `--tls-sni-cert-key`: a certificate, its key, and the names that it is for; none: those that stand in it."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxyHeaders:
    """In which headers a front proxy says who asks, and which proxies may (none named: all that are vouched for)."""

    username: tuple[str, ...] = ()
    uid: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """The secure-serving, authentication and authorization flags of kube-scheduler, under their names. Seconds."""

    port: int = 10259
    """`--secure-port`; 0 takes a free one. Who wants nothing to be served makes no endpoints."""
    bind_address: str = "0.0.0.0"  # noqa: S104 - the default of the flag: kubelets and Prometheus come from outside
    tls_cert_file: Path | None = None
    """With the key file: both are read again when they change. Without: self-signed, in memory only."""
    tls_private_key_file: Path | None = None
    cert_dir: Path | None = None
    """Without these two: the folder in which one of our own making is kept."""
    tls_sni_cert_keys: tuple[NamedCertificate, ...] = ()
    """Served to clients that ask for their names; read again when they change. The first goes before the others."""
    tls_min_version: str = "VersionTLS12"
    tls_cipher_suites: tuple[str, ...] = ()
    """For TLS 1.2, by their names in Go; none: those that the TLS library has of itself."""
    client_ca_file: Path | None = None
    """Whose client certificates are believed: their common name is the user, their organizations the groups.

    Without a file, the cluster says whose.
    """
    requestheader_client_ca_file: Path | None = None
    """Whose front proxies are believed. Without, the cluster says it, and in which headers."""
    requestheader: ProxyHeaders = ProxyHeaders(("x-remote-user",), (), ("x-remote-group",), ("x-remote-extra-",))
    """With `requestheader_client_ca_file` only."""
    skip_lookup: bool = False
    """Do not ask the cluster for what is missing of these."""
    tolerate_lookup_failure: bool = True
    """Serve, too, when the cluster does not say."""
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
