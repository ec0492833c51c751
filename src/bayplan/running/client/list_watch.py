"""ListWatch: follows all objects of a kind by list and watch, and survives failures of the API server.

A watch that is silent for too long is replaced (IDLE_SECONDS): its connection may be half-open. The watch of a kind
that doesn't change asks the server to end before that, because bookmarks come once a minute and before a watch ends.
Mirrors the list and watch of client-go's tools/cache/reflector.go.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import UndecodableObject
from bayplan.core.api.objects import decode as decode_object
from bayplan.foundations.failures import Failures
from bayplan.foundations.turns import Turn
from bayplan.running.client.answers import Identity, WatchEvent
from bayplan.running.client.backoff import Backoff
from bayplan.running.client.client import PATH_SEGMENT, Client
from bayplan.running.client.errors import (
    ApiError,
    ConfigError,
    MalformedResponseError,
    RequestTimeoutError,
    TransportError,
)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

logger = logging.getLogger(__name__)

WATCH_SECONDS = 300
"""The shortest timeout of a watch; up to twice that at random, so that watches do not end at the same time."""

IDLE_SECONDS = 22.0
"""How long a watch may be silent. After that its connection counts as dead, as after a lost NAT entry."""

QUIET_WATCH = 0.75
"""The timeout of a watch without changes, as a share of the idle limit.

