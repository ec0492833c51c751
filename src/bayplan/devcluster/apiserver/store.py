"""The server's storage: objects as encoded bytes under a resource version, and a bounded history of changes per kind.

An object is encoded once, when it is written; get, list and every watch join those same bytes, and whoever wants to
look inside decodes a fresh copy. So nothing that is stored is ever shared or mutated. State lives in memory.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort

from bayplan.devcluster.apiserver.encoding import decode, encode
from bayplan.devcluster.apiserver.schema import Object

_NONE: dict[str, str] = {}


class Entry:
    """One version of one object: what lists and watches select by, and the object's bytes."""

    __slots__ = (
        "converted",
        "fields",
        "key",
        "labels",
        "name",
        "namespace",
        "owners",
        "raw",
        "terminating",
        "uid",
        "version",
    )

    def __init__(self, obj: Object, version: int, fields: dict[str, str]) -> None:
        metadata = obj["metadata"]
        if version:  # a dry run's object keeps the version that it had, if it had one
            metadata["resourceVersion"] = str(version)
        self.version = version
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace", "")
        self.key = key_of(self.namespace, self.name)
        self.uid: str = metadata["uid"]
        self.labels: dict[str, str] = metadata.get("labels") or _NONE
        self.fields = fields
        self.terminating = "deletionTimestamp" in metadata
        self.owners: tuple[str, ...] = tuple(owner["uid"] for owner in metadata.get("ownerReferences", ()))
        self.raw: bytes = encode(obj)
        """The object without `kind` and `apiVersion`, as a JSON object that is not empty."""
        self.converted: tuple[object, bytes] | None = None
        """A conversion, and what it made of the object: the last one that somebody asked for."""

    def load(self) -> Object:
        """A fresh copy of the object, without `kind` and `apiVersion`."""
        obj: Object = decode(self.raw)
        return obj

    def at(self, version: int) -> Entry:
        """The same state under another version."""
        return Entry(self.load(), version, self.fields)


LINES_KEPT = 1000
"""For how many changes of a kind the lines of watches are kept; older ones are rendered anew for who lags behind."""


class Change:
    """One step in the history of a kind."""

    __slots__ = ("converted", "entry", "line", "previous", "type", "version")

    def __init__(self, kind: str, entry: Entry, previous: Entry | None) -> None:
        self.type = kind
        """ADDED, MODIFIED or DELETED."""
        self.version = entry.version
        self.entry = entry
        """What the object became; for DELETED, its last state under the version of the deletion."""
        self.previous = previous
        self.line: bytes | None = None
        """The change as a line of a watch, once somebody watches."""
        self.converted: tuple[object, bytes] | None = None
        """A conversion, and the line of the object that it made."""


