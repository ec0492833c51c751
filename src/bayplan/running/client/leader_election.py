"""Leader election: of several processes, only the one that holds a Lease is active.

Mirrors client-go's tools/leaderelection. The leader stops `renew_deadline` after it sent its last successful renewal;
others wait `lease_duration` after they first saw that renewal. Each process measures these times with its own monotonic
clock, which also advances during suspend, so wall clocks don't have to agree.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import msgspec
from lightkube.models.coordination_v1 import Lease, LeaseSpec
from lightkube.models.meta_v1 import ObjectMeta

from bayplan.core.api.kinds import EVENT, LEASE
from bayplan.core.api.objects import UndecodableObject, encode
from bayplan.core.api.times import micro_time
from bayplan.foundations.clock import Clock, SystemClock
from bayplan.running.client.client import Client
from bayplan.running.client.errors import ApiError, ConfigError, TransportError
from bayplan.running.client.events import new_event, reference

log = logging.getLogger(__name__)

JITTER = 1.2
"""Candidates wait for the retry period plus a random part of up to this many retry periods."""
RELEASE_SECONDS = 2.0
"""How long to try to release the lease on exit. After that, it expires by itself."""
_ERRORS = (ApiError, TransportError, UndecodableObject, ConfigError, TimeoutError)


@dataclass(frozen=True, slots=True)
class LeaderElectionSettings:
    """The name of the lease, and durations in seconds."""

    name: str = "kube-scheduler"
    namespace: str = "kube-system"
    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0


class LeaderElector:
    """Acquires, holds and releases a lease.

    ::

        acquire -----> leads ------- renewed within the deadline ----+
                         |  ^                                        |
                         |  +----------------------------------------+
                         |  not renewed, or held by another process
                         v
                       lost (final)

    `leads_until` is when the leadership ends unless the lease is renewed, in the time of `elapsed`. `sleep`, `clock`
    and `rng` are for tests.
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
        """The lease as last read or written, and the time of that."""
        self._seen_at = float("-inf")

    def leads(self) -> bool:
        """Whether it certainly holds the lease."""
        return self._elapsed() < self.leads_until

    @property
    def leader(self) -> str:
        """The last known holder of the lease; "" if there is none."""
        return (self._seen.spec.holderIdentity if self._seen and self._seen.spec else None) or ""

    async def acquire(self) -> None:
        """Wait until this process holds the lease."""
        reported = ""
        while not await self._try():
            if self.leader not in {"", reported}:
                reported = self.leader
                log.info("%s holds the lease %s; waiting", reported, self._key)
            period = self._settings.retry_period
            await self._sleep(period * (1 + JITTER * self._rng.random()))
        log.info("became leader: %s holds the lease %s", self.identity, self._key)
        await self._write_event("became leader")

    async def hold(self) -> None:
        """Keep renewing the lease. Returns when it is lost."""
        while self.leads():
            await self._sleep(min(self._settings.retry_period, max(0.0, self.leads_until - self._elapsed())))
            if not await self._try() and self.leader != self.identity:
                break
        self.leads_until = float("-inf")
        reason = "it was not renewed in time" if self.leader in {"", self.identity} else f"{self.leader} holds it"
        log.error("lost the lease %s: %s", self._key, reason)

    def resign(self) -> None:
        """Lead no more. Another process can acquire the lease once it has expired."""
        self.leads_until = float("-inf")

    async def release(self) -> None:
        """Resign, and release the lease so that another process can acquire it. The scheduler must have stopped."""
        self.resign()
        now, within = micro_time(self._clock.now()), min(RELEASE_SECONDS, self._settings.renew_deadline / 2)
        try:
            async with asyncio.timeout(within) as limit:
                lease: Lease = await self._client.get(LEASE, self._settings.name, self._settings.namespace)
                spec = lease.spec or LeaseSpec()
                if spec.holderIdentity != self.identity:
                    return
                released = LeaseSpec(
                    holderIdentity="",
                    leaseDurationSeconds=1,
                    acquireTime=now,
                    renewTime=now,
                    leaseTransitions=spec.leaseTransitions,
                )
                self._remember(await self._client.update(LEASE, msgspec.structs.replace(lease, spec=released)))
        except _ERRORS as error:
            problem = f"no reply within {within:g} s" if limit.expired() else error
            log.warning("cannot release the lease %s: %s; it expires by itself", self._key, problem)
        else:
            await self._write_event("stopped leading", within=within)

    @property
    def _key(self) -> str:
        return f"{self._settings.namespace}/{self._settings.name}"

    async def _try(self) -> bool:
        """Acquire or renew the lease. Returns whether that succeeded. The term counts from before the request."""
        began_at = self._elapsed()
        within = self._settings.renew_deadline / 2
        try:
            async with asyncio.timeout(within) as limit:
                held = await self._renew_known() or await self._acquire_or_renew()
        except _ERRORS as error:
            problem = f"no reply within {within:g} s" if limit.expired() else error
            log.warning("cannot acquire or renew the lease %s: %s", self._key, problem)
            return False
        if held:
            self.leads_until = began_at + self._settings.renew_deadline
        return held

    async def _renew_known(self) -> bool:
        """Renew without reading the lease first. This usually works for the leader, as only it writes the lease."""
        if self._seen is None or self.leader != self.identity or not self._is_valid():
            return False
        try:
            self._remember(await self._client.update(LEASE, self._claim(self._seen)))
        except ApiError as error:
            log.debug("the lease %s was changed by another process: %s", self._key, error)
            return False
        return True

    async def _acquire_or_renew(self) -> bool:
        settings = self._settings
        try:
            current: Lease = await self._client.get(LEASE, settings.name, settings.namespace)
        except ApiError as error:
            if error.status != 404:
                raise
            new = Lease(metadata=ObjectMeta(name=settings.name, namespace=settings.namespace))
            self._remember(await self._client.create(LEASE, self._claim(new)))
            return True
        if self._seen is None or current.spec != self._seen.spec:
            self._remember(current)
        if self.leader not in {"", self.identity} and self._is_valid():
            return False
        self._remember(await self._client.update(LEASE, self._claim(current)))
        return True

    def _claim(self, lease: Lease) -> Lease:
        """The lease with this process as its holder, renewed now."""
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

    def _remember(self, lease: Lease) -> None:
        self._seen, self._seen_at = lease, self._elapsed()

    def _is_valid(self) -> bool:
        """Whether the last known term of the lease may still run."""
        spec = self._seen.spec if self._seen else None
        return self._seen_at + ((spec.leaseDurationSeconds if spec else None) or 0) > self._elapsed()

    async def _write_event(self, what: str, *, within: float = math.inf) -> None:
        """Write an event about the lease. Failures are logged, and not retried."""
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
            async with asyncio.timeout(min(within, self._settings.renew_deadline / 2)):
                await self._client.request("POST", EVENT.path(namespace), body=encode(event))
        except _ERRORS as error:
            log.debug("cannot write an event about the lease %s: %s", self._key, error)


def boot_time() -> float:
    """Seconds since boot, including suspend if the platform supports it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()
