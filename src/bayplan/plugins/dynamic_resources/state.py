"""What the plugin remembers of one pod between its points."""

from __future__ import annotations

from dataclasses import dataclass, field

from lightkube.models.core_v1 import ContainerExtendedResourceRequest
from lightkube.models.resource_v1 import AllocationResult, ResourceClaim

from bayplan.api.selectors import NodeSelector
from bayplan.cluster.nodes import Nodes
from bayplan.devices.claims import allocation_of
from bayplan.framework.status import Status
from bayplan.plugins.dynamic_resources.allocator import Supply


@dataclass(frozen=True, slots=True)
class NodeAllocation:
    """What the claims to allocate would get on a node, in order.

    `extended_claim` is the pod's claim for extended resources as it would be there, `mappings` who uses it.
    """

    results: tuple[AllocationResult, ...]
    extended_claim: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class Needs:
    """What has to be allocated for a pod on some nodes: `claims`, of which `extended_claim` may be one, as it would be
    there; `mappings` say who uses it.
    """

    claims: list[ResourceClaim]
    extended_claim: ResourceClaim | None = None
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


@dataclass(slots=True)
class PodDevices:
    """The claims of a pod: its own, and last the one for extended resources, if there is one (`extended`).

    `extended_requests` are the extended resources that the pod requests, and `needs` what follows from that for nodes,
    by the resources that these do not have. `selectors` say where allocated claims can be used, by the place of the
    claim. `nodes` and `supply` are what is allocated from. `unavailable` are allocated claims that some node could not
    use. `granted` is what Reserve took, and `decided` the same by the place of the claim.
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

    @property
    def extended_claim(self) -> ResourceClaim | None:
        """The claim for extended resources."""
        return self.claims[-1] if self.extended else None

    @property
    def own(self) -> int:
        """How many claims the pod itself refers to."""
        return len(self.claims) - self.extended

    def to_allocate(self) -> list[int]:
        """The places of the claims that have no allocation."""
        return [index for index, claim in enumerate(self.claims) if allocation_of(claim) is None]
