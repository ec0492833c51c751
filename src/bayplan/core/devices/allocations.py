"""Which devices are taken: by allocated claims, and by allocations that are decided but not written yet.

Mirrors dynamicresources/dra_manager.go (claimTracker) and allocateddevices.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from lightkube.models.resource_v1 import AllocationResult, ResourceClaim

from bayplan.core.api import quantity
from bayplan.core.devices.claims import allocation_of, key_of, results_of
from bayplan.core.devices.observable import Observable
from bayplan.core.devices.slices import DeviceId, PoolId


class Use(NamedTuple):
    """A device of an allocation. `consumed` is the capacity that the allocation consumes, in nano-units; None if the
    allocation doesn't state it.
    """

    device: DeviceId
    shared: bool
    consumed: Mapping[str, int] | None


class Taken:
    """Taken devices, counted as allocations are added and removed."""

    def __init__(self) -> None:
        self.devices: dict[DeviceId, int] = {}
        """Devices that are taken as a whole, with their number of allocations."""
        self.shared: dict[DeviceId, int] = {}
        """Shared devices, with their number of allocations."""
        self.consumed: dict[DeviceId, dict[str, int]] = {}
        """The consumed capacity of shared devices, in nano-units."""
        self._consumers: dict[DeviceId, int] = {}

    def count(self, uses: Iterable[Use], by: int) -> None:
        """Add (`by` 1) or remove (-1) an allocation."""
        for device, shared, consumed in uses:
            _add(self.shared if shared else self.devices, device, by)
            if consumed is None:
                continue
            amounts = self.consumed.setdefault(device, {})
            for name, amount in consumed.items():
                amounts[name] = amounts.get(name, 0) + by * amount
            _add(self._consumers, device, by)
            if device not in self._consumers:
                del self.consumed[device]

    def includes(self, device: DeviceId) -> bool:
        """Whether any allocation has the device or a share of it."""
        return device in self.devices or device in self.shared


@dataclass(slots=True)
class _InFlight:
    allocation: AllocationResult
    uses: tuple[Use, ...]
    pods: int = 1
    """How many pods use it."""


class ClaimAllocations:
    """The allocations of all claims, including those in flight. All profiles share one instance.

    An allocation is in flight from Reserve until it is written: its devices are taken although the claim's status
    doesn't show it yet. The pods of a gang can share it.
    """

    def __init__(self, claims: Observable) -> None:
        self._stale: dict[str, ResourceClaim | None] = {}
        self._written: dict[str, tuple[Use, ...]] = {}
        self._in_flight: dict[str, _InFlight] = {}
        self._taken = Taken()
        self._listeners: list[Callable[[PoolId], None]] = []
        claims.listen(self._changed)

    def listen(self, listener: Callable[[PoolId], None]) -> None:
        """Call `listener` with every pool in which a device is taken or released."""
        self._listeners.append(listener)

    def in_flight(self, uid: str) -> AllocationResult | None:
        """The allocation of a claim that is decided but not written yet."""
        found = self._in_flight.get(uid)
        return None if found is None else found.allocation

    def begin(self, uid: str, allocation: AllocationResult) -> None:
        """Add an allocation in flight, or another pod that uses the one of this claim: only the first one counts."""
        found = self._in_flight.get(uid)
        if found is not None:
            found.pods += 1
            return
        uses = _uses(allocation)
        self._in_flight[uid] = _InFlight(allocation, uses)
        self._count(uses, 1)

    def end(self, uid: str, *, written: bool = False) -> bool:
        """Remove an allocation in flight that was `written`, or that the last of its pods has dropped.

        Returns whether it was removed.
        """
        found = self._in_flight.get(uid)
        if found is None:
            return False
        found.pods -= 1
        if found.pods and not written:
            return False
        del self._in_flight[uid]
        self._count(found.uses, -1)
        return True

    def taken(self) -> Taken:
        """The taken devices: always the same object, updated here. Raises ValueError for unreadable amounts."""
        while self._stale:
            key, claim = next(iter(self._stale.items()))
            uses = _uses(allocation_of(claim)) if claim is not None else ()
            del self._stale[key]
            self._count(self._written.pop(key, ()), -1)
            self._count(uses, 1)
            if uses:
                self._written[key] = uses
        return self._taken

    def _changed(self, before: ResourceClaim | None, now: ResourceClaim | None) -> None:
        changed = now if now is not None else before
        if changed is not None and changed.metadata is not None:
            self._stale[key_of(changed)] = now

    def _count(self, uses: tuple[Use, ...], by: int) -> None:
        self._taken.count(uses, by)
        for pool in {PoolId(use.device.driver, use.device.pool) for use in uses}:
            for listener in self._listeners:
                listener(pool)


def _uses(allocation: AllocationResult | None) -> tuple[Use, ...]:
    uses: list[Use] = []
    for result in results_of(allocation):
        if result.adminAccess:
            continue  # admin access doesn't take the device
        device, consumed = DeviceId(result.driver, result.pool, result.device), None
        if result.shareID is not None and result.consumedCapacity is not None:
            consumed = {name: quantity.parse(str(amount)) for name, amount in result.consumedCapacity.items()}
        uses.append(Use(device, result.shareID is not None, consumed))
    return tuple(uses)


def _add(counts: dict[DeviceId, int], device: DeviceId, number: int) -> None:
    count = counts.get(device, 0) + number
    if count:
        counts[device] = count
    else:
        del counts[device]
