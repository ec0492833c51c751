"""Front proxies and client certificates over TLS, and the cluster's authentication settings."""

import asyncio
import hashlib
import json
import logging
import math
import socket
import ssl
import threading
from contextlib import asynccontextmanager

import aiohttp
import pytest
from lightkube.models.core_v1 import ConfigMap
from lightkube.models.meta_v1 import ObjectMeta
from tests.support.certificates import Authority
from tests.support.serving_options import serving_options
from tests.support.tables import cases
from tests.support.waiting import until

from bayplan.client import ApiError, Page, TransportError, WatchEvent
from bayplan.running.service.serving.authentication import AUTHENTICATED, bearer_token, user_of_certificate
from bayplan.running.service.serving.authorities import Authorities, ClientCertificate
from bayplan.running.service.serving.health import HealthChecks
from bayplan.running.service.serving.options import ProxyHeaders, ServingError
from bayplan.running.service.serving.responses import respond_json
from bayplan.running.service.serving.reviews import AuthenticatedUser
from bayplan.running.service.serving.server import EndpointServer, ReviewClients

CLIENTS, PROXIES = Authority(), Authority()
UNKNOWN = Authority()
HEADERS = {"X-Remote-User": "carol", "X-Remote-Group": "devs"}


class Reviewer:
    """An API server that allows every request and records the users. `found`: the ConfigMap's data."""

    def __init__(self, found=None) -> None:
        self.found = found
        self.asked = []
        self.changes = asyncio.Queue()

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def request(self, method, path, *, body):
        document = json.loads(body)
        if document["kind"] == "TokenReview":
            known = document["spec"]["token"] == "good"
            return b'{"status":{"authenticated":true,"user":{"username":"tom"}}}' if known else b"{}"
        self.asked.append(document["spec"])
        return b'{"status":{"allowed":true}}'

    async def get(self, kind, name, namespace=None):
        assert (kind.plural, namespace, name) == ("configmaps", "kube-system", "extension-apiserver-authentication")
        if isinstance(self.found, Exception):
            raise self.found
        if self.found is None:
            raise ApiError(404, "NotFound", "not found")
        return ConfigMap(data=self.found, metadata=ObjectMeta(name=name, namespace=namespace))

    async def pages(self, kind, **scope):
        assert scope["field_selector"] == "metadata.name=extension-apiserver-authentication"
        yield Page([] if self.found is None else [raw(self.found, "1")], "1")

    async def watch(self, kind, **_):
        while True:
            yield await self.changes.get()


def raw(data, version):
    name = "extension-apiserver-authentication"
    metadata = {"name": name, "namespace": "kube-system", "uid": "u", "resourceVersion": version}
    return json.dumps({"metadata": metadata, "data": data}).encode()


def data(clients=CLIENTS, proxies=PROXIES, **lists):
    """The data of the ConfigMap, as kube-apiserver writes it."""
    names = {
        "username-headers": ["X-Remote-User"],
        "group-headers": ["X-Remote-Group"],
        "extra-headers-prefix": ["X-Remote-Extra-"],
        "allowed-names": ["front-proxy-client"],
        **{name.replace("_", "-"): values for name, values in lists.items()},
    }
    return {
        "client-ca-file": clients.certificate.decode(),
        "requestheader-client-ca-file": proxies.certificate.decode(),
        **{f"requestheader-{name}": json.dumps(values) for name, values in names.items()},
    }


async def page(request):
    return respond_json("allowed")


@asynccontextmanager
async def served(reviewer, **options):
    defaults = {"port": 0, "bind_address": "127.0.0.1", "authorized_cache_ttl": 0.0, "tolerate_lookup_failure": False}
    settings = serving_options(**{**defaults, **options})
    clients = ReviewClients(lambda: reviewer, lambda: reviewer)
    server = EndpointServer(settings, {"/metrics": page}, HealthChecks(), clients)
    await asyncio.to_thread(server.start)
    try:
        yield server
    finally:
        await asyncio.to_thread(server.stop)


