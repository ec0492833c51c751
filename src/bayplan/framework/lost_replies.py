"""Writes whose reply is lost: the API server may have carried them out nevertheless, so plugins read the object.

A plugin that takes such a write for a failure decides with a state that lacks it, until the watch reports it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.api.kinds import Kind
from bayplan.framework.handle import ApiClient

log = logging.getLogger(__name__)

_READ_SECONDS = 1.0
_TOO_MANY_REQUESTS, _SERVER_ERROR = 429, 500

Sleep = Callable[[float], Awaitable[None]]
"""Waits for a duration in seconds."""


def may_be_written(error: Exception) -> bool:
    """Whether the API server may have carried out a write that raised `error`, one of `bayplan.client`'s exceptions."""
    status: int | None = getattr(error, "status", None)
    return bool(getattr(error, "sent", status is not None and status >= _SERVER_ERROR))


async def read_eventually(client: ApiClient, kind: Kind, obj: Any, sleep: Sleep) -> Any | None:
    """Read an object again, as often as it takes to get a reply; None if the reply is that it can't be read."""
    name, namespace = obj.metadata.name, obj.metadata.namespace
    logged = False
    while True:
        try:
            return await client.get(kind, name, namespace)
        except Exception as problem:  # noqa: BLE001 - until a reply arrives, the outcome of the write is unknown
            status: int | None = getattr(problem, "status", None)
            if status is not None and status < _SERVER_ERROR and status != _TOO_MANY_REQUESTS:
                return None
            if not logged:
                where = f"{namespace}/{name}" if namespace else name
                log.warning("cannot find out whether %s %s was written, asking again: %s", kind.kind, where, problem)
                logged = True
        await sleep(_READ_SECONDS)
