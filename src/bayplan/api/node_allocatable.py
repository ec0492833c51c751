"""Resources of nodes that devices provide, in the form of Kubernetes 1.36, which lightkube's models don't have."""

from __future__ import annotations

from typing import TypedDict

from lightkube.models import core_v1, resource_v1


class Provided(TypedDict, total=False):
    """How much of a node's resource a device provides: a fixed amount, or what is consumed of one of its capacities,
    times the amount if there is one.
    """

    allocationMultiplier: str | None
    capacityKey: str | None


class MappedDevice(resource_v1.Device):
    r"""A device that may provide resources of its node.

    **parameters**

    * **nodeAllocatableResourceMappings** ``Optional[dict]`` - By the name of the resource, such as cpu.
    """

    nodeAllocatableResourceMappings: dict[str, Provided] | None = None


class ClaimedResources(core_v1.NodeAllocatableResourceClaimStatus):
    r"""What a pod takes of its node through a claim.

    **parameters**

    * **resources** ``Optional[dict]`` - The amounts by the name of the resource.
    """

    resources: dict[str, str] | None = None
