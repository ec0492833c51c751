"""Changes of claims on the server, repeated where somebody else was faster."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

from lightkube.models.meta_v1 import ObjectMeta
from lightkube.models.resource_v1 import ResourceClaim, ResourceClaimStatus

from bayplan.api.kinds import RESOURCE_CLAIM
from bayplan.cluster.objects import ObjectStore
from bayplan.devices.claims import FINALIZER, key_of
from bayplan.framework.handle import ApiClient

_PAUSES = (0.01, 0.01, 0.01, 0.01)
"""Seconds between attempts after conflicts. Mirrors retry.DefaultRetry of client-go."""

Sleep = Callable[[float], Awaitable[None]]


class ClaimChanged(Exception):
    """A claim is not any more what a decision was made of: the message says how it changed."""


class ClaimNotWritten(Exception):
    """A change was not taken: the message says which and why.

    `status` is the HTTP status of the server's answer, None if it gave none.
    """

    def __init__(self, what: str, why: Exception) -> None:
        super().__init__(f"{what}: {getattr(why, 'message', '') or why}")
        self.status = getattr(why, "status", None)


@contextmanager
def telling(what: str) -> Iterator[None]:
    """Have requests that fail in here say what they were for. Raises ClaimNotWritten."""
    try:
        yield
    except Exception as error:
        raise ClaimNotWritten(what, error) from error


class PendingWrites:
    """Writes of claims that go on beside everything else. A view of the store of claims, shared by all profiles.

    A pod may be tried again, and even be bound, before all is written that an earlier attempt gave up.
    """

    def __init__(self, _store: ObjectStore) -> None:
        self._under_way: dict[str, list[asyncio.Event]] = {}

    def begin(self, uid: str) -> Callable[[], None]:
        """A claim is going to be written. What is returned is to be called when that is over."""
        over = asyncio.Event()
        self._under_way.setdefault(uid, []).append(over)

        def end() -> None:
            over.set()
            others = self._under_way[uid]
            others.remove(over)
            if not others:
                del self._under_way[uid]

        return end

    async def settled(self, uid: str) -> bool:
        """Wait until nothing goes on about a claim. Returns whether anything did."""
        waited = False
        while under_way := self._under_way.get(uid):
            waited = True
            await under_way[0].wait()
        return waited


async def change(
    client: ApiClient, claim: ResourceClaim, step: Callable[[ResourceClaim], Awaitable[ResourceClaim]], sleep: Sleep
) -> ResourceClaim:
    """Run `step` on a copy of the claim; after a conflict again, on the claim as it is by then."""
    current = claim
    for pause in (*_PAUSES, None):
        try:
            return await step(_copied(current))
        except Exception as error:
            if pause is None or not is_conflict(error):
                raise
        await sleep(pause)
        metadata = claim.metadata
        assert metadata is not None
        with telling(f"get updated claim {key_of(claim)} after conflict"):
            current = await client.get(RESOURCE_CLAIM, metadata.name, metadata.namespace)
    raise AssertionError("unreachable")


async def add_finalizer(client: ApiClient, claim: ResourceClaim) -> ResourceClaim:
    """The claim, protected against deletion. `claim` is a copy of one's own."""
    metadata = _metadata(claim)
    if FINALIZER in (metadata.finalizers or ()):
        return claim
    metadata.finalizers = [*(metadata.finalizers or ()), FINALIZER]
    with telling(f"add finalizer to claim {key_of(claim)}"):
        updated: ResourceClaim = await client.update(RESOURCE_CLAIM, _typed(claim))
    return updated


async def update_status(client: ApiClient, claim: ResourceClaim) -> ResourceClaim:
    """Write a claim's status."""
    updated: ResourceClaim = await client.update(RESOURCE_CLAIM, _typed(claim), subresource="status")
    return updated


async def delete(client: ApiClient, claim: ResourceClaim, sleep: Sleep) -> None:
    """Delete a claim, after its protection."""

    async def unprotect(current: ResourceClaim) -> ResourceClaim:
        metadata = _metadata(current)
        metadata.finalizers = [each for each in metadata.finalizers or () if each != FINALIZER] or None
        updated: ResourceClaim = await client.update(RESOURCE_CLAIM, _typed(current))
        return updated

    await change(client, claim, unprotect, sleep)
    metadata = _metadata(claim)
    await client.delete(RESOURCE_CLAIM, metadata.name, metadata.namespace)


def status_of(claim: ResourceClaim) -> ResourceClaimStatus:
    """The status of a copy of one's own, to be changed."""
    if claim.status is None:
        claim.status = ResourceClaimStatus()
    return claim.status


def is_conflict(error: Exception) -> bool:
    """Whether somebody else changed the object first."""
    return getattr(error, "status", None) == 409


def _copied(claim: ResourceClaim) -> ResourceClaim:
    copied = copy.copy(claim)
    copied.metadata = copy.copy(claim.metadata)
    copied.status = copy.copy(claim.status)
    return copied


def _typed(claim: ResourceClaim) -> ResourceClaim:
    claim.apiVersion, claim.kind = RESOURCE_CLAIM.api_version, RESOURCE_CLAIM.kind
    return claim


def _metadata(claim: ResourceClaim) -> ObjectMeta:
    if claim.metadata is None:
        raise ClaimChanged(f"claim {key_of(claim)} has no metadata")
    return claim.metadata
