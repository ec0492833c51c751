"""Which devices are taken: by allocated claims, and by allocations that were decided and are not written yet.

Mirrors dynamicresources/dra_manager.go (claimTracker) and allocateddevices.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from lightkube.models.resource_v1 import AllocationResult, DeviceRequestAllocationResult, ResourceClaim

from bayplan.api import quantity
from bayplan.cluster.device_slices import DeviceId, PoolId
from bayplan.cluster.objects import ObjectStore


class Use(NamedTuple):
    """A device that an allocation has. `consumed`: what it takes of the capacity, in nano-units, if it tells."""

    device: DeviceId
    shared: bool
    consumed: Mapping[str, int] | None


class Taken:
    """Devices that are taken, counted as allocations come and go."""

    def __init__(self) -> None:
        self.devices: dict[DeviceId, int] = {}
        """By how many allocations, of devices that are taken whole."""
        self.shared: dict[DeviceId, int] = {}
        """By how many, of devices that are shared."""
        self.consumed: dict[DeviceId, dict[str, int]] = {}
        """What of the capacity of shared devices is taken, in nano-units."""
        self._consumers: dict[DeviceId, int] = {}

    def count(self, uses: Iterable[Use], sign: int) -> None:
        """Count what an allocation takes: 1 for one that is there, -1 for one that is not any more."""
        for device, shared, consumed in uses:
            _add(self.shared if shared else self.devices, device, sign)
            if consumed is None:
                continue
            amounts = self.consumed.setdefault(device, {})
            for name, amount in consumed.items():
                amounts[name] = amounts.get(name, 0) + sign * amount
            _add(self._consumers, device, sign)
            if device not in self._consumers:
                del self.consumed[device]

    def touches(self, device: DeviceId) -> bool:
        """Whether anybody has the device, or a share of it."""
        return device in self.devices or device in self.shared


class ClaimAllocations:
    """The allocations of all claims, those in flight included. A view of the store of claims, shared by all profiles.

    An allocation is in flight from Reserve until it is written: meanwhile its devices are taken, though the claim does
    not tell so yet.
    """

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._stale: dict[str, None] = {}
        self._written: dict[str, tuple[Use, ...]] = {}
        self._in_flight: dict[str, tuple[AllocationResult, tuple[Use, ...]]] = {}
        self._taken = Taken()
        self._listeners: list[Callable[[PoolId], None]] = []
        store.listen(self._changed)

    def listen(self, listener: Callable[[PoolId], None]) -> None:
        """Have a listener told of every pool of whose devices something was taken or given back."""
        self._listeners.append(listener)

    def in_flight(self, uid: str) -> AllocationResult | None:
        """The allocation of a claim that was decided and is not written yet."""
        found = self._in_flight.get(uid)
        return None if found is None else found[0]

    def begin(self, uid: str, allocation: AllocationResult) -> None:
        """An allocation was decided. For a claim that a pod names twice the first one counts, until it ends."""
        if uid in self._in_flight:
            return
        uses = _uses(allocation)
        self._in_flight[uid] = allocation, uses
        self._count(uses, 1)

    def end(self, uid: str) -> bool:
        """It was written, or given up. Returns whether there was one."""
        found = self._in_flight.pop(uid, None)
        if found is not None:
            self._count(found[1], -1)
        return found is not None

    def taken(self) -> Taken:
        """What is taken: the same object at all times, brought up to date. Raises ValueError for amounts that cannot be
        read.
        """
        while self._stale:
            key = next(iter(self._stale))
            claim = self._store.get(key)
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
            self._stale[f"{changed.metadata.namespace}/{changed.metadata.name}"] = None

    def _count(self, uses: tuple[Use, ...], sign: int) -> None:
        self._taken.count(uses, sign)
        for pool in {PoolId(use.device.driver, use.device.pool) for use in uses}:
            for listener in self._listeners:
                listener(pool)


def _uses(allocation: AllocationResult | None) -> tuple[Use, ...]:
    uses: list[Use] = []
    for result in results_of(allocation):
        if result.adminAccess:
            continue  # looks at a device without taking it
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


def results_of(allocation: AllocationResult | None) -> Iterable[DeviceRequestAllocationResult]:
    """The devices of an allocation."""
    if allocation is None or allocation.devices is None:
        return ()
    return allocation.devices.results or ()


def allocation_of(claim: ResourceClaim) -> AllocationResult | None:
    """The allocation that a claim tells of."""
    return claim.status.allocation if claim.status is not None else None
