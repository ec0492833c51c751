"""TLS with extenders: trusted CAs, client certificates, and invalid configurations."""

import base64
import ssl

import numpy as np
import pytest
from tests.extender.stub_extender import StubExtender
from tests.support.certificates import Authority
from tests.support.tables import cases

from bayplan.core.config.errors import ConfigurationError
from bayplan.core.config.types import Extender, ExtenderTLSConfig
from bayplan.core.framework.extenders import ExtenderError, ExtenderFilter
from bayplan.running.extender.client import HttpExtenders
from bayplan.testing.builders import make_cluster, make_node, make_pod

pytestmark = [
    pytest.mark.feature("HTTP extenders: TLS"),
    # A TLS connection may still be closing when a test's event loop ends.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

OURS, OTHERS = Authority(), Authority()


def data(pem):
    return base64.b64encode(pem).decode()


def written(folder, name, content):
    path = folder / name
    path.write_bytes(content)
    return str(path)


@pytest.fixture
def serving(tmp_path):
    """Makes the context of a server named `host`. With `clients`, it requires certificates from our CA."""

    def context(host="127.0.0.1", *, clients=False):
        pair = OURS.server(host)
        server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        server.load_cert_chain(written(tmp_path, "server.pem", pair.certificate + pair.key))
        if clients:
            server.load_verify_locations(cadata=OURS.certificate.decode())
            server.verify_mode = ssl.CERT_REQUIRED
        return server

    return context


async def left_by(extender):
    async with HttpExtenders([extender]) as client:
        nodes = make_cluster(make_node("a")).state.nodes
        return list((await client.answer(ExtenderFilter(make_pod("p"), nodes.at(np.arange(1))))).feasible)


def configured(stub, *, https=True, **tls):
    return Extender(
        urlPrefix=stub.url,
        filterVerb="filter",
        nodeCacheCapable=True,
        enableHTTPS=https,
        tlsConfig=ExtenderTLSConfig(**tls) if tls else None,
    )


ANSWER = {"NodeNames": ["a"]}
CA = data(OURS.certificate)


@cases(
    "tls, host",
    {
        "any certificate, without a CA": ({}, "127.0.0.1"),
        "any certificate, with insecure": ({"insecure": True, "https": False}, "127.0.0.1"),
        "a CA": ({"caData": CA}, "127.0.0.1"),
        "a CA without enableHTTPS": ({"caData": CA, "https": False}, "127.0.0.1"),
        "another server name": ({"caData": CA, "serverName": "ext.example"}, "ext.example"),
    },
)
async def test_trusted(serving, tls, host):
    async with StubExtender(serving(host), filter=ANSWER) as stub:
        assert await left_by(configured(stub, **tls)) == ["a"]


@cases(
    "tls, message",
    {
        "a CA that the system doesn't trust": ({"https": False}, "its certificate is not trusted"),
        "the same with a server name": ({"https": False, "serverName": "x"}, "its certificate is not trusted"),
        "another CA": ({"caData": data(OTHERS.certificate)}, "its certificate is not trusted"),
        "a wrong name": ({"caData": CA, "serverName": "ext.example"}, "mismatch"),
    },
)
async def test_not_trusted(serving, tls, message):
    async with StubExtender(serving(), filter=ANSWER) as stub:
        with pytest.raises(ExtenderError, match=message):
            await left_by(configured(stub, **tls))


async def test_ca_data_overrides_a_ca_file(serving, tmp_path):
    ours, others = (written(tmp_path, f"{n}.pem", each.certificate) for n, each in enumerate((OURS, OTHERS)))
    async with StubExtender(serving(), filter=ANSWER) as stub:
        assert await left_by(configured(stub, caFile=ours)) == ["a"]
        assert await left_by(configured(stub, caFile=others, caData=CA)) == ["a"]


async def test_a_client_certificate(serving, tmp_path):
    pair = OURS.client("bayplan")
    files = {"certFile": written(tmp_path, "c.pem", pair.certificate), "keyFile": written(tmp_path, "k.pem", pair.key)}
    both = {"certData": data(pair.certificate), "keyData": data(pair.key)}
    async with StubExtender(serving(clients=True), filter=ANSWER) as stub:
        assert await left_by(configured(stub, caData=CA, **files)) == ["a"]
        assert await left_by(configured(stub, caData=CA, **both)) == ["a"]
        assert stub.users == ["bayplan", "bayplan"]
        with pytest.raises(ExtenderError):
            await left_by(configured(stub, caData=CA))


async def test_a_client_certificate_is_reloaded_when_its_files_change(serving, tmp_path, caplog):
    certificate, key = tmp_path / "c.pem", tmp_path / "k.pem"

    def replace(path, content):
        path.with_suffix(".new").write_bytes(content)
        path.with_suffix(".new").replace(path)

    def renew(user):
        pair = OURS.client(user)
        replace(certificate, pair.certificate)
        replace(key, pair.key)

    renew("first")
    async with StubExtender(serving(clients=True), keep_alive=False, filter=ANSWER) as stub:
        extender = configured(stub, caData=CA, certFile=str(certificate), keyFile=str(key))
        async with HttpExtenders([extender]) as client:
            question = ExtenderFilter(make_pod("p"), make_cluster(make_node("a")).state.nodes.at(np.arange(1)))
            await client.answer(question)
            renew("second")
            await client.answer(question)
            replace(certificate, OURS.client("third").certificate)
            await client.answer(question)
    assert stub.users == ["first", "second", "second"]
    assert "still using the last client certificate: extenders[0].tlsConfig.certFile: no certificate" in caplog.text


PAIR = OURS.client("bayplan")


@cases(
    "tls, message",
    {
        "insecure with a CA": ({"insecure": True, "caData": CA}, "extenders[0].tlsConfig.insecure: Forbidden: "),
        "not base64": ({"caData": "?"}, "extenders[0].tlsConfig.caData: expected base64"),
        "not PEM": ({"caData": data(b"x")}, "extenders[0].tlsConfig.caData: no certificates in PEM"),
        "not text": ({"caData": data(b"\xff")}, "extenders[0].tlsConfig.caData: no certificates in PEM"),
        "no file": (
            {"caFile": "/nowhere/ca.pem"},
            'extenders[0].tlsConfig.caFile: Invalid value: "/nowhere/ca.pem": cannot be read: No such file',
        ),
        "another key": (
            {"certData": data(PAIR.certificate), "keyData": data(OURS.client("x").key)},
            "extenders[0].tlsConfig.certData: no certificate in PEM with its key",
        ),
    },
)
def test_invalid_settings_are_rejected(tls, message):
    with pytest.raises(ConfigurationError) as caught:
        HttpExtenders([Extender(urlPrefix="https://127.0.0.1:1", tlsConfig=ExtenderTLSConfig(**tls))])
    assert message in str(caught.value)


def test_a_client_certificate_without_a_key_is_not_sent(caplog):
    HttpExtenders([Extender(tlsConfig=ExtenderTLSConfig(certData=data(PAIR.certificate)))])
    assert "extenders[0].tlsConfig: not sending a client certificate" in caplog.text