def files(folder):
    for name, authority in (("clients", CLIENTS), ("proxies", PROXIES)):
        (folder / f"{name}.crt").write_bytes(authority.certificate)
    return {"client_ca_file": folder / "clients.crt", "requestheader_client_ca_file": folder / "proxies.crt"}


def tls_of(folder, authority, user, group="users", version=ssl.TLSVersion.TLSv1_3):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = version
    if authority is not None:
        pair = authority.client(user, group)
        (folder / "client.pem").write_bytes(pair.key + pair.certificate)
        context.load_cert_chain(folder / "client.pem")
    return context


async def ask(server, tls, headers=()):
    async with aiohttp.ClientSession() as session:
        url = f"https://127.0.0.1:{server.port}/metrics"
        async with session.get(url, headers=headers, ssl=tls) as response:
            return response.status


@cases(
    "authority, name, headers, options, expected",
    {
        "proxy": (PROXIES, "front-proxy-client", HEADERS, {}, ("carol", ["devs", "system:authenticated"])),
        "several groups, headers in any case": (
            PROXIES,
            "front-proxy-client",
            [("x-remote-user", "carol"), ("X-REMOTE-GROUP", "a"), ("X-REMOTE-GROUP", ""), ("X-REMOTE-GROUP", "b")],
            {},
            ("carol", ["a", "b", "system:authenticated"]),
        ),
        "anonymous user of a proxy": (
            PROXIES,
            "front-proxy-client",
            {"X-Remote-User": "system:anonymous", "X-Remote-Group": "system:unauthenticated"},
            {},
            ("system:anonymous", ["system:unauthenticated"]),
        ),
        "proxy without a user header": (PROXIES, "front-proxy-client", {}, {}, 401),
        "proxy that forwards a token": (
            PROXIES,
            "front-proxy-client",
            {"Authorization": "Bearer good"},
            {},
            ("tom", ["system:authenticated"]),
        ),
        "client certificate with proxy headers": (CLIENTS, "bob", HEADERS, {}, ("bob", ["ops", AUTHENTICATED])),
        "proxy whose name is not allowed": (
            PROXIES,
            "other-proxy",
            HEADERS,
            {"requestheader": ProxyHeaders(("X-Remote-User",), allowed_names=("front-proxy-client",))},
            401,
        ),
        "other headers, one of several allowed names": (
            PROXIES,
            "second",
            {"X-Second": "dave", "X-Id": "7"},
            {"requestheader": ProxyHeaders(("X-First", "X-Second"), ("X-Id",), allowed_names=("first", "second"))},
            ("dave", ["system:authenticated"]),
        ),
        "no certificate": (None, "", HEADERS, {}, ("system:anonymous", ["system:unauthenticated"])),
    },
)
async def test_front_proxy_names_the_user(tmp_path, authority, name, headers, options, expected) -> None:
    reviewer = Reviewer(AssertionError("both files are given, so the cluster must not be asked"))
    async with served(reviewer, **files(tmp_path), **options) as server:
        status = await ask(server, tls_of(tmp_path, authority, name, "ops"), headers)
    if expected == 401:
        assert (status, reviewer.asked) == (401, [])
    else:
        [spec] = reviewer.asked
        assert (status, spec["user"], spec["groups"]) == (200, *expected)
        assert spec.get("uid", "") == ("7" if "X-Id" in headers else "")


async def test_front_proxy_passes_extra_fields(tmp_path) -> None:
    reviewer = Reviewer()
    async with served(reviewer, **files(tmp_path)) as server:
        headers = [
            ("X-Remote-User", "carol"),
            ("X-Remote-Extra-Scopes", "a"),
            ("X-Remote-Extra-Scopes", "b"),
            ("X-Remote-Extra-Example.com%2fPath", "c"),
            ("X-Other", "d"),
        ]
        await ask(server, tls_of(tmp_path, PROXIES, "any"), headers)
    assert reviewer.asked[0]["extra"] == {"scopes": ["a", "b"], "example.com/path": ["c"]}


