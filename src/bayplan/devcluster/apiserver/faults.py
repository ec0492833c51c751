"""Misfortune on demand, for tests: requests that fail, hang, come late, or are carried out without an answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from bayplan.devcluster.apiserver.http.messages import ConnectionDropped
from bayplan.devcluster.apiserver.requests import RequestInfo
from bayplan.devcluster.apiserver.status import StatusError


@dataclass(slots=True)
class Fault:
    """What befalls the requests that match. Fields that are None match everything.

    `verb` is as in RBAC (create, get, list, watch, update, patch, delete, deletecollection); a bind is a create of the
    resource `pods` with the subresource `binding`.
    """

    verb: str | None = None
    resource: str | None = None
    subresource: str | None = None
    namespace: str | None = None
    name: str | None = None
    when: Callable[[RequestInfo], bool] | None = None
    """A further condition."""
    times: int | None = None
    """How many requests it befalls, all if None."""
    delay: float = 0.0
    """Seconds before anything happens."""
    answer: int | None = None
    """The HTTP status to answer with, instead of carrying the request out."""
    reason: str = ""
    message: str = "injected fault"
    retry_after: float | None = None
    """Seconds for a Retry-After header beside `answer`."""
    hang: bool = False
    """Never answers, and does not carry the request out."""
    drop: str | None = None
    """"before" or "after": closes the connection before, or after, carrying the request out."""
    hits: int = 0
    """How many requests it has befallen."""

    def befalls(self, info: RequestInfo) -> bool:
        """Whether the request is one of those that it is for."""
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
    """The faults of one server. Of several that match a request, the one added first befalls it."""

    watch_seconds: float | None = None
    """How long every watch lasts at most, None for as long as it asks for; for watches that begin from now on."""
    _active: list[Fault] = field(default_factory=list)
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def add(self, fault: Fault) -> Fault:
        """Begins a fault; its `hits` tells how often it has struck."""
        self._active.append(fault)
        return fault

    def clear(self) -> None:
        """Ends all faults; requests that hang are dropped."""
        self._active.clear()
        self.watch_seconds = None
        self._released.set()
        self._released = asyncio.Event()

    async def before(self, info: RequestInfo) -> Fault | None:
        """What happens before a request is carried out. Raises StatusError or ConnectionDropped."""
        fault = next((fault for fault in self._active if fault.befalls(info)), None)
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
        """Whether there is any."""
        return bool(self._active)
