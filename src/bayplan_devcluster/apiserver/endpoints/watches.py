"""Watches: the initial objects, the changes after a resource version, and bookmarks.

A watch is a cursor in its kind's history. It buffers nothing, so a slow client costs no memory, and a client that falls
behind the history gets 410. Mirrors apiserver's pkg/storage/cacher and pkg/endpoints/handlers/watch.go.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

from bayplan.core.api.field_errors import forbidden
from bayplan.core.api.status import expired, future_version
from bayplan_devcluster.apiserver.encoding import encode
from bayplan_devcluster.apiserver.endpoints.lists import Selection, bad_options, candidates, read_integer, read_version
from bayplan_devcluster.apiserver.endpoints.rendering import Renderer
from bayplan_devcluster.apiserver.storage.resource import Resource
from bayplan_devcluster.apiserver.storage.rest_storage import RestStorage
from bayplan_devcluster.apiserver.storage.store import StoreChange

BOOKMARK_SECONDS = 60.0
LAST_BOOKMARK_SECONDS = 2.0
"""How long before the end of a watch the last bookmark is sent, so that the next watch begins at a recent version."""
EVENTS_AT_ONCE = 1000
"""The largest number of events that are sent at once."""


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """The start and the end of a watch."""

    start: int
    """The version after which it starts."""
    initial: bool
    """Whether it starts with the existing objects."""
    initial_end: bool
    """Whether a bookmark follows the existing objects."""
    bookmarks: bool
    seconds: float
    """The longest time that it lasts."""


def read_watch(storage: RestStorage, query: Mapping[str, str], seconds: float) -> WatchOptions:
    """Reads the options of a watch. Without a timeout in the query, it lasts `seconds`. Raises StatusError."""
    text, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    wants_initial = query.get("sendInitialEvents")
    version = read_version(text)
    if wants_initial is not None and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise bad_options(forbidden("resourceVersionMatch", detail))
    if wants_initial is None and match:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise bad_options(forbidden("resourceVersionMatch", detail))
    if version > storage.store.version:
        raise future_version(version, storage.store.version)
    bookmarks = _true(query.get("allowWatchBookmarks"))
    asked_for_all = _true(wants_initial)
    timeout = read_integer(query.get("timeoutSeconds", ""))
    return WatchOptions(
        start=version,
        initial=asked_for_all or (wants_initial is None and version == 0),
        initial_end=asked_for_all and bookmarks,
        bookmarks=bookmarks,
        seconds=float(timeout) if timeout > 0 else seconds,
    )


def _true(text: str | None) -> bool:
    return text in {"true", "1", "True"}


async def watch(
    storage: RestStorage,
    resource: Resource,
    selection: Selection,
    options: WatchOptions,
    renderer: Renderer,
    limit: float | None = None,
) -> AsyncGenerator[bytes, None]:
    """The lines of a watch, several at once where they are available. It lasts `limit` seconds at most."""
    collection = storage.collection(resource)
    loop = asyncio.get_running_loop()
    ends = loop.time() + (options.seconds if limit is None else min(limit, options.seconds))
    cursor = storage.store.version if options.initial else options.start
    first = True
    if options.initial:
        entries = [entry for entry in candidates(collection, selection) if selection.matches(entry)]
        for start in range(0, len(entries), EVENTS_AT_ONCE):
            piece = entries[start : start + EVENTS_AT_ONCE]
            yield b"".join([renderer.event("ADDED", entry, columns=entry is entries[0]) for entry in piece])
        first = not entries
        if options.initial_end:
            yield renderer.bookmark(cursor, initial=True)
    next_bookmark = _next_bookmark(loop.time(), ends)
    waited_until = -math.inf
    while True:
        if cursor < collection.compacted:
            error = expired(f"too old resource version: {cursor} ({collection.compacted})")
            yield b'{"type":"ERROR","object":%b}\n' % encode(error.body())
            return
        changes = collection.since(cursor, EVENTS_AT_ONCE)
        if changes:
            lines = [line for change in changes if (line := _line(selection, change, renderer, first))]
            cursor = changes[-1].version
            first = first and not lines
            if lines:
                yield b"".join(lines)
            continue
        now = max(loop.time(), waited_until)
        if now >= ends or not storage.served.is_current(resource):
            return
        if options.bookmarks and now >= next_bookmark:
            cursor = storage.store.version
            yield renderer.bookmark(cursor)
            next_bookmark = _next_bookmark(now, ends)
            continue
        until = min(ends, next_bookmark) if options.bookmarks else ends
        if not await collection.wait(until - now):
            waited_until = until  # timers may end early, by the resolution of the clock


def _next_bookmark(now: float, ends: float) -> float:
    """When to send a bookmark: once a minute, and shortly before the watch ends. Mirrors nextBookmarkTime."""
    last = ends - LAST_BOOKMARK_SECONDS
    return min(now + BOOKMARK_SECONDS, last if now < last else ends)


def _line(selection: Selection, change: StoreChange, renderer: Renderer, first: bool) -> bytes:
    """The change as an event: ADDED if the object matches since the change, DELETED if it no longer does."""
    entry, previous = change.entry, change.previous
    matched = previous is not None and selection.matches(previous)
    if change.type == "DELETED":
        return renderer.line(change) if matched else b""
    matches = selection.matches(entry)
    if matches and (matched or previous is None):
        return (
            renderer.event(change.type, entry, columns=True) if first and renderer.is_table else renderer.line(change)
        )
    if matches:
        return renderer.event("ADDED", entry, columns=first)
    if matched and previous is not None:
        return renderer.event("DELETED", previous.at(entry.version), columns=first)
    return b""
