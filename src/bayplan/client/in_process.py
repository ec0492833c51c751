"""A client whose API server is a few dictionaries: for tests of code that takes a `Client`.
Small on purpose: nothing is validated, little is defaulted, and a deletion is at once. For a server that is faithful,
use `bayplan.devcluster`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import msgspec

from bayplan.api.kinds import ALPHA_KINDS, KINDS, POD, Kind
from bayplan.api.labels import parse_field_selector, parse_label_selector
from bayplan.api.objects import encode
from bayplan.client.client import JSON, Client, PatchType
from bayplan.client.errors import ApiError, TransportError
from bayplan.client.history import Document, History, Scope
from bayplan.client.patches import merge
from bayplan.client.transport import Params

CREATED = "2026-01-01T00:00:00Z"
"""The creationTimestamp of every object: a test that needs another sets it."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request as the server understood it.

    `verb` is get, list, watch, create, update, patch, delete, bind or evict; `document` is the parsed body, if any.
    """

    verb: str
    kind: Kind
    namespace: str | None
    name: str | None
    subresource: str | None = None
    document: Any = None
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Failure:
    verb: str
    kind: Kind | None
    error: Exception
    times: int
    name: str | None
    carried_out: bool


class InProcessClient(Client):
    """A `Client` without a server. What it is asked is in `requests`; `fail` makes requests fail.

    `objects` (typed or documents with kind and apiVersion) are there from the start.
    """

    def __init__(self, objects: Iterable[Any] = ()) -> None:
        self.requests: list[Request] = []
        self.history = History()
        self._failures: list[_Failure] = []
        self._uids = 0
        self._snapshots: dict[str, tuple[int, list[Document]]] = {}
        self._closed = False
        for obj in objects:
            document = msgspec.json.decode(encode(obj))
            kind = _KIND_OF[document["apiVersion"], document["kind"]]
            self._create(Request("create", kind, _namespace_of(document), None, None, document))

    def fail(
        self,
        verb: str,
        kind: Kind | None,
        error: Exception,
        *,
        times: int = 1,
        name: str | None = None,
        carried_out: bool = False,
    ) -> None:
        """Makes the next `times` requests that match end in `error`. `kind` None: of any kind; "" for any verb.

        With `carried_out` they change what they would have changed all the same, as when an answer is lost.
        """
        self._failures.append(_Failure(verb, kind, error, times, name, carried_out))

    def recover(self) -> None:
        """Forgets what was to fail and has not yet."""
        self._failures.clear()

    def compact(self) -> None:
        """Forgets all versions but the newest: watches from before it, and lists half read, end with 410."""
        self.history.compact()
        self._snapshots.clear()

    def end_watches(self, error: Exception | None = None) -> None:
        """Ends all watches, with `error` if there is one, once they have told what has happened so far."""
        self.history.end_watches(error)

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Params | None = None,
        body: bytes | None = None,
        content_type: str = JSON,
    ) -> bytes:
        """Carries out a request at once, and tells as a server would what came of it."""
        request = self._note(method, path, params, body)
        await asyncio.sleep(0)
        failure = self._failure(request)
        if failure is not None and not failure.carried_out:
            raise failure.error
        answer = encode(self._carry_out(request, content_type))
        if failure is not None:
            raise failure.error
        return answer

    async def stream(
        self, path: str, *, params: Params | None = None, seconds: float | None = None
    ) -> AsyncGenerator[bytes, None]:
        """The lines of a watch."""
        request = self._note("GET", path, params, None)
        await asyncio.sleep(0)
        if (failure := self._failure(request)) is not None:
            raise failure.error
        since = request.params.get("resourceVersion", "")
        lines = self.history.watch(
            _scope(request), int(since) if since else None, seconds, bookmarks="allowWatchBookmarks" in request.params
        )
        async for event in lines:
            yield encode(event) + b"\n"

    async def close(self) -> None:
        """Ends all watches; later requests fail with TransportError."""
        self._closed = True
        self.end_watches()

    def _note(self, method: str, path: str, params: Params | None, body: bytes | None) -> Request:
        if self._closed:
            raise TransportError("the client is closed", sent=False)
        told = {key: str(value) for key, value in (params or {}).items()}
        kind, namespace, name, subresource = _parse(path)
        verb = _VERBS[method]
        if method == "GET" and name is None:
            verb = "watch" if told.get("watch") == "true" else "list"
        elif method == "POST" and subresource is not None:
            verb = {"binding": "bind", "eviction": "evict"}.get(subresource, "create")
        document = msgspec.json.decode(body) if body else None
        request = Request(verb, kind, namespace, name, subresource, document, told)
        self.requests.append(request)
        return request

    def _failure(self, request: Request) -> _Failure | None:
        name = request.name or _metadata(request.document).get("name")
        for failure in self._failures:
            if (
                failure.verb in {"", request.verb}
                and failure.kind in {None, request.kind}
                and failure.name in {None, name}
            ):
                failure.times -= 1
                if failure.times <= 0:
                    self._failures.remove(failure)
                return failure
        return None

    def _carry_out(self, request: Request, content_type: str) -> Any:
        match request.verb:
            case "get":
                return self._existing(request)
            case "list":
                return self._list(request)
            case "create":
                return self._create(request)
            case "update":
                return self._update(request)
            case "patch":
                return self._patch(request, PatchType(content_type))
            case "delete" | "evict":
                return self._delete(request)
            case _:
                return self._bind(request)

    def _list(self, request: Request) -> Document:
        token = request.params.get("continue", "")
        if token and token not in self._snapshots:
            raise ApiError(410, "Expired", "The provided continue parameter is too old.")
        version, matching = self._snapshots.pop(token, (self.history.version, []))
        if not token:
            matching = self.history.select(_scope(request))
        limit = int(request.params.get("limit", 0)) or len(matching)
        metadata = {"resourceVersion": str(version)}
        if len(matching) > limit:
            metadata["continue"] = token = f"{version}-{len(self.requests)}"
            self._snapshots[token] = version, matching[limit:]
        kind = request.kind
        return {
            "kind": f"{kind.kind}List",
            "apiVersion": kind.api_version,
            "metadata": metadata,
            "items": matching[:limit],
        }

    def _create(self, request: Request) -> Document:
        kind = request.kind
        metadata = dict(_metadata(request.document))
        self._uids += 1
        if not metadata.get("name"):
            metadata["name"] = f"{metadata.get('generateName', '')}{self._uids:05}"
        if kind.namespaced:
            metadata["namespace"] = request.namespace or self.namespace
        metadata.setdefault("uid", str(UUID(int=self._uids)))
        metadata.setdefault("creationTimestamp", CREATED)
        if self.history.get(kind, metadata.get("namespace"), metadata["name"]) is not None:
            raise _error(409, "AlreadyExists", kind, metadata["name"], "already exists")
        document = request.document | {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": metadata}
        if kind == POD:
            document["spec"] = {"schedulerName": "default-scheduler"} | (document.get("spec") or {})
            document["status"] = {"phase": "Pending"} | (document.get("status") or {})
        return document if request.params.get("dryRun") else self.history.put(kind, document)

    def _update(self, request: Request) -> Document:
        old = self._existing(request)
        self._check(request, old, _metadata(request.document))
        return self._replace(request, old, request.document)

    def _patch(self, request: Request, patch_type: PatchType) -> Document:
        if patch_type is PatchType.APPLY and self._find(request) is None:
            created = request.document | {"metadata": _metadata(request.document) | {"name": request.name}}
            return self._create(Request("create", request.kind, request.namespace, None, None, created))
        old = self._existing(request)
        if patch_type is PatchType.JSON:
            import jsonpatch

            new = jsonpatch.apply_patch(old, request.document)
        else:
            self._check(request, old, _metadata(request.document))
            new = merge(old, request.document, by_key=patch_type is not PatchType.MERGE)
        return self._replace(request, old, new)

    def _replace(self, request: Request, old: Document, new: Document) -> Document:
        """Stores `new`, but the status only through its subresource, and through it nothing else."""
        kind = request.kind
        if request.subresource == "status":
            new = old | {"status": new.get("status", {})}
        elif kind.status:
            new = new | ({"status": old["status"]} if "status" in old else {})
        kept = {key: value for key, value in old["metadata"].items() if key in _UNCHANGING}
        new = new | {"kind": kind.kind, "apiVersion": kind.api_version, "metadata": _metadata(new) | kept}
        return old if new == old else self.history.put(kind, new)

    def _delete(self, request: Request) -> Document:
        old = self._existing(request)
        options = request.document or {}
        if request.verb == "evict":
            options = options.get("deleteOptions") or {}
        self._check(request, old, options.get("preconditions") or {})
        return self.history.remove(request.kind, old)

    def _bind(self, request: Request) -> Document:
        old = self._existing(request)
        self._check(request, old, _metadata(request.document))
        if bound := old["spec"].get("nodeName"):
            raise _error(409, "Conflict", POD, request.name, f'is already assigned to node "{bound}"')
        metadata = old["metadata"]
        if annotations := _metadata(request.document).get("annotations"):
            metadata = metadata | {"annotations": (metadata.get("annotations") or {}) | annotations}
        scheduled = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
        node = request.document["target"]["name"]
        return self.history.put(
            POD,
            old
            | {
                "metadata": metadata,
                "spec": old["spec"] | {"nodeName": node},
                "status": merge(old.get("status") or {}, scheduled, by_key=True),
            },
        )

    def _find(self, request: Request) -> Document | None:
        return self.history.get(request.kind, request.namespace, request.name or "")

    def _existing(self, request: Request) -> Document:
        document = self._find(request)
        if document is None:
            raise _error(404, "NotFound", request.kind, request.name, "not found")
        return document

    def _check(self, request: Request, document: Document, wanted: Mapping[str, Any]) -> None:
        """The preconditions of a change: that the object is still the one that was meant."""
        for key in ("uid", "resourceVersion"):
            if wanted.get(key) and wanted[key] != document["metadata"][key]:
                raise _error(409, "Conflict", request.kind, request.name, f"has another {key}: {wanted[key]}")


_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_UNCHANGING = {"name", "namespace", "uid", "creationTimestamp", "resourceVersion"}
_KIND_OF = {(kind.api_version, kind.kind): kind for kind in (*KINDS, *ALPHA_KINDS)}
_KIND_AT = {(kind.api_version, kind.plural): kind for kind in (*KINDS, *ALPHA_KINDS)}


def _parse(path: str) -> tuple[Kind, str | None, str | None, str | None]:
    """Kind, namespace, name and subresource of a path."""
    parts = path.strip("/").split("/")
    count = 2 if parts[0] == "api" else 3
    api_version, rest = "/".join(parts[1:count]), parts[count:]
    namespace = None
    if len(rest) > 2 and rest[0] == "namespaces" and (api_version, rest[2]) in _KIND_AT:
        namespace, rest = rest[1], rest[2:]
    kind = _KIND_AT.get((api_version, rest[0] if rest else ""))
    if kind is None:
        raise ApiError(404, "NotFound", f"the server could not find the requested resource: {path}")
    name, subresource = (*rest[1:3], None, None)[:2]
    return kind, namespace, name, subresource


def _scope(request: Request) -> Scope:
    return Scope(
        request.kind,
        request.namespace,
        parse_label_selector(request.params.get("labelSelector", "")),
        parse_field_selector(request.params.get("fieldSelector", ""), lambda _: True),
    )


def _metadata(document: Any) -> dict[str, Any]:
    return (document.get("metadata") or {}) if isinstance(document, Mapping) else {}


def _namespace_of(document: Document) -> str | None:
    return _metadata(document).get("namespace")


def _error(status: int, reason: str, kind: Kind, name: str | None, what: str) -> ApiError:
    details = {"name": name, "group": kind.group, "kind": kind.plural}
    return ApiError(status, reason, f'{kind.resource} "{name}" {what}', details)
