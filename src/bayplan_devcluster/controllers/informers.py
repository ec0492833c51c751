"""Shared views of the API: one reflector per kind for all controllers.

After a write, a controller waits until the view has it, so that the next sync of the key starts from its own writes.
Objects in a view are shared: don't change them.
"""

from __future__ import annotations

import asyncio
import contextlib
import heapq
import itertools
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from bayplan.core.api.kinds import Kind
from bayplan.running.client.client import Client
from bayplan.running.client.reflector import Reflector

Listener = Callable[[Any, Any], None]
"""Called with the old object (None if it is new) and the new object (None if it was deleted)."""

OBSERVATION_TIMEOUT = 10.0
"""Real seconds to wait for a write to appear in the view."""

log = logging.getLogger(__name__)

T = TypeVar("T")


class Informer:
    """The objects of one kind, by "namespace/name" or "name"."""

    def __init__(self, client: Client, kind: Kind) -> None:
        self.kind = kind
        self._reflector: Reflector[Any] = Reflector(client, kind, self)
        self._listeners: list[Listener] = []
        self._latest = 0
        self._order = itertools.count()
        self._versions: list[tuple[int, int, asyncio.Future[None]]] = []
        self._removals: dict[str, asyncio.Future[None]] = {}

    @property
    def objects(self) -> Mapping[str, Any]:
        """All objects by key."""
        store: Mapping[str, Any] = self._reflector.store
        return store

    @property
    def synced(self) -> asyncio.Event:
        """Set once the first complete list is in the view."""
        return self._reflector.synced

    def get(self, key: str) -> Any | None:
        """The object; None if there is none."""
        return self._reflector.store.get(key)

    def listen(self, listener: Listener) -> None:
        """Call `listener` for every existing object and for every change from now on."""
        self._listeners.append(listener)
        for known in tuple(self.objects.values()):
            listener(None, known)

    def leave(self, listener: Listener) -> None:
        """Stop calling `listener`."""
        self._listeners.remove(listener)

    def index(self, values: Callable[[Any], Iterable[Hashable]]) -> Index:
        """An index of the objects by the values that the function returns for them."""
        index = Index(values)
        self.listen(index.change)
        return index

    async def run(self) -> None:
        """Keep the view up to date until cancelled."""
        await self._reflector.run()

    async def observe(self, written: Iterable[Any]) -> None:
        """Wait until the view has these objects, as returned by the server, or later versions.

        Terminating objects are skipped: the write may have deleted them, and the view has no versions of deleted
        objects.
        """
        lasting = (one.metadata for one in written if one.metadata.deletionTimestamp is None)
        version = max((int(metadata.resourceVersion) for metadata in lasting), default=0)
        if version > self._latest:
            reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._versions, (version, next(self._order), reached))
            await _wait([reached])

    async def observe_deletions(self, deleted: Iterable[Any]) -> None:
        """Wait until these objects are terminating or absent in the view."""
        waits = []
        for one in deleted:
            known = self.get(key_of(one))
            if known is None or known.metadata.uid != one.metadata.uid or known.metadata.deletionTimestamp is not None:
                continue
            uid = one.metadata.uid
            if uid not in self._removals:
                self._removals[uid] = asyncio.get_running_loop().create_future()
            waits.append(self._removals[uid])
        await _wait(waits)

    def added(self, new: Any) -> None:
        """Tell the listeners about a new object."""
        self._change(None, new)

    def updated(self, old: Any, new: Any) -> None:
        """Tell the listeners about both versions."""
        self._change(old, new)

    def deleted(self, old: Any) -> None:
        """Tell the listeners about the last version."""
        self._change(old, None)

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Log it. The last good version stays."""
        log.warning("ignoring an object of %s that can't be decoded: %s", self.kind.resource, error)

    def _change(self, old: Any, new: Any) -> None:
        for listener in tuple(self._listeners):
            listener(old, new)
        self._tell(old, new)

    def _tell(self, old: Any, new: Any) -> None:
        current = latest(old, new)
        with contextlib.suppress(
            ValueError
        ):  # resource versions are opaque by contract; without a number, only the timeout ends the wait
            self._latest = max(self._latest, int(current.metadata.resourceVersion or 0))
        while self._versions and self._versions[0][0] <= self._latest:
            _release(heapq.heappop(self._versions)[2])
        if new is None or new.metadata.deletionTimestamp is not None:
            waiting = self._removals.pop(current.metadata.uid, None)
            if waiting is not None:
                _release(waiting)


class Index:
    """An index of objects by value, kept up to date by an informer."""

    def __init__(self, values: Callable[[Any], Iterable[Hashable]]) -> None:
        self._values = values
        self._objects: dict[Hashable, dict[str, Any]] = {}

    def get(self, value: Hashable) -> list[Any]:
        """The objects with the value."""
        return list(self._objects.get(value, {}).values())

    def count(self, value: Hashable) -> int:
        """The number of objects with the value."""
        return len(self._objects.get(value, ()))

    def change(self, old: Any, new: Any) -> None:
        """Apply a change."""
        if old is not None:
            for value in self._values(old):
                group = self._objects.get(value)
                if group is not None and group.pop(key_of(old), None) is not None and not group:
                    del self._objects[value]
        if new is not None:
            for value in self._values(new):
                self._objects.setdefault(value, {})[key_of(new)] = new


class Informers:
    """One informer per kind, created on first use."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._informers: dict[Kind, Informer] = {}

    def of(self, kind: Kind) -> Informer:
        """The view of a kind."""
        if kind not in self._informers:
            self._informers[kind] = Informer(self._client, kind)
        return self._informers[kind]

    async def run(self) -> None:
        """Keep all requested views up to date until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for kind, informer in self._informers.items():
                tasks.create_task(informer.run(), name=f"informer {kind.plural}")


def key_of(obj: Any) -> str:
    """The key of an object: "namespace/name", or "name" without a namespace."""
    metadata = obj.metadata
    return f"{metadata.namespace}/{metadata.name}" if metadata.namespace else str(metadata.name)


def latest(old: T | None, new: T | None) -> T:
    """Of a change, the new object, or the deleted one."""
    found = new if new is not None else old
    assert found is not None
    return found


async def _wait(futures: list[asyncio.Future[None]]) -> None:
    if futures:
        _, missing = await asyncio.wait(futures, timeout=OBSERVATION_TIMEOUT)
        if missing:
            log.debug("%d writes didn't appear in the view within %g s", len(missing), OBSERVATION_TIMEOUT)


def _release(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
