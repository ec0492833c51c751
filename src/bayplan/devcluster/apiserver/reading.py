"""Lists and watches: selecting, paging, resuming. Mirrors apiserver's storage/cacher and endpoints/handlers/watch.go.

A watch is a cursor in its kind's history: it keeps nothing of its own, so a slow client costs no memory, and one that
falls behind the history is told so with 410.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

from bayplan.api.labels import (
    FieldSelector,
    InvalidSelector,
    LabelSelector,
    parse_field_selector,
    parse_label_selector,
)
from bayplan.devcluster.apiserver.decoding import json_error
from bayplan.devcluster.apiserver.encoding import encode
from bayplan.devcluster.apiserver.registry import Registry
from bayplan.devcluster.apiserver.rendering import Renderer
from bayplan.devcluster.apiserver.resources import Resource
from bayplan.devcluster.apiserver.schema import Object
from bayplan.devcluster.apiserver.status import (
    FieldError,
    StatusError,
    bad_request,
    expired,
    forbidden_field,
    future_version,
    internal,
    not_supported,
)
from bayplan.devcluster.apiserver.store import Change, Collection, Entry, key_of

BOOKMARK_SECONDS = 60.0
PIECE = 1000
"""How many events go out at once at most."""


@dataclass(frozen=True, slots=True)
class Selection:
    """What a list or a watch is about."""

    namespace: str
    labels: LabelSelector
    fields: FieldSelector

    def matches(self, entry: Entry) -> bool:
        """Whether the object, in this version, belongs to it."""
        return (
            (not self.namespace or entry.namespace == self.namespace)
            and (not self.labels.requirements or self.labels.matches(entry.labels))
            and (not self.fields.terms or self.fields.matches(entry.fields))
        )


def read_selection(resource: Resource, namespace: str, name: str, parameters: Mapping[str, str]) -> Selection:
    """The selectors of a request. Raises 400."""
    try:
        labels = parse_label_selector(parameters.get("labelSelector", ""))
        fields = parse_field_selector(parameters.get("fieldSelector", ""), resource.supports_field)
        terms = [(resource.field_names.get(name, name), equal, value) for name, equal, value in fields.terms]
        fields = FieldSelector(tuple(terms))
    except InvalidSelector as error:
        raise bad_request(str(error)) from error
    if name:
        fields = FieldSelector((*fields.terms, ("metadata.name", True, name)))
    return Selection(namespace, labels, fields)


# Lists


def list_objects(
    registry: Registry, resource: Resource, selection: Selection, parameters: Mapping[str, str]
) -> tuple[list[Entry], Object]:
    """The selected objects, or a page of them, and the list's metadata. Raises StatusError."""
    limit = _integer(parameters.get("limit", ""))
    token = parameters.get("continue", "")
    collection = registry.collection(resource)
    version, after = _read_token(collection, token) if token else (registry.store.version, "")
    if not token:
        _check_version(registry, collection, parameters)
    found = _candidates(collection, selection, after)
    if not limit or limit < 0:
        return [entry for entry in found if selection.matches(entry)], {"resourceVersion": str(version)}
    page: list[Entry] = []
    looked_at = 0
    for entry in found:
        if len(page) == limit:
            break
        looked_at += 1
        if selection.matches(entry):
            page.append(entry)
    rest = len(found) - looked_at
    metadata: Object = {"resourceVersion": str(version)}
    if rest and _more(found, looked_at, selection):
        metadata["continue"] = _write_token(version, page[-1].key)
        if not selection.labels.requirements and not selection.fields.terms:
            metadata["remainingItemCount"] = rest
    return page, metadata


def _more(found: list[Entry], start: int, selection: Selection) -> bool:
    """Whether anything selected follows: a page is never announced that would be empty."""
    return any(selection.matches(found[index]) for index in range(start, len(found)))


def _candidates(collection: Collection, selection: Selection, after: str) -> list[Entry]:
    name = selection.fields.exact("metadata.name")
    if name is not None and selection.namespace:
        entry = collection.objects.get(key_of(selection.namespace, name))
        return [] if entry is None or entry.key <= after else [entry]
    return collection.select(selection.namespace, after)


def _integer(text: str) -> int:
    if not text:
        return 0
    try:
        return int(text)
    except ValueError as error:
        raise bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax') from error


def _check_version(registry: Registry, collection: Collection, parameters: Mapping[str, str]) -> None:
    """Whether the list can be as new, or exactly as old, as it is asked to be. Raises 4xx or 504."""
    text, match = parameters.get("resourceVersion", ""), parameters.get("resourceVersionMatch", "")
    version = read_version(text)
    if match not in {"", "Exact", "NotOlderThan"}:
        raise _bad_options(not_supported("resourceVersionMatch", match, ("Exact", "NotOlderThan", "")))
    if match and not text:
        raise _bad_options(
            forbidden_field(
                "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
            )
        )
    if match == "Exact" and version == 0:
        detail = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        raise _bad_options(forbidden_field("resourceVersionMatch", detail))
    if version > registry.store.version:
        raise future_version(version, registry.store.version)
    if match == "Exact" and version < collection.newest:
        raise expired(f"The provided continue parameter or resource version {version} is no longer held")


