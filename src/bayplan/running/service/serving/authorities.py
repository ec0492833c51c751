"""Certificate authorities that are trusted, and the client certificates that they signed.

The TLS handshake verifies a chain against all of them together; here it is decided for which purpose one counts:
clients, or front proxies.
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from bayplan.foundations.latest import LruDict

_CACHED_CHAINS = 1024


@dataclass(frozen=True, slots=True)
class Authorities:
    """A CA bundle: as PEM, and each of its certificates as DER."""

    pem: str = ""
    members: frozenset[bytes] = frozenset()

    @classmethod
    def from_pem(cls, pem: bytes) -> Authorities:
        """Read a bundle. Raises ValueError if it contains no valid certificates."""
        certificates = x509.load_pem_x509_certificates(pem)
        text = b"".join(each.public_bytes(Encoding.PEM) for each in certificates).decode("ascii")
        return cls(text, frozenset(each.public_bytes(Encoding.DER) for each in certificates))

    def __bool__(self) -> bool:
        return bool(self.members)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """A client's certificate, with the chain that the TLS handshake verified."""

    der: bytes
    subject: tuple[tuple[str, str], ...]
    """Attribute types and values, in their order."""
    expires_at: float
    """Seconds since 1970."""
    chain: frozenset[bytes]

    def is_signed_by(self, authorities: Authorities, now: float) -> bool:
        """Whether one of the authorities is in the chain, and the certificate has not expired at `now`."""
        return now <= self.expires_at and not authorities.members.isdisjoint(self.chain)

    def subject_values(self, kind: str) -> list[str]:
        """The values of one attribute type of the subject."""
        return [value for key, value in self.subject if key == kind]

    @property
    def common_name(self) -> str:
        """The first common name; "" if there is none."""
        return next(iter(self.subject_values("commonName")), "")


class ClientCertificates:
    """Reads the client certificate of a connection.

    A resumed TLS session has the certificate, but not its chain. The chain is cached from the full handshake.
    """

    def __init__(self) -> None:
        self._chains: LruDict[bytes, frozenset[bytes]] = LruDict(_CACHED_CHAINS)

    def of(self, connection: ssl.SSLObject) -> ClientCertificate | None:
        """The certificate of the client; None if it has not presented one."""
        fields: Mapping[str, Any] | None = connection.getpeercert()
        der = connection.getpeercert(binary_form=True)
        if not fields or der is None:
            return None
        chain = frozenset(_verified_chain(connection))
        if chain:
            self._chains[der] = chain
        return ClientCertificate(
            der,
            tuple((str(key), str(value)) for names in fields.get("subject", ()) for key, value in names),
            ssl.cert_time_to_seconds(fields["notAfter"]),
            self._chains.get(der, frozenset()),
        )


def _verified_chain(connection: ssl.SSLObject) -> list[bytes]:
    """From the client's certificate to the trusted authority, as DER. Empty for a resumed session."""
    if hasattr(connection, "get_verified_chain"):  # public since Python 3.13
        found: list[bytes] = connection.get_verified_chain()
        return found
    inner: Any = connection._sslobj  # type: ignore[attr-defined]  # noqa: SLF001 - the only way before Python 3.13
    return [ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in inner.get_verified_chain() or ()]
