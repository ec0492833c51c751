"""The bodies of requests. A body is read, and inflated, only where a handler asks for it, and within limits.

All bodies in memory count together, so that many large ones are refused before memory is short.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator

from aiohttp import hdrs, web

from bayplan.foundations.http_server.limits import Limits

_STEP = 256 * 1024
"""Bytes that are inflated before other tasks have their turn: about a millisecond."""


class BodyError(Exception):
    """A body that can't be used. `status` is that of the reply; the message is one line for the client."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


class Bodies:
    """Reads the bodies of a server's requests. `most`: the bytes of one body, inflated.

    Without `inflate`, bodies are returned as they were sent.
    """

    def __init__(self, limits: Limits, most: int, *, inflate: bool) -> None:
        self._limits = limits
        self._most = most
        self._inflate = inflate
        self._held: dict[int, int] = {}
        """The bytes in memory by the id of the request; requests can't be keys."""

    async def read(self, request: web.BaseRequest) -> bytes:
        """Return the body of a request. It counts as in memory until `release`. Raises BodyError."""
        if (request.content_length or 0) > self._most:
            raise self._too_large()
        if request.headers.get(hdrs.EXPECT, "").lower() == "100-continue":  # curl does so with large bodies
            await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            request.writer.output_size = 0
        pieces = _inflated(request) if self._inflate else request.content.iter_any()
        found = []
        self._held[id(request)] = 0
        try:
            async with asyncio.timeout(self._limits.body):
                async for piece in pieces:
                    self._hold(request, len(piece))
                    found.append(piece)
        except TimeoutError:
            raise BodyError(408, f"the body has not arrived within {self._limits.body:g} s") from None
        except zlib.error as error:
            encoding = request.headers.get(hdrs.CONTENT_ENCODING, "")
            raise BodyError(400, f"the body is not valid {encoding}: {error}") from None
        except ConnectionError:
            raise BodyError(400, "the client has disconnected") from None
        except web.RequestPayloadError as error:
            raise BodyError(400, f"the body is not valid HTTP: {' '.join(str(error).split())}") from None
        return b"".join(found)

    def release(self, request: web.BaseRequest) -> None:
        """Forget the body of a request."""
        self._held.pop(id(request), None)

    def _hold(self, request: web.BaseRequest, size: int) -> None:
        self._held[id(request)] += size
        if self._held[id(request)] > self._most:
            raise self._too_large()
        if sum(self._held.values()) > self._limits.bodies:
            raise BodyError(503, f"the bodies of all requests have more than {self._limits.bodies} bytes: try again")

    def _too_large(self) -> BodyError:
        return BodyError(413, f"the body has more than {self._most} bytes")


async def _inflated(request: web.BaseRequest) -> AsyncIterator[bytes]:
    """The pieces of a body without its compression. Raises BodyError, or zlib.error."""
    encoding = request.headers.get(hdrs.CONTENT_ENCODING, "identity").strip().lower()
    if encoding in {"", "identity"}:
        async for piece in request.content.iter_any():
            yield piece
        return
    if encoding not in {"gzip", "deflate"}:
        raise BodyError(415, f"Content-Encoding {encoding[:40]!r}: expected gzip, deflate or identity")
    bits = zlib.MAX_WBITS + (16 if encoding == "gzip" else 0)
    inflater, complete = zlib.decompressobj(bits), False
    async for sent in request.content.iter_any():
        data = sent
        while data or not complete:
            if inflater.eof:  # a gzip file may have several members
                inflater = zlib.decompressobj(bits)
            piece = inflater.decompress(data, _STEP)
            yield piece
            await asyncio.sleep(0)
            complete = inflater.eof
            data = inflater.unused_data if complete else inflater.unconsumed_tail
            if len(piece) < _STEP and not data:
                break
    if not complete:
        raise zlib.error("it ends early")
