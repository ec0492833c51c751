"""An embedded API server without sockets for a test, and its client.

client = make_client(make_node("a"), make_pod("web"))
await client.bind("default", "web", "a")
"""

from __future__ import annotations

from typing import Any

from bayplan.api.kinds import NAMESPACE, NODE, Kind
from bayplan.devcluster.apiserver import ApiServer, Clock
from bayplan.devcluster.in_memory import InMemoryClient
from bayplan.testing.documents import as_sent, document_of, key_of


def make_client(*objects: Any, clock: Clock | None = None, **options: Any) -> InMemoryClient:
    """A client of a new API server that holds `objects` (see `load`). The `options` are those of `Client`.

    `clock` gives the times that the server writes.
    """
    client = InMemoryClient(ApiServer(listen=False, alpha=True, clock=clock), **options)
    load(client.server, *objects)
    return client


def load(server: ApiServer, *objects: Any) -> None:
    """Creates objects in any form that `document_of` takes, with their status, and the namespaces that they are in.

    The server validates them and sets defaults. They keep their uids and creation times, as from a backup, and nodes
    accept pods at once: they don't carry the taint of new nodes. Raises StatusError for an object that is rejected.
    """
    namespaces = server.store.collection(NAMESPACE.resource).objects
    for obj in objects:
        kind, document = document_of(obj)
        namespace = document["metadata"].get("namespace")
        if namespace and namespace not in namespaces:
            server.load([{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}])
        _, new = as_sent(obj, status=True)
        server.load([{"apiVersion": kind.api_version, "kind": kind.kind, **new}])
        _restore(server, kind, document)


def _restore(server: ApiServer, kind: Kind, document: dict[str, Any]) -> None:
    """Gives a new object what only the server may set."""
    store = server.store
    entry = store.collection(kind.resource).objects[key_of(kind, document)]
    restored = entry.load()
    for name in ("uid", "creationTimestamp", "deletionTimestamp"):
        if name in document["metadata"]:
            restored["metadata"][name] = document["metadata"][name]
    if kind is NODE:
        restored["spec"]["taints"] = (document.get("spec") or {}).get("taints") or []
    store.remove(kind.resource, entry.load(), entry.fields)
    store.put(kind.resource, restored, entry.fields)


def stored(server: ApiServer, kind: Kind) -> list[dict[str, Any]]:
    """The objects of a kind as documents, ordered by namespace and name."""
    header = {"apiVersion": kind.api_version, "kind": kind.kind}
    return [header | entry.load() for entry in server.store.collection(kind.resource).select()]
