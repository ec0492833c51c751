"""Fault injection for tests: requests that fail, hang, are delayed, or are carried out without a response.

The last one is the interesting one: the client must not take a lost reply for a failed write.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from bayplan.core.api.status import StatusError
from bayplan_devcluster.apiserver.http.messages import ConnectionDropped
from bayplan_devcluster.apiserver.http.request_info import RequestInfo


@dataclass(slots=True)
class Fault:
    """A fault of the requests that match. Fields that are None match everything.

    `verb` is as in RBAC (create, get, list, watch, update, patch, delete, deletecollection); a bind is a create of the
    resource `pods` with the subresource `binding`.
    """

    verb: str | None = None
    resource: str | None = None
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None
    when: Callable[[RequestInfo], bool] | None = None
    """An additional condition."""
    times: int | None = None
    """The number of requests to affect, None for all."""
    delay: float = 0.0
    """Seconds before anything else happens."""
    answer: int | None = None
    """The HTTP status to return instead of carrying the request out."""
    reason: str = ""
    message: str = "injected fault"
    retry_after: float | None = None
    """Seconds for a Retry-After header, with `answer`."""
    hang: bool = False
    """Never respond, and do not carry the request out."""
    drop: str | None = None
    """Close the connection "before" or "after" carrying the request out."""
    hits: int = 0
    """The number of requests that it has affected."""

    def matches(self, info: RequestInfo) -> bool:
        """Whether it affects the request."""
        return (
            (self.times is None or self.hits < self.times)
            and (self.verb is None or self.verb == info.verb)
            and (self.resource is None or self.resource == info.resource)
            and (self.subresource is None or self.subresource == info.subresource)
            and (self.namespace is None or self.namespace == info.namespace)
            and (self.name is None or self.name == info.name)
            and (self.when is None or self.when(info))
        )


@dataclass(slots=True)
class Faults:
    """The faults of one server. If several match a request, the one that was added first applies."""

    watch_seconds: float | None = None
    """The longest duration of watches that start from now on, None for no limit."""
    _active: list[Fault] = field(default_factory=list)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, fault: Fault) -> Fault:
        """Adds a fault, which takes effect immediately; its `hits` counts the affected requests."""
        self._active.append(fault)
        return fault

    def clear(self) -> None:
        """Removes all faults; drops the connections of requests that hang."""
        self._active.clear()
        self.watch_seconds = None
        self._released.set()
        self._released = asyncio.Event()

    async def before(self, info: RequestInfo) -> Fault | None:
        """Applies the matching fault before a request is carried out, and returns it.

        Raises StatusError or ConnectionDropped.
        """
        fault = next((fault for fault in self._active if fault.matches(info)), None)
        if fault is None:
            return None
        fault.hits += 1
        if fault.delay:
            await asyncio.sleep(fault.delay)
        if fault.hang:
            await self._released.wait()
            raise ConnectionDropped
        if fault.drop == "before":
            raise ConnectionDropped
        if fault.answer is not None:
            details = None if fault.retry_after is None else {"retryAfterSeconds": int(fault.retry_after)}
            raise StatusError(fault.answer, fault.reason, fault.message, details)
        return fault

    @property
    def active(self) -> bool:
        """Whether there are any faults."""
        return bool(self._active)
