"""Certificates that change, and which of them is served to whom."""

import ssl
from contextlib import suppress

import pytest
from handshakes import shake_hands

from bayplan.service.serving.certificates import Certificates
from bayplan.service.serving.options import ServingError, ServingOptions
from bayplan.testing.certificates import Authority


def write_pair(folder, authority):
    pair = authority.server("127.0.0.1")
    (folder / "tls.crt").write_bytes(pair.certificate)
    (folder / "tls.key").write_bytes(pair.key)
    return {"tls_cert_file": folder / "tls.crt", "tls_private_key_file": folder / "tls.key"}


def seen_through(context, trusted, client=None):
    """One handshake in memory: what the client makes of the server, and the server of the client."""
    theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    theirs.load_verify_locations(cadata=trusted.certificate.decode())
    theirs.maximum_version = ssl.TLSVersion.TLSv1_2  # in which the client hears of a refusal during the handshake
    if client is not None:
        theirs.load_cert_chain(client)
    _, here = shake_hands(theirs, context)
    return here.getpeercert()


def test_changed_certificates_are_used_from_then_on(tmp_path, caplog) -> None:
    old, new = Authority(), Authority()
    certificates = Certificates(ServingOptions(**write_pair(tmp_path, old)))
    context = certificates.context
    seen_through(context, old)
    write_pair(tmp_path, new)
    certificates.refresh()
    seen_through(context, new)
    with pytest.raises(ssl.SSLCertVerificationError):
        seen_through(context, old)

    (tmp_path / "tls.crt").write_text("half a fi")
    certificates.refresh()
    assert "the certificates from before stay in use: --tls-cert-file" in caplog.text
    seen_through(context, new)
    (tmp_path / "tls.crt").unlink()
    certificates.refresh()
    seen_through(context, new)


@pytest.mark.parametrize(
    ("suites", "expected"),
    [
        (("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",), {"ECDHE-ECDSA-AES256-GCM-SHA384"}),
        (
            ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", "TLS_AES_128_GCM_SHA256"),
            {"ECDHE-RSA-CHACHA20-POLY1305"},
        ),
    ],
)
def test_cipher_suites_can_be_chosen(suites, expected) -> None:
    context = Certificates(ServingOptions(tls_cipher_suites=suites)).context
    assert {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] != "TLSv1.3"} == expected


def test_suites_of_tls_1_3_are_there_anyway() -> None:
    some = Certificates(ServingOptions(tls_cipher_suites=("TLS_AES_128_GCM_SHA256",))).context
    assert some.get_ciphers() == Certificates(ServingOptions()).context.get_ciphers()


def test_an_authority_that_is_taken_back_is_believed_no_more(tmp_path) -> None:
    server, old, new = Authority(), Authority(), Authority()
    clients, pem = tmp_path / "clients.crt", tmp_path / "bob.pem"
    clients.write_bytes(old.certificate)
    pair = old.client("bob")
    pem.write_bytes(pair.key + pair.certificate)
    certificates = Certificates(ServingOptions(**write_pair(tmp_path, server), client_ca_file=clients))
    assert (("commonName", "bob"),) in seen_through(certificates.context, server, pem)["subject"]
    clients.write_bytes(new.certificate)
    certificates.refresh()
    with pytest.raises(ssl.SSLError):
        seen_through(certificates.context, server, pem)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        pytest.param({"tls_cert_file": "tls.crt"}, "must be given together", id="a certificate without a key"),
        pytest.param(
            {"tls_cert_file": "no.crt", "tls_private_key_file": "tls.key"},
            "--tls-cert-file .*no.crt.*: cannot be read: No such file or directory",
            id="no such file",
        ),
        pytest.param(
            {"tls_cert_file": "tls.key", "tls_private_key_file": "tls.crt"}, "is no good", id="the wrong way round"
        ),
        pytest.param({"client_ca_file": "tls.key"}, "--client-ca-file .*tls.key: is no good", id="no authority"),
        pytest.param(
            {"requestheader_client_ca_file": "tls.key"},
            "--requestheader-client-ca-file .*tls.key: is no good",
            id="no authority of proxies",
        ),
        pytest.param({"tls_cipher_suites": ("TLS_NULL",)}, "'TLS_NULL' is none of TLS_ECDHE_ECDSA", id="no such suite"),
        pytest.param({"tls_min_version": "VersionTLS10"}, "must be one of VersionTLS12, VersionTLS13", id="old TLS"),
    ],
)
def test_what_is_wrong_is_said_at_the_start(tmp_path, options, said) -> None:
    write_pair(tmp_path, Authority())
    here = {key: tmp_path / value if key.endswith("_file") else value for key, value in options.items()}
    with pytest.raises(ServingError, match=said):
        Certificates(ServingOptions(**here))


def served_by(certificates):
    """The certificate that a client gets."""
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [client.wrap_bio(down, up), certificates.context.wrap_bio(up, down, server_side=True)]
    for end in (0, 1, 0, 1):
        with suppress(ssl.SSLWantReadError):
            ends[end].do_handshake()
    return ends[0].getpeercert(binary_form=True)


def test_a_certificate_of_our_own_making_is_kept_in_a_folder(tmp_path) -> None:
    options = ServingOptions(cert_dir=tmp_path / "new" / "folder")
    first = served_by(Certificates(options))
    assert first == served_by(Certificates(options))
    assert first != served_by(Certificates(ServingOptions()))
    key = tmp_path / "new" / "folder" / "kube-scheduler.key"
    assert key.stat().st_mode & 0o077 == 0
    assert ssl.PEM_cert_to_DER_cert(key.with_suffix(".crt").read_text()) == first


def test_a_certificate_that_is_given_goes_before_the_folder(tmp_path) -> None:
    served = served_by(Certificates(ServingOptions(**write_pair(tmp_path, Authority()), cert_dir=tmp_path / "none")))
    assert served == ssl.PEM_cert_to_DER_cert((tmp_path / "tls.crt").read_text())
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("there", "said"),
    [
        pytest.param(
            {"kube-scheduler.key": ""}, "there is kube-scheduler.key, but no kube-scheduler.crt", id="half of it"
        ),
        pytest.param({"kube-scheduler.key": "", "kube-scheduler.crt": ""}, "is no good", id="nothing in it"),
        pytest.param(None, "cannot be written to: File exists", id="no folder"),
    ],
)
def test_a_folder_that_is_no_good(tmp_path, there, said) -> None:
    folder = tmp_path / "folder"
    if there is None:
        folder.write_text("", encoding="utf-8")
    else:
        folder.mkdir()
        for name, content in there.items():
            (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(ServingError, match=said):
        Certificates(ServingOptions(cert_dir=folder))
