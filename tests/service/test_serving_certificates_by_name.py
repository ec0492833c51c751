"""--tls-sni-cert-key: the certificate served for each server name."""

import ssl

import pytest
from cryptography import x509
from handshakes import shake_hands
from tests.support.certificates import Authority
from tests.support.tables import cases

from bayplan.running.service.serving.certificates import Certificates
from bayplan.running.service.serving.options import NamedCertificate, SecureServing, ServingError, ServingOptions

AUTHORITY = Authority()


def pair(folder, name, *hosts, authority=AUTHORITY):
    made = authority.server(*hosts)
    (folder / f"{name}.crt").write_bytes(made.certificate)
    (folder / f"{name}.key").write_bytes(made.key)
    return folder / f"{name}.crt", folder / f"{name}.key"


def served_for(context, name):
    """The common name of the certificate served for a server name (None: the client sends none)."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    connection, _ = shake_hands(client, context, name)
    certificate = x509.load_der_x509_certificate(connection.getpeercert(binary_form=True))
    return certificate.subject.get_attributes_for_oid(x509.NameOID.COMMON_NAME)[0].value


@pytest.fixture
def context(tmp_path):
    default = pair(tmp_path, "default", "default.example")
    found = pair(tmp_path, "found", "found.example", "also.example", "*.wide.example", "10.0.0.9")
    given = pair(tmp_path, "given", "given.example")
    return Certificates(
        ServingOptions(
            secure=SecureServing(
                bind_address="10.0.0.1",
                tls_cert_file=default[0],
                tls_private_key_file=default[1],
                tls_sni_cert_keys=(
                    NamedCertificate(*found),
                    NamedCertificate(*given, ("named.example", "*.star.example", "10.0.0.1")),
                    NamedCertificate(*pair(tmp_path, "first", "first.example"), ("taken.example",)),
                    NamedCertificate(*pair(tmp_path, "second", "second.example"), ("taken.example", "also.example")),
                ),
            )
        )
    ).context


@cases(
    "asked, served",
    {
        "common name of the certificate": ("found.example", "found.example"),
        "in upper case": ("FOUND.example", "found.example"),
        "wildcard in the certificate": ("a.wide.example", "found.example"),
        "wildcard matches one label only": ("a.b.wide.example", "default.example"),
        "given name": ("named.example", "given.example"),
        "given wildcard": ("x.star.example", "given.example"),
        "given names replace those in the certificate": ("given.example", "default.example"),
        "given names take precedence over names in certificates": ("also.example", "second.example"),
        "first of two with the same name": ("taken.example", "first.example"),
        "unknown name": ("elsewhere.example", "default.example"),
        "no name, so the bind address": (None, "given.example"),
    },
)
def test_certificate_is_selected_by_server_name(context, asked, served) -> None:
    assert served_for(context, asked) == served


def test_changed_certificate_is_loaded(tmp_path) -> None:
    named = NamedCertificate(*pair(tmp_path, "named", "old.example"), ("named.example",))
    certificates = Certificates(ServingOptions(secure=SecureServing(tls_sni_cert_keys=(named,))))
    assert served_for(certificates.context, "named.example") == "old.example"
    pair(tmp_path, "named", "renewed.example")
    certificates.refresh()
    assert served_for(certificates.context, "named.example") == "renewed.example"


def test_invalid_files_are_rejected(tmp_path) -> None:
    certificate, key = pair(tmp_path, "a", "a.example")
    with pytest.raises(ServingError, match=r"--tls-sni-cert-key .*a.key,.*a.crt: is invalid"):
        Certificates(ServingOptions(secure=SecureServing(tls_sni_cert_keys=(NamedCertificate(key, certificate),))))
    with pytest.raises(ServingError, match=r"--tls-sni-cert-key .*none,.*: cannot be read"):
        Certificates(
            ServingOptions(secure=SecureServing(tls_sni_cert_keys=(NamedCertificate(tmp_path / "none", key),)))
        )
