"""The plugin's state for one pod between extension points, in `CycleState.data`.

It is made in PreFilter. Filter, Score, Reserve and PreBind read it; Reserve adds what it granted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lightkube.models.core_v1 import ContainerExtendedResourceRequest
from lightkube.models.resource_v1 import AllocationResult, ResourceClaim, ResourceClaimConsumerReference

from bayplan.core.api.node_allocatable import ClaimedResources
from bayplan.core.api.selectors import NodeSelector
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import allocation_of
from bayplan.core.framework.status import Status
from bayplan.core.plugins.dynamic_resources.candidates import Supply
from bayplan.core.plugins.dynamic_resources.obstacles import Holders


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    """The allocations of the pod's unallocated claims on a node, in order.

    `extended_claim` is the claim for extended resources on this node, `mappings` assigns its requests to containers.
    """

    results: tuple[AllocationResult, ...]
    extended_claim: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    """The claims to allocate for a pod on some nodes.

    `extended_claim` is the claim for extended resources on these nodes, `mappings` assigns its requests to containers.
    """

    claims: list[ResourceClaim]
    extended_claim: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


@dataclass(slots=True)
class PodDevices:
    """The claims of a pod: its own, then the one for extended resources if `extended`.

    `nodes` and `supply` are the inputs of the allocation. `extended_requests` are the requested extended resources, and
    `needs` caches the claims to allocate by the set of resources that must come from devices. `granted` is the result
    of Reserve. The other fields refer to claims by index: `selectors` are the node selectors of allocated claims,
    `unavailable` the allocated claims that some node couldn't use, and `decided` the allocations of Reserve. `pending`
    are the allocations in flight that other members of the pod's gang have made, and `gang_claims` the UIDs of all
    claims with such an allocation. `held`: the UIDs of the claims that the pod itself keeps in flight.
    `holding` caches who has devices, for explanations. `taken` is what the pod takes of the node on which it is
    assumed through its claims, and `wrote_taken` whether its status may say so already. `group` is the name of the
    PodGroup whose claims the pod may use, "" without one, and `reserve_for` are the consumers to reserve claims for;
    without one, it is the pod.
    """

    claims: list[ResourceClaim]
    nodes: Nodes
    supply: Supply
    extended: bool = False
    extended_uid: str = ""
    extended_requests: dict[str, int] = field(default_factory=dict)
    selectors: dict[int, NodeSelector] = field(default_factory=dict)
    needs: dict[frozenset[str], Needs | Status] = field(default_factory=dict)
    granted: NodeAllocation | None = None
    unavailable: set[int] = field(default_factory=set)
    decided: dict[int, AllocationResult] = field(default_factory=dict)
    pending: dict[int, AllocationResult] = field(default_factory=dict)
    gang_claims: set[str] = field(default_factory=set)
    held: set[str] = field(default_factory=set)
    holding: Holders | None = None
    taken: list[ClaimedResources] = field(default_factory=list)
    wrote_taken: bool = False
    group: str = ""
    reserve_for: list[ResourceClaimConsumerReference] = field(default_factory=list)

    def holders(self, collect: Callable[[], Holders]) -> Holders:
        """The claims that have devices, collected once."""
        if self.holding is None:
            self.holding = collect()
        return self.holding

    @property
    def extended_claim(self) -> ResourceClaim | None:
        """The claim for extended resources, if any."""
        return self.claims[-1] if self.extended else None

    def consumer(self, index: int, pod: PodInfo) -> ResourceClaimConsumerReference:
        """The consumer of a claim: the pod or its PodGroup."""
        if index < len(self.reserve_for):
            return self.reserve_for[index]
        return ResourceClaimConsumerReference(resource="pods", name=pod.name, uid=pod.uid)

    @property
    def own(self) -> int:
        """The number of claims that the pod's spec refers to."""
        return len(self.claims) - self.extended

    def allocation(self, index: int) -> AllocationResult | None:
        """The allocation of a claim, whether it is written or pending."""
        return allocation_of(self.claims[index]) or self.pending.get(index)

    def to_allocate(self) -> list[int]:
        """The indexes of the claims without an allocation."""
        return [index for index in range(len(self.claims)) if self.allocation(index) is None]
