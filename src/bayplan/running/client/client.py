"""Client: the typed verbs of the Kubernetes API, retries and errors, over any transport.

A request is sent again only if the server surely hasn't processed it, or if it is a GET. Whether a lost write was
carried out is left to the caller: `TransportError.sent` says if it may have been.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from enum import Enum
from functools import partial
from typing import Any, Self, TypedDict

from bayplan.core.api.kinds import POD, Kind
from bayplan.core.api.objects import decode as decode_object
from bayplan.core.api.objects import encode
from bayplan.running.client.answers import (
    Page,
    WatchEvent,
    check_object,
    check_success,
    decode_event,
    decode_page,
    lines,
)
from bayplan.running.client.backoff import Backoff
from bayplan.running.client.errors import LONGEST_RETRY_AFTER, ApiError, InvalidNameError, TransportError
from bayplan.running.client.transport import ApiRequest, Params, Response, Transport

JSON = "application/json"

LONGEST_SERVER_WAIT = 5.0
"""Seconds. A request with a longer Retry-After isn't retried: the caller decides what to do."""

BACKOFF = Backoff(initial=0.1)
"""The waits between the attempts of one request."""


class PatchType(Enum):
    """The format of a patch; the value is its content type."""

    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    JSON = "application/json-patch+json"
    APPLY = "application/apply-patch+yaml"


class Scope(TypedDict, total=False):
    """Which objects of a kind: those of a namespace, with labels, with fields. Without any, all of the cluster."""

    namespace: str | None
    label_selector: str
    field_selector: str


