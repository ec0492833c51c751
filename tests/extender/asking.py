"""An extender in this process, and a client that sends requests like a scheduler."""

import io
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from bayplan.client import Client
from bayplan.core.config import parse_configuration
from bayplan.core.config.types import API_VERSION, KIND
from bayplan.core.framework.functions import filter_plugin
from bayplan.running.extender.plugins import profile_of_plugins, profiles_of
from bayplan.running.extender.running import RunningExtender, running_extender
from bayplan.running.extender.server import ServerSettings
from bayplan.testing.in_memory import make_client
from bayplan_devcluster.in_memory import InMemoryClient

TIME = "2026-01-01T00:00:00Z"


class Extender:
    """An extender, as a scheduler sees it."""

    def __init__(self, running: RunningExtender, session: aiohttp.ClientSession) -> None:
        self.running = running
        self._session = session

    async def send(self, method: str, path: str, body: bytes | None = None, **options: Any) -> tuple[int, str, Any]:
        """Send a request. Returns the status, text and headers of the response."""
        data = None if body is None else io.BytesIO(body)
        async with self._session.request(method, self.running.server.url + path, data=data, **options) as answer:
            return answer.status, await answer.text(), answer.headers

    async def ask(self, verb: str, **args: Any) -> Any:
        """The response to a request, which must have status 200."""
        status, text, headers = await self.send("POST", f"/{verb}", json.dumps(args).encode())
        assert status == 200, text
        assert headers["Content-Type"].startswith("application/json")
        return json.loads(text)

    async def fail(self, verb: str, **args: Any) -> tuple[int, str]:
        """The status and text of a response that is an error for a scheduler."""
        status, text, _ = await self.send("POST", f"/{verb}", json.dumps(args).encode())
        assert status != 200
        return status, text

    async def filter(self, *names: str, **args: Any) -> Any:
        """The response to a filter request with names of nodes."""
        return await self.ask("filter", **{"Pod": pod(), "Nodes": None, "NodeNames": list(names), **args})

    async def filter_whole(self, *nodes: dict[str, Any], **args: Any) -> Any:
        """The response to a filter request with whole nodes."""
        return await self.ask("filter", **{"Pod": pod(), "Nodes": {"metadata": {}, "items": nodes}, **args})

    async def scores(self, *nodes: dict[str, Any], **args: Any) -> dict[str, int]:
        """The scores of whole nodes, by name."""
        answer = await self.ask("prioritize", **{"Pod": pod(), "Nodes": {"metadata": {}, "items": nodes}, **args})
        return {each["Host"]: each["Score"] for each in answer}


@asynccontextmanager
async def serving(
    *plugins: Any,
    client: Client | None = None,
    configuration: dict[str, Any] | None = None,
    synced: bool = True,
    **settings: Any,
) -> AsyncIterator[Extender]:
    """An extender with these plugins. With a client, it has synced with the cluster when the context is entered."""

    def build(handle):
        if configuration is None:
            return profile_of_plugins(plugins, handle)
        document = {"apiVersion": API_VERSION, "kind": KIND, **configuration}
        return profiles_of(parse_configuration(document), plugins, handle)

    async with (
        running_extender(build, client, ServerSettings(**settings)) as running,
        aiohttp.ClientSession() as session,
    ):
        if running.watched is not None and synced:
            await running.watched.synced.wait()
        yield Extender(running, session)


def node(name: str, version: str = "1", **more: Any) -> dict[str, Any]:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "10"}
    labels = {"kubernetes.io/hostname": name, **more.pop("labels", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "resourceVersion": version, "labels": labels},
        "status": {"allocatable": amounts, "capacity": amounts},
        **more,
    }


def pod(name: str = "web", *, on: str | None = None, cpu: str = "1", **spec: Any) -> dict[str, Any]:
    container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
    bound = {"nodeName": on} if on else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", "creationTimestamp": TIME},
        "spec": {"containers": [container], "schedulerName": "default-scheduler", **bound, **spec},
        "status": {"phase": "Pending"},
    }


def cluster(*names: str, pods: tuple[dict[str, Any], ...] = ()) -> InMemoryClient:
    """A client of a cluster with these nodes and pods."""
    return make_client(*(node(name) for name in names), *pods)


@filter_plugin
def no_c(_pod, node):
    return "c is out" if node.name == "c" else None
