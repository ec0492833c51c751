"""The self-signed serving certificate: in memory, or stored in a directory for the next start."""

from __future__ import annotations

import ipaddress
import socket
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from bayplan.running.service.serving.options import ServingError

PAIR_NAME = "kube-scheduler"
"""The name of the files in `--cert-dir`, as in kube-scheduler."""
_LIFETIME = timedelta(days=365)


def load_or_create(folder: Path, address: str) -> tuple[Path, Path]:
    """The paths of the certificate and the key in a directory, created if missing. Raises ServingError.

    Mirrors MaybeDefaultWithSelfSignedCerts of k8s.io/apiserver/pkg/server/options/serving.go.
    """
    certificate, key = folder / f"{PAIR_NAME}.crt", folder / f"{PAIR_NAME}.key"
    if certificate.exists() is not key.exists():
        present, missing = (certificate, key) if certificate.exists() else (key, certificate)
        raise ServingError(f"--cert-dir {folder}: there is {present.name}, but no {missing.name}")
    if not certificate.exists():
        key_pem, certificate_pem = self_signed(address)
        try:
            folder.mkdir(parents=True, exist_ok=True)
            key.touch(mode=0o600)
            key.write_bytes(key_pem)
            certificate.write_bytes(certificate_pem)
        except OSError as error:
            raise ServingError(f"--cert-dir {folder} cannot be written to: {error.strerror}") from error
    return certificate, key


def self_signed(address: str) -> tuple[bytes, bytes]:
    """A key and a certificate for this host and an address, as PEM, valid for one year."""
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    host = socket.gethostname()
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"{host[:40]}@{int(now.timestamp())}")])
    addresses = {ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address(address)}
    names: list[x509.GeneralName] = [x509.DNSName(host), x509.DNSName("localhost")]
    names += [x509.IPAddress(each) for each in addresses if not each.is_unspecified]
    identifier = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    issuer = x509.AuthorityKeyIdentifier.from_issuer_subject_key_identifier(identifier)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=5))
        .not_valid_after(now + _LIFETIME)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(issuer, critical=False)
        .sign(key, hashes.SHA256())
    )
    pem = serialization.Encoding.PEM
    private = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return private, certificate.public_bytes(pem)
