"""Whose certificates are believed: bundles of authorities, and what a connection's certificate rests on."""

from __future__ import annotations

import ssl
import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

_REMEMBERED = 1024


@dataclass(frozen=True, slots=True)
class Authorities:
    """A bundle: as PEM, and each of its certificates as DER."""

    pem: str = ""
    members: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, pem: bytes) -> Authorities:
        """Reads a bundle. Raises ValueError for one that is none."""
        certificates = x509.load_pem_x509_certificates(pem)
        text = b"".join(each.public_bytes(Encoding.PEM) for each in certificates).decode("ascii")
        return cls(text, frozenset(each.public_bytes(Encoding.DER) for each in certificates))

    def __bool__(self) -> bool:
        return bool(self.members)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What a client has shown, and the handshake found good: by which chain."""

    der: bytes
    subject: tuple[tuple[str, str], ...]
    """Kind and value, in their order."""
    good_until: float
    """In seconds since 1970."""
    chain: frozenset[bytes]

    def rests_on(self, authorities: Authorities, now: float) -> bool:
        """Whether one of the authorities has vouched for it, and it is still good."""
        return now <= self.good_until and not authorities.members.isdisjoint(self.chain)

    def named(self, kind: str) -> list[str]:
        """The values of one kind in the subject."""
        return [value for key, value in self.subject if key == kind]

    @property
    def common_name(self) -> str:
        """The first common name; "" if there is none."""
        return next(iter(self.named("commonName")), "")


class ClientCertificates:
    """Reads the client's certificate off connections.

    A connection that goes on with the session of an earlier one has the certificate, but not the chain: that is
    remembered from the earlier one.
    """

    def __init__(self) -> None:
        self._chains: OrderedDict[bytes, frozenset[bytes]] = OrderedDict()

    def of(self, connection: ssl.SSLObject) -> ClientCertificate | None:
        """The certificate at the other end; None where there is none."""
        told: Mapping[str, Any] | None = connection.getpeercert()
        der = connection.getpeercert(binary_form=True)
        if not told or der is None:
            return None
        chain = frozenset(_verified_chain(connection))
        if chain:
            self._chains[der] = chain
            self._chains.move_to_end(der)
            if len(self._chains) > _REMEMBERED:
                self._chains.popitem(last=False)
        return ClientCertificate(
            der,
            tuple((str(key), str(value)) for names in told.get("subject", ()) for key, value in names),
            ssl.cert_time_to_seconds(told["notAfter"]),
            self._chains.get(der, frozenset()),
        )


def _verified_chain(connection: ssl.SSLObject) -> list[bytes]:
    """From the certificate to the authority that is trusted, as DER. Empty for a session that goes on."""
    if hasattr(connection, "get_verified_chain"):  # from Python 3.13 on
        found: list[bytes] = connection.get_verified_chain()
        return found
    inner: Any = connection._sslobj  # type: ignore[attr-defined]  # noqa: SLF001 - before, there is no other way to it
    return [ssl.PEM_cert_to_DER_cert(each.public_bytes()) for each in inner.get_verified_chain() or ()]


def now() -> float:
    """The time that certificates are judged by, in seconds since 1970."""
    return time.time()