async def test_access_review_contains_the_credential_id(tmp_path) -> None:
    reviewer = Reviewer()
    async with served(reviewer, **files(tmp_path)) as server:
        await ask(server, tls_of(tmp_path, CLIENTS, "bob"))
    [credential_id] = reviewer.asked[0]["extra"]["authentication.kubernetes.io/credential-id"]
    pem = (tmp_path / "client.pem").read_text().partition("-----BEGIN CERTIFICATE-----")
    assert credential_id == f"X509SHA256={hashlib.sha256(ssl.PEM_cert_to_DER_cert(''.join(pem[1:]))).hexdigest()}"


def certificate_of(*subject, expires_at=math.inf, chain=frozenset()):
    return ClientCertificate(b"der", subject, expires_at, chain)


CREDENTIAL = {"authentication.kubernetes.io/credential-id": [f"X509SHA256={hashlib.sha256(b'der').hexdigest()}"]}
NAMED = ("commonName", "bob")
UID = "1.3.6.1.4.1.57683.2"


@cases(
    "subject, user",
    {
        "name and groups": (
            (("organizationName", "ops"), ("organizationName", "devs"), NAMED),
            AuthenticatedUser("bob", ("ops", "devs"), "", CREDENTIAL),
        ),
        "first of two names": ((NAMED, ("commonName", "eve")), AuthenticatedUser("bob", (), "", CREDENTIAL)),
        "uid": ((NAMED, (UID, "7")), AuthenticatedUser("bob", (), "7", CREDENTIAL)),
        "no name": ((("organizationName", "ops"),), None),
    },
)
def test_certificate_names_the_user(subject, user) -> None:
    assert user_of_certificate(certificate_of(*subject)) == user


@pytest.mark.parametrize("uids", [("",), ("7", "8")])
def test_certificate_with_invalid_uids_is_rejected(uids) -> None:
    with pytest.raises(ValueError, match="must have one uid at most"):
        user_of_certificate(certificate_of(NAMED, *((UID, uid) for uid in uids)))


@cases(
    "now, chain, members, signed",
    {
        "valid": (10, {b"ca"}, {b"ca", b"other"}, True),
        "expired since the handshake": (11, {b"ca"}, {b"ca"}, False),
        "another authority": (10, {b"ca", b"der"}, {b"other"}, False),
        "trusted intermediate": (10, {b"der", b"between", b"ca"}, {b"between"}, True),
        "unknown chain": (10, set(), {b"ca"}, False),
    },
)
def test_certificate_is_checked_against_the_authorities(now, chain, members, signed) -> None:
    certificate = certificate_of(NAMED, expires_at=10, chain=frozenset(chain))
    assert certificate.is_signed_by(Authorities("", frozenset(members)), now) is signed


@pytest.mark.parametrize(
    ("header", "token"),
    [
        ("Bearer a", "a"),
        ("  bearer a  ", "a"),
        ("Bearer a b", "a"),
        ("Bearer  a", ""),
        ("Bearer", ""),
        ("Basic a", ""),
        ("", ""),
    ],
)
def test_bearer_token_is_read_from_the_header(header, token) -> None:
    assert bearer_token(header) == token


async def test_resumed_session_keeps_the_client_certificate(tmp_path) -> None:
    reviewer = Reviewer()
    async with served(reviewer, **files(tmp_path)) as server:
        tls = tls_of(tmp_path, CLIENTS, "bob", version=ssl.TLSVersion.TLSv1_2)

        def twice():
            session, reused = None, []
            for _ in range(2):
                plain = socket.create_connection(("127.0.0.1", server.port))
                with tls.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as connection:
                    connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    assert connection.recv(100).startswith(b"HTTP/1.1 200")
                    session = connection.session
                    reused.append(connection.session_reused)
            return reused

        assert await asyncio.to_thread(twice) == [False, True]
    assert [spec["user"] for spec in reviewer.asked] == ["bob", "bob"]


# The cluster's settings


