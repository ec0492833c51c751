"""Leader election: of several schedulers, the one that holds a Lease decides.

Mirrors client-go's tools/leaderelection. A holder stops within `renew_deadline` of the moment at which it sent its last
renewal; others wait for `lease_duration` from the moment at which they saw it. Both are measured here, by a clock that
only moves forward and also while the machine sleeps, so that nobody's time of day matters.
"""

from __future__ import annotations

import asyncio
import logging
import random
import socket
import threading
import time
import uuid
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

import msgspec
from lightkube.models.coordination_v1 import Lease, LeaseSpec
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.api.kinds import EVENT, LEASE
from bayplan.api.objects import UndecodableObject, encode
from bayplan.api.times import micro_time
from bayplan.client import ApiError, Client, ConfigError, TransportError
from bayplan.client.events import new_event, reference
from bayplan.clock import Clock, SystemClock

log = logging.getLogger(__name__)

JITTER = 1.2
"""Those that wait for the lease come back after the retry period, and up to so many times that more."""
_TROUBLES = (ApiError, TransportError, UndecodableObject, ConfigError, TimeoutError)


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """Whose lease it is about, and how long things take, in seconds."""

    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class LeaseLostError(Exception):
    """The lease was not renewed in time, or somebody else has it: to go on deciding would be to decide twice."""


class Leadership(Protocol):
    """What a scheduler wants to know. `acquired` and `lost` belong to the scheduler's event loop."""

    @property
    def acquired(self) -> asyncio.Event:
        """Set when it may begin to decide."""

    @property
    def lost(self) -> asyncio.Event:
        """Set when it has to stop at once, for good."""

    def leads(self) -> bool:
        """Whether it may decide at this very moment, even if the loop has not heard of the end of it yet."""


