"""PreBind: writes allocations and reservations, and waits for binding conditions of devices.

Mirrors PreBind and bindClaim of dynamicresources.go.
"""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping

from lightkube.models.resource_v1 import AllocationResult, ResourceClaim
from msgspec.structs import replace

from bayplan.core.api.kinds import RESOURCE_CLAIM
from bayplan.core.api.node_allocatable import ClaimedResources
from bayplan.core.cluster.objects import ObjectStore, version_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.allocations import ClaimAllocations
from bayplan.core.devices.claims import allocation_of, is_reserved_for, key_of, reservations, results_of, uid_of
from bayplan.core.framework.handle import ApiClient, Handle
from bayplan.core.framework.status import Status
from bayplan.core.framework.unknown_writes import Sleep, known
from bayplan.core.plugins.dynamic_resources.claim_writes import (
    ClaimChanged,
    ClaimNotWritten,
    PendingWrites,
    add_finalizer,
    change,
    describing,
    status_of,
    update_status,
    write_pod_status,
    write_taken,
)
from bayplan.core.plugins.dynamic_resources.conditions import (
    binding_failure,
    binding_timed_out,
    has_binding_conditions,
    ready_for_binding,
)
from bayplan.core.plugins.dynamic_resources.extended_resources import IN_MEMORY_NAME, is_in_memory
from bayplan.core.plugins.dynamic_resources.state import PodDevices

_POLL_SECONDS = 5.0
_APPEARANCE_SECONDS = 120.0
_WAITED = "scheduler_dra_bindingconditions_wait_duration_seconds"
_WAITED_FOR = "scheduler_dra_bindingconditions_allocations_total"

CreationMetric = tuple[str, Mapping[str, str]]
"""The name of the counter of created claims, and its labels besides the status."""

CREATED: CreationMetric = ("scheduler_resourceclaim_creates_total", {})
CREATED_SINCE_1_37: CreationMetric = (
    "dynamic_resource_allocation_resourceclaim_creates_total",
    {"admin_access": "false"},
)
"""Mirrors dynamic-resource-allocation/metrics: kube-controller-manager has the same metric, for claims of templates."""


