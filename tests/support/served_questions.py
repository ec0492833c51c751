"""A served cluster, and a client with its token."""

import io
import json
from contextlib import asynccontextmanager

import aiohttp

from bayplan.faces.asking.sources import FileSource
from bayplan.faces.serve.server import serving
from bayplan.insight import Insight, Snapshot

ZONE = "topology.kubernetes.io/zone"


def node(name, cpu="4", zone="zone-a", unschedulable=False, labels=()):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, ZONE: zone, **dict(labels)}},
        "spec": {"unschedulable": unschedulable},
        "status": {"allocatable": {"cpu": cpu, "memory": "16Gi", "pods": "110"}},
    }


def pod(name, cpu="1", node="", owner="", **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": {"app": name.partition("-")[0]}}
    if owner:
        reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **({"nodeName": node} if node else {}), **spec},
        "status": {"phase": "Running" if node else "Pending"},
    }


def new_pod(name, cpu="1", **spec):
    """A manifest of a pod."""
    found = pod(name, cpu, **spec)
    del found["status"], found["metadata"]["uid"]
    return found


def small_cluster():
    yield node("node-a1")
    yield node("node-a2", unschedulable=True)
    yield node("node-b1", zone="zone-b", cpu="8", labels={"pool": "big"})
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}
    spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
    metadata = {"name": "web", "namespace": "default", "uid": "web"}
    yield {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata, "spec": spec}
    yield pod("web-0", "3", node="node-a1", owner="web")
    yield pod("web-1", "500m", node="node-b1", owner="web")
    yield pod("big-0", "9")
    yield pod("pinned-0", "100m", nodeSelector={"disk": "nvme"})


class Client:
    """A client of a server. `token`: what its requests have."""

    def __init__(self, session, url, token):
        self.session, self.url, self.token = session, url, token

    def send(self, method, path, body=None, **headers):
        """The context of a response to a request with a JSON body."""
        given = {"Authorization": f"Bearer {self.token}", **{key.replace("_", "-"): headers[key] for key in headers}}
        data = None if body is None else io.BytesIO(json.dumps(body).encode())  # aiohttp warns of large bytes
        types = {} if body is None else {"Content-Type": "application/json"}
        return self.session.request(method, self.url + path, data=data, headers={**types, **given})

    async def call(self, method, path, body=None, status=200, **headers):
        """The JSON of a response with this status, or one of these, which is one line."""
        async with self.send(method, path, body, **headers) as response:
            text = await response.text()
            assert response.status in (status if isinstance(status, tuple) else (status,)), text
            assert response.content_type == "application/json"
            assert text.endswith("\n")
            assert text.count("\n") == 1
            return json.loads(text)

    async def ask(self, name, status=200, **parameters):
        """The answer to a question."""
        return await self.call("POST", f"/v1/questions/{name}", parameters, status)


@asynccontextmanager
async def served(source, **options):
    """A client of a server about a source."""

    def make():
        return Insight(Snapshot())

    async with serving(source, make(), make, **options) as (url, token), aiohttp.ClientSession() as session:
        yield Client(session, url, token)


def served_objects(*objects, **options):
    return served(FileSource(Snapshot.of(objects, source="file cluster.yaml")), **options)
