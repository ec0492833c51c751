"""Clients verify certificates like Go, whatever Python's own default is."""

import base64
import re
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from tests.service.handshakes import shake_hands
from tests.support.tables import cases

import bayplan
from bayplan.client import load_kubeconfig
from bayplan.core.config.types import Extender, ExtenderTLSConfig
from bayplan.foundations.tls import client_context
from bayplan.running.extender.client_tls import ExtenderTls

NOW = datetime.now(UTC)


def made(subject, issuer=None, *, alternative=("127.0.0.1",), ends=NOW + timedelta(days=1)):
    """A certificate without key identifiers, as older tools make them, and its private key. No issuer: a CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, subject)])
    signer = issuer or (None, key)
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name if issuer is None else issuer[0].subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=2))
        .not_valid_after(ends)
    )
    if issuer is None:
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=False)
    elif alternative:
        names = [x509.DNSName(each) for each in alternative]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(signer[1], hashes.SHA256()), key


def pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM).decode()


CA = made("old-authority")


def of_kubeconfig(authority, folder):
    data = base64.b64encode(authority.encode()).decode()
    document = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://h:1", "certificate-authority-data": data}}],
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return load_kubeconfig(path).tls


def of_extender(authority, folder):
    data = base64.b64encode(authority.encode()).decode()
    return ExtenderTls(Extender(urlPrefix="https://h", tlsConfig=ExtenderTLSConfig(caData=data))).context()


def of_bayplan(authority, folder):
    return client_context(authority)


@pytest.fixture(params=[of_kubeconfig, of_extender, of_bayplan])
def client(request, tmp_path, monkeypatch):
    """A context that trusts CA, made while Python's default is that of 3.13 and newer."""
    default = ssl.create_default_context

    def strict(*args, **kwargs):
        context = default(*args, **kwargs)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    return request.param(pem(CA[0]), tmp_path)


def server(folder, certificate, key):
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    (folder / "pair.pem").write_text(private + pem(certificate))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "pair.pem")
    return context


def test_certificates_without_key_identifiers_are_trusted(client, tmp_path):
    shake_hands(client, server(tmp_path, *made("server", CA, alternative=["api.internal"])), "api.internal")


@cases(
    "certificate, problem",
    {
        "another chain": (made("server", made("old-authority"), alternative=["api.internal"]), "signature|issuer"),
        "expired": (made("server", CA, alternative=["api.internal"], ends=NOW - timedelta(days=1)), "expired"),
        "another name": (made("server", CA, alternative=["else"]), "Hostname mismatch"),
        "only a common name": (made("api.internal", CA, alternative=()), "Hostname mismatch"),
    },
)
def test_chain_dates_and_names_are_verified(client, tmp_path, certificate, problem):
    with pytest.raises(ssl.SSLCertVerificationError, match=problem):
        shake_hands(client, server(tmp_path, *certificate), "api.internal")


def test_all_contexts_of_clients_are_made_in_one_place():
    root = Path(bayplan.__file__).parent
    made_by = {
        str(path.relative_to(root))
        for path in root.rglob("*.py")
        for line in path.read_text().splitlines()
        if re.search(r"create_default_context\((?!ssl\.Purpose\.CLIENT_AUTH)", line)
    }
    assert made_by == {"foundations/tls.py"}
