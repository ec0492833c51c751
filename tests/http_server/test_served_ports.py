"""What all of Bayplan's servers have in common: no versions in headers, own host names only, few log lines."""

import asyncio
import ssl
from contextlib import asynccontextmanager

import pytest
from tests.support.tables import cases

from bayplan import Plugin
from bayplan.running.extender.plugins import profile_of_plugins
from bayplan.running.extender.running import running_extender
from bayplan.running.extender.server import ServerSettings
from bayplan.running.service.serving.health import HealthChecks
from bayplan.running.service.serving.options import SecureServing, ServingOptions
from bayplan.running.service.serving.server import EndpointServer
from bayplan_devcluster.apiserver import Address, ApiServer


class AllNodes(Plugin):
    name = "AllNodes"

    def filter(self, cycle, pod, node):
        return None


@asynccontextmanager
async def endpoints(**_):
    server = EndpointServer(ServingOptions(secure=SecureServing(port=0, bind_address="127.0.0.1")), {}, HealthChecks())
    await asyncio.to_thread(server.start)
    yield server.port
    await asyncio.to_thread(server.stop)


@asynccontextmanager
async def extender(**options):
    def build(handle):
        return profile_of_plugins([AllNodes()], handle)

    async with running_extender(build, settings=ServerSettings(**options)) as running:
        yield int(running.server.url.rpartition(":")[2])


@asynccontextmanager
async def api_server(**options):
    async with ApiServer(address=Address(**options)) as server:
        yield int(server.url.rpartition(":")[2])


SERVERS = {"endpoints": endpoints, "extender": extender, "API server": api_server}


async def talk(server, port, request):
    """Send a request over a new connection. Returns what the server replies first."""
    tls = None
    if server is endpoints:
        tls = ssl.create_default_context()
        tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=tls)
    writer.write(request.replace("\n", "\r\n").encode() + b"\r\n\r\n")
    try:
        async with asyncio.timeout(10):
            return (await reader.read(1 << 16)).decode()
    finally:
        writer.close()


def status_of(reply):
    return int(reply.split(" ", 2)[1])


@pytest.mark.parametrize(
    ("name", "request_line", "status"),
    [
        ("endpoints", "GET /livez HTTP/1.1", 200),
        ("endpoints", "GET /metrics HTTP/1.1", 403),
        ("endpoints", "GET /livez HTTP/9.1.2", 400),
        ("extender", "GET /healthz HTTP/1.1", 200),
        ("extender", "GET /filter HTTP/1.1", 405),
        ("extender", "POST /filter HTTP/1.1\nContent-Length: -1", 400),
        ("API server", "GET /version HTTP/1.1", 200),
        ("API server", "GET /api/v1/pods?watch=true HTTP/1.1", 200),
        ("API server", "GET /none HTTP/1.1", 404),
        ("API server", "no HTTP", 400),
    ],
)
async def test_headers_name_no_versions(name, request_line, status):
    server = SERVERS[name]
    async with server() as port:
        head = (await talk(server, port, f"{request_line}\nHost: localhost")).partition("\r\n\r\n")[0]
    assert status_of(head) == status
    assert "ython" not in head
    assert "aiohttp" not in head


@pytest.mark.parametrize("name", ["extender", "API server"])
async def test_servers_on_loopback_answer_only_to_their_own_names(name, caplog):
    server, line = SERVERS[name], "GET /livez HTTP/1.1"
    async with server() as port:
        for host in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}", "localhost"):
            assert status_of(await talk(server, port, f"{line}\nHost: {host}")) == 200
        for host in (f"evil.example:{port}", "evil.example", "localhost.evil.example"):
            reply = await talk(server, port, f"{line}\nHost: {host}")
            assert status_of(reply) == 403
            assert reply.endswith("the Host header is not a name of this server; see --accept-hosts\n")
        assert status_of(await talk(server, port, "GET /livez HTTP/1.0")) == 403
    assert caplog.messages[0] == f"refused a request for another host: Host 'evil.example:{port}'"
    assert caplog.messages[1].startswith("refused a request for another host: 3 more times within 60 s")


@pytest.mark.parametrize("name", ["extender", "API server"])
async def test_accepted_host_names_are_configurable(name):
    server = SERVERS[name]
    async with server(accept_hosts=r"\.svc$,^localhost$") as port:
        for host, status in (
            ("bayplan.kube-system.svc:80", 200),
            ("localhost", 200),
            ("127.0.0.1", 200),
            ("[::1]", 403),
        ):
            assert status_of(await talk(server, port, f"GET /livez HTTP/1.1\nHost: {host}")) == status


async def test_endpoints_answer_to_all_names():
    async with endpoints() as port:
        assert status_of(await talk(endpoints, port, "GET /livez HTTP/1.1\nHost: scheduler.example")) == 200


@cases(
    "name, request_text, first",
    {
        "endpoints": ("endpoints", "GET /\x01 HTTP/1.1", "invalid HTTP: "),
        "extender": ("extender", "POST /filter HTTP/1.1\nContent-Length: -1", "invalid HTTP: "),
        "body": ("extender", "POST /prioritize HTTP/1.1\nContent-Length: 0", "prioritize failed with status 400: "),
        "API server": ("API server", "GET /\x01 HTTP/1.1", "invalid HTTP: "),
    },
)
async def test_refused_requests_are_logged_once_with_their_number(name, request_text, first, caplog):
    server = SERVERS[name]
    async with server() as port:
        for _ in range(50):
            assert status_of(await talk(server, port, f"{request_text}\nHost: localhost")) == 400
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith(first)
    assert "49 more times within 60 s" in caplog.messages[1]
