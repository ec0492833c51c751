"""All certificates that Bayplan makes pass Python 3.13's default checks, which are those of RFC 5280."""

import ssl

import pytest
from cryptography import x509
from tests.service.handshakes import shake_hands
from tests.support.certificates import Authority, KeyPair

from bayplan.running.service.serving.self_signed import self_signed
from bayplan_devcluster.apiserver import Tls


def by_authority():
    authority = Authority()
    return authority.certificate, authority.server("localhost")


def of_embedded_server():
    tls = Tls.create()
    return tls.authority, KeyPair(tls.certificate, tls.key)


def of_endpoints():
    key, certificate = self_signed("127.0.0.1")
    return certificate, KeyPair(certificate, key)


def strict(purpose, trusted, folder, pair):
    context = ssl.create_default_context(purpose, cadata=trusted.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    context.verify_mode = ssl.CERT_REQUIRED
    (folder / "pair.pem").write_bytes(pair.key + pair.certificate)
    context.load_cert_chain(folder / "pair.pem")
    return context


@pytest.mark.parametrize("make", [by_authority, of_embedded_server, of_endpoints])
def test_certificates_pass_strict_verification(tmp_path, make):
    trusted, pair = make()
    users = Authority()
    server = strict(ssl.Purpose.CLIENT_AUTH, users.certificate, tmp_path, pair)
    client = strict(ssl.Purpose.SERVER_AUTH, trusted, tmp_path, users.client("me", "system:masters"))
    client.maximum_version = ssl.TLSVersion.TLSv1_2  # where the handshake includes the client's certificate
    shake_hands(client, server, "localhost")


@pytest.mark.parametrize("make", [by_authority, of_embedded_server, of_endpoints])
def test_certificates_identify_their_keys(make):
    _, pair = make()
    extensions = x509.load_pem_x509_certificate(pair.certificate).extensions
    assert extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.key_identifier


def test_client_certificates_name_a_user_and_a_group():
    subject = x509.load_pem_x509_certificate(Authority().client("me", "system:masters").certificate).subject
    named = {attribute.rfc4514_attribute_name: attribute.value for attribute in subject}
    assert (named["CN"], named["O"]) == ("me", "system:masters")
