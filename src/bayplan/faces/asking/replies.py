"""Replies as JSON: answers, errors of one line, and lines of progress.

A client that reads too slowly is dropped, and its question ends.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from bayplan.answers.insight.answers import Progress
from bayplan.faces.asking.guard import BearerGuard
from bayplan.foundations.http_server import BodyError, Limits, quoted

HEADERS = {"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff"}
"""The headers of every reply."""
JSON, LINES, TEXT = "application/json", "application/x-ndjson", "text/plain"
FAILED = "the request failed; the server's log says why"
SLOW = "a client did not read its reply"
PAUSE = 0.2
"""Seconds between two lines of progress."""
BODY_LIMIT = 16 * 2**20
"""Bytes of a body."""
LIMITS = Limits(connections=512, bodies=128 * 2**20)
"""Those of a server for programs."""

T = TypeVar("T")

log = logging.getLogger(__name__)


class ServeError(Exception):
    """A request that isn't answered as asked. The message is one line for the client."""

    def __init__(self, status: HTTPStatus, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(one_line(message))
        self.status = status
        self.headers = headers or {}


def encoded(value: Any) -> bytes:
    """Return JSON-compatible values as one line."""
    return msgspec.json.encode(value) + b"\n"


def reply(body: bytes, status: HTTPStatus = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a reply with a body of JSON, unless `headers` have another type."""
    return web.Response(body=body, status=status, headers={**HEADERS, "Content-Type": JSON, **(headers or {})})


def error_reply(error: ServeError) -> web.Response:
    """Return the reply for an error."""
    return reply(encoded({"error": str(error)}), error.status, error.headers)


async def guarded(
    request: web.BaseRequest, guard: BearerGuard, handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Handle a request that the guard lets in, and reply to any other, and to errors, with one line of JSON."""
    try:
        refusal = guard.refusal(request.headers)
        if refusal is not None:
            raise ServeError(refusal.status, refusal.message, refusal.headers)
        return await handle(request)
    except ServeError as error:
        return error_reply(error)
    except BodyError as error:
        return error_reply(ServeError(HTTPStatus(error.status), str(error), {"Connection": "close"}))
    except ConnectionError:
        raise  # the client has gone
    except Exception:
        log.exception("%s failed", quoted(request.path))
        return error_reply(ServeError(HTTPStatus.INTERNAL_SERVER_ERROR, FAILED))


async def stream(
    request: web.BaseRequest, ask: Callable[[Progress], Awaitable[bytes]], patience: float
) -> web.StreamResponse:
    """Reply with lines: `{"progress": TEXT}` while the question is asked, then `{"answer": ...}` or `{"error": ...}`.

    `ask` returns the JSON of the answer. `patience`: the most seconds that the client may take to read a line.
    """
    response = web.StreamResponse(headers={**HEADERS, "Content-Type": LINES})
    await response.prepare(request)

    async def tell(text: str) -> None:
        await _write(response, encoded({"progress": text}), patience)

    try:
        try:
            line = b'{"answer":' + (await telling(ask, tell)).rstrip() + b"}\n"
        except ServeError as error:
            line = encoded({"error": str(error), "status": error.status})
        except ConnectionError:
            raise
        except Exception:
            log.exception("%s failed", quoted(request.path))
            line = encoded({"error": FAILED, "status": HTTPStatus.INTERNAL_SERVER_ERROR})
        await _write(response, line, patience)
    except ConnectionError as error:  # the client has gone
        log.info("%s: %s", quoted(request.path), error)
        if request.transport is not None:
            request.transport.abort()
    return response


async def telling(ask: Callable[[Progress], Awaitable[T]], tell: Callable[[str], Awaitable[None]]) -> T:
    """Ask, and tell the progress every PAUSE. The question ends if `tell` raises. Raises what both raise."""
    latest: list[str] = []
    task = asyncio.ensure_future(ask(latest.append))
    try:
        while not (await asyncio.wait({task}, timeout=PAUSE))[0]:
            if latest:
                text = latest[-1]
                latest.clear()
                await tell(text)
        return task.result()
    finally:
        task.cancel()


async def _write(response: web.StreamResponse, line: bytes, patience: float) -> None:
    """Write a line. Raises ConnectionError for a client that doesn't read it."""
    try:
        async with asyncio.timeout(patience):
            await response.write(line)
    except TimeoutError:
        raise ConnectionError(SLOW) from None


def one_line(text: str) -> str:
    """Return a text as one line."""
    return " ".join(text.split())
