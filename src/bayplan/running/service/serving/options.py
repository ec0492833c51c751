"""The options of the endpoints."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from bayplan.foundations.http_server import Limits


class ServingError(Exception):
    """The endpoints cannot be served with these options. The message names the option or file."""


@dataclass(frozen=True, slots=True)
class NamedCertificate:
    """One `--tls-sni-cert-key`: a certificate, its key, and the server names it is for. Default: its own names."""

    certificate: Path
    key: Path
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProxyHeaders:
    """The headers in which a front proxy names the user. `allowed_names`: the proxies' common names; empty: any."""

    username: tuple[str, ...] = ()
    uid: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    extra_prefixes: tuple[str, ...] = ()
    allowed_names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SecureServing:
    """kube-scheduler's flags for its port and its certificates, under their names."""

    port: int = 10259
    """`--secure-port`. Here, 0 means any free port."""
    bind_address: str = "0.0.0.0"  # noqa: S104 - the flag's default: kubelets and Prometheus connect from outside
    permit_port_sharing: bool = False
    tls_cert_file: Path | None = None
    """Requires the key file. Both files are read again when they change. Default: self-signed, in memory only."""
    tls_private_key_file: Path | None = None
    cert_dir: Path | None = None
    """Without these two files: the directory in which a self-signed certificate is stored."""
    tls_sni_cert_keys: tuple[NamedCertificate, ...] = ()
    """Served to clients that ask for their names. Read again when they change. Earlier ones take precedence."""
    tls_min_version: str = "VersionTLS12"
    tls_cipher_suites: tuple[str, ...] = ()
    """For TLS 1.2, by their names in Go. Default: those of the TLS library."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatingAuthentication:
    """kube-scheduler's flags for who a client is, under their names. In seconds."""

    client_ca_file: Path | None = None
    """Authorities of client certificates. The common name is the user, the organizations are the groups.

    Default: read from the cluster.
    """
    requestheader_client_ca_file: Path | None = None
    """Authorities of front proxies. Default: read from the cluster, with the headers."""
    requestheader: ProxyHeaders = ProxyHeaders(("x-remote-user",), (), ("x-remote-group",), ("x-remote-extra-",))
    """Used only with `requestheader_client_ca_file`."""
    skip_lookup: bool = False
    """Don't read missing settings from the cluster."""
    tolerate_lookup_failure: bool = True
    """Start even if the settings cannot be read from the cluster."""
    token_cache_ttl: float = 10.0
    """`--authentication-token-webhook-cache-ttl`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegatingAuthorization:
    """kube-scheduler's flags for what a client may do, under their names. In seconds."""

    authorized_cache_ttl: float = 10.0
    unauthorized_cache_ttl: float = 10.0
    always_allow_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez")
    """Open to everyone. A trailing `*` matches any suffix."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServingOptions:
    """How endpoints are served: kube-scheduler's flags, in its groups, and what it has no flags for. In seconds."""

    secure: SecureServing = SecureServing()
    authentication: DelegatingAuthentication = DelegatingAuthentication()
    authorization: DelegatingAuthorization = DelegatingAuthorization()
    blocked_limit: float = 30.0
    """How long the scheduler's event loop may be blocked before /livez fails."""
    scrape_timeout: float = 1.0
    """How long a scrape waits for the scheduler before it returns the last known state."""
    limits: Limits = field(default_factory=Limits)
    """What clients can use."""
