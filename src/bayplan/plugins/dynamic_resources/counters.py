"""Counters that the devices of a pool share: a device can be had while enough of what it consumes is left.

Mirrors checkAvailableCounters of structured/internal/*/allocator_*.go, which tells pools apart by their names alone.
"""

from __future__ import annotations

from bayplan.cluster.claim_allocations import Taken
from bayplan.cluster.device_slices import SliceDevice
from bayplan.plugins.dynamic_resources.pools import Pool

_Sets = dict[str, dict[str, int]]


class SharedCounters:
    """What allocated devices leave of the counters, by the name of the pool; worked out once for all nodes."""

    def __init__(self, taken: Taken) -> None:
        self._taken = taken
        self._left: dict[str, _Sets] = {}

    def search(self) -> SearchCounters:
        """The counters of one search."""
        return SearchCounters(self)

    def left(self, pool: Pool) -> _Sets:
        """What is left in a pool. It may be less than nothing."""
        found = self._left.get(pool.id.pool)
        if found is None:
            found = self._left[pool.id.pool] = {name: dict(counters) for name, counters in pool.counter_sets.items()}
            elsewhere = (device for each in pool.elsewhere for device in each.devices)
            for device in (*pool.devices, *elsewhere):
                if device.counters and self._taken.touches(device.id):
                    _subtract(found, device)
        return found


class SearchCounters:
    """What the devices consume that one search has taken."""

    def __init__(self, shared: SharedCounters) -> None:
        self._shared = shared
        self._consumed: dict[str, _Sets] = {}

    def consume(self, device: SliceDevice, pool: Pool) -> bool:
        """Consume what a device needs, if that much is left."""
        left = self._shared.left(pool)
        consumed = self._consumed.setdefault(pool.id.pool, {})
        for set_name, counters in device.counters.items():
            own = consumed.setdefault(set_name, {})
            for name, amount in counters.items():
                own[name] = own.get(name, 0) + amount
        for set_name, available in left.items():
            own = consumed.get(set_name, {})
            if any(amount < own.get(name, 0) for name, amount in available.items()):
                self.give_back(device)
                return False
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
