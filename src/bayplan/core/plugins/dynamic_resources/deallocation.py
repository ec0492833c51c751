"""PostFilter deallocates claims that make nodes infeasible; Unreserve undoes allocations and reservations.

Both write in the background, because these extension points can't wait. If a write fails, the pod is activated. Mirrors
PostFilter and Unreserve of dynamicresources.go.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

from lightkube.models.resource_v1 import ResourceClaim, ResourceClaimStatus

from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.devices.claims import UnusableClaim, allocation_of, is_reserved_for, key_of, reservations, uid_of
from bayplan.core.framework.handle import ApiClient, Handle
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import Status
from bayplan.core.framework.unknown_writes import Sleep
from bayplan.core.plugins.dynamic_resources.claim_writes import (
    PendingWrites,
    delete,
    status_of,
    update_status,
    write_taken,
)
from bayplan.core.plugins.dynamic_resources.claim_writes import change as change_claim
from bayplan.core.plugins.dynamic_resources.extended_resources import is_in_memory
from bayplan.core.plugins.dynamic_resources.group_claims import GroupClaims
from bayplan.core.plugins.dynamic_resources.state import PodDevices

log = logging.getLogger(__name__)

NO_CLAIMS = "no new claims to deallocate"
DEALLOCATED = "deallocation of ResourceClaim completed"
DELETED = "deletion of ResourceClaim completed"
NOTHING_TO_DO = "still not schedulable"
UNRESERVED = Status.unresolvable("ResourceClaim unreserved for PodGroup")


class Deallocation:
    """Deallocates and unreserves claims. `sleep` takes seconds."""

    def __init__(
        self, handle: Handle, claims: ObjectStore, allocations: ClaimAllocations, groups: GroupClaims, sleep: Sleep
    ) -> None:
        self._handle = handle
        self._claims = claims
        self._allocations = allocations
        self._groups = groups
        self._sleep = sleep
        self._pending = claims.view(PendingWrites)

    def post_filter(self, cycle: CycleState, state: PodDevices | None, pod: PodInfo) -> Status:
        """Deallocate the first claim that some node couldn't use and no other pod has reserved.

        If there is none, the pod's group returns its claims, unless a pod of the group has a node.
        """
        if state is None:
            return Status.unschedulable(NO_CLAIMS)
        done = self._free(state, pod)
        if done:
            return Status.unschedulable(done)
        try:
            unused = next(self._groups.unused(cycle, pod), None)
        except UnusableClaim as problem:
            return Status.error(str(problem))
        if unused is None:
            return Status.unschedulable(NOTHING_TO_DO)
        self._return(*unused, pod)
        return UNRESERVED

    def give_back(self, rejected: Iterable[tuple[CycleState, PodDevices | None, PodInfo]]) -> Status | None:
        """Do so for the first pod of a group for which there is something to do; None if there is none.

        Mirrors PodGroupPostFilter.
        """
        for cycle, state, pod in rejected:
            status = None if state is None else self.post_filter(cycle, state, pod)
            if status is not None and status.message != NOTHING_TO_DO:
                return status
        return None

    def _free(self, state: PodDevices, pod: PodInfo) -> str:
        """Free a claim that only this pod may use. Returns the message, "" without such a claim."""
        for index in sorted(state.unavailable):
            claim = state.claims[index]
            if claim is state.extended_claim:
                continue
            reserved = reservations(claim)
            if not reserved or (len(reserved) == 1 and reserved[0].uid == pod.uid):
                self._deallocate(claim, pod)
                return DEALLOCATED
        extended = state.extended_claim
        if extended is not None and not is_in_memory(extended):
            client = self._handle.client
            if client is None:
                self._claims.remove(key_of(extended))
            else:
                self._write("delete", extended, partial(self._delete_for, pod, client, extended), pod)
            return DELETED
        return ""

    def release(self, state: PodDevices) -> None:
        """Undo the allocations in flight. Those that other members of the pod's gang share stay."""
        for claim in state.claims:
            extended = claim is state.extended_claim
            uid = state.extended_uid if extended else uid_of(claim)
            if uid in state.held:
                state.held.remove(uid)
                if self._allocations.end(uid):
                    state.gang_claims.discard(uid)
                    self._claims.restore(key_of(claim))
        state.decided.clear()

    def unreserve(self, state: PodDevices, pod: PodInfo) -> None:
        """Undo the allocations in flight and the written reservations."""
        self.release(state)
        client = self._handle.client
        if client is not None and state.wrote_taken:
            self._handle.start(
                f"clear claimed resources of pod {pod.key}", partial(_clear_taken, client, pod, self._sleep)
            )
        for claim in state.claims[: state.own]:
            if client is not None and allocation_of(claim) is not None and is_reserved_for(claim, pod.uid):
                self._write("unreserve", claim, partial(_unreserve, client, claim, pod.uid, self._sleep), None)
        extended = state.extended_claim
        if extended is None:
            return
        if client is not None and not is_in_memory(extended):
            self._write("delete", extended, partial(delete, client, extended, self._sleep), None)

    async def _delete_for(self, pod: PodInfo, client: ApiClient, claim: ResourceClaim) -> None:
        """Delete a claim that makes all nodes infeasible, then activate the pod: no event hint covers the deletion."""
        await delete(client, claim, self._sleep)
        self._handle.activate((pod,))

    def _return(self, claim: ResourceClaim, group_uid: str, pod: PodInfo) -> None:
        """Remove the reservation for a PodGroup, so that its next attempt can deallocate the claim."""
        client = self._handle.client
        if client is not None:
            self._write("unreserve", claim, partial(_unreserve, client, claim, group_uid, self._sleep), pod)
            return
        free = copy.copy(claim)
        free.status = copy.copy(claim.status)
        status_of(free).reservedFor = [each for each in reservations(claim) if each.uid != group_uid] or None
        self._claims.set(key_of(claim), free)

    def _deallocate(self, claim: ResourceClaim, pod: PodInfo) -> None:
        client = self._handle.client
        if client is not None:
            self._write("deallocate", claim, partial(_write_deallocation, client, claim), pod)
            return
        free = copy.copy(claim)
        free.status = ResourceClaimStatus()
        self._claims.set(key_of(claim), free)

    def _write(
        self, verb: str, claim: ResourceClaim, write: Callable[[], Awaitable[None]], pod: PodInfo | None
    ) -> None:
        """Start a write of a claim. If it fails, `pod` is activated, so that a new attempt decides again."""
        what, end = f"{verb} claim {key_of(claim)}", self._pending.begin(uid_of(claim))

        async def work() -> None:
            try:
                await write()
            except Exception as error:  # noqa: BLE001 - after any failure, the pod must not wait forever
                log.warning("cannot %s: %s", what, error)
                if pod is not None:
                    self._handle.activate((pod,))
            finally:
                end()

        self._handle.start(what, work)


async def _write_deallocation(client: ApiClient, claim: ResourceClaim) -> None:
    current = copy.copy(claim)
    current.status = copy.copy(claim.status)
    status = status_of(current)
    status.reservedFor = status.allocation = status.devices = None
    await update_status(client, current)


async def _clear_taken(client: ApiClient, pod: PodInfo, sleep: Sleep) -> None:
    try:
        await write_taken(client, pod, (), sleep)
    except Exception as error:  # noqa: BLE001 - as upstream: the next attempt overwrites it
        log.warning("cannot clear the claimed resources of pod %s: %s", pod.key, error)


async def _unreserve(client: ApiClient, claim: ResourceClaim, uid: str, sleep: Sleep) -> None:
    """Remove one reservation from the current claim."""

    async def step(current: ResourceClaim) -> ResourceClaim:
        left = [each for each in reservations(current) if each.uid != uid]
        if len(left) == len(reservations(current)):
            return current
        status_of(current).reservedFor = left or None
        return await update_status(client, current)

    await change_claim(client, claim, step, sleep)
