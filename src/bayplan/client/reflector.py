"""Reflectors: a local copy of all objects of a kind, kept current by list and watch through whatever happens.
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
from bayplan.client.errors import ApiError, ConfigError, MalformedAnswerError, TransportError
from bayplan.client.store import Entry, Store
from bayplan.turns import Turn

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

logger = logging.getLogger(__name__)

WATCH_SECONDS = 300
"""The least time for which a watch is asked for; up to twice that at random, so that watches do not end in step."""

QUIET_PAUSE = 1.0
"""Seconds between the beginnings of two watches if the first ended without an event."""


class Handler(Protocol[T_contra]):
    """What is told of changes, in their order, on the event loop: be quick.

    An exception is logged with the object's name, and the next change comes all the same.
    """

    def added(self, new: T_contra) -> None:
        """There is a new object, or one that can be decoded at last."""

    def updated(self, old: T_contra, new: T_contra) -> None:
        """An object has changed. It is the same object: another one of its name is `deleted` and `added`."""

    def deleted(self, old: T_contra) -> None:
        """An object is gone; `old` is its last state known here."""

    def undecodable(self, raw: bytes, error: Exception) -> None:
        """A version of an object cannot be decoded; until a better one comes, the last good version stays, if any."""


class Reflector(Generic[T]):
    """Keeps `store` equal to what the server has, and tells `handler` of every change.

        list ──► watch ──► ends, or the connection breaks ──► watch from the last version seen
          ▲        │
          └────────┴── 410 Gone, an unreadable event, or a server whose versions have gone back

    A new list is compared with the store, so the handler hears of what changed meanwhile and of nothing else.
    Failures are retried for ever, with `backoff`, and not before the server's Retry-After. `decode` makes the store's
    values from an object's JSON (default: `kind.type`). With `look_for_kind`, a server that lacks the kind has none of
    its objects, and is asked again after so many seconds: the definition of a custom resource may come yet, or go.
    `sleep`, `clock` and `rng` are there for tests.
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
        """Set once the first complete list has been handed over."""
        self.problem = ""
        """What the last try failed by; "" once something has come from the server since."""
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
        """Whether the server lacks the kind."""
        self._version = ""
        """The version from which to watch on; "" when only a list will do."""
        self._unreachable = False
        """Whether the server could not be reached, so that another may answer now."""
        self._undecodable: dict[str, str] = {}
        """The version by key of each object whose newest version could not be decoded."""
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
                    self._nothing_there()
                    pause = self._look_for_kind
                else:
                    pause = self._after(error)
            await self._sleep(pause)

    def _nothing_there(self) -> None:
        """The server lacks the kind: then it has none of its objects."""
        if not self._lacking:
            logger.warning("the API server has no %s (%s)", self._kind.plural, self._kind.api_version)
        self._lacking = True
        for key in list(self.store):
            self._remove(key)
        self._undecodable.clear()
        self._version = ""
        self.synced.set()

    async def _check_history(self) -> None:
        """After the server was away: if its versions have gone back, ours are of a history that is no more."""
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
            # The list's version expired between two pages: in one piece it cannot.
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
        """Follows the changes until the watch ends. Returns how long to wait before the next."""
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
        except MalformedAnswerError:
            self._version = ""
            raise
        except TransportError as error:
            if not error.sent:
                raise
            logger.info("%s: the watch broke: %s; going on from version %s", self._kind.resource, error, self._version)
        lasted = self._clock() - began
        return 0.0 if events else max(0.0, QUIET_PAUSE - lasted)

    def _apply(self, event: WatchEvent) -> None:
        if _is_older(event.resource_version, self._version):
            self._version = ""
            raise MalformedAnswerError(
                f"the watch tells of version {event.resource_version}, which is older than what came before"
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
        except Exception as error:  # noqa: BLE001 - `decode` is the caller's, and one object must not stop all others
            if not key or self._undecodable.get(key) != version:
                self._undecodable[key] = version
                self._tell("undecodable", key, raw, error)
            return
        self._undecodable.pop(key, None)
        if old is not None and old.uid != uid:
            self._remove(key)
            old = None
        entries[key] = Entry(new, uid, version)
        if old is None:
            self._tell("added", key, new)
        else:
            self._tell("updated", key, old.object, new)

    def _remove(self, key: str) -> None:
        self._tell("deleted", key, self.store.entries.pop(key).object)

    def _tell(self, what: str, key: str, *arguments: Any) -> None:
        try:
            getattr(self._handler, what)(*arguments)
        except Exception:
            logger.exception("%s %s: the handler failed on %s", self._kind.kind, key or "without a name", what)

    def _after(self, error: ApiError | TransportError | ConfigError) -> float:
        """What a failure means for the next try, and how long to wait before it."""
        pause = next(self._waits)
        if isinstance(error, ApiError):
            if error.status == 410 or _is_from_the_future(error):
                self._version = ""
            pause = max(pause, error.retry_after or 0.0)
        if isinstance(error, TransportError) and not error.sent:
            self._unreachable = True
        self.problem = f"{self._kind.resource}: {error}"
        logger.warning("%s; next try in %.1f s", self.problem, pause)
        return pause


def _is_older(version: str, than: str) -> bool:
    """Compares resource versions; those that are no numbers tell nothing."""
    return version.isdecimal() and than.isdecimal() and int(version) < int(than)


def _is_from_the_future(error: ApiError) -> bool:
    """Whether the server has not got as far as the version that was asked for, as after it was set back."""
    causes = error.details.get("causes") or ()
    return any(isinstance(cause, dict) and cause.get("reason") == "ResourceVersionTooLarge" for cause in causes)
