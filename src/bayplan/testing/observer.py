"""Observes a cluster for a test: records every change of pods, nodes and events.

A test waits with `until` for what it expects, without sleeping, and then looks at the whole history.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import msgspec

from bayplan.core.api.kinds import EVENT, NODE, POD, Kind
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, TransportError

T = TypeVar("T")
Document = dict[str, Any]

PATIENCE = 100.0
"""Seconds that `until` waits for a condition. It only ends a test that hangs: a machine may be busy."""

_NOWHERE: Document = {"spec": {}}
_TRY_AGAIN_SECONDS = 0.1
_LOOK_SECONDS = 0.05
"""How often a condition is checked that may depend on more than the watched objects."""


@dataclass(frozen=True, slots=True)
class ObjectVersion:
    """One version of an object: `type` is ADDED, MODIFIED or DELETED."""

    type: str
    key: str
    object: Document

    @property
    def uid(self) -> str:
        """The uid of the object."""
        uid: str = self.object["metadata"]["uid"]
        return uid


class Observer:
    """Watches a cluster while it is entered. Give it a separate client without injected faults.

    Objects are plain documents, because a test may create objects that don't fit their types. After a restart of the
    server, the changes that were missed count as one, and deletions come before additions.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._views: dict[Kind, dict[str, Document]] = {kind: {} for kind in (POD, NODE, EVENT)}
        self._history: dict[Kind, list[ObjectVersion]] = {kind: [] for kind in self._views}
        self._changed = asyncio.Event()

    async def __aenter__(self) -> Self:
        versions = [await self._list(kind) for kind in self._views]
        self._watches = [
            asyncio.create_task(self._follow(kind, version), name=f"observer of {kind.plural}")
            for kind, version in zip(self._views, versions, strict=True)
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        for watch in self._watches:
            watch.cancel()
        outcomes = await asyncio.gather(*self._watches, return_exceptions=True)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    @property
    def pods(self) -> Mapping[str, Document]:
        """The current pods, by `namespace/name`."""
        return self._views[POD]

    @property
    def nodes(self) -> Mapping[str, Document]:
        """The current nodes, by name."""
        return self._views[NODE]

    @property
    def events(self) -> list[Document]:
        """The current events (of events.k8s.io), in the order in which they appeared."""
        return list(self._views[EVENT].values())

    def history(self, kind: Kind) -> list[ObjectVersion]:
        """All versions of the pods, nodes or events seen so far, in the server's order."""
        return self._history[kind]

    def node_of(self, key: str) -> str:
        """The node of a pod; "" if it is pending or doesn't exist."""
        node: str = self._views[POD].get(key, _NOWHERE)["spec"].get("nodeName") or ""
        return node

    def versions(self, key: str) -> list[Document]:
        """All versions of a pod."""
        return [change.object for change in self._history[POD] if change.key == key]

    def events_of(self, key: str, reason: str = "") -> list[Document]:
        """The events about a pod."""
        return [event for event in self.events if _regards(event, key) and reason in {"", event.get("reason")}]

    async def until(self, condition: Callable[[], T], *, within: float = PATIENCE) -> T:
        """Wait until `condition` returns a true value, and return that. It is called after every change and regularly.

        Raises AssertionError after `within` seconds. An assertion that fails in `condition` counts as false; the last
        one is part of the error.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + within
        while True:
            self._changed.clear()
            failed: AssertionError | None = None
            try:
                if result := condition():
                    return result
            except AssertionError as error:
                failed = error
            if clock() > deadline:
                raise AssertionError(f"not within {within:g} s: {failed or self.summary()}") from failed
            with suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_SECONDS):
                    await self._changed.wait()

    def summary(self) -> str:
        """The pods by node, and why the others are pending."""
        placed: dict[str, list[str]] = {}
        for key, pod in self.pods.items():
            placed.setdefault(pod["spec"].get("nodeName") or f"waiting: {_reason(pod)}", []).append(key)
        return "; ".join(f"{where}: {len(keys)} ({', '.join(keys[:3])}...)" for where, keys in sorted(placed.items()))

    async def _list(self, kind: Kind) -> str:
        page = await self._client.list(kind, decode=msgspec.json.decode)
        found = {_key(obj): obj for obj in page.items}
        view = self._views[kind]
        for key, old in list(view.items()):
            if key not in found or found[key]["metadata"]["uid"] != old["metadata"]["uid"]:
                self._note(kind, "DELETED", old)
        for obj in sorted(found.values(), key=_version):
            known = view.get(_key(obj))
            if known is None or _version(known) != _version(obj):
                self._note(kind, "ADDED" if known is None else "MODIFIED", obj)
        return page.resource_version

    async def _follow(self, kind: Kind, version: str) -> None:
        while True:
            try:
                version = version or await self._list(kind)
                watch = self._client.watch(kind, resource_version=version, decode=msgspec.json.decode)
                async with aclosing(watch):
                    async for change in watch:
                        version = change.resource_version
                        if change.type != "BOOKMARK":
                            self._note(kind, change.type, change.object)
            except (ApiError, TransportError) as error:
                if isinstance(error, ApiError) and error.status == 410:
                    version = ""
                await asyncio.sleep(_TRY_AGAIN_SECONDS)

    def _note(self, kind: Kind, change: str, obj: Document) -> None:
        key = _key(obj)
        if change == "DELETED":
            self._views[kind].pop(key, None)
        else:
            self._views[kind][key] = obj
        self._history[kind].append(ObjectVersion(change, key, obj))
        self._changed.set()


def condition_of(pod: Document, condition_type: str = "PodScheduled") -> Document | None:
    """A condition of a pod or node."""
    conditions: list[Document] = (pod.get("status") or {}).get("conditions") or []
    return next((condition for condition in conditions if condition["type"] == condition_type), None)


def _key(obj: Document) -> str:
    metadata = obj["metadata"]
    return f"{metadata['namespace']}/{metadata['name']}" if metadata.get("namespace") else str(metadata["name"])


def _version(obj: Document) -> int:
    return int(obj["metadata"]["resourceVersion"])


def _regards(event: Document, key: str) -> bool:
    regarding = event.get("regarding") or {}
    return f"{regarding.get('namespace')}/{regarding.get('name')}" == key


def _reason(pod: Document) -> str:
    for condition in pod.get("status", {}).get("conditions") or ():
        if condition["type"] == "PodScheduled":
            return condition.get("message") or condition.get("reason") or "no reason"
    return "no condition"
