"""The resources of nodes that devices provide: what a pod takes of them through its claims, and whether that fits.

Mirrors plugins/dynamicresources/nodeallocatabledynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from lightkube.models.resource_v1 import AllocationResult, DeviceRequestAllocationResult, ResourceClaim

from bayplan.api import quantity, requests
from bayplan.api.node_allocatable import ClaimedResources, MappedDevice, Provided
from bayplan.cluster.nodes import NodeInfo
from bayplan.cluster.pod_info import PodInfo
from bayplan.devices.claims import UnusableClaim, claim_name, results_of
from bayplan.devices.slices import DeviceSlices, PoolId, Slice
from bayplan.framework.status import Status

_CHECKED = (requests.CPU, requests.MEMORY, requests.EPHEMERAL_STORAGE)
Allocated = Sequence[tuple[ResourceClaim, AllocationResult]]
"""Claims that are allocated in this attempt, with their allocations."""


class UncountableClaim(ValueError):
    """What a claim takes of the node can't be told."""


class NodeAllocatable:
    """Knows the devices that provide resources of their nodes."""

    def __init__(self, slices: DeviceSlices) -> None:
        self._slices = slices
        self._stale: set[PoolId] = set(slices.by_pool)
        self._mapped: dict[str, dict[str, Mapping[str, Provided]]] = {}
        """By the name of a pool, whatever its driver, and the device: as upstream, the first one counts."""
        slices.listen(self._changed)

    def _changed(self, changed: Slice) -> None:
        self._stale.add(changed.pool)

    @property
    def exists(self) -> bool:
        """Whether there are such devices."""
        self._slices.refresh()
        for pool in self._stale:
            found: dict[str, Mapping[str, Provided]] = {}
            for same in sorted(self._slices.namesakes(pool)):
                for _, each in sorted(self._slices.by_pool[same].items()):
                    for device in each.devices:
                        spec = device.spec
                        mappings = spec.nodeAllocatableResourceMappings if isinstance(spec, MappedDevice) else None
                        found.setdefault(spec.name or "", mappings or {})
            if any(found.values()):
                self._mapped[pool.pool] = found
            else:
                self._mapped.pop(pool.pool, None)
        self._stale.clear()
        return bool(self._mapped)

    def taken(self, pod: PodInfo, allocated: Allocated) -> list[ClaimedResources]:
        """What a pod takes through its claims, by the name of the claim. Raises UncountableClaim."""
        found = []
        for claim, allocation in allocated:
            name = (claim.metadata.name if claim.metadata is not None else "") or ""
            amounts: dict[str, int] = {}
            for result in results_of(allocation):
                for resource, nanos in self._provided(f"{pod.namespace}/{name}", result):
                    amounts[resource] = amounts.get(resource, 0) + nanos
            if amounts:
                texts = {
                    each: quantity.format_quantity(nanos, binary=requests.is_written_in_binary(each))
                    for each, nanos in sorted(amounts.items())
                }
                users = list(_containers_with(pod, claim))
                found.append(ClaimedResources(resourceClaimName=name, containers=users, resources=texts))
        return sorted(found, key=lambda each: each.resourceClaimName)

    def _provided(self, claim: str, result: DeviceRequestAllocationResult) -> Iterator[tuple[str, int]]:
        for resource, each in self._mapped.get(result.pool, {}).get(result.device, {}).items():
            key, multiplier = each.get("capacityKey"), each.get("allocationMultiplier")
            times = quantity.parse(str(multiplier)) if multiplier is not None else None
            if not key:
                yield resource, times or 0
                continue
            if result.consumedCapacity is None:
                raise UncountableClaim(
                    f"claim {claim}, device {result.device}: ConsumedCapacity is nil, but Capacity key '{key}' is set "
                    f"in NodeAllocatableResourceMappings for resource {resource}"
                )
            consumed = result.consumedCapacity.get(key)
            if consumed is not None:
                nanos = quantity.parse(str(consumed))
                yield resource, nanos if times is None else -(-nanos * times // quantity.NANO)


def rejection(pod: PodInfo, taken: Sequence[ClaimedResources], node: NodeInfo) -> Status | None:
    """Why a pod, which counts with what it has `taken`, can't be on a node; None if it can."""
    for each in taken:
        if not each.containers:
            problem = "node-allocatable resource claim not referenced by any container within the pod"
            return Status.unresolvable(f"claim {each.resourceClaimName}: {problem}")
    insufficient = _pod_level_is_too_low(pod)
    if insufficient is not None:
        return insufficient
    wanted = pod.requested
    lacking = [
        each
        for each in (*_CHECKED, *sorted(name for name in wanted if name.startswith("hugepages-")))
        if wanted.get(each, 0) > 0 and wanted[each] > node.allocatable_of(each) - node.requested_of(each)
    ]
    if not lacking:
        return None
    never = any(wanted[each] > node.allocatable_of(each) for each in lacking)
    return (Status.unresolvable if never else Status.unschedulable)(*(f"Insufficient {each}" for each in lacking))


def explained(pod: PodInfo, why: Status, node: NodeInfo) -> str:
    """A rejection in words: what the pod, which counts with what it takes, needs of a node, and what is free there."""
    texts = []
    for reason in why.reasons:
        resource = reason.removeprefix("Insufficient ")
        if resource == reason:
            texts.append(reason)
            continue
        wanted, has = pod.requested[resource], node.allocatable_of(resource)
        needs, free, of = (
            requests.amount_text(resource, each) for each in (wanted, max(has - node.requested_of(resource), 0), has)
        )
        texts.append(
            f"with what its claims take of the node, it needs {needs} {resource}; {node.name} has {free} of {of} free"
        )
    return "; ".join(texts)


def _pod_level_is_too_low(pod: PodInfo) -> Status | None:
    resources = pod.spec.resources
    if resources is None or resources.requests is None:
        return None
    stated = requests.pod_requests(pod.object, use_status=True)
    summed = requests.pod_requests(pod.object, use_status=True, pod_level=False)
    for resource, amount in sorted(stated.items()):
        if summed.get(resource, 0) > amount:
            return Status.unresolvable(
                f"pod level request for {resource} is insufficient to cover the aggregated container and "
                "node-allocatable DRA requests"
            )
    return None


def sharing(pod: PodInfo, claim: ResourceClaim, node: NodeInfo) -> Status | None:
    """Why a pod can't share an allocated claim that takes resources of a node; None if it can."""
    name = (claim.metadata.name if claim.metadata is not None else "") or ""
    users = {each.uid for each in node.pods if each.namespace == pod.namespace and name in each.counted_claims}
    if len(users) > 1:
        return Status.unresolvable(f"node allocatable resource claim {name} shared by multiple pods")
    if users and pod.uid not in users:
        return Status.unresolvable(f"node allocatable resource claim {name} is already used by another pod")
    return None


def _containers_with(pod: PodInfo, claim: ResourceClaim) -> Iterator[str]:
    """The containers that use a claim, once for each reference."""
    own = set()
    for reference in pod.spec.resourceClaims or ():
        try:
            name = claim_name(pod.object, reference)
        except UnusableClaim:
            continue
        if claim.metadata is not None and name == claim.metadata.name:
            own.add(reference.name)
    for container in (*(pod.spec.initContainers or ()), *(pod.spec.containers or ())):
        for used in (container.resources.claims if container.resources is not None else None) or ():
            if used.name in own:
                yield container.name
