"""Reflector: a local copy of all objects of a kind, kept current by list and watch.

Mirrors client-go's tools/cache: a reflector with its store and its event handlers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeVar

from bayplan.core.api.kinds import Kind
from bayplan.running.client.client import Client
from bayplan.running.client.list_watch import ListWatch

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)


class Handler(Protocol[T_contra]):
    """Receives changes in order, on the event loop: it must be quick. An exception is logged and stops nothing."""

    def added(self, new: T_contra) -> None:
        """An object was created, or can be decoded at last."""

    def updated(self, old: T_contra, new: T_contra) -> None:
        """An object has changed. An object that replaces another of its name is `deleted` and `added`."""

    def deleted(self, old: T_contra) -> None:
        """An object was deleted; `old` is its last known version."""

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """A version of an object cannot be decoded. The last good version stays in the store."""


class Reflector(ListWatch[T]):
    """Keeps `store` equal to the objects of the API server, and reports every change to `handler`.

    `options`: those of ListWatch.
    """

    def __init__(self, client: Client, kind: Kind, handler: Handler[T], **options: Any) -> None:
        super().__init__(client, kind, self, **options)
        self._handler = handler
        self._store: dict[str, T] = {}

    @property
    def store(self) -> Mapping[str, T]:
        """The objects by `namespace/name`, or by name where the kind has no namespace."""
        return self._store

    def put(self, key: str, new: T) -> None:
        """Store an object, and tell the handler whether it is new."""
        old = self._store.get(key)
        self._store[key] = new
        if old is None:
            self._handler.added(new)
        else:
            self._handler.updated(old, new)

    def removed(self, key: str) -> None:
        """Remove an object, and give its last version to the handler."""
        self._handler.deleted(self._store.pop(key))

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """Tell the handler. The last good version stays in the store."""
        self._handler.undecodable(raw, error)
