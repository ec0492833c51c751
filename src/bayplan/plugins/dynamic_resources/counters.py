"""Counters that the devices of a pool share: a device can be had while enough of what it consumes is left.

Mirrors checkAvailableCounters of structured/internal/*/allocator_*.go, which tells pools apart by their names alone.
"""

from __future__ import annotations

from bayplan.devices.allocations import ClaimAllocations, Taken
from bayplan.devices.slices import DeviceSlices, PoolId, SliceDevice
from bayplan.plugins.dynamic_resources.pools import Pool

_Sets = dict[str, dict[str, int]]


class CountersLeft:
    """What allocated devices leave of the counters of pools, kept until something is heard of a pool."""

    def __init__(self, slices: DeviceSlices, allocations: ClaimAllocations) -> None:
        self._slices = slices
        self._left: dict[PoolId, _Sets] = {}
        slices.listen(lambda changed: self._forget(changed.pool))
        allocations.listen(self._forget)

    def of(self, pool: Pool, taken: Taken) -> _Sets:
        """What is left in a pool. It may be less than nothing."""
        found = self._left.get(pool.id)
        if found is None:
            found = {name: dict(counters) for name, counters in pool.counter_sets.items()}
            elsewhere = (device for each in pool.elsewhere for device in each.devices)
            for device in (*pool.devices, *elsewhere):
                if device.counters and taken.includes(device.id):
                    _subtract(found, device)
            if not self._slices.is_ambiguous(pool.id):
                self._left[pool.id] = found
        return found

    def _forget(self, pool: PoolId) -> None:
        self._left.pop(pool, None)


class SharedCounters:
    """What is left for the claims of one pod, by the name of the pool: the first node that asks speaks for all."""

    def __init__(self, left: CountersLeft, taken: Taken) -> None:
        self._all_left = left
        self._taken = taken
        self._left: dict[str, _Sets] = {}

    def search(self) -> SearchCounters:
        """The counters of one search."""
        return SearchCounters(self)

    def left(self, pool: Pool) -> _Sets:
        """What is left in a pool. It may be less than nothing."""
        found = self._left.get(pool.id.pool)
        if found is None:
            found = self._left[pool.id.pool] = self._all_left.of(pool, self._taken)
        return found


class SearchCounters:
    """What the devices consume that one search has taken."""

    def __init__(self, shared: SharedCounters) -> None:
        self._shared = shared
        self._consumed: dict[str, _Sets] = {}

    def consume(self, device: SliceDevice, pool: Pool) -> bool:
        """Consume what a device needs, if that much is left, and none of the pool's counters is overdrawn."""
        left = self._shared.left(pool)
        consumed = self._consumed.get(pool.id.pool, {})
        for set_name, counters in device.counters.items():
            available, own = left.get(set_name, {}), consumed.get(set_name, {})
            for name, amount in counters.items():
                if name in available and available[name] < own.get(name, 0) + amount:
                    return False
        if any(amount < 0 for available in left.values() for amount in available.values()):
            return False
        consumed = self._consumed.setdefault(pool.id.pool, consumed)
        for set_name, counters in device.counters.items():
            own = consumed.setdefault(set_name, {})
            for name, amount in counters.items():
                own[name] = own.get(name, 0) + amount
        return True

    def give_back(self, device: SliceDevice) -> None:
        """A device does not consume any more."""
        _subtract(self._consumed[device.id.pool], device)


def _subtract(sets: _Sets, device: SliceDevice) -> None:
    for set_name, counters in device.counters.items():
        own = sets.get(set_name, {})
        for name, amount in counters.items():
            if name in own:
                own[name] -= amount