class LeaderElector:
    """Gets a lease, holds it, gives it back.

    ::

        acquire -----> holds it ---- renewed within the deadline ----+
                         |  ^                                        |
                         |  +----------------------------------------+
                         |  not renewed, or somebody else's
                         v
                       lost, for good

    `leads_until` is until when it may decide, by `elapsed`; `sleep`, `clock` and `rng` are there for tests.
    """

    def __init__(
        self,
        client: Client,
        identity: str,
        settings: LeaderElectionSettings = LeaderElectionSettings(),
        *,
        elapsed: Callable[[], float] | None = None,
        clock: Clock | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        rng: random.Random | None = None,
    ) -> None:
        self.identity = identity
        self.leads_until = float("-inf")
        self._client = client
        self._settings = settings
        self._elapsed = elapsed or boot_time
        self._clock = clock or SystemClock()
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._seen: Lease | None = None
        """The lease as it was last seen or written here, and when that was."""
        self._seen_at = float("-inf")

    def leads(self) -> bool:
        """Whether it holds the lease, and for certain."""
        return self._elapsed() < self.leads_until

    @property
    def leader(self) -> str:
        """Who holds the lease as far as is known here."""
        return (self._seen.spec.holderIdentity if self._seen and self._seen.spec else None) or ""

    async def acquire(self) -> None:
        """Wait until the lease is ours."""
        reported = ""
        while not await self._try():
            if self.leader not in {"", reported}:
                reported = self.leader
                log.info("%s holds the lease %s; waiting for it", reported, self._key)
            period = self._settings.retry_period
            await self._sleep(period * (1 + JITTER * self._rng.random()))
        log.info("this is the leader now: %s holds the lease %s", self.identity, self._key)
        await self._tell("became leader")

    async def hold(self) -> None:
        """Renew the lease for as long as that works. Returns when it is lost."""
        while self.leads():
            await self._sleep(min(self._settings.retry_period, max(0.0, self.leads_until - self._elapsed())))
            if not await self._try() and self.leader != self.identity:
                break
        self.leads_until = float("-inf")
        log.error("lost the lease %s to %s", self._key, self.leader if self.leader != self.identity else "nobody yet")

    async def release(self) -> None:
        """Let another one have the lease now. Nothing may be decided any more."""
        self.leads_until = float("-inf")
        now = micro_time(self._clock.now())
        try:
            async with asyncio.timeout(self._settings.renew_deadline / 2):
                lease: Lease = await self._client.get(LEASE, self._settings.name, self._settings.namespace)
                spec = lease.spec or LeaseSpec()
                if spec.holderIdentity != self.identity:
                    return
                freed = LeaseSpec(
                    holderIdentity="",
                    leaseDurationSeconds=1,
                    acquireTime=now,
                    renewTime=now,
                    leaseTransitions=spec.leaseTransitions,
                )
                self._note(await self._client.update(LEASE, msgspec.structs.replace(lease, spec=freed)))
        except _TROUBLES as error:
            log.warning("the lease %s could not be given back: %s", self._key, error or "no answer in time")
        else:
            await self._tell("stopped leading")

    @property
    def _key(self) -> str:
        return f"{self._settings.namespace}/{self._settings.name}"

    async def _try(self) -> bool:
        """Get or renew the lease. Returns whether that was done; if so, it is held from when it was asked for."""
        asked_at = self._elapsed()
        try:
            async with asyncio.timeout(self._settings.renew_deadline / 2):
                done = await self._renew_what_was_seen() or await self._take_what_is_there()
        except _TROUBLES as error:
            log.warning("the lease %s cannot be had now: %s", self._key, error or "no answer in time")
            return False
        if done:
            self.leads_until = asked_at + self._settings.renew_deadline
        return done

    async def _renew_what_was_seen(self) -> bool:
        """The short way for a holder: nobody else writes the lease as a rule."""
        if self._seen is None or self.leader != self.identity or not self._is_valid():
            return False
        try:
            self._note(await self._client.update(LEASE, self._ours(self._seen)))
        except ApiError as error:
            log.debug("the lease %s has changed: %s", self._key, error)
            return False
        return True

    async def _take_what_is_there(self) -> bool:
        settings = self._settings
        try:
            there: Lease = await self._client.get(LEASE, settings.name, settings.namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            new = Lease(metadata=ObjectMeta(name=settings.name, namespace=settings.namespace))
            self._note(await self._client.create(LEASE, self._ours(new)))
            return True
        if self._seen is None or there.spec != self._seen.spec:
            self._note(there)
        if self.leader not in {"", self.identity} and self._is_valid():
            return False
        self._note(await self._client.update(LEASE, self._ours(there)))
        return True

    def _ours(self, lease: Lease) -> Lease:
        """The lease as it is to be, if it is to be ours from now on."""
        old, now = lease.spec or LeaseSpec(), micro_time(self._clock.now())
        holds = old.holderIdentity == self.identity
        transitions = old.leaseTransitions or 0
        new = old.holderIdentity is None
        spec = LeaseSpec(
            holderIdentity=self.identity,
            leaseDurationSeconds=int(self._settings.lease_duration),
            acquireTime=old.acquireTime if holds else now,
            renewTime=now,
            leaseTransitions=transitions if holds or new else transitions + 1,
        )
        return msgspec.structs.replace(lease, spec=spec)

    def _note(self, lease: Lease) -> None:
        self._seen, self._seen_at = lease, self._elapsed()

    def _is_valid(self) -> bool:
        """Whether whoever holds the lease may still count on it."""
        spec = self._seen.spec if self._seen else None
        return self._seen_at + ((spec.leaseDurationSeconds if spec else None) or 0) > self._elapsed()

    async def _tell(self, what: str) -> None:
        """Write an event about the lease. It is only news: if that fails, it is not repeated."""
        namespace, name = self._settings.namespace, self._settings.name
        uid = self._seen.metadata.uid if self._seen and self._seen.metadata else None
        event = new_event(
            reference(LEASE, namespace, name, uid or ""),
            self._clock.now(),
            event_type="Normal",
            reason="LeaderElection",
            action="LeaderElection",
            note=f"{self.identity} {what}",
            controller="default-scheduler",
            instance=self.identity,
        )
        try:
            async with asyncio.timeout(self._settings.renew_deadline / 2):
                await self._client.request("POST", EVENT.path(namespace), body=encode(event))
        except _TROUBLES as error:
            log.debug("an event about the lease %s could not be written: %s", self._key, error)


OpenClient = Callable[[], AbstractAsyncContextManager[Client]]


class LeaderElection:
    """An elector in a thread of its own, with an event loop and a client of its own. Implements Leadership.

    So a plugin that blocks the scheduler does not cost it the lease, and a lost lease is noticed meanwhile. Used as
    `async with`; at the end of it the lease is given back.
    """

    def __init__(self, open_client: OpenClient, settings: LeaderElectionSettings, identity: str = "") -> None:
        self.identity = identity or f"{socket.gethostname()}_{uuid.uuid4()}"
        self.acquired = asyncio.Event()
        self.lost = asyncio.Event()
        self._open_client = open_client
        self._settings = settings
        self._elector: LeaderElector | None = None
        self._thread = threading.Thread(target=self._run, name="leader-election", daemon=True)
        self._scheduler_loop: asyncio.AbstractEventLoop | None = None
        self._elector_loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._ready = threading.Event()

    def leads(self) -> bool:
        """Whether it holds the lease, and for certain."""
        return self._elector is not None and self._elector.leads()

    @property
    def leader(self) -> str:
        """Who holds the lease as far as is known here."""
        return self._elector.leader if self._elector is not None else ""

    async def __aenter__(self) -> Self:
        self._scheduler_loop = asyncio.get_running_loop()
        self._thread.start()
        await asyncio.to_thread(self._ready.wait)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._elector_loop is not None and self._stop is not None and self._thread.is_alive():
            try:
                self._elector_loop.call_soon_threadsafe(self._stop.set)
            except RuntimeError:
                log.debug("the election was over already")
        await asyncio.to_thread(self._thread.join)

    def _run(self) -> None:
        try:
            asyncio.run(self._elect())
        except Exception:
            log.exception("leader election broke")
        finally:
            self._ready.set()
            self._signal(self.lost)

    async def _elect(self) -> None:
        self._elector_loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        async with self._open_client() as client:
            self._elector = elector = LeaderElector(client, self.identity, self._settings)
            self._ready.set()
            if not await _unless(self._stop, elector.acquire()):
                return
            self._signal(self.acquired)
            if not await _unless(self._stop, elector.hold()):
                await elector.release()

    def _signal(self, event: asyncio.Event) -> None:
        """Set an event of the scheduler's loop."""
        assert self._scheduler_loop is not None
        try:
            self._scheduler_loop.call_soon_threadsafe(event.set)
        except RuntimeError:
            log.debug("nobody waits for the election any more")


def boot_time() -> float:
    """Seconds since the machine started, the time that it slept included where the system can tell."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


async def _unless(stop: asyncio.Event, work: Any) -> bool:
    """Do some work to its end, unless `stop` is set before. Returns whether it was done."""
    task, stopped = asyncio.ensure_future(work), asyncio.ensure_future(stop.wait())
    try:
        await asyncio.wait({task, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        return bool(task.done())
    finally:
        for each in (task, stopped):
            each.cancel()
        await asyncio.gather(task, stopped, return_exceptions=True)
