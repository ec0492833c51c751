"""Feeds: objects that plugins read and no API server has, such as metrics. A plugin's `background` puts them.

Decisions see them as they see watched objects: what is put has its effect between two attempts, and is recorded.
Where no scheduler runs, as for a question about a live cluster, the sources of a feed are asked instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import Kind
from bayplan.core.cluster.objects import ObjectStore


class FeedSink(Protocol):
    """What takes changes of objects in: the handlers of watches are such sinks, and a store of objects is one."""

    def put(self, key: str, new: CustomObject) -> None:
        """Take a new or changed object in."""

    def removed(self, key: str) -> None:
        """Take the deletion of an object in."""


class FeedError(Exception):
    """A source gave no object. The message says which one, and why, in one line."""


@dataclass(frozen=True, slots=True)
class FeedSource:
    """Where an object of a feed comes from. `name`: of the source; those of one feed that have one name are the same.

    `ask(client, now)`: returns the name of the object and its content, or raises FeedError. It may be called in any
    thread with an event loop, and changes nothing. `client`: of the cluster. A shadow records what each field of the
    content has under the name of a node.
    """

    name: str
    ask: Callable[[Any, datetime], Awaitable[tuple[str, Mapping[str, object]]]]


class Feed:
    """The objects of one kind that plugins put. `kind` has a version and a group of the plugins' own."""

    def __init__(self, kind: Kind, name: str, objects: ObjectStore) -> None:
        self.kind = kind
        self._name = name
        self.objects = objects
        """The objects by their keys. Decisions read these."""
        self.sink: FeedSink | None = None
        """What puts go through; None where no scheduler runs."""
        self.sources: list[FeedSource] = []
        """What is asked where no scheduler runs."""

    def get(self, name: str) -> CustomObject | None:
        """Return the object with this name. In a snapshot, its key may have a namespace."""
        found: CustomObject | None = self.objects.get(name) or self.objects.get(f"default/{name}")
        return found

    def made(self, name: str, content: Mapping[str, object]) -> CustomObject:
        """Return an object with `content`, which must be JSON, and metadata."""
        head = {"apiVersion": self.kind.api_version, "kind": self._name, "metadata": {"name": name, "uid": name}}
        return CustomObject({**head, **content})

    def put(self, name: str, content: Mapping[str, object]) -> None:
        """Replace the object with this name; see `made`."""
        new = self.made(name, content)
        if self.sink is None:
            self.objects.set(name, new)
        else:
            self.sink.put(name, new)

    def remove(self, name: str) -> None:
        """Remove an object. Unknown names are ignored."""
        if name not in self.objects:
            return
        if self.sink is None:
            self.objects.remove(name)
        else:
            self.sink.removed(name)
