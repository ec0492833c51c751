"""Resources of nodes that devices provide, in the two forms that Kubernetes has: that of 1.36, and that since 1.37.

Lightkube's models have the newer one. Both are read into NodeProvision and Footprint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypedDict

from lightkube.models import core_v1, resource_v1
from lightkube.models.core_v1 import NodeAllocatableMappedResources, NodeAllocatableOverheadResources

from bayplan.core.api import quantity


class Provided(TypedDict, total=False):
    """How much of a node's resource a device provides, in 1.36: a fixed amount, or what is consumed of one of its
    capacities, times the amount if there is one.
    """

    allocationMultiplier: str | None
    capacityKey: str | None


class MappedDevice(resource_v1.Device):
    r"""A device that may provide resources of its node.

    **parameters**

    * **nodeAllocatableResourceMappings** ``Optional[dict]`` - By the name of the resource, such as cpu, in 1.36.
    """

    nodeAllocatableResourceMappings: dict[str, Provided] | None = None


class ClaimedResources(core_v1.NodeAllocatableResourceClaimStatus):
    r"""What a pod takes of its node through a claim.

    **parameters**

    * **resources** ``Optional[dict]`` - The amounts by the name of the resource, in 1.36.
    """

    resources: dict[str, str] | None = None


class NodeProvision(NamedTuple):
    """How a device provides a resource of its node. Amounts are in nano-units.

    `maps`: whether it provides the resource itself: what is consumed of the capacity `key`, times `times` (None for
    once), or without a key, `fixed`. `per_pod` and `per_container` are overhead. None where there is no amount.
    """

    resource: str
    maps: bool = True
    key: str = ""
    times: int | None = None
    fixed: int | None = None
    per_pod: int | None = None
    per_container: int | None = None


Amounts = tuple[tuple[str, int], ...]
"""Nano-units by resource, sorted."""


class Footprint(NamedTuple):
    """What a pod takes of a node through a claim: `mapped` and `per_pod` once, and the rest for each container that
    uses the claim.
    """

    mapped: Amounts = ()
    per_pod: Amounts = ()
    per_container: Amounts = ()

    def of(self, containers: int) -> Iterator[tuple[str, int]]:
        """Yield amounts by resource, for a number of containers. A resource may occur several times."""
        yield from self.mapped
        yield from self.per_pod
        for resource, nanos in self.per_container:
            yield resource, nanos * containers


def provides(device: resource_v1.Device, *, since_1_37: bool) -> bool:
    """Whether a device provides anything in the form of one version."""
    if since_1_37:
        return bool(device.nodeAllocatableResources)
    return isinstance(device, MappedDevice) and bool(device.nodeAllocatableResourceMappings)


def provisions_of(device: resource_v1.Device, *, since_1_37: bool) -> tuple[NodeProvision, ...]:
    """What a device provides in the form of one version. Raises InvalidQuantity."""
    if since_1_37:
        return tuple([_provision(*each) for each in (device.nodeAllocatableResources or {}).items()])
    if not isinstance(device, MappedDevice):
        return ()
    found = []
    for resource, mapping in (device.nodeAllocatableResourceMappings or {}).items():
        times = _nanos(mapping, "allocationMultiplier")
        found.append(NodeProvision(resource, key=mapping.get("capacityKey") or "", times=times, fixed=times or 0))
    return tuple(found)


def _provision(resource: str, provided: Mapping[str, Any]) -> NodeProvision:
    mapping, overhead = provided.get("mapping"), provided.get("overhead")
    return NodeProvision(
        resource,
        maps=mapping is not None,
        key=(mapping or {}).get("capacityKey") or "",
        times=_nanos(mapping, "capacityMultiplier"),
        fixed=_nanos(mapping, "deviceMultiplier"),
        per_pod=_nanos(overhead, "perPod"),
        per_container=_nanos(overhead, "perContainer"),
    )


def footprint_of(claimed: ClaimedResources) -> Footprint:
    """What the status of a pod says about a claim, in either form. Raises InvalidQuantity."""
    mapped: list[tuple[str, str | None]] = [(each.name, each.quantity) for each in claimed.mapping or ()]
    overhead = claimed.overhead or ()
    return Footprint(
        _sorted([*mapped, *(claimed.resources or {}).items()]),
        _sorted((each.name, each.perPod) for each in overhead),
        _sorted((each.name, each.perContainer) for each in overhead),
    )


def claimed_as(
    name: str, containers: list[str], footprint: Footprint, text: Callable[[str, int], str], *, since_1_37: bool
) -> ClaimedResources:
    """What a pod's status says about a claim that its containers use, in the form of one version.

    `text`: a function of a resource and an amount in nano-units that returns a quantity.
    """
    mapped = {resource: text(resource, nanos) for resource, nanos in footprint.mapped}
    if not since_1_37:
        return ClaimedResources(resourceClaimName=name, containers=containers, resources=mapped)
    overhead: dict[str, NodeAllocatableOverheadResources] = {}
    for resource, nanos in footprint.per_pod:
        overhead[resource] = NodeAllocatableOverheadResources(resource, perPod=text(resource, nanos))
    for resource, nanos in footprint.per_container:
        entry = overhead.setdefault(resource, NodeAllocatableOverheadResources(resource))
        entry.perContainer = text(resource, nanos)
    return ClaimedResources(
        resourceClaimName=name,
        containers=containers,
        mapping=[NodeAllocatableMappedResources(resource, amount) for resource, amount in mapped.items()],
        overhead=[each for _, each in sorted(overhead.items())],
    )


def _sorted(amounts: Iterable[tuple[str, str | None]]) -> Amounts:
    return tuple(sorted([(name, quantity.parse(amount)) for name, amount in amounts if amount is not None]))


def _nanos(mapping: Mapping[str, Any] | None, key: str) -> int | None:
    amount = mapping.get(key) if mapping is not None else None
    return None if amount is None else quantity.parse(str(amount))