class ClaimBinding:
    """Writes the decided allocations of a pod's claims. `timeout` and `sleep` are in seconds.

    `created`: the counter of the claims that it creates.
    """

    def __init__(
        self,
        handle: Handle,
        claims: ObjectStore,
        allocations: ClaimAllocations,
        timeout: float,
        sleep: Sleep,
        created: CreationMetric,
    ) -> None:
        self._handle = handle
        self._claims = claims
        self._allocations = allocations
        self._pending = claims.view(PendingWrites)
        self._timeout = timeout
        self._sleep = sleep
        self._created_metric, self._created_labels = created

    async def bind(self, state: PodDevices, pod: PodInfo, node_name: str) -> Status | None:
        """Write the claims one after the other. Unreserve cleans up after a failure."""
        client = self._handle.client
        if client is None:
            return None
        try:
            for index, known in enumerate(state.claims):
                claim = state.claims[index] = await self._settled(client, self._latest(known))
                if is_reserved_for(claim, pod.uid, state.group):
                    self._end(state, uid_of(claim), written=True)
                else:
                    state.claims[index] = await self._bind_claim(client, state, index, pod, node_name)
            if state.taken:
                state.wrote_taken = True
                await write_taken(client, pod, _named(state), self._sleep)
            return await self._wait(state, pod, node_name)
        except (ClaimChanged, ClaimNotWritten) as problem:
            return Status.error(str(problem))

    def _latest(self, claim: ResourceClaim) -> ResourceClaim:
        """The version of a claim that is known now: another pod of the gang may have written it."""
        latest: ResourceClaim | None = self._claims.get(key_of(claim))
        return claim if latest is None or uid_of(latest) != uid_of(claim) else latest

    async def _settled(self, client: ApiClient, claim: ResourceClaim) -> ResourceClaim:
        """The claim, after pending writes of an earlier attempt have finished."""
        if not await self._pending.settled(uid_of(claim)):
            return claim
        metadata = claim.metadata
        assert metadata is not None
        with describing(f"get claim {key_of(claim)}"):
            current: ResourceClaim = await client.get(RESOURCE_CLAIM, metadata.name, metadata.namespace)
        return current

    async def _bind_claim(
        self, client: ApiClient, state: PodDevices, index: int, pod: PodInfo, node_name: str
    ) -> ResourceClaim:
        claim, allocation = state.claims[index], state.decided.get(index)
        extended = state.extended and index == len(state.claims) - 1
        if extended and allocation is None:
            return claim  # the node provides the resources without devices
        decided_for, is_written = uid_of(claim), False

        async def write(current: ResourceClaim) -> ResourceClaim:
            if current.metadata is not None and current.metadata.deletionTimestamp is not None:
                raise ClaimChanged(f"claim {key_of(current)} got deleted in the meantime")
            if allocation is not None and not _is_allocated(current, allocation):
                current = copy.copy(await add_finalizer(client, current))
                current.status = copy.copy(current.status)
                status_of(current).allocation = copy.copy(allocation)
            elif is_reserved_for(current, pod.uid, state.group):
                return current  # another pod of the PodGroup has written it
            status = status_of(current)
            status.reservedFor = [*reservations(current), state.consumer(index, pod)]
            if status.allocation is None:
                raise ClaimChanged(f"claim {key_of(current)} got deallocated elsewhere in the meantime")
            if status.allocation.allocationTimestamp is None:
                status.allocation = copy.copy(status.allocation)
                status.allocation.allocationTimestamp = self._handle.now().replace(microsecond=0)
            what = "reservation" if allocation is None else "allocation and reservation"
            with describing(f"add {what} to claim {key_of(current)}"):
                return await update_status(client, current)

        def carried_out(current: ResourceClaim) -> None:
            nonlocal is_written
            state.claims[index] = current
            is_written = self._assume(current)

        try:
            if extended and is_in_memory(claim):
                claim = state.claims[index] = await self._created(client, state, node_name)
            request = _ClaimWrite(client, claim, write, allocation, (pod.uid, state.group), self._sleep)
            written = await known(request, self._sleep, carried_out=carried_out)
            if extended:
                await self._appearance(written)
            is_written = True
        finally:
            self._end(state, decided_for, written=is_written)
        if extended:
            await _update_pod(client, state, pod, node_name, written, self._sleep)
        return written

    def _end(self, state: PodDevices, uid: str, *, written: bool) -> None:
        """End the allocation of a claim that the pod keeps in flight, if it does."""
        if uid in state.held:
            state.held.remove(uid)
            self._allocations.end(uid, written=written)

    def _assume(self, claim: ResourceClaim) -> bool:
        """Assume the written claim until its watch event arrives. Returns whether the claim is known."""
        known_claim = self._claims.get(key_of(claim))
        if known_claim is not None and version_of(claim) > version_of(known_claim):
            self._claims.assume(key_of(claim), claim)
        return known_claim is not None

    async def _appearance(self, claim: ResourceClaim) -> None:
        """Wait for the event of a new claim, and assume it."""
        deadline = self._handle.monotonic() + _APPEARANCE_SECONDS
        while not self._assume(claim) and self._handle.monotonic() < deadline:
            await self._sleep(1.0)

    async def _wait(self, state: PodDevices, pod: PodInfo, node_name: str) -> Status | None:
        """Wait until all devices meet their binding conditions."""
        if not any(has_binding_conditions(claim) for claim in state.claims):
            return None
        note = f"waiting for binding conditions for device on node {node_name}"
        self._handle.record(pod, "Normal", "BindingConditionsPending", "Scheduling", note)
        began = self._handle.monotonic()
        result, problem = await self._ready(state, began + self._timeout)
        self._measure(state, pod, result, self._handle.monotonic() - began)
        return Status.error(problem) if problem else None

    async def _ready(self, state: PodDevices, deadline: float) -> tuple[str, str]:
        """Wait for the outcome: its name in metrics, and an error message ("" for success)."""
        while True:
            outcome = self._outcome(state)
            if outcome is not None:
                return outcome
            if self._handle.monotonic() >= deadline:
                return "timeout", "device binding timeout: context deadline exceeded"
            await self._sleep(min(_POLL_SECONDS, max(deadline - self._handle.monotonic(), 0.0)))

    def _outcome(self, state: PodDevices) -> tuple[str, str] | None:
        """The current outcome; None while devices aren't ready."""
        for index, claim in enumerate(state.claims):
            current: ResourceClaim | None = self._claims.get(key_of(claim))
            if current is None:
                return "error", f'could not find ResourceClaim "{key_of(claim)}"'
            state.claims[index] = current
            failure = binding_failure(current)
            if failure:
                return "failure", failure
            if not ready_for_binding(current):
                if binding_timed_out(current, self._timeout, self._handle.now()):
                    name = current.metadata.name if current.metadata is not None else ""
                    return "timeout", f"device binding timeout: claim={name}"
                return None
        return "success", ""

    def _measure(self, state: PodDevices, pod: PodInfo, status: str, seconds: float) -> None:
        for claim in state.claims:
            for device in results_of(allocation_of(claim)):
                labels = {"profile": pod.scheduler_name, "driver": device.driver, "status": status}
                self._handle.measurements.observe(_WAITED, seconds, **labels)
                if device.bindingConditions:
                    self._handle.measurements.count(_WAITED_FOR, **labels)

    async def _created(self, client: ApiClient, state: PodDevices, node_name: str) -> ResourceClaim:
        """Create the claim for extended resources, and count it."""
        try:
            created = await _create(client, state, node_name)
        except ClaimChanged:  # no request was sent
            raise
        except Exception:
            self._handle.measurements.count(self._created_metric, status="failure", **self._created_labels)
            raise
        self._handle.measurements.count(self._created_metric, status="success", **self._created_labels)
        return created


