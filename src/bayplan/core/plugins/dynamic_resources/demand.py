"""What a pod requests of a node together with what it takes there through its claims, and whether its own limits allow
that.

Mirrors getPodNodeAllocatableResourceFootprint of nodeallocatabledynamicresources.go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lightkube.models.resource_v1 import ResourceClaim

from bayplan.core.api import quantity, requests
from bayplan.core.api.node_allocatable import ClaimedResources, Footprint, claimed_as
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.devices.claims import UnusableClaim, claim_name
from bayplan.core.framework.status import Status
from bayplan.core.plugins.dynamic_resources.provisions import Taking, Unknown

Takings = Sequence[tuple[ResourceClaim, Taking]]
"""Claims of a pod, and what the pod takes of a node through each of them."""


class TakenByClaim(NamedTuple):
    """What a pod takes through a claim, which some of its containers use."""

    claim: str
    containers: list[str]
    footprint: Footprint

    def amounts(self) -> Iterator[tuple[str, int]]:
        """Yield nano-units by resource. A resource may occur several times."""
        return self.footprint.of(len(self.containers))


class NodeDemand:
    """The requests of a pod on nodes where it takes different amounts. `since_1_37`: by the rules that 1.37 has."""

    def __init__(self, pod: PodInfo, *, since_1_37: bool) -> None:
        self._pod = pod
        self._since_1_37 = since_1_37
        self._stated = requests.pod_level_requests(pod.object)
        self._overhead = requests.parse_amounts(pod.spec.overhead)
        self._summed = requests.pod_requests(pod.object, pod_level=False)
        """Of the containers, with the overhead."""

    def taken(self, takings: Takings) -> list[TakenByClaim] | Status:
        """What the pod takes, by claim, or the error that it can't be told."""
        found = []
        for claim, taking in takings:
            name = _name(claim)
            if isinstance(taking, Unknown):
                return Status.error(f"claim {self._pod.namespace}/{name}, {taking.problem}")
            if taking is not None:
                found.append(TakenByClaim(name, list(_containers_with(self._pod, claim)), taking))
        return sorted(found, key=lambda each: each.claim)

    def with_taken(self, taken: Sequence[TakenByClaim]) -> dict[str, int]:
        """What the pod requests in all, in the units of `PodInfo.requested`."""
        total = self._with(taken)
        for resource, nanos in self._stated.items():
            total[resource] = nanos + self._overhead.get(resource, 0)
        return requests.counted(total)

    def problem(self, taken: Sequence[TakenByClaim]) -> Status | None:
        """Why the pod can be on no node where it takes that much."""
        if self._since_1_37:
            return self._too_low_requests(taken) or self._too_low_limits(taken)
        for each in taken:
            if not each.containers:
                why = "node-allocatable resource claim not referenced by any container within the pod"
                return Status.unresolvable(f"claim {each.claim}: {why}")
        return self._too_low_requests(taken)

    def _with(self, taken: Sequence[TakenByClaim]) -> requests.Amounts:
        total = dict(self._summed)
        for each in taken:
            requests.add_amounts(total, each.amounts())
        return total

    def _too_low_requests(self, taken: Sequence[TakenByClaim]) -> Status | None:
        summed = self._with(taken) if self._stated else {}
        for resource, nanos in sorted(self._stated.items()):
            if summed.get(resource, 0) - self._overhead.get(resource, 0) > nanos:
                return Status.unresolvable(
                    f"pod level request for {resource} is insufficient to cover the aggregated container and "
                    "node-allocatable DRA requests"
                )
        return None

    def _too_low_limits(self, taken: Sequence[TakenByClaim]) -> Status | None:
        spec = self._pod.spec
        stated = requests.parse_amounts(spec.resources.limits if spec.resources is not None else None)
        if not stated:
            return None
        summed: requests.Amounts = {}
        for each in taken:
            requests.add_amounts(summed, each.amounts())
        requests.add_amounts(summed, requests.container_limits(self._pod.object).items())
        for resource, nanos in sorted(summed.items()):
            if _is_huge_page(resource) and nanos > stated.get(resource, nanos):
                return Status.unresolvable(
                    f"pod level limit for {resource} is insufficient to cover the aggregated container and "
                    "node-allocatable DRA limits"
                )
        for container in spec.containers or ():
            limits = requests.parse_amounts(container.resources.limits if container.resources is not None else None)
            own: requests.Amounts = dict(limits)
            for each in taken:
                if container.name in each.containers:
                    requests.add_amounts(own, each.footprint.of(1))
            for resource in sorted(limits):
                if not _is_huge_page(resource) and own[resource] > stated.get(resource, own[resource]):
                    return Status.unresolvable(
                        f"pod level limit for {resource} is insufficient to cover the limit and DRA overhead for "
                        f"container {container.name}"
                    )
        return None


def statuses_of(taken: Sequence[TakenByClaim], *, since_1_37: bool) -> list[ClaimedResources]:
    """What the pod's status says about what it takes."""
    return [claimed_as(*each, _text, since_1_37=since_1_37) for each in taken]


def _text(resource: str, nanos: int) -> str:
    return quantity.format_quantity(nanos, binary=requests.is_written_in_binary(resource))


def _is_huge_page(resource: str) -> bool:
    return resource.startswith("hugepages-")


def _name(claim: ResourceClaim) -> str:
    return (claim.metadata.name if claim.metadata is not None else "") or ""


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
