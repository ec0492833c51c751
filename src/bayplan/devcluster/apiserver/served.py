"""The set of resources that the server serves now: the built-in ones for good, custom ones as long as they are defined.

This is the only place that knows: requests, discovery, schemas, watches and the garbage collector all ask here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from bayplan.devcluster.apiserver.resources import Resource


class Served:
    """Resources by what requests, owner references and collections call them."""

    def __init__(self, built_in: Iterable[Resource]) -> None:
        self.revision = 0
        """Rises with each change of the set: documents about it are good for one revision."""
        self._resources: dict[tuple[str, str, str], Resource] = {}
        self._stored: dict[str, Resource] = {}
        self._kinds: dict[tuple[str, str], Resource] = {}
        self._custom: dict[str, tuple[Sequence[Resource], bytes]] = {}
        for resource in built_in:
            self._add(resource)
            if resource.storage is None:
                self._stored[resource.stored_as] = resource

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._resources.values())

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource that a request names."""
        return self._resources.get((group, version, plural))

    def of_kind(self, api_version: str, kind: str) -> Resource | None:
        """The resource that an object or an owner reference names."""
        return self._kinds.get((api_version, kind))

    def stored(self, collection: str) -> Resource | None:
        """The resource in whose version a collection's objects are stored; None once it is served no more."""
        return self._stored.get(collection)

    def is_current(self, resource: Resource) -> bool:
        """Whether a resource that was looked up earlier is still served, and in the same way."""
        kind = resource.kind
        return self._resources.get((kind.group, kind.version, kind.plural)) is resource

    def define(self, served: Sequence[Resource], stored: Resource, source: bytes) -> None:
        """Serves a custom resource in these versions, in place of those in which it was served before.

        `stored` is the version of its storage, which need not be served; `source` is what it was defined by. What is
        built in stays as it is.
        """
        name = stored.stored_as
        self.withdraw(name)
        if name in self._stored:
            return
        self._stored[name] = stored
        self._custom[name] = ([resource for resource in served if self._add(resource)], source)
        self.revision += 1

    def source(self, collection: str) -> bytes | None:
        """What a custom resource was defined by; None if it is not served."""
        return self._custom[collection][1] if collection in self._custom else None

    def withdraw(self, collection: str) -> None:
        """Ceases to serve a custom resource, if it is served."""
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
