"""An API server on a socket that serves whatever it is given: objects that no real server would store, broken watch
lines, and garbage as replies to writes.
"""

import asyncio
from collections import defaultdict, deque
from typing import Any, Self

import msgspec
from aiohttp import web
from tests.support.waiting import until

encode = msgspec.json.encode


class OddServer:
    """Keeps documents by plural and `namespace/name` or name.

    `replies`: what the next writes reply, one after the other, each with whether the write is carried out. Only paths
    that end in one of `garbage_for` reply that. `lists`: what the next lists reply. `watches`: the number of open
    watches by kind.
    """

    def __init__(self) -> None:
        self.objects: defaultdict[str, dict[str, Any]] = defaultdict(dict, pods={}, nodes={})
        self.replies: deque[tuple[bytes, bool]] = deque()
        self.garbage_for = {"binding", "status", "events"}
        self.lists: deque[bytes] = deque()
        self.watches: dict[str, int] = {"pods": 0, "nodes": 0}
        self.url = ""
        self._version = 1
        self._sent: dict[web.StreamResponse, tuple[str, int]] = {}
        self._lines: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)
        self._changed = asyncio.Condition()
        self._wakers: set[asyncio.Task[None]] = set()
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1, handler_cancellation=True)

    async def __aenter__(self) -> Self:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    def put(self, plural: str, key: str, document: Any) -> None:
        """Store a document, and report it to the watches. It gets a resource version if it has metadata."""
        kind = "MODIFIED" if key in self.objects[plural] else "ADDED"
        self._version += 1
        if isinstance(document, dict) and isinstance(document.get("metadata"), dict):
            document["metadata"]["resourceVersion"] = str(self._version)
        self.objects[plural][key] = document
        self._report(plural, encode({"type": kind, "object": document}))

    def remove(self, plural: str, key: str) -> None:
        """Delete a document, and report that."""
        self._version += 1
        document = self.objects[plural].pop(key)
        if isinstance(document, dict) and isinstance(document.get("metadata"), dict):
            document["metadata"]["resourceVersion"] = str(self._version)
        self._report(plural, encode({"type": "DELETED", "object": document}))

    def send(self, plural: str, line: bytes) -> None:
        """Send an arbitrary line to the watches."""
        self._version += 1
        self._report(plural, line)

    def bookmark(self, plural: str) -> None:
        """Send a bookmark to the watches."""
        self._version += 1
        document = {"metadata": {"resourceVersion": str(self._version)}}
        self._report(plural, encode({"type": "BOOKMARK", "object": document}))

    def expire(self) -> None:
        """Make all clients list again."""
        gone = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Expired", "code": 410}
        for plural in list(self.objects):
            self.send(plural, encode({"type": "ERROR", "object": gone}))

    async def delivered(self) -> None:
        """Wait until every open watch has been sent what was reported so far."""
        await until(lambda: all(seen >= self._latest(plural) for plural, seen in self._sent.values()))

    def _latest(self, plural: str) -> int:
        return self._lines[plural][-1][0] if self._lines[plural] else 0

    def _report(self, plural: str, line: bytes) -> None:
        self._lines[plural].append((self._version, line + b"\n"))
        waker = asyncio.get_running_loop().create_task(self._wake())
        self._wakers.add(waker)
        waker.add_done_callback(self._wakers.discard)

    async def _wake(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        parts = request.path.strip("/").split("/")
        if request.method == "GET":
            if "watch" in request.query:
                return await self._watch(request, parts[-1])
            if parts[-1] in self.objects or len(parts) < 6:
                return self._list(parts[-1])
            found = self.objects["pods"].get(f"{parts[3]}/{parts[5]}")
            return _status(404, "NotFound") if found is None else _json(found)
        body = await request.read()
        odd = self.replies and parts[-1] in self.garbage_for
        garbage, done = self.replies.popleft() if odd else (None, True)
        # The client can't tell an object from a good reply, except to a binding.
        done = done or (parts[-1] != "binding" and _is_object(garbage))
        response = self._write(parts, msgspec.json.decode(body)) if done else None
        if garbage is not None:
            return web.Response(body=garbage, content_type="application/json")
        assert response is not None
        return response

    def _list(self, plural: str) -> web.Response:
        if self.lists:
            return web.Response(body=self.lists.popleft(), content_type="application/json")
        items = list(self.objects.get(plural, {}).values())
        return _json({"kind": "List", "metadata": {"resourceVersion": str(self._version)}, "items": items})

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        seen = int(request.query.get("resourceVersion", "0"))
        lines = self._lines[plural]
        self.watches[plural] = self.watches.get(plural, 0) + 1
        self._sent[response] = (plural, seen)
        try:
            async with asyncio.timeout(float(request.query.get("timeoutSeconds", "60"))):
                while True:
                    due = [line for version, line in lines if version > seen]
                    if due:
                        seen = lines[-1][0]
                        await response.write(b"".join(due))
                        self._sent[response] = (plural, seen)
                        continue
                    async with self._changed:
                        await self._changed.wait()
        except (TimeoutError, ConnectionError):
            pass
        finally:
            self.watches[plural] -= 1
            del self._sent[response]
        return response

    def _write(self, parts: list[str], body: Any) -> web.Response:
        if parts[-1] in {"binding", "status"} and parts[4] == "pods":
            key = f"{parts[3]}/{parts[5]}"
            pod = self.objects["pods"].get(key)
            if pod is None:
                return _status(404, "NotFound")
            uid = body["metadata"].get("uid")
            try:
                changed = msgspec.json.decode(encode(pod))
                if uid not in {None, changed["metadata"]["uid"]}:
                    return _status(409, "Conflict")
                if parts[-1] == "binding":
                    if changed["spec"].get("nodeName"):
                        return _status(409, "Conflict")
                    changed["spec"]["nodeName"] = body["target"]["name"]
                else:
                    changed.setdefault("status", {}).update(body["status"])
            except (KeyError, TypeError, AttributeError):
                return _status(422, "Invalid")
            self.put("pods", key, changed)
            if parts[-1] == "binding":
                return _json({"kind": "Status", "apiVersion": "v1", "status": "Success", "code": 201}, 201)
            return _json({"kind": "Pod", "apiVersion": "v1", **changed})
        return _json(body)


def _is_object(body: bytes | None) -> bool:
    try:
        return isinstance(msgspec.json.decode(body or b""), dict)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False


def _json(document: Any, status: int = 200) -> web.Response:
    return web.Response(body=encode(document), status=status, content_type="application/json")


def _status(code: int, reason: str) -> web.Response:
    return _json({"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}, code)
