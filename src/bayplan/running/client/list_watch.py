"""ListWatch: follows all objects of a kind by list and watch, and survives failures of the API server.

    pods = ListWatch(client, POD, sink, field_selector="spec.nodeName=node-1")
    await pods.run()    # until cancelled; `sink` has put, removed and undecodable

A watch that is silent for too long is replaced: its connection may be half-open. The watch of a kind that doesn't
change asks the server to end before that, because bookmarks come once a minute and before a watch ends. How long it
waits between two requests is a matter of `pace.py`. Mirrors the list and watch of client-go's tools/cache/reflector.go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar, Unpack

from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import Kind
from bayplan.core.api.objects import UndecodableObject
from bayplan.core.api.objects import decode as decode_object
from bayplan.foundations.failures import Failures
from bayplan.foundations.turns import Turn
from bayplan.running.client.answers import Identity, WatchEvent
from bayplan.running.client.client import PATH_SEGMENT, Client, Scope
from bayplan.running.client.errors import (
    ApiError,
    ConfigError,
    MalformedResponseError,
    RequestTimeoutError,
    TransportError,
)
from bayplan.running.client.pace import Pace, RequestError, Retries, is_expired

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

logger = logging.getLogger(__name__)

WATCH_SECONDS = 300
"""The shortest timeout of a watch; up to twice that at random, so that watches do not end at the same time."""

QUIET_WATCH = 0.75
"""The timeout of a watch without changes, as a share of the idle limit.

Bookmarks come once a minute, and before a watch ends. So the watch of a kind that does not change must end before the
idle limit, and the bookmark keeps its version from expiring.
"""

QUIET_PAUSE = 1.0
"""Seconds between the starts of two watches if the first ended without an event."""


class Reports:
    """What happens to a ListWatch, as calls. By default, failed requests are logged: override what you want to know."""

    def listed(self) -> None:
        """All objects of a complete list were given to the sink."""

    def failed(self, kind: Kind, error: RequestError, pause: float) -> None:
        """A list or a watch failed; it is tried again after `pause` seconds."""
        logger.warning("%s: %s; retrying in %.1f s", kind.resource, error, pause)


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
    retried without end, as fast as `pace` says. `decode` makes an object from its JSON (default: `kind.type`).
    `scope`: which objects of the kind are followed (default: all). `failures` records handlers that fail; `reports` is
    told of lists, and of requests that fail.

    With `look_for_kind`, a server that lacks the kind counts as one without objects, and is asked again after that many
    seconds, because a custom resource may be defined or deleted later. Where it has one of the `older` versions of the
    kind instead, that one is followed.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        sink: Sink[T],
        *,
        decode: Callable[[bytes], T] | None = None,
        look_for_kind: float | None = None,
        older: Sequence[Kind] = (),
        pace: Pace | None = None,
        failures: Failures | None = None,
        reports: Reports | None = None,
        **scope: Unpack[Scope],
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
        self._scope = scope
        self._decode: Callable[[bytes], T] = decode or self._decode_served
        self._pace = pace or Pace()
        self._retries = Retries(self._pace)
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
        self._quiet = True
        """Whether the last watch reported no change."""
        self._failures = failures or Failures()
        self._reports = reports or Reports()
        self._turn = Turn(self._pace.clock)

    async def run(self) -> None:
        """Follow the kind until cancelled."""
        while True:
            began = self._pace.clock()
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
                    pause = self._after(error, self._pace.clock() - began)
            await self._pace.sleep(pause)

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
            step = "install their definition or enable their API"
            logger.warning("the API server has no %s (%s): %s; none count until then", self.kind.plural, versions, step)
        self._lacking = True
        for key in list(self._known):
            self._remove(key)
        self._undecodable.clear()
        self._version = ""
        self.synced.set()

    async def _check_history(self) -> None:
        """After the server was unreachable: list again if its versions have gone back, as after a restore."""
        pages = self._client.pages(self._versions[0], **self._scope, decode=bytes, limit=1)
        async with aclosing(pages):
            async for page in pages:
                if _is_older(page.resource_version, self._version):
                    self._version = ""
                break
        self._unreachable = False
        self.problem = ""

    async def _list(self) -> None:
        began = self._pace.clock()
        try:
            await self._list_pages(self._pace.page_size)
        except ApiError as error:
            if error.status != 410:
                raise
            # The list's version expired between two pages; a list in one piece cannot expire.
            await self._list_pages(0)
        if self._lacking:
            logger.info("the API server has %s (%s) now", self.kind.plural, self._versions[0].api_version)
        self._unreachable = self._lacking = False
        self._absent = 0
        self._retries.list_seconds = self._pace.clock() - began
        self.problem = ""
        self.synced.set()
        self._reports.listed()

    async def _list_pages(self, limit: int) -> None:
        seen = set()
        version = ""
        async for page in self._client.pages(self._versions[0], **self._scope, decode=bytes, limit=limit):
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
        began = self._pace.clock()
        idle = self._pace.idle_seconds
        events = 0
        longest = WATCH_SECONDS * (1 + self._pace.rng.random())
        quiet, self._quiet = self._quiet, True
        watch = self._client.watch(
            self._versions[0],
            **self._scope,
            decode=bytes,
            resource_version=self._version,
            timeout_seconds=max(1, int(idle * QUIET_WATCH if quiet else longest)),
            idle_seconds=idle,
        )
        try:
            async with aclosing(watch):
                async for event in watch:
                    self._apply(event)
                    if not events:
                        self._retries.restart()
                        self.problem = ""
                    events += 1
                    self._quiet = self._quiet and event.type == "BOOKMARK"
                    await self._turn.pause()
        except MalformedResponseError:
            self._version = ""
            self._retries.unreadable_event = True
            raise
        except TransportError as error:
            if not error.sent:
                raise
            # A lull after changes is usual. It ends the watch only because its connection may be dead.
            level = logging.DEBUG if events and isinstance(error, RequestTimeoutError) else logging.INFO
            resource, version = self.kind.resource, self._version
            logger.log(level, "%s: the watch broke: %s; resuming from version %s", resource, error, version)
        lasted = self._pace.clock() - began
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
        pause = self._retries.after(error, lasted)
        if is_expired(error):
            self._version = ""
        if isinstance(error, TransportError) and not error.sent:
            self._unreachable = True
        if not self.problem:
            self.problem_since = datetime.now(UTC)
        self.problem = f"{self.kind.resource}: {error}"
        self._reports.failed(self.kind, error, pause)
        return pause


def _is_key(kind: Kind, key: str) -> bool:
    """Whether an object with this key has an address on the server."""
    parts = key.split("/")
    # only the server knows whether a custom kind has namespaces
    possible = {2 if kind.namespaced else 1} if kind.model else {1, 2}
    return len(parts) in possible and all(map(PATH_SEGMENT.fullmatch, parts))


def _is_older(version: str, than: str) -> bool:
    """Compare resource versions; False where one is not a number."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)
