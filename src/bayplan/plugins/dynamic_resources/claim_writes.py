"""Writes claims to the API server, with retries after conflicts."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager

from lightkube.models.meta_v1 import ObjectMeta
from lightkube.models.resource_v1 import ResourceClaim, ResourceClaimStatus

from bayplan.api.kinds import POD, RESOURCE_CLAIM
from bayplan.api.node_allocatable import ClaimedResources
from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_info import PodInfo
from bayplan.devices.claims import FINALIZER, key_of
from bayplan.framework.handle import ApiClient
from bayplan.framework.lost_replies import Sleep, may_be_written

_PAUSES = (0.01, 0.01, 0.01, 0.01)
"""Seconds between retries after conflicts. Mirrors retry.DefaultRetry of client-go."""


class ClaimChanged(Exception):
    """A claim has changed since the decision. The message describes the change."""


class ClaimNotWritten(Exception):
    """A request failed. The message says which one and why.

    `status` is the HTTP status of the reply; None without a reply. `sent`: whether the server may have processed the
    request nevertheless.
    """

    def __init__(self, what: str, why: Exception) -> None:
        super().__init__(f"{what}: {getattr(why, 'message', '') or why}")
        self.status: int | None = getattr(why, "status", None)
        self.sent = may_be_written(why)


@contextmanager
def describing(what: str) -> Iterator[None]:
    """Add a description to the errors of requests in the context. Raises ClaimNotWritten."""
    try:
        yield
    except Exception as error:
        raise ClaimNotWritten(what, error) from error


class PendingWrites:
    """Writes of claims in the background. All profiles share one instance.

    A pod can be attempted again, and even bound, before the cleanup of an earlier attempt is written.
    """

    def __init__(self, _store: ObjectStore) -> None:
        self._pending: dict[str, list[asyncio.Event]] = {}

    def begin(self, uid: str) -> Callable[[], None]:
        """Register a write of a claim. Call the returned function when the write has finished."""
        finished = asyncio.Event()
        self._pending.setdefault(uid, []).append(finished)

        def end() -> None:
            finished.set()
            pending = self._pending[uid]
            pending.remove(finished)
            if not pending:
                del self._pending[uid]

        return end

    async def settled(self, uid: str) -> bool:
        """Wait until no write of a claim is pending. Returns whether any was."""
        waited = False
        while pending := self._pending.get(uid):
            waited = True
            await pending[0].wait()
        return waited


async def change(
    client: ApiClient, claim: ResourceClaim, step: Callable[[ResourceClaim], Awaitable[ResourceClaim]], sleep: Sleep
) -> ResourceClaim:
    """Run `step` with a copy of the claim. After a conflict, run it again with the current claim."""
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
        with describing(f"get updated claim {key_of(claim)} after conflict"):
            current = await client.get(RESOURCE_CLAIM, metadata.name, metadata.namespace)
    raise AssertionError("unreachable")


async def add_finalizer(client: ApiClient, claim: ResourceClaim) -> ResourceClaim:
    """Add the finalizer to the claim on the server and return the updated claim. `claim` must be the caller's copy."""
    metadata = _metadata(claim)
    if FINALIZER in (metadata.finalizers or ()):
        return claim
    metadata.finalizers = [*(metadata.finalizers or ()), FINALIZER]
    with describing(f"add finalizer to claim {key_of(claim)}"):
        updated: ResourceClaim = await client.update(RESOURCE_CLAIM, _typed(claim))
    return updated


async def update_status(client: ApiClient, claim: ResourceClaim) -> ResourceClaim:
    """Write a claim's status."""
    updated: ResourceClaim = await client.update(RESOURCE_CLAIM, _typed(claim), subresource="status")
    return updated


async def delete(client: ApiClient, claim: ResourceClaim, sleep: Sleep) -> None:
    """Remove a claim's finalizer and delete the claim."""

    async def unprotect(current: ResourceClaim) -> ResourceClaim:
        metadata = _metadata(current)
        metadata.finalizers = [each for each in metadata.finalizers or () if each != FINALIZER] or None
        updated: ResourceClaim = await client.update(RESOURCE_CLAIM, _typed(current))
        return updated

    await change(client, claim, unprotect, sleep)
    metadata = _metadata(claim)
    await client.delete(RESOURCE_CLAIM, metadata.name, metadata.namespace)


def status_of(claim: ResourceClaim) -> ResourceClaimStatus:
    """The status of a claim, created if it is missing. `claim` must be the caller's copy."""
    if claim.status is None:
        claim.status = ResourceClaimStatus()
    return claim.status


def is_conflict(error: Exception) -> bool:
    """Whether a request failed because the object had changed (409)."""
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


async def write_taken(client: ApiClient, pod: PodInfo, taken: Sequence[ClaimedResources]) -> None:
    """Write what a pod takes of its node through its claims into its status; nothing clears it."""
    document = {"metadata": {"uid": pod.uid}, "status": {"nodeAllocatableResourceClaimStatuses": list(taken)}}
    with describing(f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses"):
        await client.patch(POD, pod.name, document, pod.namespace, subresource="status")
