"""The resources that the server serves at the moment: the built-in ones, and custom ones while they are defined.

Requests, discovery, schemas, watches and the garbage collector look resources up here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bayplan_devcluster.apiserver.storage.resource import Resource


class ServedResources:
    """Resources by the names in requests, in owner references and of collections."""

    def __init__(self, built_in: Iterable[Resource]) -> None:
        self.revision = 0
        """Increases with each change of the set, which makes documents about it outdated."""
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._stored: dict[str, Resource] = {}
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._custom: dict[str, tuple[Sequence[Resource], bytes]] = {}
        for resource in built_in:
            self._add(resource)
            if resource.storage_kind is None:
                self._stored[resource.collection] = resource

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """Returns the resource that a request names."""
        return self._resources.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """Returns the resource that an object or an owner reference names."""
        return self._kinds.get((api_version, kind))

    def stored(self, collection: str) -> Resource | None:
        """Returns the resource in whose version a collection's objects are stored, None if it is not served."""
        return self._stored.get(collection)

    def is_current(self, resource: Resource) -> bool:
        """Whether a resource is still served, and unchanged."""
        kind = resource.kind
        return self._resources.get((kind.group, kind.version, kind.plural)) is resource

    def define(self, served: Sequence[Resource], stored: Resource, source: bytes) -> None:
        """Serves a custom resource in these versions, and no longer in any other.

        `stored` is the version in which objects are stored, which need not be served; `source` is the encoded
        definition. A built-in resource of the same name is not changed.
        """
        name = stored.collection
        self.withdraw(name)
        if name in self._stored:
            return
        self._stored[name] = stored
        self._custom[name] = ([resource for resource in served if self._add(resource)], source)
        self.revision += 1

    def source(self, collection: str) -> bytes | None:
        """Returns the encoded definition of a custom resource, None if it is not served."""
        return self._custom[collection][1] if collection in self._custom else None

    def withdraw(self, collection: str) -> None:
        """Stops serving a custom resource, if it is served."""
        if collection not in self._custom:
            return
        versions, _ = self._custom.pop(collection)
        for resource in versions:
            kind = resource.kind
            del self._resources[kind.group, kind.version, kind.plural]
            self._kinds.pop((kind.api_version, kind.kind), None)
        del self._stored[collection]
        self.revision += 1

    def _add(self, resource: Resource) -> bool:
        kind = resource.kind
        name = (kind.group, kind.version, kind.plural)
        if name in self._resources:
            return False
        self._resources[name] = resource
        self._kinds.setdefault((kind.api_version, kind.kind), resource)
        return True