class _ClaimWrite:
    """A `Write` (`bayplan.core.framework.unknown_writes`) of a claim for a user, from the version that was read last.

    `user`: the UID of the pod, and the name of its PodGroup. Each request names the version that it changes, so that
    none can be carried out after another change.
    """

    def __init__(
        self,
        client: ApiClient,
        claim: ResourceClaim,
        step: Callable[[ResourceClaim], Awaitable[ResourceClaim]],
        allocation: AllocationResult | None,
        user: tuple[str, str],
        sleep: Sleep,
    ) -> None:
        self._client = client
        self._claim = claim
        self._uid = uid_of(claim)
        self._step = step
        self._allocation = allocation
        self._user = user
        self._sleep = sleep
        self.name = f"the allocation of claim {key_of(claim)}"

    async def send(self) -> ResourceClaim:
        return await change(self._client, self._claim, self._step, self._sleep)

    async def read(self) -> ResourceClaim:
        metadata = self._claim.metadata
        assert metadata is not None
        self._claim = await self._client.get(RESOURCE_CLAIM, metadata.name, metadata.namespace)
        return self._claim

    def outcome(self, found: ResourceClaim) -> ResourceClaim | None:
        """The claim if it is reserved for the user, with the devices of the allocation unless that is None."""
        if not is_reserved_for(found, *self._user):
            return None
        same = self._allocation is None or _devices(allocation_of(found)) == _devices(self._allocation)
        return found if same else None

    def is_ruled_out(self, found: ResourceClaim) -> bool:
        """Whether it is another claim of the same name. The step itself finds what else has changed."""
        return uid_of(found) != self._uid


def _named(state: PodDevices) -> list[ClaimedResources]:
    """What the pod takes through claims, with the name that the claim for extended resources has on the server."""
    extended = state.extended_claim
    name = (extended.metadata.name if extended is not None and extended.metadata is not None else None) or ""
    return [
        replace(each, resourceClaimName=name) if each.resourceClaimName == IN_MEMORY_NAME else each
        for each in state.taken
    ]


def _is_allocated(claim: ResourceClaim, allocation: AllocationResult) -> bool:
    """Whether another pod of the gang has written the allocation. Raises ClaimChanged if the claim has another one."""
    known = allocation_of(claim)
    if known is not None and _devices(known) != _devices(allocation):
        raise ClaimChanged(f"claim {key_of(claim)} got allocated elsewhere in the meantime")
    return known is not None


def _devices(allocation: AllocationResult | None) -> list[tuple[str, str, str, str]]:
    return [(each.request, each.driver, each.pool, each.device) for each in results_of(allocation)]


async def _create(client: ApiClient, state: PodDevices, node_name: str) -> ResourceClaim:
    """Create the claim for extended resources."""
    allocation = state.granted
    if allocation is None or allocation.extended_claim is None:
        raise ClaimChanged(f"extended resource claim not found for node {node_name}")
    claim = copy.copy(allocation.extended_claim)
    claim.apiVersion, claim.kind, claim.status = RESOURCE_CLAIM.api_version, RESOURCE_CLAIM.kind, None
    claim.metadata = copy.copy(claim.metadata)
    assert claim.metadata is not None
    claim.metadata.name = claim.metadata.uid = None
    with describing(f"create claim for extended resources {claim.metadata.namespace}/"):
        created: ResourceClaim = await client.create(RESOURCE_CLAIM, claim, claim.metadata.namespace)
    return created


async def _update_pod(
    client: ApiClient, state: PodDevices, pod: PodInfo, node_name: str, claim: ResourceClaim, sleep: Sleep
) -> None:
    """Write the assignment of the claim's requests to containers into the pod's status."""
    allocation = state.granted
    if allocation is None or not allocation.mappings:
        raise ClaimChanged(f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus")
    status = {
        "requestMappings": [
            {
                "containerName": mapping.containerName,
                "resourceName": mapping.resourceName,
                "requestName": mapping.requestName,
            }
            for mapping in allocation.mappings
        ],
        "resourceClaimName": claim.metadata.name if claim.metadata is not None else "",
    }
    field = "ExtendedResourceClaimStatus"
    await write_pod_status(client, pod, {"extendedResourceClaimStatus": status}, field, sleep)