class Collection:
    """All objects of one kind, ordered by key, and their recent history, ordered by version."""

    def __init__(self, capacity: int) -> None:
        self.objects: dict[str, Entry] = {}
        self.compacted = 0
        """The highest version whose successor may be missing from the history."""
        self._capacity = capacity
        self._history: list[Change] = []
        self._keys: list[str] = []
        self._waiters: list[asyncio.Future[None]] = []

    def select(self, namespace: str = "", after: str = "") -> list[Entry]:
        """The objects of a namespace (of all with ""), by key, those behind the key `after` only."""
        keys = self._keys
        start, end = 0, len(keys)
        if namespace:
            start, end = bisect_left(keys, f"{namespace}/"), bisect_left(keys, f"{namespace}0")  # "0" follows "/"
        if after:
            start = max(start, bisect_right(keys, after))
        objects = self.objects
        return [objects[key] for key in keys[start:end]]

    def record(self, change: Change) -> None:
        """Makes a change the newest: in the objects, in the history, and known to who waits."""
        entry, previous = change.entry, change.previous
        if change.type == "DELETED":
            del self.objects[entry.key]
            del self._keys[bisect_left(self._keys, entry.key)]
        else:
            if previous is None:
                insort(self._keys, entry.key)
            self.objects[entry.key] = entry
        history = self._history
        history.append(change)
        if len(history) > LINES_KEPT:
            stale = history[-LINES_KEPT - 1]
            stale.line = stale.converted = None
        if len(history) > self._capacity + self._capacity // 4:
            self.compact(len(history) - self._capacity)
        self.wake()

    def compact(self, count: int | None = None) -> None:
        """Forgets the oldest `count` changes, by default all: watches from before get 410."""
        count = len(self._history) if count is None else count
        if count:
            self.compacted = self._history[count - 1].version
            del self._history[:count]

    def since(self, version: int, limit: int | None = None) -> list[Change]:
        """The changes after a version, the oldest `limit` of them."""
        start = bisect_right(self._history, version, key=_version_of)
        return self._history[start:] if limit is None else self._history[start : start + limit]

    @property
    def newest(self) -> int:
        """The version of the last change that is held, 0 if none is."""
        return self._history[-1].version if self._history else 0

    async def wait(self, seconds: float) -> None:
        """Returns at the next change, or when the time is up."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await asyncio.wait((waiter,), timeout=seconds)
        finally:
            if not waiter.done():
                self._waiters.remove(waiter)

    def wake(self) -> None:
        """Lets everybody who waits look again."""
        if not self._waiters:
            return
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _version_of(change: Change) -> int:
    return change.version


def key_of(namespace: str, name: str) -> str:
    """The key of an object in its collection, and the order of lists."""
    return f"{namespace}/{name}" if namespace else name


class Store:
    """The collections, and the one counter of versions above them."""

    def __init__(self, history: int = 50_000) -> None:
        self.version = 1
        self.dependents: dict[str, set[tuple[str, str]]] = {}
        """(resource, key) of the objects that an owner reference ties to the object with this uid."""
        self.uids: dict[str, tuple[str, str]] = {}
        """(resource, key) of every object that exists, by uid."""
        self._history = history
        self._collections: dict[str, Collection] = {}

    def collection(self, resource: str) -> Collection:
        """The collection of a resource (`pods`, `leases.coordination.k8s.io`)."""
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(self._history)
        return found

    def put(self, resource: str, obj: Object, fields: dict[str, str]) -> Entry:
        """Stores the object under a new version, in place of the one of its key if there is one."""
        collection = self.collection(resource)
        self.version += 1
        entry = Entry(obj, self.version, fields)
        previous = collection.objects.get(entry.key)
        self._index(resource, entry, previous)
        collection.record(Change("ADDED" if previous is None else "MODIFIED", entry, previous))
        return entry

    def remove(self, resource: str, obj: Object, fields: dict[str, str]) -> Entry:
        """Removes an object that is stored; `obj` is its last state. The answer carries the deletion's version."""
        collection = self.collection(resource)
        self.version += 1
        entry = Entry(obj, self.version, fields)
        previous = collection.objects[entry.key]
        self.uids.pop(entry.uid, None)
        self._disown(resource, previous)
        collection.record(Change("DELETED", entry, previous))
        return entry

    def _index(self, resource: str, entry: Entry, previous: Entry | None) -> None:
        if previous is None:
            self.uids[entry.uid] = (resource, entry.key)
        elif previous.owners == entry.owners:
            return
        else:
            self._disown(resource, previous)
        for uid in entry.owners:
            self.dependents.setdefault(uid, set()).add((resource, entry.key))

    def _disown(self, resource: str, entry: Entry) -> None:
        for uid in entry.owners:
            tied = self.dependents[uid]
            tied.discard((resource, entry.key))
            if not tied:
                del self.dependents[uid]

    def compact(self) -> None:
        """Forgets all history, as etcd's compaction does."""
        for collection in self._collections.values():
            collection.compact()

    def collections(self) -> list[tuple[str, Collection]]:
        """Every collection that has been used, by resource."""
        return list(self._collections.items())
