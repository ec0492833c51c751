"""Which devices are taken: by allocated claims, and by allocations that were decided and are not written yet.

Mirrors dynamicresources/dra_manager.go (claimTracker) and allocateddevices.go.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from lightkube.models.resource_v1 import AllocationResult, DeviceRequestAllocationResult, ResourceClaim

from bayplan.api import quantity
from bayplan.cluster.device_slices import DeviceId
from bayplan.cluster.objects import ObjectStore


@dataclass(slots=True)
class Taken:
    """Devices that are taken. `consumed`: of shared devices the capacity that is, in nano-units."""

    devices: set[DeviceId] = field(default_factory=set)
    shared: set[DeviceId] = field(default_factory=set)
    consumed: dict[DeviceId, dict[str, int]] = field(default_factory=dict)

    def add(self, allocation: AllocationResult | None) -> None:
        """Count what an allocation takes."""
        for result in results_of(allocation):
            if result.adminAccess:
                continue  # looks at a device without taking it
            device = DeviceId(result.driver, result.pool, result.device)
            if result.shareID is None:
                self.devices.add(device)
                continue
            self.shared.add(device)
            if result.consumedCapacity is not None:
                amounts = self.consumed.setdefault(device, {})
                for name, amount in result.consumedCapacity.items():
                    amounts[name] = amounts.get(name, 0) + quantity.parse(str(amount))

    def copy(self) -> Taken:
        """The same, to be changed on its own."""
        consumed = {device: dict(amounts) for device, amounts in self.consumed.items()}
        return Taken(set(self.devices), set(self.shared), consumed)

    def touches(self, device: DeviceId) -> bool:
        """Whether anybody has the device, or a share of it."""
        return device in self.devices or device in self.shared or device in self.consumed


class ClaimAllocations:
    """The allocations of all claims, those in flight included. A view of the store of claims, shared by all profiles.

    An allocation is in flight from Reserve until it is written: meanwhile its devices are taken, though the claim does
    not tell so yet.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._version = -1
        self._written = Taken()
        self._in_flight: dict[str, AllocationResult] = {}

    def in_flight(self, uid: str) -> AllocationResult | None:
        """The allocation of a claim that was decided and is not written yet."""
        return self._in_flight.get(uid)

    def begin(self, uid: str, allocation: AllocationResult) -> None:
        """An allocation was decided."""
        self._in_flight[uid] = allocation

    def end(self, uid: str) -> bool:
        """It was written, or given up. Returns whether there was one."""
        return self._in_flight.pop(uid, None) is not None

    def taken(self) -> Taken:
        """What is taken now. To be read only."""
        if self._version != self._store.version:
            self._written = Taken()
            for claim in self._store.values():
                self._written.add(allocation_of(claim))
            self._version = self._store.version
        if not self._in_flight:
            return self._written
        taken = self._written.copy()
        for allocation in self._in_flight.values():
            taken.add(allocation)
        return taken


def results_of(allocation: AllocationResult | None) -> Iterable[DeviceRequestAllocationResult]:
    """The devices of an allocation."""
    if allocation is None or allocation.devices is None:
        return ()
    return allocation.devices.results or ()


def allocation_of(claim: ResourceClaim) -> AllocationResult | None:
    """The allocation that a claim tells of."""
    return claim.status.allocation if claim.status is not None else None
