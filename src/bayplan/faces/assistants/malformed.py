"""Messages that are no messages of JSON-RPC: each one is answered, and costs only itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TextIO

import anyio
import msgspec
from mcp import types
from pydantic import ValidationError

from bayplan.faces.asking.replies import encoded, one_line


def refused(message: bytes) -> dict[str, Any] | None:
    """Return the response to a message that is malformed; None for one that isn't."""
    try:
        found = msgspec.json.decode(message)
    except (msgspec.MsgspecError, ValueError) as error:
        return _error(types.PARSE_ERROR, f"the message is not valid JSON: {error}")
    except RecursionError:
        return _error(types.PARSE_ERROR, "the message is nested too deeply")
    if not isinstance(found, dict):
        return _error(types.INVALID_REQUEST, "expected one message, which is an object")
    identity = found.get("id")
    if "id" in found and (isinstance(identity, bool) or not isinstance(identity, int | str)):
        return _error(types.INVALID_REQUEST, "id: expected a text or an integer")
    return next((_error(code, text, identity) for code, text in _faults(found)), None) or _of_sdk(message, identity)


def _faults(found: dict[str, Any]) -> list[tuple[int, str]]:
    """What is wrong with the fields of a message, with the codes of errors."""
    is_reply = "method" not in found and ("result" in found or "error" in found)
    faults = []
    if found.get("jsonrpc") != "2.0":
        faults.append((types.INVALID_REQUEST, 'jsonrpc: expected "2.0"'))
    if not is_reply and not isinstance(found.get("method"), str):
        faults.append((types.INVALID_REQUEST, "method: expected a text"))
    if not isinstance(found.get("params", {}), dict):
        faults.append((types.INVALID_PARAMS, "params: expected an object"))
    return faults


def _of_sdk(message: bytes, identity: Any) -> dict[str, Any] | None:
    """What the SDK can't read, it would drop without an answer."""
    try:
        types.jsonrpc_message_adapter.validate_json(message, by_name=False)
    except ValidationError:
        return _error(types.INVALID_REQUEST, "it is no message of JSON-RPC that this server can read", identity)
    return None


def _error(code: int, text: str, identity: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": one_line(text)}}


class Wire:
    """Standard input and output, with a message on each line. What is malformed is answered here.

    `reading` has the handler of errors surrogateescape, so that bytes that are no UTF-8 are seen.
    """

    def __init__(self, reading: TextIO, writing: TextIO) -> None:
        self._reading = anyio.wrap_file(reading)
        self._writing = anyio.wrap_file(writing)
        self._lock = anyio.Lock()

    async def __aiter__(self) -> AsyncIterator[str]:
        """Yield the messages that aren't malformed."""
        async for line in self._reading:
            if not line.strip():
                continue
            error = refused(line.encode(errors="surrogateescape"))
            if error is None:
                yield line
            else:
                await self.write(encoded(error).decode())
                await self.flush()

    async def write(self, text: str) -> int:
        """Write a line. Lines of several tasks don't mix."""
        async with self._lock:
            return await self._writing.write(text)

    async def flush(self) -> None:
        """Send what was written."""
        async with self._lock:
            await self._writing.flush()
