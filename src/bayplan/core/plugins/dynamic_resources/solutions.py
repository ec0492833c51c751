"""What a search for devices finds: the devices of each claim, or the error that ends it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from lightkube.models.resource_v1 import DeviceClass, ResourceClaim

from bayplan.core.devices.requests import DeviceDemand
from bayplan.core.devices.slices import SliceDevice


class AllocationError(Exception):
    """A claim, a class or a slice is invalid. The attempt fails, because no node can help."""


class InvalidPools(Exception):
    """No solution on this node, and one of its pools is invalid. Other nodes can have a solution."""


class OutOfTime(Exception):
    """The search timed out."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A device for a request. `consumed` is the consumed capacity of a shared device; None for other devices."""

    device: SliceDevice
    demand: DeviceDemand
    consumed: Mapping[str, int] | None


@dataclass(slots=True)
class Granted:
    """The solution for a claim: its devices, and the chosen alternative of each request with its class."""

    claim: ResourceClaim
    grants: list[Grant] = field(default_factory=list)
    chosen: list[tuple[DeviceDemand, DeviceClass]] = field(default_factory=list)

    @property
    def alternatives(self) -> frozenset[str]:
        """The full names of the chosen alternatives that got devices."""
        return frozenset(each.demand.full_name for each in self.grants if each.demand.parent)
