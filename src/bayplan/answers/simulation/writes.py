"""StoreClient: an API client of the objects in memory, for what plugins write in PreBind. Every write is visible at
once.

What is written is undone with the world's other changes. A plugin that asks for an object that isn't there, or waits,
raises WouldWaitError: here, it would wait forever.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any, TypeVar

import msgspec

from bayplan.answers.simulation import volumes
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, Kind
from bayplan.core.cluster.objects import ObjectStores

T = TypeVar("T")

Put = Callable[[Kind, str, Any], None]
"""`(kind, key, obj)` stores an object; None for `obj` removes it."""


class WouldWaitError(Exception):
    """A plugin waits for something that never happens here."""


class StoreClient:
    """The verbs of bayplan.core.framework.handle.ApiClient that plugins use in PreBind, on stores in memory.

    It also does what the volume controller and the provisioners do afterwards: a volume or a claim that VolumeBinding
    writes is bound at once. What is written of pods is not kept. `made`: the keys of created objects, by the uid of
    their owner. `put` stores objects, by default in `objects`.
    """

    def __init__(self, objects: ObjectStores, put: Put | None = None) -> None:
        self.made: dict[str, list[tuple[Kind, str]]] = {}
        self._objects = objects
        self._put = put or self._store
        self._writes = 0

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Any:
        """Return an object. Raises WouldWaitError for one that is not known here, whether it exists or not."""
        key = _key(namespace, name)
        if key not in self._objects[kind]:
            raise WouldWaitError(f"reading {kind.kind} {key}")
        return self._objects[kind][key]

    async def create(self, kind: Kind, obj: Any, namespace: str | None = None) -> Any:
        """Create an object, with a name and a uid."""
        self._writes += 1
        created = copy.copy(obj)
        metadata = created.metadata = copy.copy(obj.metadata)
        metadata.name = metadata.name or f"{metadata.generateName}{self._writes}"
        metadata.namespace, metadata.uid = namespace or metadata.namespace, f"created-{self._writes}"
        key = _key(namespace, metadata.name)
        self._put(kind, key, created)
        for owner in metadata.ownerReferences or ():
            self.made.setdefault(owner.uid, []).append((kind, key))
        return created

    async def update(self, kind: Kind, obj: Any, subresource: str | None = None) -> Any:
        """Replace an object, or its status."""
        self._put(kind, _key(obj.metadata.namespace, obj.metadata.name), obj)
        return obj

    async def patch(
        self, kind: Kind, name: str, patch: Mapping[str, Any], namespace: str | None = None, **_: Any
    ) -> Any:
        """Patch a volume or a claim, and bind it. Raises WouldWaitError for other kinds but pods."""
        if kind is POD:
            return None
        if kind not in {PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM}:
            raise WouldWaitError(f"a patch of {kind.kind} {name}")
        key = _key(namespace, name)
        written = volumes.patched(self._objects[kind][key], patch)
        if kind is PERSISTENT_VOLUME:
            reference = written.spec.claimRef
            claim_key = f"{reference.namespace}/{reference.name}"
            volume, claim = volumes.bound(written, self._objects[PERSISTENT_VOLUME_CLAIM][claim_key])
        else:
            volume, claim = volumes.provisioned(written, self._objects)
        self._replace(PERSISTENT_VOLUME, volume)
        self._replace(PERSISTENT_VOLUME_CLAIM, claim)
        return volume if kind is PERSISTENT_VOLUME else claim

    async def delete(self, kind: Kind, name: str, namespace: str | None = None, **_: Any) -> None:
        """Delete an object."""
        self._put(kind, _key(namespace, name), None)

    def _replace(self, kind: Kind, obj: Any) -> None:
        """Store a version that is newer than any other, so that it ends an assumption."""
        self._writes += 1
        obj.metadata = msgspec.structs.replace(obj.metadata, resourceVersion=str(_NEWEST + self._writes))
        self._put(kind, _key(obj.metadata.namespace, obj.metadata.name), obj)

    def _store(self, kind: Kind, key: str, obj: Any) -> None:
        if obj is None:
            self._objects[kind].remove(key)
        else:
            self._objects[kind].set(key, obj)


_NEWEST = 10**18
NO_LOOP = "no running event loop"
"""What asyncio says to a coroutine that waits where nothing can be waited for."""


def finished(writing: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never waits, and return its result. Raises WouldWaitError for one that does."""
    try:
        writing.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    except RuntimeError as error:  # asyncio.sleep needs an event loop
        if NO_LOOP not in str(error):
            raise
    finally:
        with suppress(RuntimeError):  # it waits again while it is closed
            writing.close()
    raise WouldWaitError("waiting before a pod is bound")


def _key(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
