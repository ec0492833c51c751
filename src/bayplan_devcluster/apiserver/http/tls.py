"""The server's certificate, and the private authority that signed it."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme

LIFETIME = timedelta(days=365)


@dataclass(frozen=True, slots=True)
class Tls:
    """The certificates and the server's key, as PEM. The authority's key is not kept."""

    authority: bytes
    certificate: bytes
    key: bytes

    @classmethod
    def create(cls, hosts: Sequence[str] = ("127.0.0.1", "localhost")) -> Tls:
        """Creates an authority and its certificate for a server with these addresses and names, valid for a year."""
        authority = trustme.CA(path_length=0)
        expiry = datetime.now(UTC) + LIFETIME
        server = authority.issue_cert(*hosts, common_name="bayplan-apiserver", not_after=expiry)
        [certificate] = server.cert_chain_pems
        return cls(authority.cert_pem.bytes(), certificate.bytes(), server.private_key_pem.bytes())

    def server_context(self) -> ssl.SSLContext:
        """Returns the TLS context of the server's socket."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        with tempfile.TemporaryDirectory() as folder:  # the standard library reads certificates only from files
            file = Path(folder) / "server.pem"
            file.touch(mode=0o600)
            file.write_bytes(self.key + self.certificate)
            context.load_cert_chain(file)
        return context
