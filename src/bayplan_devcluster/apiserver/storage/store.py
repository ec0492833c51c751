"""The store, in place of etcd: encoded objects with a resource version, and a bounded history of changes per kind.

An object is encoded once, when it is written. Gets, lists and watches send these bytes; all other code decodes a new
copy, so stored objects are never shared or mutated.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, bisect_right, insort
from operator import attrgetter

from bayplan_devcluster.apiserver.encoding import decode, encode
from bayplan_devcluster.apiserver.schema import Object

_NONE: dict[str, str] = {}


class Entry:
    """One version of one object: its bytes, and what lists and watches select by."""

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
        if version:  # the object of a dry run keeps its version
            metadata["resourceVersion"] = str(version)
        self.version = version
        self.name: str = metadata["name"]
        self.namespace: str = metadata.get("namespace", "")
        self.key = key_of(self.namespace, self.name)
        self.uid: str = metadata["uid"]
        self.labels: dict[str, str] = metadata.get("labels") or _NONE
        self.fields = fields
        self.terminating = "deletionTimestamp" in metadata
        self.owners: tuple[str, ...] = tuple(
            dict.fromkeys(owner["uid"] for owner in metadata.get("ownerReferences", ()))
        )
        self.raw: bytes = encode(obj)
        """The object without `kind` and `apiVersion`, as a JSON object that is not empty."""
        self.converted: tuple[object, bytes] | None = None
        """The schema of the latest conversion, and the converted object: a cache."""

    def load(self) -> Object:
        """Returns a copy of the object, without `kind` and `apiVersion`."""
        obj: Object = decode(self.raw)
        return obj

    def at(self, version: int) -> Entry:
        """Returns the same state with another version."""
        return Entry(self.load(), version, self.fields)


CACHED_LINES = 1000
"""Changes per kind whose watch events stay cached; slow watches render older ones again."""


class StoreChange:
    """One step in the history of a kind."""

    __slots__ = ("converted", "entry", "line", "previous", "type", "version")

    def __init__(self, kind: str, entry: Entry, previous: Entry | None) -> None:
        self.type = kind
        """ADDED, MODIFIED or DELETED."""
        self.version = entry.version
        self.entry = entry
        """The new state; for DELETED, the last state with the version of the deletion."""
        self.previous = previous
        self.line: bytes | None = None
        """The change as a watch event: a cache."""
        self.converted: tuple[object, bytes] | None = None
        """The schema of the latest conversion, and the event with the converted object: a cache."""


class Collection:
    """All objects of one kind, ordered by key, and their recent history, ordered by version."""

    def __init__(self, capacity: int) -> None:
        self.objects: dict[str, Entry] = {}
        self.compacted = 0
        """The highest version after which changes may be missing from the history."""
        self._capacity = capacity
        self._history: list[StoreChange] = []
        self._keys: list[str] = []
        self._waiters: list[asyncio.Future[None]] = []

    def select(self, namespace: str = "", after: str = "") -> list[Entry]:
        """Returns the objects of a namespace ("" for all) whose keys are greater than `after`, in the order of keys."""
        keys = self._keys
        start, end = 0, len(keys)
        if namespace:
            start, end = bisect_left(keys, f"{namespace}/"), bisect_left(keys, f"{namespace}0")  # "0" follows "/"
        if after:
            start = max(start, bisect_right(keys, after))
        objects = self.objects
        return [objects[key] for key in keys[start:end]]

    def record(self, change: StoreChange) -> None:
        """Applies a change to the objects, adds it to the history, and wakes the waiting watches."""
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
        if len(history) > CACHED_LINES:
            stale = history[-CACHED_LINES - 1]
            stale.line = stale.converted = None
        if len(history) > self._capacity + self._capacity // 4:
            self.compact(len(history) - self._capacity)
        self.wake()

    def compact(self, count: int | None = None) -> None:
        """Drops the oldest `count` changes, by default all; watches from earlier versions get 410."""
        count = len(self._history) if count is None else count
        if count:
            self.compacted = self._history[count - 1].version
            del self._history[:count]

    def since(self, version: int, limit: int | None = None) -> list[StoreChange]:
        """Returns the changes after a version, at most the oldest `limit`."""
        start = bisect_right(self._history, version, key=attrgetter("version"))
        return self._history[start:] if limit is None else self._history[start : start + limit]

    @property
    def newest(self) -> int:
        """The version of the latest change in the history, 0 if it is empty."""
        return self._history[-1].version if self._history else 0

    async def wait(self, seconds: float) -> bool:
        """Waits for the next change, but not longer than `seconds`. Returns whether it was woken."""
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            done, _ = await asyncio.wait((waiter,), timeout=seconds)
            return bool(done)
        finally:
            if not waiter.done():
                self._waiters.remove(waiter)

    def wake(self) -> None:
        """Makes all calls of `wait` return."""
        if not self._waiters:
            return
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def key_of(namespace: str, name: str) -> str:
    """Returns the key of an object in its collection, which lists are sorted by."""
    return f"{namespace}/{name}" if namespace else name


class Store:
    """The collections, by resource, and the counter of versions that they share."""

    def __init__(self, history: int = 50_000) -> None:
        self.version = 1
        self.dependents: dict[str, set[tuple[str, str]]] = {}
        """By uid of the owner: (resource, key) of its dependents."""
        self.uids: dict[str, tuple[str, str]] = {}
        """By uid: (resource, key) of every object."""
        self.elsewhere: set[str] = set()
        """The uids of owners that restored objects have, and that were not restored."""
        self._history = history
        self._begin = 0
        self._collections: dict[str, Collection] = {}

    def collection(self, resource: str) -> Collection:
        """Returns the collection of a resource (`pods`, `leases.coordination.k8s.io`), new ones too."""
        found = self._collections.get(resource)
        if found is None:
            found = self._collections[resource] = Collection(self._history)
            found.compacted = self._begin
        return found

    def put(self, resource: str, obj: Object, fields: dict[str, str]) -> Entry:
        """Stores an object with a new version, and replaces the object with the same key, if there is one."""
        collection = self.collection(resource)
        self.version += 1
        entry = Entry(obj, self.version, fields)
        previous = collection.objects.get(entry.key)
        self._index(resource, entry, previous)
        collection.record(StoreChange("ADDED" if previous is None else "MODIFIED", entry, previous))
        return entry

    def restore(self, resource: str, obj: Object, fields: dict[str, str]) -> Entry:
        """Stores an object with the version that it has, in place of one with the same key. `begin` must follow."""
        collection = self.collection(resource)
        given = obj["metadata"].get("resourceVersion", "")
        version = int(given) if given.isdecimal() else self.version + 1
        entry = Entry(obj, version, fields)
        previous = collection.objects.get(entry.key)
        if previous is not None:
            self.uids.pop(previous.uid, None)
            self._remove_from_dependents(resource, previous)
        self._index(resource, entry, None)
        collection.record(StoreChange("ADDED" if previous is None else "MODIFIED", entry, previous))
        self.version = max(self.version, version)
        return entry

    def exists(self, uid: str) -> bool:
        """Whether there is an object with this uid, here or where restored objects come from."""
        return uid in self.uids or uid in self.elsewhere

    def remove(self, resource: str, obj: Object, fields: dict[str, str]) -> Entry:
        """Removes a stored object; `obj` is its last state. The returned entry has the version of the deletion."""
        collection = self.collection(resource)
        self.version += 1
        entry = Entry(obj, self.version, fields)
        previous = collection.objects[entry.key]
        self.uids.pop(entry.uid, None)
        self._remove_from_dependents(resource, previous)
        collection.record(StoreChange("DELETED", entry, previous))
        return entry

    def _index(self, resource: str, entry: Entry, previous: Entry | None) -> None:
        if previous is None:
            self.uids[entry.uid] = (resource, entry.key)
        elif previous.owners == entry.owners:
            return
        else:
            self._remove_from_dependents(resource, previous)
        for uid in entry.owners:
            self.dependents.setdefault(uid, set()).add((resource, entry.key))

    def _remove_from_dependents(self, resource: str, entry: Entry) -> None:
        for uid in entry.owners:
            dependents = self.dependents[uid]
            dependents.discard((resource, entry.key))
            if not dependents:
                del self.dependents[uid]

    def begin(self) -> None:
        """Lets the history begin with the current state: watches from earlier versions get 410."""
        self._begin = self.version
        for collection in self._collections.values():
            collection.compact()
            collection.compacted = self.version

    def compact(self) -> None:
        """Drops all history, as compaction of etcd does."""
        for collection in self._collections.values():
            collection.compact()

    def collections(self) -> list[tuple[str, Collection]]:
        """Returns all collections with their resources."""
        return list(self._collections.items())
