"""The server's certificates, and whose client certificates are believed: from files that may change, or made in memory.

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

from bayplan.service.serving.authorities import Authorities
from bayplan.service.serving.cluster_authentication import Believed
from bayplan.service.serving.options import ProxyHeaders, ServingError, ServingOptions
from bayplan.service.serving.self_signed import pair_in, self_signed

log = logging.getLogger(__name__)

_VERSIONS = {"VersionTLS12": ssl.TLSVersion.TLSv1_2, "VersionTLS13": ssl.TLSVersion.TLSv1_3}

_CIPHERS = {
    f"TLS_ECDHE_{key}_WITH_{theirs}": f"ECDHE-{key}-{ours}"
    for key in ("ECDSA", "RSA")
    for theirs, ours in (
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

Seen = tuple[tuple[tuple[int, int, int] | None, ...], Believed]


@dataclass(frozen=True, slots=True)
class _Serving:
    """What connections are served with at one moment, and which client certificates are believed."""

    default: ssl.SSLContext
    by_name: Mapping[str, ssl.SSLContext]
    clients: Authorities
    proxies: Authorities

    def of(self, name: str) -> ssl.SSLContext:
        """The certificate for a name: that of the name itself, that of its domain with a `*`, or the default one."""
        name = name.lower()
        wildcard = ".".join(("*", *name.split(".")[1:]))
        return self.by_name.get(name) or self.by_name.get(wildcard) or self.default


class Certificates:
    """`context` is what connections are accepted with: it hands each of them the certificates of the moment.

    `believed` tells what the cluster says of client certificates, where no file does. Raises ServingError for files
    that are no good at the start; when they turn bad later, those from before stay.
    """

    def __init__(self, options: ServingOptions, believed: Callable[[], Believed] = Believed) -> None:
        if options.tls_cert_file is None and options.tls_private_key_file is None and options.cert_dir is not None:
            certificate, key = pair_in(options.cert_dir, options.bind_address)
            options = replace(options, tls_cert_file=certificate, tls_private_key_file=key)
        self._options = options
        self._believed = believed
        if (options.tls_cert_file is None) is not (options.tls_private_key_file is None):
            raise ServingError("--tls-cert-file and --tls-private-key-file must be given together")
        if options.tls_min_version not in _VERSIONS:
            raise ServingError(f"--tls-min-version must be one of {', '.join(_VERSIONS)}: {options.tls_min_version!r}")
        pairs = [(pair.certificate, pair.key) for pair in options.tls_sni_cert_keys]
        files = (
            options.tls_cert_file,
            options.tls_private_key_file,
            options.client_ca_file,
            options.requestheader_client_ca_file,
            *chain.from_iterable(pairs),
        )
        self._files = [file for file in files if file is not None]
        self._seen = self._look()
        self._self_signed = None if options.tls_cert_file else b"".join(self_signed(options.bind_address))
        self._current = self._load()
        self.context = self._context(*self._believed_now())
        self._load_own(self.context)
        self.context.sni_callback = self._hand_over  # asked on every connection, with a server name or without

    @property
    def clients(self) -> Authorities:
        """Whose client certificates are believed."""
        return self._current.clients

    @property
    def proxies(self) -> Authorities:
        """Whose front proxies are believed."""
        return self._current.proxies

    @property
    def headers(self) -> ProxyHeaders:
        """In which headers front proxies say who asks."""
        options = self._options
        return options.requestheader if options.requestheader_client_ca_file else self._believed().headers

    def refresh(self) -> None:
        """Read the files again, and take what the cluster says now, if anything of it has changed."""
        seen = self._look()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self._current = self._load()
        except ServingError as error:
            log.warning("the certificates from before stay in use: %s", error)
        else:
            log.info("read changed certificates: %s", ", ".join(map(str, self._files)) or "of clients")
            # Whether a client is asked for a certificate is settled before it is handed over.
            self.context.verify_mode = self._current.default.verify_mode

    def _hand_over(self, connection: ssl.SSLObject, name: str | None, _context: ssl.SSLContext) -> None:
        connection.context = self._current.of(name or self._options.bind_address)

    def _look(self) -> Seen:
        return tuple(_version_of(file) for file in self._files), self._believed()

    def _believed_now(self) -> tuple[Authorities, Authorities]:
        options, believed = self._options, self._believed()
        clients, proxies = believed.clients, believed.proxies
        if options.client_ca_file is not None:
            clients = _authorities("--client-ca-file", options.client_ca_file)
        if options.requestheader_client_ca_file is not None:
            proxies = _authorities("--requestheader-client-ca-file", options.requestheader_client_ca_file)
        return clients, proxies

    def _load(self) -> _Serving:
        clients, proxies = self._believed_now()
        default = self._context(clients, proxies)
        self._load_own(default)
        explicit: dict[str, ssl.SSLContext] = {}
        found: dict[str, ssl.SSLContext] = {}
        for pair in self._options.tls_sni_cert_keys:
            context = self._context(clients, proxies)
            _load_pair(context, pair.certificate, pair.key, f"--tls-sni-cert-key {pair.certificate},{pair.key}")
            names, into = (pair.names, explicit) if pair.names else (_names_in(pair.certificate), found)
            for name in names:
                into.setdefault(name.lower(), context)
        return _Serving(default, {**found, **explicit}, clients, proxies)

    def _context(self, clients: Authorities, proxies: Authorities) -> ssl.SSLContext:
        options = self._options
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = _VERSIONS[options.tls_min_version]
        ciphers = ":".join(_openssl_names(options.tls_cipher_suites))
        if ciphers:
            context.set_ciphers(ciphers)
        if clients or proxies:
            context.load_verify_locations(cadata=clients.pem + proxies.pem)
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # who is in a bundle need not be a root
            context.verify_mode = ssl.CERT_OPTIONAL
        return context

    def _load_own(self, context: ssl.SSLContext) -> None:
        options = self._options
        if self._self_signed is not None:
            with _as_file(self._self_signed) as path:
                context.load_cert_chain(path)
        else:
            assert options.tls_cert_file is not None
            assert options.tls_private_key_file is not None
            both = f"--tls-cert-file {options.tls_cert_file}, --tls-private-key-file {options.tls_private_key_file}"
            _load_pair(context, options.tls_cert_file, options.tls_private_key_file, both)


def _load_pair(context: ssl.SSLContext, certificate: Path, key: Path, called: str) -> None:
    try:
        context.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        raise ServingError(f"{called}: {_told(error)}") from error


def _authorities(flag: str, file: Path) -> Authorities:
    try:
        return Authorities.of(file.read_bytes())
    except OSError as error:
        raise ServingError(f"{flag} {file}: {_told(error)}") from error
    except ValueError as error:
        raise ServingError(f"{flag} {file}: is no good: no certificates in PEM") from error


def _names_in(file: Path) -> list[str]:
    """The names that a certificate is for. IP addresses are none: no client may ask for one as a server name.

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
def _as_file(content: bytes) -> Iterator[str]:
    """Content under a path, for that is all that the standard library reads certificates from.

    In memory where the system can: a container may have no file system that can be written to.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("certificate"), "wb") as memory:
            memory.write(content)
            memory.flush()
            yield f"/proc/self/fd/{memory.fileno()}"
    else:
        with tempfile.NamedTemporaryFile("wb") as file:  # which nobody else may read
            file.write(content)
            file.flush()
            yield file.name


def _openssl_names(suites: Sequence[str]) -> Iterator[str]:
    """What OpenSSL calls suites for TLS 1.2; TLS 1.3 has three, which are always on, as they are in Go."""
    for suite in suites:
        if suite in _CIPHERS_1_3:
            continue
        if suite not in _CIPHERS:
            known = ", ".join((*_CIPHERS, *_CIPHERS_1_3))
            raise ServingError(f"--tls-cipher-suites: {suite!r} is none of {known}")
        yield _CIPHERS[suite]


def _told(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return f"is no good: {error.reason or error}"
    return f"cannot be read: {error.strerror or error}" if isinstance(error, OSError) else str(error)


def _version_of(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
