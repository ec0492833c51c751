"""Stores of the other objects that plugins look up: services, claims, volumes, classes, device slices.

`ObjectStore.view` shares an index of a kind between plugins and profiles: free volumes by class and size, slices by
node and pool, allocations in flight. Mirrors client-go's listers, and util/assumecache for versions that are assumed
and not written yet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from bayplan.core.api.kinds import POD, Kind
from bayplan.foundations.shrinking import shrink

Listener = Callable[[Any, Any], None]
"""Called with the object as readers saw it before, and see it now; None where there is none."""
V = TypeVar("V")


class ObjectStore(Mapping[str, Any]):
    """The objects of one kind by `namespace/name` (or `name`).

    An object may be assumed: a version that was decided here and is being written. Readers see it until the API server
    reports a newer version, or `restore` is called.
    """

    def __init__(self) -> None:
        self.version = 0
        """Increases with every change."""
        self._known: dict[str, Any] = {}
        self._assumed: dict[str, Any] = {}
        self._listeners: list[Listener] = []
        self._views: dict[Callable[[ObjectStore], Any], Any] = {}

    def listen(self, listener: Listener) -> None:
        """Call a listener for every object, and for every change from now on, so that it can keep an index."""
        for obj in self.values():
            listener(None, obj)
        self._listeners.append(listener)

    def follow(self, listener: Listener) -> Callable[[], None]:
        """Call a listener for every change, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Call `wake` after every change while the context is open."""
        end = self.follow(lambda _before, _now: wake())
        try:
            yield
        finally:
            end()

    def view(self, make: Callable[[ObjectStore], V]) -> V:
        """Return `make(self)`, made at the first call and shared by all later ones: an index of the objects."""
        if make not in self._views:
            self._views[make] = make(self)
        return cast("V", self._views[make])

    def set(self, key: str, obj: Any) -> None:
        """Store an object as the API server reports it."""
        before = self.get(key)
        self._known[key] = obj
        assumed = self._assumed.get(key)
        if assumed is not None and _is_newer(obj, assumed):
            del self._assumed[key]
        self._changed(before, key)

    def remove(self, key: str) -> None:
        """Remove an object. Unknown keys are ignored."""
        before = self.get(key)
        if before is None:
            return
        self._known.pop(key, None)
        shrink(self._known)
        self._assumed.pop(key, None)
        self._changed(before, key)

    def assume(self, key: str, obj: Any) -> None:
        """Let readers see a version that is not written yet. Raises KeyError for an unknown object."""
        if key not in self._known:
            raise KeyError(key)
        before = self[key]
        self._assumed[key] = obj
        self._changed(before, key)

    def restore(self, key: str) -> None:
        """Undo `assume`."""
        before = self._assumed.pop(key, None)
        if before is not None:
            self._changed(before, key)

    def known(self, key: str) -> Any | None:
        """The object as the API server last reported it, whatever is assumed; None for an unknown one."""
        return self._known.get(key)

    def copied(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """The objects as the API server last reported them, and those that are assumed, in dicts of the caller's."""
        return self._known.copy(), self._assumed.copy()

    def __getitem__(self, key: str) -> Any:
        return self._assumed[key] if key in self._assumed else self._known[key]

    def get(self, key: str, default: Any = None) -> Any:
        """The object, or `default`. Unlike the inherited method, it raises no exception where there is none."""
        return self._assumed[key] if key in self._assumed else self._known.get(key, default)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def _changed(self, before: Any, key: str) -> None:
        self.version += 1
        for listener in tuple(self._listeners):
            listener(before, self.get(key))


class ObjectStores:
    """One store per kind, made at first use."""

    def __init__(self) -> None:
        self._stores: dict[Kind, ObjectStore] = {}
        self.version = 0
        """A number that increases with every change of an object that is not a pod."""

    def __getitem__(self, kind: Kind) -> ObjectStore:
        store = self._stores.get(kind)
        if store is None:
            store = self._stores[kind] = ObjectStore()
            if kind is not POD:
                store.listen(self._count)
        return store

    def _count(self, _before: object, _now: object) -> None:
        self.version += 1


def _is_newer(obj: Any, assumed: Any) -> bool:
    """Whether a reported version ends an assumption.

    The version that the assumption is based on does not: it may be reported again.
    """
    version = version_of(obj)
    return version == 0 or version > version_of(assumed)


def version_of(obj: Any) -> int:
    """The resource version as a number, as etcd has it; 0 for an object without one."""
    version = obj.metadata.resourceVersion if obj.metadata else None
    return int(version) if version and version.isdigit() else 0
