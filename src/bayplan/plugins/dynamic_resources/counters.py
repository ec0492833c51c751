"""Counters that the devices of a pool share: a device is available while the counters that it consumes suffice.

Mirrors checkAvailableCounters of structured/internal/*/allocator_*.go, which identifies pools by name only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bayplan.devices.allocations import ClaimAllocations, Taken
from bayplan.devices.slices import DeviceId, DeviceSlices, PoolId, SliceDevice
from bayplan.plugins.dynamic_resources.pools import Pool

_MOST_SKIPPED = 32

_Sets = dict[str, dict[str, int]]
_Amounts = Mapping[str, Mapping[str, int]]


def suffice(left: _Amounts, device: SliceDevice, consumed: _Amounts) -> bool:
    """Whether a device's counters are left after `consumed`. Not if any counter of the pool is negative."""
    for set_name, counters in device.counters.items():
        available, own = left.get(set_name, {}), consumed.get(set_name, {})
        for name, amount in counters.items():
            if name in available and available[name] < own.get(name, 0) + amount:
                return False
    return not any(amount < 0 for available in left.values() for amount in available.values())


class CountersLeft:
    """The remaining counters of pools after all allocations, cached until a pool changes."""

    def __init__(self, slices: DeviceSlices, allocations: ClaimAllocations) -> None:
        self._slices = slices
        self._left: dict[PoolId, _Sets] = {}
        slices.listen(lambda changed: self._forget(changed.pool))
        allocations.listen(self._forget)

    def of(self, pool: Pool, taken: Taken) -> _Sets:
        """The remaining counters of a pool. They can be negative."""
        found = self._left.get(pool.id)
        if found is None:
            found = {name: dict(counters) for name, counters in pool.counter_sets.items()}
            others = (device for each in pool.other_slices for device in each.devices)
            for device in (*pool.devices, *others):
                if device.counters and taken.includes(device.id):
                    _subtract(found, device)
            if not self._slices.is_ambiguous(pool.id):
                self._left[pool.id] = found
        return found

    def _forget(self, pool: PoolId) -> None:
        self._left.pop(pool, None)


class SharedCounters:
    """The remaining counters for the claims of one pod, by pool name. As upstream, the first node's pool counts."""

    def __init__(self, left: CountersLeft, taken: Taken) -> None:
        self._all_left = left
        self._taken = taken
        self._left: dict[str, _Sets] = {}

    def search(self, in_use: Mapping[DeviceId, object]) -> SearchCounters:
        """The counters of one search."""
        return SearchCounters(self, in_use)

    def left(self, pool: Pool) -> _Sets:
        """The remaining counters of a pool. They can be negative."""
        found = self._left.get(pool.id.pool)
        if found is None:
            found = self._left[pool.id.pool] = self._all_left.of(pool, self._taken)
        return found


class SearchCounters:
    """The counters that the devices of one search consume. `in_use` has the devices that the search has chosen."""

    def __init__(self, shared: SharedCounters, in_use: Mapping[DeviceId, object]) -> None:
        self._shared = shared
        self._in_use = in_use
        self._consumed: dict[str, _Sets] = {}
        self._skipped: dict[str, list[tuple[Pool, Sequence[SliceDevice]]]] = {}

    def consume(self, device: SliceDevice, pool: Pool) -> bool:
        """Consume a device's counters. Returns False if they don't suffice or any counter of the pool is negative."""
        self._catch_up(pool.id.pool)
        return self._consume(device, pool)

    def release(self, device: SliceDevice) -> None:
        """Undo `consume`."""
        self._catch_up(device.id.pool)
        _subtract(self._consumed[device.id.pool], device)

    def skip(self, pool: Pool, devices: Sequence[SliceDevice]) -> None:
        """Consume the counters of all these devices that are not in use, as far as they suffice.

        That happens only when the pool's counters are needed next, or when there is too much to remember.
        """
        skipped = self._skipped.setdefault(pool.id.pool, [])
        skipped.append((pool, devices))
        if len(skipped) > _MOST_SKIPPED:
            self._catch_up(pool.id.pool)

    def _catch_up(self, pool_name: str) -> None:
        for pool, devices in self._skipped.pop(pool_name, ()):
            for device in devices:
                if device.counters and not self._in_use.get(device.id):
                    self._consume(device, pool)

    def _consume(self, device: SliceDevice, pool: Pool) -> bool:
        if not suffice(self._shared.left(pool), device, self._consumed.get(pool.id.pool, {})):
            return False
        consumed = self._consumed.setdefault(pool.id.pool, {})
        for set_name, counters in device.counters.items():
            own = consumed.setdefault(set_name, {})
            for name, amount in counters.items():
                own[name] = own.get(name, 0) + amount
        return True


def _subtract(sets: _Sets, device: SliceDevice) -> None:
    for set_name, counters in device.counters.items():
        own = sets.get(set_name, {})
        for name, amount in counters.items():
            if name in own:
                own[name] -= amount
