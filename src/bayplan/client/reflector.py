"""Reflectors: a local copy of all objects of a kind, kept up to date by list and watch.
Mirrors client-go's tools/cache/reflector.go, with the store and its handlers in one.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from bayplan.api.kinds import Kind
from bayplan.api.objects import decode as decode_object
from bayplan.client.answers import Identity, WatchEvent
from bayplan.client.backoff import Backoff
from bayplan.client.client import Client
from bayplan.client.errors import ApiError, ConfigError, MalformedResponseError, TransportError
from bayplan.client.store import Entry, Store
from bayplan.turns import Turn

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

logger = logging.getLogger(__name__)

WATCH_SECONDS = 300
"""The minimum duration of a watch. The actual one is random, up to twice that, so that watches don't end in step."""

QUIET_PAUSE = 1.0
"""Seconds between the starts of two watches if the first ended without an event."""


class Handler(Protocol[T_contra]):
    """Receives the changes of objects, in order. Its methods run on the event loop, so they must be fast.

    An exception is logged with the object's name, and the next change follows.
    """

    def added(self, new: T_contra) -> None:
        """An object is new, or can be decoded for the first time."""

    def updated(self, old: T_contra, new: T_contra) -> None:
        """An object has changed. A new object with the same name is `deleted` and `added` instead."""

    def deleted(self, old: T_contra) -> None:
        """An object was deleted; `old` is its last known state."""

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """A version of an object can't be decoded. The last good version, if any, stays in the store."""


