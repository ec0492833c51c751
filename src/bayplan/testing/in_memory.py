"""An embedded API server without sockets for a test, and its client.

client = make_client(make_node("a"), make_pod("web"))
await client.bind("default", "web", "a")
"""

from __future__ import annotations

from typing import Any

from bayplan.core.api.kinds import (
    COMPOSITE_POD_GROUP,
    CUSTOM_RESOURCE_DEFINITION,
    NAMESPACE,
    NODE,
    POD,
    POD_GROUP,
    POD_GROUP_V1ALPHA2,
    PRIORITY_CLASS,
    Kind,
)
from bayplan.core.versions import OLDEST, FeatureGates, Version
from bayplan.foundations.clock import Clock
from bayplan.testing.documents import document_of
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.endpoints.decoding import FieldValidation, accept
from bayplan_devcluster.in_memory import InMemoryClient

_WITH_PRIORITY = {POD, POD_GROUP, POD_GROUP_V1ALPHA2, COMPOSITE_POD_GROUP}


def make_client(
    *objects: Any,
    clock: Clock | None = None,
    version: Version = OLDEST,
    gates: FeatureGates | None = None,
    **options: Any,
) -> InMemoryClient:
    """A client of a new API server that holds `objects` (see `load`). The `options` are those of `Client`.

    The server takes its timestamps from `clock`. It emulates a `version` of Kubernetes, with
    `gates` in place of those of the version.
    """
    client = InMemoryClient(ApiServer(address=None, version=version, alpha=True, gates=gates, clock=clock), **options)
    load(client.server, *objects)
    return client


def load(server: ApiServer, *objects: Any) -> None:
    """Create objects in any form that `document_of` accepts, and their namespaces.

    The server sets defaults and validates them. Like objects restored from a backup, they keep their status, uids and
    times, and nodes don't get the taint of new nodes. A priority without a class gets a new PriorityClass. Raises
    StatusError for an object that the server rejects.
    """
    for obj in objects:
        kind, document = document_of(obj)
        if not kind.model:
            kind = _defined(server, kind)
            document |= {"apiVersion": kind.api_version, "kind": kind.kind}
        if namespace := document["metadata"].get("namespace"):
            _ensure(server, NAMESPACE, namespace)
        spec = document.get("spec") or {}
        if kind in _WITH_PRIORITY and spec.get("priority") and not spec.get("priorityClassName"):
            value = spec["priority"]
            document["spec"] = spec | {"priorityClassName": f"priority-{value}"}
            _ensure(server, PRIORITY_CLASS, f"priority-{value}", value=value)
        _restore(server, kind, document)


def _defined(server: ApiServer, kind: Kind) -> Kind:
    """The custom kind as the server has it, which gets a definition that takes any fields if it has none."""
    found = server.storage.served.find(kind.group, kind.version, kind.plural)
    if found is None:
        name = kind.plural.capitalize()
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        version = {"name": kind.version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": kind.plural, "kind": name, "listKind": f"{name}List", "singular": name.lower()}
        spec = {"group": kind.group, "scope": "Namespaced", "names": names, "versions": [version]}
        definition = CUSTOM_RESOURCE_DEFINITION
        header = {"apiVersion": definition.api_version, "kind": definition.kind}
        server.load([header | {"metadata": {"name": kind.resource}, "spec": spec}])
        found = server.storage.served.find(kind.group, kind.version, kind.plural)
    assert found is not None, f"the server doesn't serve {kind.resource}"
    return found.kind


def _ensure(server: ApiServer, kind: Kind, name: str, **fields: Any) -> None:
    if name not in server.store.collection(kind.resource).objects:
        server.load([{"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}, **fields}])


def _restore(server: ApiServer, kind: Kind, document: dict[str, Any]) -> None:
    storage = server.storage
    resource = storage.served.of_kind(kind.api_version, kind.kind)
    assert resource is not None, f"the server has no {kind.kind}"
    metadata = document["metadata"]
    new = {**document, "metadata": {name: value for name, value in metadata.items() if name != "resourceVersion"}}
    namespace = metadata.get("namespace", "default") if kind.namespaced else ""
    created = storage.create(resource, namespace, accept(resource.schema, new, FieldValidation("Strict")), dry_run=True)
    restored = storage.decode(resource, created)
    restored["metadata"] |= {name: metadata[name] for name in _ASSIGNED if name in metadata}
    if status := document.get("status"):
        restored["status"] = restored.get("status", {}) | status
    if kind is NODE:
        restored["spec"]["taints"] = (document.get("spec") or {}).get("taints") or []
    storage.write(resource, restored)


_ASSIGNED = ("uid", "creationTimestamp", "deletionTimestamp")
"""Metadata that only the server assigns, else."""


def stored(server: ApiServer, kind: Kind) -> list[dict[str, Any]]:
    """The objects of a kind as documents, ordered by namespace and name."""
    header = {"apiVersion": kind.api_version, "kind": kind.kind}
    return [header | entry.load() for entry in server.store.collection(kind.resource).select()]
