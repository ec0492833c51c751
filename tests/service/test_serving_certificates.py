"""Serving certificates: changed files, invalid files, and self-signed ones."""

import ssl
from contextlib import suppress

import pytest
from handshakes import shake_hands
from tests.support.certificates import Authority
from tests.support.serving_options import serving_options
from tests.support.tables import cases

from bayplan.running.service.serving.certificates import Certificates
from bayplan.running.service.serving.options import ServingError


def write_pair(folder, authority):
    pair = authority.server("127.0.0.1")
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    return {"tls_cert_file": folder / "tls.crt", "tls_private_key_file": folder / "tls.key"}


def handshake(context, trusted, client=None):
    """Do a handshake in memory; return the client certificate as the server sees it. Raises ssl.SSLError."""
    client_context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client_context.load_verify_locations(cadata=trusted.certificate.decode())
    client_context.maximum_version = ssl.TLSVersion.TLSv1_2  # reports a rejected client during the handshake
    if client is not None:
        client_context.load_cert_chain(client)
    _, server = shake_hands(client_context, context)
    return server.getpeercert()


def test_changed_certificates_are_loaded(tmp_path, caplog) -> None:
    old, new = Authority(), Authority()
    certificates = Certificates(serving_options(**write_pair(tmp_path, old)))
    context = certificates.context
    handshake(context, old)
    write_pair(tmp_path, new)
    certificates.refresh()
    handshake(context, new)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(context, old)

    (tmp_path / "tls.crt").write_text("half a fi")
    certificates.refresh()
    assert "keeping the last valid certificates: --tls-cert-file" in caplog.text
    handshake(context, new)
    (tmp_path / "tls.crt").unlink()
    certificates.refresh()
    handshake(context, new)


@pytest.mark.parametrize(
    ("suites", "expected"),
    [
        (("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",), {"ECDHE-ECDSA-AES256-GCM-SHA384"}),
        (("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_AES_128_GCM_SHA256"), {"ECDHE-RSA-CHACHA20-POLY1305"}),
    ],
)
def test_cipher_suites_are_configurable(suites, expected) -> None:
    context = Certificates(serving_options(tls_cipher_suites=suites)).context
    assert {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"} == expected


def test_cipher_suites_of_tls_1_3_are_always_enabled() -> None:
    some = Certificates(serving_options(tls_cipher_suites=("TLS_AES_128_GCM_SHA256",))).context
    assert some.get_ciphers() == Certificates(serving_options()).context.get_ciphers()


def test_removed_authority_is_no_longer_trusted(tmp_path) -> None:
    server, old, new = Authority(), Authority(), Authority()
    clients, pem = tmp_path / "clients.crt", tmp_path / "bob.pem"
    clients.write_bytes(old.certificate)
    pair = old.client("bob")
    pem.write_bytes(pair.key + pair.certificate)
    certificates = Certificates(serving_options(**write_pair(tmp_path, server), client_ca_file=clients))
    assert (("commonName", "bob"),) in handshake(certificates.context, server, pem)["subject"]
    clients.write_bytes(new.certificate)
    certificates.refresh()
    with pytest.raises(ssl.SSLError):
        handshake(certificates.context, server, pem)


@cases(
    "options, message",
    {
        "certificate without a key": ({"tls_cert_file": "tls.crt"}, "must be given together"),
        "missing file": (
            {"tls_cert_file": "no.crt", "tls_private_key_file": "tls.key"},
            "--tls-cert-file .*no.crt.*: cannot be read: No such file or directory",
        ),
        "certificate and key swapped": ({"tls_cert_file": "tls.key", "tls_private_key_file": "tls.crt"}, "is invalid"),
        "client CA without certificates": ({"client_ca_file": "tls.key"}, "--client-ca-file .*tls.key: is invalid"),
        "proxy CA without certificates": (
            {"requestheader_client_ca_file": "tls.key"},
            "--requestheader-client-ca-file .*tls.key: is invalid",
        ),
        "unknown cipher suite": ({"tls_cipher_suites": ("TLS_NULL",)}, "'TLS_NULL' is not one of TLS_ECDHE_ECDSA"),
        "unsupported TLS version": ({"tls_min_version": "VersionTLS10"}, "must be one of VersionTLS12, VersionTLS13"),
    },
)
def test_invalid_options_are_rejected(tmp_path, options, message) -> None:
    write_pair(tmp_path, Authority())
    here = {key: tmp_path / value if key.endswith("_file") else value for key, value in options.items()}
    with pytest.raises(ServingError, match=message):
        Certificates(serving_options(**here))


def served_by(certificates):
    """The certificate that clients receive."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up), certificates.context.wrap_bio(up, down, server_side=True)]
    for end in (0, 1, 0, 1):
        with suppress(ssl.SSLWantReadError):
            ends[end].do_handshake()
    return ends[0].getpeercert(binary_form=True)


def test_self_signed_certificate_is_stored_in_the_directory(tmp_path) -> None:
    options = serving_options(cert_dir=tmp_path / "new" / "folder")
    first = served_by(Certificates(options))
    assert first == served_by(Certificates(options))
    assert first != served_by(Certificates(serving_options()))
    key = tmp_path / "new" / "folder" / "kube-scheduler.key"
    assert key.stat().st_mode & 0o077 == 0
    assert ssl.PEM_cert_to_DER_cert(key.with_suffix(".crt").read_text()) == first


def test_given_certificate_takes_precedence_over_the_directory(tmp_path) -> None:
    served = served_by(Certificates(serving_options(**write_pair(tmp_path, Authority()), cert_dir=tmp_path / "none")))
    assert served == ssl.PEM_cert_to_DER_cert((tmp_path / "tls.crt").read_text())
    assert not (tmp_path / "none").exists()


@cases(
    "files, message",
    {
        "key without certificate": (
            {"kube-scheduler.key": ""},
            "there is kube-scheduler.key, but no kube-scheduler.crt",
        ),
        "empty files": ({"kube-scheduler.key": "", "kube-scheduler.crt": ""}, "is invalid"),
        "not a directory": (None, "cannot be written to: File exists"),
    },
)
def test_unusable_directory_is_reported(tmp_path, files, message) -> None:
    folder = tmp_path / "folder"
    if files is None:
        folder.write_text("", encoding="utf-8")
    else:
        folder.mkdir()
        for name, content in files.items():
            (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(ServingError, match=message):
        Certificates(serving_options(cert_dir=folder))
