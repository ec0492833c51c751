"""A certificate authority for one test run: server and client certificates that nobody else trusts."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = timedelta(days=1)
_SKEW = timedelta(minutes=5)
"""How far the clocks of those who look at a certificate may be behind."""


@dataclass(frozen=True, slots=True)
class KeyPair:
    """A certificate and its private key, both as PEM."""

    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority whose certificates are good for a day."""

    def __init__(self, name: str = "bayplan test authority") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject(name, ())
        usage = x509.BasicConstraints(ca=True, path_length=None)
        builder = _builder(self._name, self._name, self._key.public_key()).add_extension(usage, critical=True)
        self.certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM)

    def server(self, *hosts: str) -> KeyPair:
        """For a server that is reached under `hosts`, which are names or IP addresses."""
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        return self._issue(_subject(hosts[0], ()), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        """For a user of an API server, who is in `groups`."""
        return self._issue(_subject(user, groups), ExtendedKeyUsageOID.CLIENT_AUTH)

    def _issue(
        self, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None = None
    ) -> KeyPair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        return KeyPair(certificate.public_bytes(Encoding.PEM), private_pem(key))


def private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    """A private key as PEM, in the form that Kubernetes also reads the key of a service account issuer in."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _LIFETIME)
    )


def _subject(common_name: str, organizations: Sequence[str]) -> x509.Name:
    """How Kubernetes reads a certificate: the common name is the user, the organizations are the user's groups."""
    groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in organizations]
    return x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