def _bad_options(error: FieldError) -> StatusError:
    return StatusError(
        422,
        "Invalid",
        f'ListOptions.meta.k8s.io "" is invalid: {error}',
        {
            "group": "meta.k8s.io",
            "kind": "ListOptions",
            "causes": [{"reason": error.reason, "message": error.message, "field": error.field}],
        },
    )


def read_version(text: str) -> int:
    """A resource version, 0 for none. Raises 500, as kube-apiserver does, for what is no number."""
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise internal(f'resourceVersion: Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def _write_token(version: int, key: str) -> str:
    return base64.urlsafe_b64encode(json.dumps({"v": "meta.k8s.io/v1", "rv": version, "start": key}).encode()).decode()


def _read_token(collection: Collection, token: str) -> tuple[int, str]:
    """The version and the last key of the page before. Raises 400, or 410 once the version is compacted."""
    why = "continue key is not valid: "
    try:
        text = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode(errors="replace")
    except binascii.Error as error:
        raise bad_request(f"invalid continue token: {why}{error}") from error
    try:
        read: Any = json.loads(text)
        version, start = int(read["rv"]), str(read["start"])
    except json.JSONDecodeError as error:
        raise bad_request(f"invalid continue token: {why}{json_error(text)}") from error
    except (KeyError, TypeError, ValueError) as error:
        raise bad_request(f"invalid continue token: {why}{error}") from error
    if version < collection.compacted:
        raise expired(
            "The provided continue parameter is too old to display a consistent list result. You can start a new list "
            "without the continue parameter."
        )
    return version, start


# Watches


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """How a watch starts and ends."""

    start: int
    """The version after which it starts; what exists is sent first if that is 0."""
    initial: bool
    """Whether everything that exists is sent first."""
    initial_end: bool
    """Whether a bookmark tells when that is done."""
    bookmarks: bool
    seconds: float
    """How long it lasts at most."""


def read_watch(registry: Registry, parameters: Mapping[str, str], seconds: float) -> WatchOptions:
    """The options of a watch; `seconds` is how long it lasts when it does not say. Raises StatusError."""
    text, match = parameters.get("resourceVersion", ""), parameters.get("resourceVersionMatch", "")
    wants_initial = parameters.get("sendInitialEvents")
    version = read_version(text)
    if wants_initial is not None and match != "NotOlderThan":
        detail = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _bad_options(forbidden_field("resourceVersionMatch", detail))
    if wants_initial is None and match:
        detail = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
        raise _bad_options(forbidden_field("resourceVersionMatch", detail))
    if version > registry.store.version:
        raise future_version(version, registry.store.version)
    bookmarks = _true(parameters.get("allowWatchBookmarks"))
    asked_for_all = _true(wants_initial)
    timeout = _integer(parameters.get("timeoutSeconds", ""))
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
    registry: Registry,
    resource: Resource,
    selection: Selection,
    options: WatchOptions,
    renderer: Renderer,
    limit: float | None = None,
) -> AsyncIterator[bytes]:
    """The lines of a watch, joined as far as they have come to be together; `limit` cuts it short, in seconds."""
    collection = registry.collection(resource)
    loop = asyncio.get_running_loop()
    ends = loop.time() + (options.seconds if limit is None else min(limit, options.seconds))
    cursor = registry.store.version if options.initial else options.start
    first = True
    if options.initial:
        entries = [entry for entry in _candidates(collection, selection, "") if selection.matches(entry)]
        for start in range(0, len(entries), PIECE):
            piece = entries[start : start + PIECE]
            yield b"".join([renderer.event("ADDED", entry, columns=entry is entries[0]) for entry in piece])
        first = not entries
        if options.initial_end:
            yield renderer.bookmark(cursor, initial=True)
    next_bookmark = loop.time() + BOOKMARK_SECONDS
    while True:
        if cursor < collection.compacted:
            error = expired(f"too old resource version: {cursor} ({collection.compacted})")
            yield b'{"type":"ERROR","object":%b}\n' % encode(error.body())
            return
        changes = collection.since(cursor, PIECE)
        if changes:
            lines = [line for change in changes if (line := _line(selection, change, renderer, first))]
            cursor = changes[-1].version
            first = first and not lines
            if lines:
                yield b"".join(lines)
            continue
        now = loop.time()
        if now >= ends or not registry.served.is_current(resource):
            return
        if options.bookmarks and now >= next_bookmark:
            cursor = registry.store.version
            yield renderer.bookmark(cursor)
            next_bookmark = now + BOOKMARK_SECONDS
            continue
        until = min(ends, next_bookmark) if options.bookmarks else ends
        await collection.wait(until - now)


def _line(selection: Selection, change: Change, renderer: Renderer, first: bool) -> bytes:
    """The change as this watch sees it: an object that comes to match is added, one that ceases to is deleted."""
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
