"""The objects of an `InProcessClient`, their versions, and those who watch them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.api.labels import FieldSelector, LabelSelector

Document = dict[str, Any]
"""An object as JSON has it. Documents in the history are never changed, only replaced."""


@dataclass(frozen=True, slots=True)
class Scope:
    """What a list or a watch is about."""

    kind: Kind
    namespace: str | None
    labels: LabelSelector
    fields: FieldSelector

    def selects(self, kind: Kind, document: Document | None) -> bool:
        """Whether it is about this object; never about an object that is not there."""
        if document is None or kind != self.kind:
            return False
        metadata = document["metadata"]
        if self.namespace is not None and metadata.get("namespace") != self.namespace:
            return False
        fields = {name: _at(document, name) for name, _, _ in self.fields.terms}
        return self.labels.matches(metadata.get("labels") or {}) and self.fields.matches(fields)


@dataclass(frozen=True, slots=True)
class Change:
    """An object before and after a version; None where it is not there."""

    version: int
    kind: Kind
    old: Document | None
    new: Document | None


class History:
    """Objects with their past since the last compaction. Every change makes a version."""

    def __init__(self) -> None:
        self.version = 1
        self._objects: dict[tuple[Kind, str | None, str], Document] = {}
        self._changes: list[Change] = []
        self._oldest = 1
        self._news = asyncio.Event()
        self._endings = 0
        self._ending: Exception | None = None

    def get(self, kind: Kind, namespace: str | None, name: str) -> Document | None:
        """The object, if it is there."""
        return self._objects.get((kind, namespace if kind.namespaced else None, name))

    def select(self, scope: Scope) -> list[Document]:
        """The objects of a scope by namespace and name, as a server lists them."""
        found = [document for key, document in self._objects.items() if scope.selects(key[0], document)]
        return sorted(
            found, key=lambda document: (document["metadata"].get("namespace", ""), document["metadata"]["name"])
        )

    def put(self, kind: Kind, document: Document) -> Document:
        """Makes `document` the newest version of its object."""
        metadata = document["metadata"] | {"resourceVersion": str(self.version + 1)}
        new = document | {"metadata": metadata}
        key = kind, metadata.get("namespace"), metadata["name"]
        self._record(kind, self._objects.get(key), new)
        self._objects[key] = new
        return new

    def remove(self, kind: Kind, document: Document) -> Document:
        """Takes an object away and returns it as it is told to those who watch."""
        metadata = document["metadata"]
        del self._objects[kind, metadata.get("namespace"), metadata["name"]]
        self._record(kind, document, None)
        return document

    def compact(self) -> None:
        """Forgets the past."""
        self._changes.clear()
        self._oldest = self.version
        self._wake()

    def end_watches(self, error: Exception | None) -> None:
        """Ends all watches once they have told all, with `error` if there is one."""
        self._endings += 1
        self._ending = error
        self._wake()

    async def watch(
        self, scope: Scope, since: int | None, seconds: float | None, *, bookmarks: bool
    ) -> AsyncGenerator[Document, None]:
        """The events since a version (None: first what is there), for `seconds` at most."""
        endings = self._endings
        loop = asyncio.get_running_loop()
        end = None if seconds is None else loop.time() + seconds
        if since is None:
            since = self.version
            for document in self.select(scope):
                yield {"type": "ADDED", "object": document}
        while True:
            news = self._news
            if since < self._oldest:
                yield _EXPIRED
                return
            for change in self._changes[max(0, since - self._oldest) :]:
                if (event := _event(scope, change)) is not None:
                    yield event
                since = change.version
            if self._endings > endings:
                break
            try:
                async with asyncio.timeout_at(end):
                    await news.wait()
            except TimeoutError:
                if bookmarks:
                    kind = {"kind": scope.kind.kind, "apiVersion": scope.kind.api_version}
                    yield {"type": "BOOKMARK", "object": kind | {"metadata": {"resourceVersion": str(since)}}}
                return
        if self._ending is not None:
            raise self._ending

    def _record(self, kind: Kind, old: Document | None, new: Document | None) -> None:
        self.version += 1
        self._changes.append(Change(self.version, kind, old, new))
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


_EXPIRED = {
    "type": "ERROR",
    "object": {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "message": "too old resource version",
        "reason": "Expired",
        "code": 410,
    },
}


def _event(scope: Scope, change: Change) -> Document | None:
    """What a change is to those who see no more than a scope: leaving it looks like a deletion."""
    before, after = scope.selects(change.kind, change.old), scope.selects(change.kind, change.new)
    if after:
        return {"type": "MODIFIED" if before else "ADDED", "object": change.new}
    if not before or change.old is None:
        return None
    gone = change.new or change.old
    metadata = gone["metadata"] | {"resourceVersion": str(change.version)}
    return {"type": "DELETED", "object": gone | {"metadata": metadata}}


def _at(document: Document, path: str) -> str:
    value: Any = document
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return "" if value is None else str(value)
