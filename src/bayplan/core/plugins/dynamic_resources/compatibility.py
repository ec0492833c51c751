"""Compatibility groups: devices that share a counter set are allocated together only if they have a group in common.

Mirrors structured/internal/experimental/compatibility_groups.go of 1.37 and checkAndConsumeCompatibilityGroups.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from bayplan.core.devices.slices import PoolId, SliceDevice
from bayplan.core.plugins.dynamic_resources.pools import Pool

Common = frozenset[str] | None
"""The groups that the devices on a counter set have in common; None if none of them has groups."""
NO_GROUPS: frozenset[str] = frozenset()


@dataclass(slots=True)
class JoinedGroups:
    """The groups of devices that are chosen together.

    `common` are those that they have in common, by counter set. `declared` are the counter sets for which any of them
    has groups.
    """

    common: dict[str, Common] = field(default_factory=dict)
    declared: set[str] = field(default_factory=set)

    def admit(self, device: SliceDevice) -> bool:
        """Whether a device has a group in common with the others on each of its counter sets."""
        return all(self._admits(each, device.groups.get(each, NO_GROUPS)) for each in device.counters)

    def _admits(self, counter_set: str, groups: frozenset[str]) -> bool:
        if counter_set not in self.common:
            return True
        known = self.common[counter_set]
        return not groups if known is None else not known.isdisjoint(groups)

    def add(self, device: SliceDevice) -> None:
        """Add a device. If it isn't admitted, fewer groups are left in common, or none."""
        self.declared |= device.groups.keys()
        for counter_set in device.counters:
            groups = device.groups.get(counter_set, NO_GROUPS)
            if counter_set not in self.common:
                self.common[counter_set] = groups or None
                continue
            known = self.common[counter_set]
            if known is not None and groups:
                self.common[counter_set] = known & groups


class SearchGroups:
    """The groups of the devices that one search has chosen, joined with those of the allocated devices of their pools.

    Unless it `compares` them, devices with groups are left out, and those that share counters with an allocated one.
    """

    def __init__(self, allocated: Callable[[Pool], JoinedGroups], *, compares: bool) -> None:
        self._allocated = allocated
        self._compares = compares
        self._common: dict[PoolId, dict[str, Common]] = {}

    def take(self, device: SliceDevice, pool: Pool) -> Callable[[], None] | None:
        """Choose a device. Returns a function that undoes it; None if the device is left out or not admitted."""
        allocated = self._allocated(pool)
        if not self._compares:
            return None if device.groups or not allocated.declared.isdisjoint(device.counters) else _nothing
        before = self._common.get(pool.id, allocated.common)
        joined = JoinedGroups(dict(before))
        if not joined.admit(device):
            return None
        joined.add(device)
        self._common[pool.id] = joined.common

        def undo() -> None:
            self._common[pool.id] = before

        return undo


def _nothing() -> None:
    """Nothing is to be undone."""
