"""The HTTPS server: authorization of requests, and ports in use."""

import asyncio
import json
import os
import socket
import ssl
from contextlib import asynccontextmanager

import aiohttp
import pytest
from tests.support.certificates import Authority
from tests.support.serving_options import serving_options
from tests.support.tables import cases

from bayplan.client import ApiError, Page, TransportError
from bayplan.running.service.serving.health import HealthChecks
from bayplan.running.service.serving.options import ServingError
from bayplan.running.service.serving.responses import respond
from bayplan.running.service.serving.server import EndpointServer, ReviewClients

OPTIONS = {"port": 0, "bind_address": "127.0.0.1"}
TOKEN = {"Authorization": "Bearer good"}


class Reviewer:
    """A client of an API server that knows one token, allows alice and carol (named by a proxy) to read /metrics, and
    has no authentication settings.
    """

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        pass

    async def get(self, kind, name, namespace=None):
        raise ApiError(404, "NotFound", f"{kind.plural} {name!r} not found")

    async def pages(self, kind, **_):
        yield Page([], "1")

    async def watch(self, kind, **_):
        await asyncio.Event().wait()
        yield

    async def request(self, method, path, *, body):
        if b"TokenReview" in body:
            if b'"broken"' in body:
                raise TransportError("connection refused", sent=False)
            return b'{"status":{"authenticated":true,"user":{"username":"alice"}}}' if b'"good"' in body else b"{}"
        spec = json.loads(body)["spec"]
        assert {"system:authenticated", "system:unauthenticated"} & set(spec["groups"])
        allowed = spec["nonResourceAttributes"]["path"] == "/metrics" and spec["user"] in {"alice", "carol"}
        return b'{"status":{"allowed":true}}' if allowed else b'{"status":{"reason":"no <rule>"}}'


async def page(request):
    return respond("page")


@asynccontextmanager
async def served(connect=Reviewer, **options):
    server = EndpointServer(
        serving_options(**{**OPTIONS, **options}),
        {"/metrics": page, "/configz": page},
        HealthChecks(),
        ReviewClients(connect, connect),
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


UNAUTHORIZED = '"message":"Unauthorized","reason":"Unauthorized","code":401'


def forbidden(user, path, reason=": no <rule>"):
    return (
        f'"message":"forbidden: User \\"{user}\\" cannot get path \\"{path}\\"{reason}",'
        '"reason":"Forbidden","details":{},"code":403}'
    )


@cases(
    "path, headers, status, expected",
    {
        "no credentials": ("/metrics", {}, 403, forbidden("system:anonymous", "/metrics")),
        "invalid token": ("/metrics", {"Authorization": "Bearer bad"}, 401, UNAUTHORIZED),
        "token that is not ASCII": ("/metrics", {"Authorization": "Bearer g\u00f6\u00f6d"}, 401, UNAUTHORIZED),
        "token review fails": ("/metrics", {"Authorization": "Bearer broken"}, 401, UNAUTHORIZED),
        "empty token": ("/metrics", {"Authorization": "Bearer "}, 403, forbidden("system:anonymous", "/metrics")),
        "password, which is ignored": (
            "/metrics",
            {"Authorization": "Basic Z29vZA=="},
            403,
            forbidden("system:anonymous", "/metrics"),
        ),
        "proxy headers without a certificate": (
            "/metrics",
            {"X-Remote-User": "carol", "X-Remote-Group": "system:masters"},
            403,
            forbidden("system:anonymous", "/metrics"),
        ),
        "allowed": ("/metrics", TOKEN, 200, "page"),
        "denied": ("/configz", TOKEN, 403, forbidden("alice", "/configz")),
        "path with HTML is escaped": ("/<b>", TOKEN, 403, forbidden("alice", "/&lt;b&gt;")),
        "open path": ("/livez", {}, 200, "ok"),
        "open path with an invalid token": ("/livez", {"Authorization": "Bearer bad"}, 401, UNAUTHORIZED),
        "path below an open path": ("/livez/ping", {}, 403, forbidden("system:anonymous", "/livez/ping")),
    },
)
async def test_requests_are_authorized(path, headers, status, expected) -> None:
    async with served() as server:
        got, text = await get(server, path, headers)
    assert got == status
    assert expected in text


async def test_open_paths_are_configurable() -> None:
    async with served(always_allow_paths=("/configz", "/livez/*")) as server:
        assert [(await get(server, path))[0] for path in ("/configz", "/livez/ping", "/livez", "/metrics")] == [
            200,
            200,
            403,
            403,
        ]


async def test_only_open_paths_are_served_without_an_api_server() -> None:
    async with served(connect=None) as server:
        for headers in ({}, TOKEN):
            status, text = await get(server, "/metrics", headers)
            assert status == 403
            assert forbidden("system:anonymous", "/metrics", "") in text
        assert (await get(server, "/healthz"))[0] == 200


async def test_refused_credentials_are_logged_once_with_their_number(caplog) -> None:
    async with served() as server:
        for _ in range(100):
            assert (await get(server, "/metrics", {"Authorization": "Bearer bad"}))[0] == 401
    assert caplog.messages == [
        "refused invalid credentials: GET /metrics: invalid bearer token",
        "refused invalid credentials: 99 more times within 60 s; the latest: GET /metrics: invalid bearer token",
    ]


async def test_failed_access_review_gives_status_500(caplog) -> None:
    class Silent(Reviewer):
        async def request(self, method, path, *, body):
            raise TransportError("connection refused", sent=False)

    async with served(connect=Silent) as server:
        status, text = await get(server, "/metrics?a=1")
    assert status == 500
    assert text.startswith('Internal Server Error: "/metrics?a=1": the API server did not answer a SubjectAccessReview')
    assert "could not authorize a request: GET /metrics" in caplog.text


async def test_client_certificates_are_authorized(tmp_path) -> None:
    trusted, untrusted = Authority(), Authority()
    file = tmp_path / "clients.crt"
    file.write_bytes(trusted.certificate)
    async with served(client_ca_file=file) as server:
        alice, masters = tls_of(tmp_path, trusted, "alice"), tls_of(tmp_path, trusted, "root", "system:masters")
        assert await get(server, "/metrics", tls=alice) == (200, "page")
        assert (await get(server, "/configz", tls=alice))[0] == 403
        assert (await get(server, "/configz", tls=masters))[0] == 200
        assert (await get(server, "/metrics"))[0] == 403
        with pytest.raises((aiohttp.ClientError, ConnectionError)):
            await get(server, "/metrics", tls=tls_of(tmp_path, untrusted, "root", "system:masters"))


def tls_of(folder, authority, user, group="users"):
    pair = authority.client(user, group)
    file = folder / f"{user}.pem"
    file.write_bytes(pair.key + pair.certificate)
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(file)
    return context


def test_port_in_use_is_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = EndpointServer(serving_options(port=port, bind_address="127.0.0.1"), {}, HealthChecks())
        with pytest.raises(ServingError, match=f"cannot serve on 127.0.0.1, port {port}: {os.strerror(98)}"):
            server.start()
        server.stop()
