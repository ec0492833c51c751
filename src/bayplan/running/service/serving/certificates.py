"""The serving certificates, and the authorities trusted for clients. Files are read again when they change.

Mirrors k8s.io/apiserver/pkg/server/dynamiccertificates.
"""

from __future__ import annotations

import logging
import os
import re
import ssl
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path

from cryptography import x509
from cryptography.x509.oid import NameOID

from bayplan.running.service.serving.authorities import Authorities
from bayplan.running.service.serving.cluster_authentication import ClientTrust
from bayplan.running.service.serving.options import ProxyHeaders, ServingError, ServingOptions
from bayplan.running.service.serving.self_signed import load_or_create, self_signed

log = logging.getLogger(__name__)

_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}

_CIPHERS = {
    f"TLS_ECDHE_{key}_WITH_{go_name}": f"ECDHE-{key}-{openssl_name}"
    for key in ("ECDSA", "RSA")
    for go_name, openssl_name in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
        ("CHACHA20_POLY1305", "CHACHA20-POLY1305"),
        ("AES_128_CBC_SHA", "AES128-SHA"),
        ("AES_256_CBC_SHA", "AES256-SHA"),
    )
}
_CIPHERS_1_3 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")

_DOMAIN = re.compile(r"(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_ADDRESS = re.compile(r"[0-9]+(\.[0-9]+){3}")

Version = tuple[tuple[tuple[int, int, int] | None, ...], ClientTrust]
"""Each file's modification time, size and inode (None if it is missing), and the cluster's settings."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """The current certificates and trusted authorities."""

    default: ssl.SSLContext
    by_name: Mapping[str, ssl.SSLContext]
    clients: Authorities
    proxies: Authorities

    def context_for(self, name: str) -> ssl.SSLContext:
        """The context for a server name: an exact match, a wildcard match, or the default."""
        name = name.lower()
        wildcard = ".".join(("*", *name.split(".")[1:]))
        return self.by_name.get(name) or self.by_name.get(wildcard) or self.default


class Certificates:
    """The server's TLS context, which gives each new connection the current certificates.

    `cluster_trust` returns the cluster's settings, used where `options` name no file. Raises ServingError for invalid
    files. Files that become invalid later are logged, and the last valid certificates stay in use.
    """

    def __init__(self, options: ServingOptions, cluster_trust: Callable[[], ClientTrust] = ClientTrust) -> None:
        secure, authentication = options.secure, options.authentication
        if secure.tls_cert_file is None and secure.tls_private_key_file is None and secure.cert_dir is not None:
            certificate, key = load_or_create(secure.cert_dir, secure.bind_address)
            secure = replace(secure, tls_cert_file=certificate, tls_private_key_file=key)
        self._secure = secure
        self._authentication = authentication
        self._cluster_trust = cluster_trust
        if (secure.tls_cert_file is None) is not (secure.tls_private_key_file is None):
            raise ServingError("--tls-cert-file and --tls-private-key-file must be given together")
        if secure.tls_min_version not in _VERSIONS:
            raise ServingError(f"--tls-min-version must be one of {', '.join(_VERSIONS)}: {secure.tls_min_version!r}")
        pairs = [(pair.certificate, pair.key) for pair in secure.tls_sni_cert_keys]
        files = (
            secure.tls_cert_file,
            secure.tls_private_key_file,
            authentication.client_ca_file,
            authentication.requestheader_client_ca_file,
            *chain.from_iterable(pairs),
        )
        self._files = [file for file in files if file is not None]
        self._version = self._current_version()
        self._self_signed = None if secure.tls_cert_file else b"".join(self_signed(secure.bind_address))
        self._current = self._load()
        self.context = self._context(*self._trusted())
        self._load_default_pair(self.context)
        self.context.sni_callback = self._select  # called for every connection, even without a server name

    @property
    def clients(self) -> Authorities:
        """The authorities trusted for client certificates."""
        return self._current.clients

    @property
    def proxies(self) -> Authorities:
        """The authorities trusted for front proxies."""
        return self._current.proxies

    @property
    def headers(self) -> ProxyHeaders:
        """The headers in which front proxies name the user."""
        own = self._authentication
        return own.requestheader if own.requestheader_client_ca_file else self._cluster_trust().headers

    def refresh(self) -> None:
        """Load the certificates again if a file or the cluster's settings have changed."""
        version = self._current_version()
        if version == self._version:
            return
        self._version = version
        try:
            self._current = self._load()
        except ServingError as error:
            log.warning("keeping the last valid certificates: %s", error)
        else:
            log.info("read changed certificates: %s", ", ".join(map(str, self._files)) or "CAs of clients")
            # OpenSSL decides whether to ask for a client certificate before `_select` is called.
            self.context.verify_mode = self._current.default.verify_mode

    def _select(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current.context_for(name or self._secure.bind_address)

    def _current_version(self) -> Version:
        return tuple(_version_of(file) for file in self._files), self._cluster_trust()

    def _trusted(self) -> tuple[Authorities, Authorities]:
        """The authorities of clients and of front proxies."""
        own, trust = self._authentication, self._cluster_trust()
        clients, proxies = trust.clients, trust.proxies
        if own.client_ca_file is not None:
            clients = _load_bundle("--client-ca-file", own.client_ca_file)
        if own.requestheader_client_ca_file is not None:
            proxies = _load_bundle("--requestheader-client-ca-file", own.requestheader_client_ca_file)
        return clients, proxies

    def _load(self) -> _Loaded:
        clients, proxies = self._trusted()
        default = self._context(clients, proxies)
        self._load_default_pair(default)
        explicit: dict[str, ssl.SSLContext] = {}
        found: dict[str, ssl.SSLContext] = {}
        for pair in self._secure.tls_sni_cert_keys:
            context = self._context(clients, proxies)
            _load_pair(context, pair.certificate, pair.key, f"--tls-sni-cert-key {pair.certificate},{pair.key}")
            names, into = (pair.names, explicit) if pair.names else (_names_in(pair.certificate), found)
            for name in names:
                into.setdefault(name.lower(), context)
        return _Loaded(default, {**found, **explicit}, clients, proxies)

    def _context(self, clients: Authorities, proxies: Authorities) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[self._secure.tls_min_version]
        ciphers = ":".join(_openssl_names(self._secure.tls_cipher_suites))
        if ciphers:
            context.set_ciphers(ciphers)
        if clients or proxies:
            context.load_verify_locations(cadata=clients.pem + proxies.pem)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # a trusted authority need not be a root
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _load_default_pair(self, context: ssl.SSLContext) -> None:
        certificate, key = self._secure.tls_cert_file, self._secure.tls_private_key_file
        if self._self_signed is not None:
            with _temporary_file(self._self_signed) as path:
                context.load_cert_chain(path)
        else:
            assert certificate is not None
            assert key is not None
            both = f"--tls-cert-file {certificate}, --tls-private-key-file {key}"
            _load_pair(context, certificate, key, both)


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path, flags: str) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        raise ServingError(f"{flags}: {_reason(error)}") from error


def _load_bundle(flag: str, file: Path) -> Authorities:
    try:
        return Authorities.from_pem(file.read_bytes())
    except OSError as error:
        raise ServingError(f"{flag} {file}: {_reason(error)}") from error
    except ValueError as error:
        raise ServingError(f"{flag} {file}: is invalid: it contains no PEM certificates") from error


def _names_in(file: Path) -> list[str]:
    """The DNS names of a certificate. IP addresses are left out: they are not allowed as server names (SNI).

    Mirrors getCertificateNames in k8s.io/apiserver/pkg/server/dynamiccertificates/named_certificates.go.
    """
    certificate = x509.load_pem_x509_certificates(file.read_bytes())[0]
    names = [str(name.value) for name in certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)][:1]
    names = [name for name in names if name == "*" or (_DOMAIN.fullmatch(name) and not _ADDRESS.fullmatch(name))]
    try:
        alternatives = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return names
    return [*names, *alternatives.get_values_for_type(x509.DNSName)]


@contextmanager
def _temporary_file(content: bytes) -> Iterator[str]:
    """The path of a file with this content: the standard library loads certificates only from files.

    Kept in memory if possible, since a container may have no writable file system.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("certificate"), "wb") as memory:
            memory.write(content)
            memory.flush()
            yield f"/proc/self/fd/{memory.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("wb") as file:  # readable only by this user
            file.write(content)
            file.flush()
            yield file.name


def _openssl_names(suites: Sequence[str]) -> Iterator[str]:
    """OpenSSL's names of the TLS 1.2 suites. The three suites of TLS 1.3 are always enabled, as in Go."""
    for suite in suites:
        if suite in _CIPHERS_1_3:
            continue
        if suite not in _CIPHERS:
            known = ", ".join((*_CIPHERS, *_CIPHERS_1_3))
            raise ServingError(f"--tls-cipher-suites: {suite!r} is not one of {known}")
        yield _CIPHERS[suite]


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"is invalid: {error.reason or error}"
    return f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else str(error)


def _version_of(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
