"""A server, and requests that check the status of their responses."""

import asyncio
import json
import os
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from urllib.parse import parse_qsl

import aiohttp
import pytest

from bayplan_devcluster.apiserver import ApiServer, HttpRequest

PODS = "/api/v1/namespaces/default/pods"
MEDIA = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}


class StoppedClock:
    """A clock that never advances, so that times in objects are constant."""

    def now(self):
        return datetime(2026, 1, 1, tzinfo=UTC)


class Kubectl:
    """Runs kubectl against one server."""

    def __init__(self, home, server):
        config = home / "kubeconfig"
        config.write_text(server.kubeconfig())
        self._environment = {**os.environ, "KUBECONFIG": str(config), "HOME": str(home)}

    async def __call__(self, *arguments, stdin=None, status=0):
        """Returns the output of kubectl, errors last."""
        process = await self._start(*arguments)
        async with asyncio.timeout(30):
            out, error = await process.communicate(stdin.encode() if stdin else None)
        assert process.returncode == status, (out + error).decode()
        return (out + error).decode()

    @asynccontextmanager
    async def following(self, *arguments):
        """Yields the lines of kubectl's output as they arrive."""
        process = await self._start(*arguments)

        async def lines():
            async for line in process.stdout:
                yield line.decode()

        try:
            yield lines()
        finally:
            process.terminate()
            await process.communicate()

    async def _start(self, *arguments):
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            "kubectl", *arguments, stdin=pipe, stdout=pipe, stderr=pipe, env=self._environment
        )


class Requests:
    """Sends requests to one server; each returns the status and the decoded body."""

    def __init__(self, session):
        self.session = session

    async def __call__(self, method, path, body=None, **headers):
        data = body if isinstance(body, bytes | str | None) else json.dumps(body)
        async with self.session.request(method, path, data=data, headers=headers) as response:
            text = await response.text()
            return response.status, json.loads(text) if response.content_type == "application/json" else text

    async def create(self, path, body, status=201):
        found, answer = await self("POST", path, body, **{"Content-Type": "application/json"})
        assert found == status, answer
        return answer

    async def get(self, path, status=200, **headers):
        found, answer = await self("GET", path, **headers)
        assert found == status, answer
        return answer

    async def put(self, path, body, status=200):
        found, answer = await self("PUT", path, body, **{"Content-Type": "application/json"})
        assert found == status, answer
        return answer

    async def patch(self, path, body, status=200, kind="merge"):
        found, answer = await self("PATCH", path, body, **{"Content-Type": MEDIA[kind]})
        assert found == status, answer
        return answer

    async def delete(self, path, body=None, status=200):
        found, answer = await self("DELETE", path, body, **{"Content-Type": "application/json"})
        assert found == status, answer
        return answer

    async def gone(self, path):
        """Waits until the object at a path is removed."""
        async with asyncio.timeout(5):
            while (await self("GET", path))[0] != 404:
                pass

    @asynccontextmanager
    async def watch(self, path):
        """A function that waits for the next event of a watch; it returns None after the end."""
        async with self.session.get(path) as response:

            async def following():
                line = await asyncio.wait_for(response.content.readline(), 5)
                return json.loads(line) if line else None

            yield following


class InMemoryRequests(Requests):
    """The same for a server that does not listen."""

    def __init__(self, server):
        self.server = server

    async def __call__(self, method, path, body=None, **headers):
        data = body if isinstance(body, bytes) else (body if isinstance(body, str) else json.dumps(body)).encode()
        path, _, query = path.partition("?")
        given = dict(parse_qsl(query, keep_blank_values=True))
        response = await self.server.handle(HttpRequest(method, path, given, headers, b"" if body is None else data))
        self.warnings = response.warnings
        return response.status, json.loads(response.body) if response.content_type == "application/json" else None


@pytest.fixture
async def in_memory():
    """A server that does not listen."""
    async with ApiServer(address=None, clock=StoppedClock()) as running:
        yield running


@pytest.fixture
def client(in_memory):
    """Requests to `in_memory`."""
    return InMemoryRequests(in_memory)


@pytest.fixture
def make_requests():
    return Requests


@pytest.fixture
async def server():
    async with ApiServer(clock=StoppedClock()) as running:
        yield running


@pytest.fixture
async def api(server):
    async with aiohttp.ClientSession(server.url) as session:
        yield Requests(session)


def pod(name="p", node=None, **spec):
    """Returns a small pod."""
    containers = [{"name": "c", "image": "nginx:1"}]
    placed = {"nodeName": node} if node else {}
    return {"metadata": {"name": name}, "spec": {"containers": containers, **placed, **spec}}


def config_map(name="m", **metadata):
    """Returns an object of a kind without rules."""
    return {"metadata": {"name": name, **metadata}, "data": {"a": "1"}}


@pytest.fixture
def make_pod():
    return pod


@pytest.fixture
def make_config_map():
    return config_map


@pytest.fixture
def make_kubectl(tmp_path):
    return lambda server: Kubectl(tmp_path, server)


@pytest.fixture
async def kubectl(server, make_kubectl):
    return make_kubectl(server)


def definition(**versions):
    """Returns a small definition of Gangs in example.com with these versions (by default `v1`)."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}}
    listed = [
        {"name": name, "served": True, "storage": index == 0, "schema": {"openAPIV3Schema": schema}, **contents}
        for index, (name, contents) in enumerate((versions or {"v1": {}}).items())
    ]
    names = {"kind": "Gang", "plural": "gangs"}
    spec = {"group": "example.com", "scope": "Namespaced", "names": names, "versions": listed}
    return {"metadata": {"name": "gangs.example.com"}, "spec": spec}


@pytest.fixture
def make_definition():
    return definition


def schema(**properties):
    """Returns a version's contents whose schema has these properties."""
    return {"schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}


@pytest.fixture
def make_schema():
    return schema
