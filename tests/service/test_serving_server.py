"""The server by itself: who is let in, certificates that change, and ports that are taken."""

import asyncio
import os
import socket
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest

from bayplan.service.serving.answers import answer
from bayplan.service.serving.certificates import Certificates
from bayplan.service.serving.health import HealthChecks
from bayplan.service.serving.options import ServingError, ServingOptions
from bayplan.service.serving.server import EndpointServer
from bayplan.testing.certificates import Authority

OPTIONS = {"port": 0, "bind_address": "127.0.0.1"}
TOKEN = {"Authorization": "Bearer good"}


class Reviewer:
    """A client of an API server that knows one token, and whose user may read /metrics."""

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def request(self, method, path, *, body):
        if b"TokenReview" in body:
            return b'{"status":{"authenticated":true,"user":{"username":"alice"}}}' if b'"good"' in body else b"{}"
        return b'{"status":{"allowed":true}}' if b'"/metrics"' in body else b'{"status":{"reason":"no rule"}}'


async def page(request):
    return answer("page")


@asynccontextmanager
async def served(connect=Reviewer, **options):
    server = EndpointServer(
        ServingOptions(**{**OPTIONS, **options}), {"/metrics": page, "/configz": page}, HealthChecks(), connect, connect
    )
    await asyncio.to_thread(server.start)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.stop)


async def get(server, path, headers=None, tls=False):
    async with aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{server.port}{path}"
        async with session.get(url, headers=headers or {}, ssl=tls) as response:
            return response.status, await response.text()


@pytest.mark.parametrize(
    ("path", "headers", "status", "said"),
    [
        pytest.param("/metrics", {}, 401, '"message":"Unauthorized","reason":"Unauthorized","code":401', id="nobody"),
        pytest.param("/metrics", {"Authorization": "Bearer bad"}, 401, "Unauthorized", id="a wrong token"),
        pytest.param("/metrics", {"Authorization": "Bearer g\u00f6\u00f6d"}, 401, "Unauthorized", id="no token at all"),
        pytest.param("/metrics", TOKEN, 200, "page", id="who may"),
        pytest.param(
            "/configz",
            TOKEN,
            403,
            '"message":"forbidden: User \\"alice\\" cannot get path \\"/configz\\": no rule","reason":"Forbidden"',
            id="who may not",
        ),
        pytest.param("/livez", {}, 200, "ok", id="open to anybody"),
        pytest.param("/livez/ping", {}, 401, "Unauthorized", id="below an open path"),
    ],
)
async def test_who_is_let_in(path, headers, status, said) -> None:
    async with served() as server:
        got, text = await get(server, path, headers)
    assert got == status
    assert said in text


async def test_open_paths_can_be_chosen() -> None:
    async with served(always_allow_paths=("/configz", "/livez/*")) as server:
        assert [(await get(server, path))[0] for path in ("/configz", "/livez/ping", "/livez", "/metrics")] == [
            200,
            200,
            401,
            401,
        ]


async def test_nobody_is_let_in_when_nobody_can_be_asked(caplog) -> None:
    async with served(connect=None) as server:
        assert (await get(server, "/metrics"))[0] == 401
        status, text = await get(server, "/metrics", TOKEN)
        assert (await get(server, "/healthz"))[0] == 200
    assert status == 500
    assert "Internal error occurred: there is no API server to ask for a TokenReview" in text
    assert "GET /metrics was refused" in caplog.text


async def test_client_certificates(tmp_path) -> None:
    ours, theirs = Authority(), Authority("another authority")
    file = tmp_path / "clients.crt"
    file.write_bytes(ours.certificate)
    async with served(client_ca_file=file) as server:
        alice, masters = tls_of(tmp_path, ours, "alice"), tls_of(tmp_path, ours, "root", "system:masters")
        assert await get(server, "/metrics", tls=alice) == (200, "page")
        assert (await get(server, "/configz", tls=alice))[0] == 403
        assert (await get(server, "/configz", tls=masters))[0] == 200
        assert (await get(server, "/metrics"))[0] == 401
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await get(server, "/metrics", tls=tls_of(tmp_path, theirs, "root", "system:masters"))


def tls_of(folder, authority, user, *groups):
    pair = authority.client(user, groups)
    file = folder / f"{user}.pem"
    file.write_bytes(pair.key + pair.certificate)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(file)
    return context


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
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        theirs.wrap_bio(down, up, server_hostname="127.0.0.1"),
        context.wrap_bio(up, down, server_side=True),
    ]
    done = set()
    while len(done) < 2:
        for end in ends:
            try:
                end.do_handshake()
                done.add(end)
            except ssl.SSLWantReadError:
                continue
    return ends[1].getpeercert()


def test_changed_certificates_are_used_from_then_on(tmp_path, caplog) -> None:
    old, new = Authority("old"), Authority("new")
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
    server, old, new = Authority("server"), Authority("old"), Authority("new")
    clients, pem = tmp_path / "clients.crt", tmp_path / "bob.pem"
    clients.write_bytes(old.certificate)
    pair = old.client("bob")
    pem.write_bytes(pair.key + pair.certificate)
    certificates = Certificates(ServingOptions(**write_pair(tmp_path, server), client_ca_file=clients))
    assert seen_through(certificates.context, server, pem)["subject"] == ((("commonName", "bob"),),)
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
        pytest.param({"tls_cipher_suites": ("TLS_NULL",)}, "'TLS_NULL' is none of TLS_ECDHE_ECDSA", id="no such suite"),
        pytest.param({"tls_min_version": "VersionTLS10"}, "must be one of VersionTLS12, VersionTLS13", id="old TLS"),
    ],
)
def test_what_is_wrong_is_said_at_the_start(tmp_path, options, said) -> None:
    write_pair(tmp_path, Authority())
    here = {key: tmp_path / value if key.endswith("_file") else value for key, value in options.items()}
    with pytest.raises(ServingError, match=said):
        Certificates(ServingOptions(**here))


def test_a_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = EndpointServer(ServingOptions(port=port, bind_address="127.0.0.1"), {}, HealthChecks(), None, None)
        with pytest.raises(ServingError, match=f"cannot serve on 127.0.0.1, port {port}: {os.strerror(98)}"):
            server.start()
        server.stop()
