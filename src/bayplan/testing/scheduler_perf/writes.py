"""What plugins write before a pod is bound, seen at once by everybody, as if there were a server and a watch."""

from __future__ import annotations

import copy
from collections.abc import Coroutine
from typing import Any, TypeVar

from bayplan.api.kinds import POD, Kind
from bayplan.cluster.objects import Objects
from bayplan.testing.scheduler_perf.templates import Unsupported

T = TypeVar("T")


class StoreClient:
    """An API client of the objects of a cluster in memory; of framework.handle.ApiClient, what plugins in PreBind use.

    What is written of pods is not kept. `made` are the keys of the objects that were created, by the uid of the owner.
    """

    def __init__(self, objects: Objects) -> None:
        self.made: dict[str, list[tuple[Kind, str]]] = {}
        self._objects = objects
        self._created = 0

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Any:
        """An object as it is."""
        return self._objects[kind][_key(namespace, name)]

    async def create(self, kind: Kind, obj: Any, namespace: str | None = None) -> Any:
        """Create an object, with a name and a uid."""
        self._created += 1
        created = copy.copy(obj)
        metadata = created.metadata = copy.copy(obj.metadata)
        metadata.name = metadata.name or f"{metadata.generateName}{self._created}"
        metadata.uid = f"created-{self._created}"
        key = _key(namespace, metadata.name)
        self._objects[kind].set(key, created)
        for owner in metadata.ownerReferences or ():
            self.made.setdefault(owner.uid, []).append((kind, key))
        return created

    async def update(self, kind: Kind, obj: Any, subresource: str | None = None) -> Any:
        """Replace an object, or its status."""
        self._objects[kind].set(_key(obj.metadata.namespace, obj.metadata.name), obj)
        return obj

    async def patch(self, kind: Kind, name: str, patch: Any, namespace: str | None = None, **_: Any) -> Any:
        """Take what is written of a pod. Raises Unsupported for other kinds, which nothing measured here patches."""
        if kind is not POD:
            raise Unsupported(f"a patch of {kind.kind} {name}")

    async def delete(self, kind: Kind, name: str, namespace: str | None = None) -> None:
        """Delete an object."""
        self._objects[kind].remove(_key(namespace, name))


def finished(writing: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that has nobody to wait for. Raises Unsupported for one that waits."""
    try:
        writing.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    writing.close()
    raise Unsupported("waiting before a pod is bound")


def _key(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