async def test_authorities_are_read_from_the_cluster(tmp_path) -> None:
    reviewer = Reviewer(data())
    async with served(reviewer) as server:
        assert await ask(server, tls_of(tmp_path, CLIENTS, "bob")) == 200
        assert await ask(server, tls_of(tmp_path, PROXIES, "front-proxy-client"), HEADERS) == 200
        assert await ask(server, tls_of(tmp_path, PROXIES, "other"), HEADERS) == 401
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await ask(server, tls_of(tmp_path, UNKNOWN, "bob"))
    assert [spec["user"] for spec in reviewer.asked] == ["bob", "carol"]


async def test_file_takes_precedence_over_the_cluster(tmp_path) -> None:
    reviewer = Reviewer(data(clients=UNKNOWN))
    client_ca_file = files(tmp_path)["client_ca_file"]
    async with served(reviewer, client_ca_file=client_ca_file) as server:
        assert await ask(server, tls_of(tmp_path, CLIENTS, "bob")) == 200
        assert await ask(server, tls_of(tmp_path, PROXIES, "front-proxy-client"), HEADERS) == 200
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await ask(server, tls_of(tmp_path, UNKNOWN, "bob"))


async def test_start_does_not_wait_for_a_slow_cluster(tmp_path) -> None:
    class Slow(Reviewer):
        async def get(self, kind, name, namespace=None):
            await asyncio.to_thread(go_on.wait)
            return await super().get(kind, name, namespace)

    go_on, reviewer = threading.Event(), Slow(data())
    async with served(reviewer, tolerate_lookup_failure=True) as server:
        bob = tls_of(tmp_path, CLIENTS, "bob")
        assert await ask(server, bob) == 200
        go_on.set()
        await until(lambda: server._certificates.clients)
        assert await ask(server, bob) == 200
    assert [spec["user"] for spec in reviewer.asked] == ["system:anonymous", "bob"]


async def test_lookup_can_be_skipped(tmp_path) -> None:
    reviewer = Reviewer(AssertionError("the cluster must not be asked"))
    async with served(reviewer, skip_lookup=True) as server:
        assert await ask(server, tls_of(tmp_path, CLIENTS, "bob")) == 200
    assert [spec["user"] for spec in reviewer.asked] == ["system:anonymous"]


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ApiError(403, "Forbidden", "no"), "cannot be read: .*no.*extension-apiserver-authentication-reader"),
        (TransportError("connection refused", sent=False), "cannot be read: connection refused"),
    ],
)
async def test_failed_lookup_ends_the_start_unless_tolerated(tmp_path, caplog, error, message) -> None:
    with pytest.raises(ServingError, match=f"{message}.*--authentication-tolerate-lookup-failure"):
        async with served(Reviewer(error)):
            pass
    async with served(Reviewer(error), tolerate_lookup_failure=True) as server:
        assert await ask(server, tls_of(tmp_path, None, "")) == 200
        await until(lambda: "not trusting the cluster's client CAs until it can be read" in caplog.text)


async def test_changed_settings_of_the_cluster_are_used(tmp_path, caplog) -> None:
    caplog.set_level(logging.INFO, logger="bayplan")
    reviewer = Reviewer(data())
    old, new = tls_of(tmp_path, CLIENTS, "bob"), tls_of(tmp_path, UNKNOWN, "bob")
    async with served(reviewer) as server:
        loop = server._loop
        assert await ask(server, old) == 200

        def change(content, version):
            changed = WatchEvent("MODIFIED", raw(content, version), *event_identity(version))
            loop.call_soon_threadsafe(reviewer.changes.put_nowait, changed)

        change({**data(), "client-ca-file": "half a fi"}, "2")
        change({**data(clients=UNKNOWN), "requestheader-username-headers": "no list"}, "3")
        await until(lambda: "keeping the last value of requestheader-username-headers" in caplog.text)
        await until(lambda: "read changed certificates" in caplog.text.partition("requestheader-username-headers")[2])
        assert await ask(server, new) == 200
        assert await ask(server, tls_of(tmp_path, PROXIES, "front-proxy-client"), HEADERS) == 200
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await ask(server, old)
    assert "keeping the last value of client-ca-file" in caplog.text
    assert "keeping the last value of requestheader-username-headers" in caplog.text


def event_identity(version):
    return version, "kube-system/extension-apiserver-authentication", "u"