Bookmarks come once a minute, and before a watch ends. So the watch of a kind that does not change must end before the
idle limit, and the bookmark keeps its version from expiring.
"""

QUIET_PAUSE = 1.0
"""Seconds between the starts of two watches if the first ended without an event."""

AWAY = 1.2
"""The longest wait, plus jitter, while the server is away or not ready, so that each kind is followed again within two
seconds after it is back. Requests that fail slowly, as those to a busy server do, wait as long as they took.
"""

RequestError = ApiError | TransportError | ConfigError
"""Why a list or a watch failed."""

ReportFailure = Callable[[Kind, RequestError, float], None]
"""Reports that a list or a watch of a kind failed, and after how many seconds it is tried again."""


class Sink(Protocol[T_contra]):
    """Receives changes in order, on the event loop: it must be quick. An exception is logged and stops nothing.

    `key` is `namespace/name`, or the name if the kind isn't namespaced.
    """

    def put(self, key: str, new: T_contra) -> None:
        """An object was created or has changed. An object that replaces another of its name is removed and put."""

    def removed(self, key: str) -> None:
        """An object was deleted."""

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """A version of an object cannot be decoded. The last good version remains valid until a better one arrives."""


class ListWatch(Generic[T]):
    """Reports every change of a kind's objects to `sink`, so that the sink ends equal to the API server.

        list ──► watch ──► ends, or the connection breaks ──► watch from the last version seen
          ▲        │
          └────────┴── 410 Gone, a malformed event, or a server whose versions have gone back

    A new list is compared with the versions that were reported, so that only changes are reported again. Failures are
    retried without end, with `backoff`; a server that is away gets only its first waits (AWAY), and not before
    the server's Retry-After. `decode` makes an object from its JSON (default: `kind.type`). With `look_for_kind`, a
    server that lacks the kind counts as one without objects, and is asked again after that many seconds, because a
    custom resource may be defined or deleted later. Where it has one of the `older` versions of the kind instead, that
    one is followed. A silent watch is replaced after `idle_seconds`. `failures` records handlers that fail.
    `report_failure` reports requests that fail (default: a warning for each), and `report_list` that all objects of a
    complete list were reported. `clock` returns seconds, and is the caller's: in virtual time,
    other tasks have their turn at the same changes on every machine. `sleep` and `rng` are for tests.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        sink: Sink[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        decode: Callable[[bytes], T] | None = None,
        page_size: int = 500,
        backoff: Backoff | None = None,
        look_for_kind: float | None = None,
        older: Sequence[Kind] = (),
        idle_seconds: float = IDLE_SECONDS,
        failures: Failures | None = None,
        report_failure: ReportFailure | None = None,
        report_list: Callable[[], None] | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.synced = asyncio.Event()
        """Set once the first complete list was reported."""
        self.problem = ""
        """Why the last request failed; "" after the server has replied since."""
        self.problem_since = datetime.now(UTC)
        """When requests began to fail, if there is a problem."""
        self.kind = kind
        self._client = client
        self._sink = sink
        self._known: dict[str, tuple[str, str]] = {}
        """key of an object that the sink has -> its uid and its resource version"""
        self._scope: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "decode": bytes,
        }
        self._decode: Callable[[bytes], T] = decode or self._decode_served
        self._page_size = page_size
        self._backoff = backoff or Backoff()
        self._sleep = sleep
        self._clock = clock
        self._rng = rng or random.Random()
        self._waits = self._backoff.waits(self._rng)
        self._look_for_kind = look_for_kind
        self._versions = deque((kind, *older))
        """The versions of the kind; the first one is followed."""
        self._absent = 0
        """How many of them the server was found to lack since it last had one."""
        self._lacking = False
        """Whether the server lacks the kind."""
        self._version = ""
        """The version to watch from; "" where a list is needed."""
        self._unreachable = False
        """Whether the server could not be reached, so that another one may reply now."""
        self._undecodable: dict[str, str] = {}
        """key of an object whose newest version could not be decoded -> that version"""
        self._idle_seconds = idle_seconds
        self._quiet = True
        """Whether the last watch reported no change."""
        self._failures = failures or Failures()
        self._report_failure = report_failure or _log_failure
        self._report_list = report_list
        self._list_seconds = 0.0
        """How long the last list took."""
        self._away = False
        """Whether the server was away or not ready at the last failure."""
        self._unreadable_event = False
        """Whether the watch ended because of an event that cannot be decoded."""
        self._turn = Turn(clock)

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        while True:
            began = self._clock()
            try:
                if self._unreachable and self._version:
                    await self._check_history()
                if not self._version:
                    await self._list()
                pause = await self._watch()
            except (ApiError, TransportError, ConfigError) as error:
                if self._look_for_kind is not None and isinstance(error, ApiError) and error.status == 404:
                    pause = self._after_absence(self._look_for_kind)
                else:
                    pause = self._after(error, self._clock() - began)
            await self._sleep(pause)

    def _after_absence(self, pause: float) -> float:
        """Turn to the next version of the kind, because the server lacks this one. Returns the seconds to wait."""
        self._absent += 1
        self._versions.rotate(-1)
        self._version = ""
        self._known = {key: (uid, "") for key, (uid, _) in self._known.items()}  # another version is another form
        if self._absent < len(self._versions):
            return 0.0
        self._absent = 0
        self._nothing_there()
        return pause

    def _nothing_there(self) -> None:
        """Report all objects as removed, because the server lacks the kind."""
        if not self._lacking:
            versions = " or ".join(version.api_version for version in self._versions)
            logger.warning("the API server has no %s (%s)", self.kind.plural, versions)
        self._lacking = True
        for key in list(self._known):
            self._remove(key)
        self._undecodable.clear()
        self._version = ""
        self.synced.set()

    async def _check_history(self) -> None:
        """After the server was unreachable: list again if its versions have gone back, as after a restore."""
        pages = self._client.pages(self._versions[0], **self._scope, limit=1)
        async with aclosing(pages):
            async for page in pages:
                if _is_older(page.resource_version, self._version):
                    self._version = ""
                break
        self._unreachable = False
        self.problem = ""

    async def _list(self) -> None:
        began = self._clock()
        try:
            await self._list_pages(self._page_size)
        except ApiError as error:
            if error.status != 410:
                raise
            # The list's version expired between two pages; a list in one piece cannot expire.
            await self._list_pages(0)
        if self._lacking:
            logger.info("the API server has %s (%s) now", self.kind.plural, self._versions[0].api_version)
        self._unreachable = self._lacking = False
        self._absent = 0
        self._list_seconds = self._clock() - began
        self.problem = ""
        self.synced.set()
        if self._report_list is not None:
            self._report_list()

    async def _list_pages(self, limit: int) -> None:
        seen = set()
        version = ""
        async for page in self._client.pages(self._versions[0], **self._scope, limit=limit):
            if not page.resource_version:
                raise MalformedResponseError(f"the list of {self.kind.plural} has no resource version")
            for raw in page.items:
                identity = Identity.of(raw)
                seen.add(identity.key)
                self._put(identity, raw)
                await self._turn.pause()
            version = page.resource_version
        for key in [key for key in self._known if key not in seen]:
            self._remove(key)
            await self._turn.pause()
        for key in [key for key in self._undecodable if key not in seen]:
            del self._undecodable[key]
        self._version = version
        logger.debug("%s: listed %d at version %s", self.kind.resource, len(self._known), version)

    async def _watch(self) -> float:
        """Follow the changes until the watch ends. Returns the seconds to wait before the next one."""
        began = self._clock()
        events = 0
        longest = WATCH_SECONDS * (1 + self._rng.random())
        quiet, self._quiet = self._quiet, True
        watch = self._client.watch(
            self._versions[0],
            **self._scope,
            resource_version=self._version,
            timeout_seconds=max(1, int(self._idle_seconds * QUIET_WATCH if quiet else longest)),
            idle_seconds=self._idle_seconds,
        )
        try:
            async with aclosing(watch):
                async for event in watch:
                    self._apply(event)
                    if not events:
                        self._waits = self._backoff.waits(self._rng)
                        self.problem = ""
                    events += 1
                    self._quiet = self._quiet and event.type == "BOOKMARK"
                    await self._turn.pause()
        except MalformedResponseError:
            self._version = ""
            self._unreadable_event = True
            raise
        except TransportError as error:
            if not error.sent:
                raise
            # A lull after changes is usual. It ends the watch only because its connection may be dead.
            level = logging.DEBUG if events and isinstance(error, RequestTimeoutError) else logging.INFO
            resource, version = self.kind.resource, self._version
            logger.log(level, "%s: the watch broke: %s; resuming from version %s", resource, error, version)
        lasted = self._clock() - began
        return 0.0 if events else max(0.0, QUIET_PAUSE - lasted)

    def _apply(self, event: WatchEvent) -> None:
        if _is_older(event.resource_version, self._version):
            self._version = ""
            raise MalformedResponseError(
                f"the watch sent version {event.resource_version}, which is older than an earlier one"
            )
        if event.type in {"ADDED", "MODIFIED"}:
            self._put(Identity(event.key, event.uid, event.resource_version), event.object)
        elif event.type == "DELETED":
            self._undecodable.pop(event.key, None)
            if event.key in self._known:
                self._remove(event.key)
        self._version = event.resource_version or self._version

    def _decode_served(self, raw: bytes) -> Any:
        obj = decode_object(self._versions[0].type, raw)
        if isinstance(obj, CustomObject):  # lists of built-in kinds don't say which version they have
            obj.setdefault("apiVersion", self._versions[0].api_version)
        return obj

    def _put(self, identity: Identity, raw: bytes) -> None:
        key, uid, version = identity.key, identity.uid, identity.resource_version
        old = self._known.get(key)
        if old == (uid, version):
            return
        try:
            new = self._decode(raw)
            if old is None and not _is_key(self.kind, key):
                raise UndecodableObject("it has no valid name and namespace", kind=self.kind.kind)
        except Exception as error:  # noqa: BLE001 - `decode` is the caller's, and one object must not stop the others
            if self._undecodable.get(key) != version:
                self._undecodable[key] = version
                self._report("undecodable", key, raw, error)
            return
        self._undecodable.pop(key, None)
        if old is not None and old[0] != uid:
            self._remove(key)
        self._known[key] = uid, version
        self._report("put", key, key, new)

    def _remove(self, key: str) -> None:
        del self._known[key]
        self._report("removed", key, key)

    def _report(self, what: str, key: str, *arguments: Any) -> None:
        try:
            getattr(self._sink, what)(*arguments)
        except Exception as error:  # noqa: BLE001 - it is recorded; one object must not stop the others
            self._failures.record(f"handling a change of {self.kind.plural}", error, f"{self.kind.kind} {key} {what}")

    def _after(self, error: RequestError, lasted: float) -> float:
        """Prepare the next request after a failure. Returns the seconds to wait before it.

        `lasted`: how many seconds the failed request took.
        """
        expired = isinstance(error, ApiError) and (error.status == 410 or _is_from_the_future(error))
        away = not expired and _is_away(error)
        if expired or self._unreadable_event or away != self._away:  # the server works, or works again, or fails anew
            self._waits = self._backoff.waits(self._rng)
        pause = next(self._waits)
        if away:
            pause = min(pause, max(lasted, AWAY * (1 + self._backoff.jitter * self._rng.random())))
        if expired:
            self._version = ""
        if expired or self._unreadable_event:  # lists take a third of the time at most
            pause = max(pause, 2 * self._list_seconds)
        self._away, self._unreadable_event = away, False
        if isinstance(error, ApiError):
            pause = max(pause, error.retry_after or 0.0)
        if isinstance(error, TransportError) and not error.sent:
            self._unreachable = True
        if not self.problem:
            self.problem_since = datetime.now(UTC)
        self.problem = f"{self.kind.resource}: {error}"
        self._report_failure(self.kind, error, pause)
        return pause


def _log_failure(kind: Kind, error: RequestError, pause: float) -> None:
    logger.warning("%s: %s; retrying in %.1f s", kind.resource, error, pause)


def _is_key(kind: Kind, key: str) -> bool:
    """Whether an object with this key has an address on the server."""
    parts = key.split("/")
    # only the server knows whether a custom kind has namespaces
    possible = {2 if kind.namespaced else 1} if kind.model else {1, 2}
    return len(parts) in possible and all(map(PATH_SEGMENT.fullmatch, parts))


def _is_away(error: RequestError) -> bool:
    """Whether the server can't be reached or isn't ready, which nothing but another request can tell the end of."""
    if isinstance(error, ApiError):
        return error.status == 429 or error.status >= 500
    return isinstance(error, TransportError)


def _is_older(version: str, than: str) -> bool:
    """Compare resource versions; False where one is not a number."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _is_from_the_future(error: ApiError) -> bool:
    """Whether the server does not know the requested version yet, as after a restore."""
    causes = error.details.get("causes")
    return isinstance(causes, list) and any(
        isinstance(cause, dict) and cause.get("reason") == "ResourceVersionTooLarge" for cause in causes
    )
