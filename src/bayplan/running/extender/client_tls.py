"""TLS for the connection to an extender: its trusted CAs and the client certificate, from `tlsConfig`.

Mirrors makeTransport in pkg/scheduler/extender.go and TLSConfigFor in client-go's transport/transport.go.
"""

from __future__ import annotations

import base64
import logging
import ssl
import tempfile
from pathlib import Path

from bayplan.core.api.field_errors import FieldError, forbidden, invalid
from bayplan.core.config.errors import ConfigurationError
from bayplan.core.config.types import Extender, ExtenderTLSConfig
from bayplan.foundations.tls import client_context

log = logging.getLogger(__name__)


class ExtenderTls:
    """The TLS settings of one extender. `path` is the path of its configuration. Raises ConfigurationError.

    Data fields override files. A client certificate from files is reloaded when they change.
    """

    def __init__(self, extender: Extender, path: str = "") -> None:
        self._tls = extender.tlsConfig or ExtenderTLSConfig()
        self._path = f"{path}.tlsConfig" if path else "tlsConfig"
        self.server_hostname = self._tls.serverName or None
        """The name to verify in the extender's certificate; None for the host of the URL."""
        authority = self._content("ca")
        if authority and self._tls.insecure:
            problem = "a CA has no effect if any certificate is accepted: remove one of them"
            raise ConfigurationError([forbidden(f"{self._path}.insecure", problem)])
        self._context = self._trusting(authority)
        if self._tls.insecure or (extender.enableHTTPS and not authority):
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE
        self._files = self._certificate_files()
        self._read = self._versions()
        self._add_certificate()

    def context(self) -> ssl.SSLContext:
        """The context for the next connection."""
        versions = self._versions()
        if versions != self._read:
            self._read = versions
            try:
                self._add_certificate()
            except ConfigurationError as error:
                log.warning("still using the last client certificate: %s", error)
        return self._context

    def _trusting(self, authority: bytes) -> ssl.SSLContext:
        """A context that trusts a CA, by default the CAs of the system."""
        try:
            return client_context(authority.decode() if authority else None)
        except (ssl.SSLError, ValueError) as error:
            raise self._fault("ca", f"no certificates in PEM: {_why(error)}") from None

    def _add_certificate(self) -> None:
        certificate, key = self._content("cert"), self._content("key")
        if not certificate or not key:
            if certificate or key:
                log.warning(
                    "%s: not sending a client certificate, because it needs both a certificate and a key", self._path
                )
            return
        # OpenSSL reads certificates only from files.
        with tempfile.NamedTemporaryFile() as file:
            file.write(certificate + b"\n" + key)
            file.flush()
            try:
                # Check it first: a certificate without the matching key would replace half of the current pair.
                ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(file.name)
                self._context.load_cert_chain(file.name)
            except (ssl.SSLError, OSError) as error:
                raise self._fault("cert", f"no certificate in PEM with its key: {_why(error)}") from None

    def _content(self, what: str) -> bytes:
        """The content of `caData` or `caFile`, for example; empty if neither is set."""
        data, file = getattr(self._tls, f"{what}Data"), getattr(self._tls, f"{what}File")
        if data:
            try:
                return base64.b64decode("".join(data.split()), validate=True)
            except ValueError as error:
                raise self._fault(what, f"expected base64: {error}") from None
        try:
            return Path(file).read_bytes() if file else b""
        except OSError as error:
            raise ConfigurationError(
                [invalid(f"{self._path}.{what}File", file, f"cannot be read: {error.strerror}")]
            ) from None

    def _certificate_files(self) -> tuple[Path, ...]:
        tls = self._tls
        if tls.certFile and tls.keyFile and not tls.certData and not tls.keyData:
            return Path(tls.certFile), Path(tls.keyFile)
        return ()

    def _versions(self) -> tuple[tuple[int, int] | None, ...]:
        """Values that change with the content of the files; None for a missing file."""
        versions: list[tuple[int, int] | None] = []
        for file in self._files:
            try:
                seen = file.stat()
            except OSError:
                versions.append(None)
            else:
                versions.append((seen.st_mtime_ns, seen.st_ino))
        return tuple(versions)

    def _fault(self, what: str, problem: str) -> ConfigurationError:
        given = "Data" if getattr(self._tls, f"{what}Data") else "File"
        return ConfigurationError([FieldError(f"{self._path}.{what}{given}", problem)])


def _why(error: Exception) -> str:
    return (error.reason if isinstance(error, ssl.SSLError) else "") or str(error)