class Client:
    """A client of one API server. `HttpClient` is one over HTTP.

    Every verb raises ApiError for a response other than 2xx, TransportError if no complete response arrives,
    ConfigError if the credentials can't be loaded, UndecodableObject for a response that isn't an object of the kind,
    and InvalidNameError for a name that can't be in a path. For a single object, `namespace` defaults to the client's;
    lists and watches span all namespaces by default.

    A request is retried up to `retries` times if the server surely hasn't processed it (no connection, or 429 with
    Retry-After). A GET is also retried after any other transport failure, and after 503 with Retry-After.
    `sleep` and `rng` are there for tests.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        namespace: str = "default",
        retries: int = 3,
        backoff: Backoff = BACKOFF,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.namespace = namespace
        self._transport = transport
        self._retries = retries
        self._backoff = backoff
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._closed = False

    async def get(self, kind: Kind, name: str, namespace: str | None = None) -> Any:
        """The object, of type `kind.type`."""
        body = await self.request("GET", self._object_path(kind, name, namespace))
        return decode_object(kind.type, body)

    async def list(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        decode: Callable[[bytes], Any] | None = None,
    ) -> Page[Any]:
        """All matching objects, read in pages of `limit` (0: one page). `decode` makes the items from their JSON.

        If the list's version expires between two pages, the list starts over in one page.
        """
        try:
            return await self._collect(kind, namespace, label_selector, field_selector, limit, decode)
        except ApiError as error:
            if error.status != 410 or not limit:
                raise
            return await self._collect(kind, namespace, label_selector, field_selector, 0, decode)

    async def pages(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        decode: Callable[[bytes], Any] | None = None,
    ) -> AsyncGenerator[Page[Any], None]:
        """The pages of a list, one by one. If the list's version expires, raises ApiError 410."""
        decode = decode or partial(decode_object, kind.type)
        path = kind.path(namespace or None)
        params = _selectors(label_selector, field_selector)
        if limit:
            params["limit"] = limit
        token = ""
        while True:
            body = await self.request("GET", path, params=params | {"continue": token} if token else params)
            page = decode_page(body, path, decode)
            yield page
            token = page.next_token
            if not token:
                return

    async def watch(
        self,
        kind: Kind,
        namespace: str | None = None,
        *,
        resource_version: str = "",
        label_selector: str = "",
        field_selector: str = "",
        timeout_seconds: int | None = None,
        bookmarks: bool = True,
        decode: Callable[[bytes], Any] | None = None,
        idle_seconds: float | None = None,
    ) -> AsyncGenerator[WatchEvent, None]:
        """The changes since `resource_version` ("": all objects first, as ADDED), until the server ends the watch.

        The watch may end at any time, which is no error. An ERROR event is raised as ApiError. Events that have arrived
        already are yielded without awaiting, so a caller with much work per event must let other tasks run. To stop
        early, wrap the watch in `contextlib.aclosing`. With `idle_seconds`, a watch that is silent for so long raises
        TransportError: its connection may be dead.
        """
        decode = decode or partial(decode_object, kind.type)
        params = _selectors(label_selector, field_selector) | {"watch": "true"}
        if resource_version:
            params["resourceVersion"] = resource_version
        if bookmarks:
            params["allowWatchBookmarks"] = "true"
        if timeout_seconds is not None:
            params["timeoutSeconds"] = timeout_seconds
        path = kind.path(namespace or None)
        async with aclosing(self.stream(path, params=params, seconds=timeout_seconds, idle=idle_seconds)) as chunks:
            async for line in lines(chunks):
                yield decode_event(line, path, decode)

    async def create(self, kind: Kind, obj: Any, namespace: str | None = None, *, dry_run: bool = False) -> Any:
        """Creates `obj`, a typed object or a document, and returns it as stored by the server."""
        namespace = namespace or _metadata(obj).get("namespace") or self.namespace
        params = {"dryRun": "All"} if dry_run else None
        body = await self.request("POST", kind.path(namespace), params=params, body=encode(obj))
        return decode_object(kind.type, body)

    async def update(self, kind: Kind, obj: Any, *, subresource: str | None = None) -> Any:
        """Replaces an object. If `obj` has a resourceVersion that is no longer current, raises ApiError 409."""
        metadata = _metadata(obj)
        path = self._object_path(kind, metadata.get("name") or "", metadata.get("namespace"), subresource)
        return decode_object(kind.type, await self.request("PUT", path, body=encode(obj)))

    async def patch(
        self,
        kind: Kind,
        name: str,
        patch: Any,
        namespace: str | None = None,
        *,
        type: PatchType = PatchType.MERGE,  # noqa: A002 - the term of Kubernetes
        subresource: str | None = None,
        field_manager: str | None = None,
        force: bool = False,
    ) -> Any:
        """Patches an object and returns it. APPLY needs a `field_manager`; `force` is only for APPLY."""
        params = {"fieldManager": field_manager} if field_manager else {}
        if force:
            params["force"] = "true"
        path = self._object_path(kind, name, namespace, subresource)
        body = await self.request("PATCH", path, params=params, body=encode(patch), content_type=type.value)
        return decode_object(kind.type, body)

    async def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None = None,
        *,
        grace_period_seconds: int | None = None,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation_policy: str | None = None,
    ) -> None:
        """Deletes an object, possibly gracefully. `uid` and `resource_version` are preconditions (ApiError 409)."""
        options = _delete_options(grace_period_seconds, uid, resource_version, propagation_policy)
        body = encode({"apiVersion": "v1", "kind": "DeleteOptions"} | options) if options else None
        await self._write("DELETE", self._object_path(kind, name, namespace), body)

    async def bind(
        self,
        namespace: str,
        name: str,
        node: str,
        *,
        uid: str | None = None,
        annotations: Mapping[str, str] | None = None,
    ) -> None:
        """Binds a pod to a node. `uid` is a precondition (ApiError 409). `annotations` are added to the pod's.

        Raises MalformedResponseError for a reply that does not report success. kube-scheduler takes every reply with
        status 200 for success; if another program sent it, its pod is lost until a restart.
        """
        metadata: dict[str, Any] = {"name": name, "namespace": namespace}
        if uid:
            metadata["uid"] = uid
        if annotations:
            metadata["annotations"] = annotations
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": metadata,
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        path = self._object_path(POD, name, namespace, "binding")
        check_success(await self.request("POST", path, body=encode(binding)), f"POST {path}")

    async def evict(
        self, namespace: str, name: str, *, grace_period_seconds: int | None = None, uid: str | None = None
    ) -> None:
        """Deletes a pod if its disruption budgets allow it. If they don't at present, raises ApiError 429."""
        eviction: dict[str, Any] = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
        }
        if options := _delete_options(grace_period_seconds, uid, None, None):
            eviction["deleteOptions"] = options
        await self._write("POST", self._object_path(POD, name, namespace, "eviction"), encode(eviction))

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """Send a request that the verbs don't cover, and return the response body. The verbs use it, too."""
        headers = _ACCEPT if body is None else {**_ACCEPT, "Content-Type": content_type}
        request = ApiRequest(method, path, params or {}, headers, body)
        waits = self._backoff.waits(self._rng)
        for attempts_left in range(self._retries, -1, -1):
            try:
                response = await self._transport.send(request)
                if response.status >= 300:
                    raise self._api_error(response)
                return response.body
            except TransportError as error:
                if self._closed or not attempts_left or (error.sent and method != "GET"):
                    raise
                await self._sleep(next(waits))
            except ApiError as error:
                wait = _server_wait(error, method)
                if not attempts_left or wait is None:
                    raise
                await self._sleep(wait)
        raise AssertionError("the last attempt returns or raises")

    async def stream(
        self, path: str, *, params: Params | None = None, seconds: float | None = None, idle: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """Yield the response body of a GET in pieces, as they arrive; never retried. Closing it closes its connection.

        `seconds`: how long the server keeps it open. `idle`: how many seconds it may be silent.
        """
        response = await self._transport.send(ApiRequest("GET", path, params or {}, _ACCEPT, None, True, seconds, idle))
        if response.chunks is None:
            raise self._api_error(response)
        async with aclosing(response.chunks) as chunks:
            async for chunk in chunks:
                yield chunk

    async def close(self) -> None:
        """Closes all connections. Requests in flight and later requests fail with TransportError."""
        self._closed = True
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _api_error(self, response: Response) -> ApiError:
        error = ApiError.from_status(
            response.body, status=response.status, retry_after=_seconds(response.headers.get("Retry-After", ""))
        )
        error.status = response.status
        if error.status == 401:
            error.message = f"{error.message} ({self._transport.identity})"
        return error

    async def _write(self, method: str, path: str, body: bytes | None) -> None:
        """Send a write of whose reply only the outcome matters."""
        check_object(await self.request(method, path, body=body), f"{method} {path}")

    async def _collect(
        self,
        kind: Kind,
        namespace: str | None,
        label_selector: str,
        field_selector: str,
        limit: int,
        decode: Callable[[bytes], Any] | None,
    ) -> Page[Any]:
        items: list[Any] = []
        version = ""
        pages = self.pages(
            kind, namespace, label_selector=label_selector, field_selector=field_selector, limit=limit, decode=decode
        )
        async for page in pages:
            items += page.items
            version = page.resource_version
        return Page(items, version)

    def _object_path(self, kind: Kind, name: str, namespace: str | None = None, subresource: str | None = None) -> str:
        namespace = (namespace or self.namespace) if kind.namespaced else None
        # Any other name would address another resource: "" the whole collection.
        for part in (name, namespace):
            if part is not None and not PATH_SEGMENT.fullmatch(part):
                raise InvalidNameError(f"{part!r} is not a valid name of an object or a namespace ({kind.resource})")
        return kind.path(namespace, name, subresource)


_ACCEPT = {"Accept": JSON}
PATH_SEGMENT = re.compile(r"(?!\.{1,2}$)[^/%?#\s]+")


def _selectors(label_selector: str, field_selector: str) -> dict[str, str | int]:
    params: dict[str, str | int] = {}
    if label_selector:
        params["labelSelector"] = label_selector
    if field_selector:
        params["fieldSelector"] = field_selector
    return params


def _metadata(obj: Any) -> dict[str, Any]:
    if isinstance(obj, Mapping):
        return obj.get("metadata") or {}
    metadata = obj.metadata
    return {"name": metadata.name, "namespace": metadata.namespace} if metadata else {}


def _delete_options(
    grace_period_seconds: int | None, uid: str | None, resource_version: str | None, propagation_policy: str | None
) -> dict[str, Any]:
    options: dict[str, Any] = {}
    if grace_period_seconds is not None:
        options["gracePeriodSeconds"] = grace_period_seconds
    if propagation_policy is not None:
        options["propagationPolicy"] = propagation_policy
    preconditions = {"uid": uid, "resourceVersion": resource_version}
    if preconditions := {key: value for key, value in preconditions.items() if value is not None}:
        options["preconditions"] = preconditions
    return options


def _server_wait(error: ApiError, method: str) -> float | None:
    """How long to wait before a request that the server declined is sent again; None: it isn't."""
    if error.retry_after is None or error.retry_after > LONGEST_SERVER_WAIT:
        return None
    return error.retry_after if error.status == 429 or (error.status == 503 and method == "GET") else None


def _seconds(retry_after: str) -> float | None:
    return min(float(retry_after[:9]), LONGEST_RETRY_AFTER) if retry_after.isdecimal() else None
