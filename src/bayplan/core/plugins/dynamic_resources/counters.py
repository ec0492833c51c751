"""Counters that the devices of a pool share: a device is available while the counters that it consumes suffice.

Mirrors checkAvailableCounters of structured/internal/*/allocator_*.go, which identifies pools by name only until 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from bayplan.core.devices.allocations import ClaimAllocations, Taken
from bayplan.core.devices.slices import DeviceId, DeviceSlices, PoolId, SliceDevice
from bayplan.core.plugins.dynamic_resources.compatibility import JoinedGroups
from bayplan.core.plugins.dynamic_resources.pools import Pool
from bayplan.core.plugins.dynamic_resources.rules import SearchRules

_MOST_SKIPPED = 32

_Sets = dict[str, dict[str, int]]
_Key = str | tuple[str, str]
"""The name of a pool, or its driver and its name: 1.36 doesn't tell the drivers of pools with the same name apart."""
_Amounts = Mapping[str, Mapping[str, int]]


def suffice(left: _Amounts, device: SliceDevice, consumed: _Amounts) -> bool:
    """Whether a device's counters are left after `consumed`. Not if any counter of the pool is negative."""
    for set_name, counters in device.counters.items():
        available, own = left.get(set_name, {}), consumed.get(set_name, {})
        for name, amount in counters.items():
            if name in available and available[name] < own.get(name, 0) + amount:
                return False
    return not any(amount < 0 for available in left.values() for amount in available.values())


@dataclass(frozen=True, slots=True)
class PoolUse:
    """What the allocations of a pool leave: counters, which can be negative, by set and name.

    `groups` are the compatibility groups of the allocated devices.
    """

    left: _Sets
    groups: JoinedGroups = field(default_factory=JoinedGroups)


class CountersLeft:
    """What is left of pools after all allocations, cached until a pool changes."""

    def __init__(self, slices: DeviceSlices, allocations: ClaimAllocations) -> None:
        self._slices = slices
        self._uses: dict[PoolId, PoolUse] = {}
        slices.listen(lambda changed: self._forget(changed.pool))
        allocations.listen(self._forget)

    def of(self, pool: Pool, taken: Taken) -> PoolUse:
        """What is left of a pool."""
        found = self._uses.get(pool.id)
        if found is None:
            found = PoolUse({name: dict(counters) for name, counters in pool.counter_sets.items()})
            others = (device for each in pool.other_slices for device in each.devices)
            for device in (*pool.devices, *others):
                if device.counters and taken.includes(device.id):
                    _subtract(found.left, device)
                    if pool.has_groups:
                        found.groups.add(device)
            if not self._slices.is_ambiguous(pool.id):
                self._uses[pool.id] = found
        return found

    def _forget(self, pool: PoolId) -> None:
        self._uses.pop(pool, None)


class SharedCounters:
    """What is left for the claims of one pod. As upstream, the first node's pool counts: of a name, or of an ID."""

    def __init__(self, left: CountersLeft, taken: Taken, rules: SearchRules) -> None:
        self._all_left = left
        self._taken = taken
        self._rules = rules
        self._uses: dict[_Key, PoolUse] = {}

    def search(self, in_use: Mapping[DeviceId, object]) -> SearchCounters:
        """The counters of one search."""
        return SearchCounters(self, in_use, waits=not self._rules.gives_back)

    def key(self, of: PoolId | DeviceId) -> _Key:
        """What the counters of a pool are kept by."""
        return (of.driver, of.pool) if self._rules.tells_drivers_apart else of.pool

    def of(self, pool: Pool) -> PoolUse:
        """What is left of a pool."""
        key = self.key(pool.id)
        found = self._uses.get(key)
        if found is None:
            found = self._uses[key] = self._all_left.of(pool, self._taken)
        return found

    def left(self, pool: Pool) -> _Sets:
        """The remaining counters of a pool. They can be negative."""
        return self.of(pool).left


class SearchCounters:
    """The counters that the devices of one search consume. `in_use` has the devices that the search has chosen.

    It `waits` for what `skip` reports, if rejected candidates keep the counters that they have consumed.
    """

    def __init__(self, shared: SharedCounters, in_use: Mapping[DeviceId, object], *, waits: bool) -> None:
        self._shared = shared
        self._in_use = in_use
        self._waits = waits
        self._consumed: dict[_Key, _Sets] = {}
        self._skipped: dict[_Key, list[tuple[Pool, Sequence[SliceDevice]]]] = {}

    def consume(self, device: SliceDevice, pool: Pool) -> bool:
        """Consume a device's counters. Returns False if they don't suffice or any counter of the pool is negative."""
        key = self._shared.key(pool.id)
        self._catch_up(key)
        return self._consume(key, device, pool)

    def release(self, device: SliceDevice) -> None:
        """Undo `consume`."""
        key = self._shared.key(device.id)
        self._catch_up(key)
        _subtract(self._consumed[key], device)

    def skip(self, pool: Pool, devices: Sequence[SliceDevice]) -> None:
        """Consume the counters of all these devices that are not in use, as far as they suffice.

        That happens only when the pool's counters are needed next, or when there is too much to remember.
        """
        if not self._waits:
            return
        key = self._shared.key(pool.id)
        skipped = self._skipped.setdefault(key, [])
        skipped.append((pool, devices))
        if len(skipped) > _MOST_SKIPPED:
            self._catch_up(key)

    def _catch_up(self, key: _Key) -> None:
        for pool, devices in self._skipped.pop(key, ()):
            for device in devices:
                if device.counters and not self._in_use.get(device.id):
                    self._consume(key, device, pool)

    def _consume(self, key: _Key, device: SliceDevice, pool: Pool) -> bool:
        if not suffice(self._shared.left(pool), device, self._consumed.get(key, {})):
            return False
        consumed = self._consumed.setdefault(key, {})
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
