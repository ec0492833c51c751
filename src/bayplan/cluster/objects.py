"""Stores of the other objects that plugins look up: services, claims, volumes, classes, device slices.

Mirrors client-go's listers, and util/assumecache for what was decided but is not written yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from bayplan.api.kinds import Kind

Listener = Callable[[Any, Any], None]
"""Told what readers saw of an object before and see now, None where there was or is none."""
V = TypeVar("V")


class ObjectStore(Mapping[str, Any]):
    """The objects of one kind by `namespace/name` (or `name`), as far as they are known.

    An object may be assumed: a version that was decided here and is being written. It is what readers see until the
    server tells of a newer version, or the assumption is given up.
    """

    def __init__(self) -> None:
        self.version = 0
        """Grows with every change."""
        self._known: dict[str, Any] = {}
        self._assumed: dict[str, Any] = {}
        self._listeners: list[Listener] = []
        self._views: dict[Callable[[ObjectStore], Any], Any] = {}

    def listen(self, listener: Listener) -> None:
        """Have a listener told of every object that is known, and of every change from now on: to keep an index."""
        for obj in self.values():
            listener(None, obj)
        self._listeners.append(listener)

    def view(self, make: Callable[[ObjectStore], V]) -> V:
        """What `make` makes of this store: the same at every call, for all who look up things in a way of their own."""
        if make not in self._views:
            self._views[make] = make(self)
        return cast("V", self._views[make])

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Have `wake` called after every change, as long as the context lasts."""

        def listener(_before: Any, _now: Any) -> None:
            wake()

        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def set(self, key: str, obj: Any) -> None:
        """Take over what the server says."""
        before = self.get(key)
        self._known[key] = obj
        assumed = self._assumed.get(key)
        if assumed is not None and _is_newer(obj, assumed):
            del self._assumed[key]
        self._changed(before, key)

    def remove(self, key: str) -> None:
        """The object is gone."""
        before = self.get(key)
        self._known.pop(key, None)
        self._assumed.pop(key, None)
        self._changed(before, key)

    def assume(self, key: str, obj: Any) -> None:
        """Let readers see a version that is not written yet. Raises KeyError for an object that is not known."""
        if key not in self._known:
            raise KeyError(key)
        before = self[key]
        self._assumed[key] = obj
        self._changed(before, key)

    def restore(self, key: str) -> None:
        """Give up an assumption."""
        before = self._assumed.pop(key, None)
        if before is not None:
            self._changed(before, key)

    def known(self, key: str) -> Any | None:
        """What the server said last, whatever is assumed; None where it knows no such object."""
        return self._known.get(key)

    def __getitem__(self, key: str) -> Any:
        return self._assumed[key] if key in self._assumed else self._known[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def _changed(self, before: Any, key: str) -> None:
        self.version += 1
        for listener in tuple(self._listeners):
            listener(before, self.get(key))


class Objects:
    """One store a kind, made at first use."""

    def __init__(self) -> None:
        self._stores: dict[Kind, ObjectStore] = {}

    def __getitem__(self, kind: Kind) -> ObjectStore:
        store = self._stores.get(kind)
        if store is None:
            store = self._stores[kind] = ObjectStore()
        return store


def _is_newer(obj: Any, assumed: Any) -> bool:
    """Whether what the server says puts an end to an assumption.

    The version that the assumption was made of does not: servers repeat themselves.
    """
    version = version_of(obj)
    return version == 0 or version > version_of(assumed)


def version_of(obj: Any) -> int:
    """A resource version as a number: etcd's are, and an object that came from no server is older than any."""
    version = obj.metadata.resourceVersion if obj.metadata else None
    return int(version) if version and version.isdigit() else 0
