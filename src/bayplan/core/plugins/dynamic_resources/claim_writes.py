"""Writes claims to the API server, with retries after conflicts.

Reserve assumes an allocation in the object store; PreBind writes it here, each part only if no other client has changed
it. What isn't written is undone. A write without a reply is repeated until its outcome is known.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from lightkube.models.core_v1 import Pod
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.models.resource_v1 import ResourceClaim, ResourceClaimStatus

from bayplan.core.api.kinds import POD, RESOURCE_CLAIM
from bayplan.core.api.node_allocatable import ClaimedResources
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import FINALIZER, key_of
from bayplan.core.framework.handle import ApiClient
from bayplan.core.framework.unknown_writes import RuledOut, Sleep, is_conflict, known

_PAUSES = (0.01, 0.01, 0.01, 0.01)
"""Seconds between retries after conflicts. Mirrors retry.DefaultRetry of client-go."""


class ClaimChanged(RuledOut):
    """A claim has changed since the decision. The message describes the change."""


class ClaimNotWritten(Exception):
    """A request failed. The message says which one and why; the cause is the API client's error."""

    def __init__(self, what: str, why: Exception) -> None:
        super().__init__(f"{what}: {getattr(why, 'message', '') or why}")


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


async def write_taken(client: ApiClient, pod: PodInfo, taken: Sequence[ClaimedResources], sleep: Sleep) -> None:
    """Write what a pod takes of its node through its claims into its status; nothing clears it."""
    status = {"nodeAllocatableResourceClaimStatuses": list(taken)}
    await write_pod_status(client, pod, status, "NodeAllocatableResourceClaimStatuses", sleep)


async def write_pod_status(
    client: ApiClient, pod: PodInfo, status: Mapping[str, object], field: str, sleep: Sleep
) -> None:
    """Write a field of a pod's status, again and again if the reply is lost: a late request must not be the last."""
    await known(_StatusWrite(client, pod, status, field), sleep)


class _StatusWrite:
    """A patch of a pod's status. A `Write` (`bayplan.core.framework.unknown_writes`).

    A read decides nothing: after a reply, an earlier request writes the same.
    """

    def __init__(self, client: ApiClient, pod: PodInfo, status: Mapping[str, object], field: str) -> None:
        self._client = client
        self._pod = pod
        self._status = status
        self.name = f"the update of {field} of pod {pod.key}"
        self._doing = f"updating pod {pod.key} {field}"

    async def send(self) -> Pod:
        document = {"metadata": {"uid": self._pod.uid}, "status": self._status}
        with describing(self._doing):
            patched: Pod = await self._client.patch(
                POD, self._pod.name, document, self._pod.namespace, subresource="status"
            )
        return patched

    async def read(self) -> Pod:
        found: Pod = await self._client.get(POD, self._pod.name, self._pod.namespace)
        return found

    def outcome(self, found: Pod) -> None:
        return None

    def is_ruled_out(self, found: Pod) -> bool:
        return found.metadata is None or found.metadata.uid != self._pod.uid
