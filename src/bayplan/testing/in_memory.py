"""An embedded API server without sockets for a test, and its client.

client = make_client(make_node("a"), make_pod("web"))
await client.bind("default", "web", "a")
"""

from __future__ import annotations

from typing import Any

from bayplan.api.kinds import NODE
from bayplan.devcluster.apiserver import ApiServer, Clock
from bayplan.devcluster.in_memory import InMemoryClient
from bayplan.testing.documents import as_sent


def make_client(*objects: Any, clock: Clock | None = None, **options: Any) -> InMemoryClient:
    """A client of a new API server that holds `objects` (see `load`). The `options` are those of `Client`.

    `clock` gives the times that the server writes.
    """
    client = InMemoryClient(ApiServer(listen=False, alpha=True, clock=clock), **options)
    load(client.server, *objects)
    return client


def load(server: ApiServer, *objects: Any) -> None:
    """Creates objects in any form that `as_sent` takes, with their status, and the namespaces that they are in.

    The server validates them and assigns uids and times. Nodes accept pods at once: their not-ready taint is removed.
    Raises StatusError for an object that the server rejects.
    """
    namespaces = server.store.collection("namespaces").objects
    for obj in objects:
        kind, document = as_sent(obj, status=True)
        namespace = document["metadata"].get("namespace")
        if namespace and namespace not in namespaces:
            server.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
        server.load([{"apiVersion": kind.api_version, "kind": kind.kind, **document}])
        if kind is NODE:
            _remove_taint(server, document)


def stored(server: ApiServer, resource: str) -> list[dict[str, Any]]:
    """The objects of a resource (`pods`, `leases.coordination.k8s.io`), by namespace and name."""
    return [entry.load() for entry in server.store.collection(resource).select()]


def _remove_taint(server: ApiServer, document: dict[str, Any]) -> None:
    nodes = server.registry.served.of_kind("v1", "Node")
    assert nodes is not None
    node = server.registry.load(nodes, "", document["metadata"]["name"])
    taints = (document.get("spec") or {}).get("taints") or []
    server.registry.update(nodes, node, {**node, "spec": {**node["spec"], "taints": taints}})
