"""Decodes the responses to lists and watches. The objects inside are decoded by a function of the caller.

An object that can't be decoded is the caller's to skip; a response that isn't one of the API is an error of the
request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any, Generic, TypeVar

import msgspec

from bayplan.running.client.errors import ApiError, MalformedResponseError

T = TypeVar("T")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Objects of one kind at `resource_version`. `next_token` is "" on the last page."""

    items: list[T]
    resource_version: str
    next_token: str = ""


class WatchEvent(msgspec.Struct, frozen=True):
    """One change: `type` is ADDED, MODIFIED, DELETED or BOOKMARK (whose `object` is None).

    `key` is the object's `namespace/name`, or its name if it has no namespace.
    """

    type: str
    object: Any
    resource_version: str
    key: str = ""
    uid: str = ""


class Identity(msgspec.Struct, frozen=True, gc=False):
    """The key, uid and version from an object's metadata; "" for what is absent."""

    key: str
    uid: str
    resource_version: str

    @classmethod
    def of(cls, raw: bytes) -> Identity:
        """The identity of the object in `raw`, even if the rest of it can't be decoded; all "" if it has none."""
        try:
            metadata = _envelope_decoder.decode(raw).metadata
        except (msgspec.MsgspecError, ValueError, RecursionError):
            metadata = None
        if metadata is None:
            return _UNKNOWN
        name = metadata.name or ""
        key = f"{metadata.namespace}/{name}" if metadata.namespace else name
        return cls(key, metadata.uid or "", metadata.resourceVersion or "")


def decode_page(body: bytes, path: str, decode: Callable[[bytes], T]) -> Page[T]:
    """The page in the response to a list request; `decode` makes the items."""
    try:
        answer = _list_decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedResponseError(f"GET {path}: the response is no list of objects: {error}") from None
    metadata = answer.metadata or _ListMetadata()
    items = [decode(bytes(item)) for item in answer.items or ()]
    return Page(items, metadata.resourceVersion or "", metadata.next_token or "")


def check_object(body: bytes, request: str) -> None:
    """Check that the reply to a write is an object, and not a gateway's page. Raises MalformedResponseError."""
    try:
        _envelope_decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedResponseError(f"{request}: the response is no object: {error}") from None


class _Status(msgspec.Struct):
    kind: str = ""
    status: str = ""


_status_decoder = msgspec.json.Decoder(_Status)


def check_success(body: bytes, request: str) -> None:
    """Check that a reply is a Status that reports success. Raises MalformedResponseError."""
    try:
        reply = _status_decoder.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedResponseError(f"{request}: the response is no Status: {error}") from None
    if (reply.kind, reply.status) != ("Status", "Success"):
        raise MalformedResponseError(f"{request}: the response is no Status that reports success")


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The complete lines. An incomplete last line, after a broken connection, is dropped."""
    rest: list[bytes] = []
    async for chunk in chunks:
        first, *others = chunk.split(b"\n")
        rest.append(first)
        if others:
            yield b"".join(rest)
            for line in others[:-1]:
                yield line
            rest = [others[-1]]


def decode_event(line: bytes, path: str, decode: Callable[[bytes], Any]) -> WatchEvent:
    """The event in one line of a watch. An ERROR event is raised as ApiError."""
    try:
        event = _line_decoder.decode(line)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise MalformedResponseError(f"GET {path}: cannot decode a watch event: {error}") from None
    raw = bytes(event.object)
    if event.type == "ERROR":
        raise ApiError.from_status(raw)
    identity = Identity.of(raw)
    obj = None if event.type == "BOOKMARK" else decode(raw)
    return WatchEvent(event.type, obj, identity.resource_version, identity.key, identity.uid)


class _Metadata(msgspec.Struct):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resourceVersion: str | None = None


class _Envelope(msgspec.Struct):
    metadata: _Metadata | None = None


class _ListMetadata(msgspec.Struct):
    resourceVersion: str | None = None
    next_token: str | None = msgspec.field(name="continue", default=None)


class _List(msgspec.Struct):
    metadata: _ListMetadata | None = None
    items: list[msgspec.Raw] | None = None


class _Line(msgspec.Struct):
    type: str
    object: msgspec.Raw


_envelope_decoder = msgspec.json.Decoder(_Envelope)
_list_decoder = msgspec.json.Decoder(_List)
_line_decoder = msgspec.json.Decoder(_Line)
_UNKNOWN = Identity("", "", "")