class Reflector(Generic[T]):
    """Keeps `store` equal to the objects on the server, and notifies `handler` of every change.

        list ──► watch ──► ends, or the connection breaks ──► watch from the last version seen
          ▲        │
          └────────┴── 410 Gone, a malformed event, or a server whose versions went back

    A new list is compared with the store, so the handler receives only the actual changes. Failures are retried
    forever, with `backoff`, and not before the server's Retry-After. `decode` makes the store's values from an object's
    JSON (default: `kind.type`). With `look_for_kind`, a server without the kind counts as one without objects, and the
    list is retried after that many seconds: a custom resource may be defined later. `sleep`, `clock` and `rng` are for
    tests.
    """

    def __init__(
        self,
        client: Client,
        kind: Kind,
        handler: Handler[T],
        *,
        namespace: str | None = None,
        label_selector: str = "",
        field_selector: str = "",
        decode: Callable[[bytes], T] | None = None,
        page_size: int = 500,
        backoff: Backoff | None = None,
        look_for_kind: float | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
        rng: random.Random | None = None,
    ) -> None:
        self.store: Store[T] = Store()
        self.synced = asyncio.Event()
        """Set once the first complete list is in the store."""
        self.problem = ""
        """The error of the last attempt; "" after a success."""
        self._client = client
        self._kind = kind
        self._handler = handler
        self._scope: dict[str, Any] = {
            "namespace": namespace,
            "label_selector": label_selector,
            "field_selector": field_selector,
            "decode": bytes,
        }
        self._decode: Callable[[bytes], T] = decode or partial(decode_object, kind.type)
        self._page_size = page_size
        self._backoff = backoff or Backoff()
        self._sleep = sleep
        self._clock = clock
        self._rng = rng or random.Random()
        self._waits = self._backoff.waits(self._rng)
        self._look_for_kind = look_for_kind
        self._lacking = False
        """Whether the server doesn't have the kind."""
        self._version = ""
        """The version to watch from; "" if a list is needed."""
        self._unreachable = False
        """Whether the server was unreachable, so that another one may respond next."""
        self._undecodable: dict[str, str] = {}
        """By key, the newest version of each object that couldn't be decoded."""
        self._turn = Turn()

    async def run(self) -> None:
        """Runs until cancelled."""
        while True:
            try:
                if self._unreachable and self._version:
                    await self._check_history()
                if not self._version:
                    await self._list()
                pause = await self._watch()
            except (ApiError, TransportError, ConfigError) as error:
                if self._look_for_kind is not None and isinstance(error, ApiError) and error.status == 404:
                    self._remove_all()
                    pause = self._look_for_kind
                else:
                    pause = self._after(error)
            await self._sleep(pause)

    def _remove_all(self) -> None:
        """Empty the store, as the server doesn't have the kind."""
        if not self._lacking:
            logger.warning("the API server has no %s (%s)", self._kind.plural, self._kind.api_version)
        self._lacking = True
        for key in list(self.store):
            self._remove(key)
        self._undecodable.clear()
        self._version = ""
        self.synced.set()

    async def _check_history(self) -> None:
        """Require a list if the server's versions went back while it was unreachable, as after a restore."""
        pages = self._client.pages(self._kind, **self._scope, limit=1)
        async with aclosing(pages):
            async for page in pages:
                if _is_older(page.resource_version, self._version):
                    self._version = ""
                break
        self._unreachable = False

    async def _list(self) -> None:
        try:
            await self._list_pages(self._page_size)
        except ApiError as error:
            if error.status != 410:
                raise
            # The list's version expired between two pages, which can't happen with a single page.
            await self._list_pages(0)
        if self._lacking:
            logger.info("the API server has %s (%s) now", self._kind.plural, self._kind.api_version)
        self._unreachable = self._lacking = False
        self.problem = ""
        self.synced.set()

    async def _list_pages(self, limit: int) -> None:
        seen = set()
        version = ""
        async for page in self._client.pages(self._kind, **self._scope, limit=limit):
            for raw in page.items:
                identity = Identity.of(raw)
                seen.add(identity.key)
                self._put(identity, raw)
                await self._turn.pause()
            version = page.resource_version
        for key in [key for key in self.store if key not in seen]:
            self._remove(key)
            await self._turn.pause()
        for key in [key for key in self._undecodable if key not in seen]:
            del self._undecodable[key]
        self._version = version
        logger.debug("%s: listed %d at version %s", self._kind.resource, len(self.store), version)

    async def _watch(self) -> float:
        """Follow the changes until the watch ends. Returns the wait before the next watch, in seconds."""
        began = self._clock()
        events = 0
        watch = self._client.watch(
            self._kind,
            **self._scope,
            resource_version=self._version,
            timeout_seconds=int(WATCH_SECONDS * (1 + self._rng.random())),
        )
        try:
            async with aclosing(watch):
                async for event in watch:
                    self._apply(event)
                    if not events:
                        self._waits = self._backoff.waits(self._rng)
                        self.problem = ""
                    events += 1
                    await self._turn.pause()
        except MalformedResponseError:
            self._version = ""
            raise
        except TransportError as error:
            if not error.sent:
                raise
            logger.info("%s: the watch broke: %s; resuming from version %s", self._kind.resource, error, self._version)
        lasted = self._clock() - began
        return 0.0 if events else max(0.0, QUIET_PAUSE - lasted)

    def _apply(self, event: WatchEvent) -> None:
        if _is_older(event.resource_version, self._version):
            self._version = ""
            raise MalformedResponseError(
                f"the watch sent version {event.resource_version}, which is older than the previous one"
            )
        if event.type in {"ADDED", "MODIFIED"}:
            self._put(Identity(event.key, event.uid, event.resource_version), event.object)
        elif event.type == "DELETED":
            self._undecodable.pop(event.key, None)
            if event.key in self.store:
                self._remove(event.key)
        self._version = event.resource_version or self._version

    def _put(self, identity: Identity, raw: bytes) -> None:
        key, uid, version = identity.key, identity.uid, identity.resource_version
        entries = self.store.entries
        old = entries.get(key)
        if old is not None and old.version == version and old.uid == uid:
            return
        try:
            new = self._decode(raw)
        except Exception as error:  # noqa: BLE001 - one object that the caller's `decode` fails on must not stop the others
            if not key or self._undecodable.get(key) != version:
                self._undecodable[key] = version
                self._notify("undecodable", key, raw, error)
            return
        self._undecodable.pop(key, None)
        if old is not None and old.uid != uid:
            self._remove(key)
            old = None
        entries[key] = Entry(new, uid, version)
        if old is None:
            self._notify("added", key, new)
        else:
            self._notify("updated", key, old.object, new)

    def _remove(self, key: str) -> None:
        self._notify("deleted", key, self.store.entries.pop(key).object)

    def _notify(self, what: str, key: str, *arguments: Any) -> None:
        try:
            getattr(self._handler, what)(*arguments)
        except Exception:
            logger.exception("%s %s: the handler failed in %s", self._kind.kind, key or "without a name", what)

    def _after(self, error: ApiError | TransportError | ConfigError) -> float:
        """Record a failure. Returns the wait before the next attempt, in seconds."""
        pause = next(self._waits)
        if isinstance(error, ApiError):
            if error.status == 410 or _is_from_the_future(error):
                self._version = ""
            pause = max(pause, error.retry_after or 0.0)
        if isinstance(error, TransportError) and not error.sent:
            self._unreachable = True
        self.problem = f"{self._kind.resource}: {error}"
        logger.warning("%s; retrying in %.1f s", self.problem, pause)
        return pause


def _is_older(version: str, than: str) -> bool:
    """Compares resource versions. Versions that aren't numbers can't be compared."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _is_from_the_future(error: ApiError) -> bool:
    """Whether the requested version is newer than the server's, as after a restore from a backup."""
    causes = error.details.get("causes") or ()
    return any(isinstance(cause, dict) and cause.get("reason") == "ResourceVersionTooLarge" for cause in causes)
