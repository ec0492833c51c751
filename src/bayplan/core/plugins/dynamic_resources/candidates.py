"""The devices that can satisfy a demand, in search order, kept up to date as devices are taken and released.

Devices that no search can choose are left out: they are taken, a selector rejects them, or too little of their capacity
or of their pool's counters is left. A search checks the others itself.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from lightkube.models.resource_v1 import DeviceClass

from bayplan.core.devices.allocations import Taken
from bayplan.core.devices.cel.derivations import Derivations
from bayplan.core.devices.cel.selectors import CompileError, RuntimeFailure, Selectors
from bayplan.core.devices.classes import selectors_of
from bayplan.core.devices.requests import DeviceDemand
from bayplan.core.devices.slices import DeviceId, SliceDevice
from bayplan.core.plugins.dynamic_resources.capacity import UncountableAmount, fits, never_negative
from bayplan.core.plugins.dynamic_resources.constraints import Value, values_of
from bayplan.core.plugins.dynamic_resources.counters import SharedCounters, suffice
from bayplan.core.plugins.dynamic_resources.pools import Pool
from bayplan.core.plugins.dynamic_resources.rules import RULES_OF_1_36, SearchRules

Required = Sequence[tuple[str, frozenset[Value]]]
"""Attributes: a device must have one of the values of each."""
Skip = Callable[[Pool, Sequence[SliceDevice]], None]
Place = tuple[int, int]
"""Where a search continues: a number of pools with candidates, and a number of candidates of the next pool."""
START: Place = (0, 0)
MOST_KINDS = 16
"""For how many kinds of demands the candidates of a pool, and of all pools of a node, are kept."""


@dataclass(frozen=True, slots=True)
class Supply:
    """The inputs of a search that don't depend on the node. `classes` by name.

    `counters` caches the remaining shared counters for all searches with this supply.
    """

    taken: Taken
    classes: Mapping[str, DeviceClass]
    selectors: Selectors
    counters: SharedCounters
    rules: SearchRules = RULES_OF_1_36
    derivations: Derivations = field(default_factory=Derivations)

    def has_shares(self, device: DeviceId) -> bool:
        """Whether claims have shares of a device, so that its counters are consumed."""
        return device in self.taken.consumed or (self.rules.counts_shares and device in self.taken.shared)


class Criteria(NamedTuple):
    """What a demand requires of each device by itself: the CEL expressions of its class and its own, and amounts.

    `capacity` is None if the search releases capacity: it has requests for negative amounts.
    """

    expressions: tuple[str, ...]
    capacity: tuple[tuple[str, str], ...] | None
    admin_access: bool

    @classmethod
    def of(cls, demand: DeviceDemand, device_class: DeviceClass) -> Criteria:
        """The criteria of a demand for devices of a class."""
        selectors = (*selectors_of(device_class), *demand.selectors)
        expressions = tuple(each.cel.expression if each.cel is not None else "" for each in selectors)
        capacity = tuple(sorted((name, str(amount)) for name, amount in demand.capacity.items()))
        return cls(expressions, capacity, demand.admin_access)


Path = Mapping[Criteria, tuple[int, list[Pool]]]
"""How many pools with candidates a search has asked for, and those that there are."""


class Candidates:
    """The candidates for one kind of demand among pools. The pools are examined as far as searches get."""

    def __init__(self, pools: Sequence[Pool], criteria: Criteria) -> None:
        self._pools = pools
        self._criteria = criteria
        self._expressions, capacity, self._admin_access = criteria
        self._capacity = None if capacity is None else dict(capacity)
        self._found: list[_Found] = []
        """By pool, as far as they were examined."""
        self._filled: list[int] = []
        """The indexes of the pools that have candidates, ascending."""
        self._stale: set[int] = set()
        self._supply: Supply
        self.reached = 0
        """How many pools with candidates were asked for since this was set to 0."""

    def refresh(self, supply: Supply) -> None:
        """Examine changed pools again. Required before each search."""
        self._supply = supply
        for index in self._stale:
            found = self._among(self._pools[index])
            if bool(found.devices) is not bool(self._found[index].devices):
                place = bisect_left(self._filled, index)
                self._filled[place : place + (not found.devices)] = [index] if found.devices else []
            self._found[index] = found
        self._stale.clear()

    def changed(self, index: int) -> None:
        """Handle a change of the allocations of a pool."""
        if index < len(self._found):
            self._stale.add(index)

    def after(self, start: Place, required: Required, skip: Skip) -> Iterator[tuple[SliceDevice, Pool, Place]]:
        """The candidates from `start` on, each with the place after it.

        Pools without a candidate that has one of the `required` values are reported to `skip` instead, and candidates
        without one may be left out.
        """
        number, first = start
        while True:
            self.reached = max(self.reached, number + 1)
            if number >= len(self._filled) and not self._examine_next():
                return
            index = self._filled[number]
            found, pool = self._found[index], self._pools[index]
            if required and not first and found.lacks(required):
                skip(pool, found.devices)
            else:
                for position in found.with_values(required, first):
                    yield found.devices[position], pool, (number, position + 1)
            number, first = number + 1, 0

    def first(self, number: int) -> list[Pool]:
        """The first pools with candidates: so many, if there are."""
        while len(self._filled) < number and self._examine_next():
            pass
        return [self._pools[index] for index in self._filled[:number]]

    def _examine_next(self) -> bool:
        """Examine pools up to the next one that has candidates. Returns whether there is one."""
        for index in range(len(self._found), len(self._pools)):
            self._found.append(self._among(self._pools[index]))
            if self._found[index].devices:
                self._filled.append(index)
                return True
        return False

    def _among(self, pool: Pool) -> _Found:
        found: _Found | None = pool.candidates.get(self._criteria)
        if found is None:
            if len(pool.candidates) >= MOST_KINDS:
                pool.candidates.clear()
            found = pool.candidates[self._criteria] = self._examine(pool)
        return found

    def _examine(self, pool: Pool) -> _Found:
        taken = () if self._admin_access else self._supply.taken.devices
        certain = self._capacity is not None and not self._admin_access
        devices = []
        for device in pool.devices:
            if device.id in taken:
                continue
            try:
                if not all(self._supply.selectors.matches(each, device.facts) for each in self._expressions):
                    continue
                if not self._has_capacity(device) or not self._has_counters(device, pool):
                    continue
            except (CompileError, RuntimeFailure, UncountableAmount):
                certain = False  # the search fails when it gets there
            certain = certain and not device.parent.per_device and not device.allows_multiple
            devices.append(device)
        return _Found(devices, certain, self._supply.rules)

    def _has_capacity(self, device: SliceDevice) -> bool:
        requested, capacity = self._capacity, device.spec.capacity or {}
        consumed = self._supply.taken.consumed.get(device.id, {})
        if requested is None or (not requested and not consumed and device.is_exclusive):
            return True
        if device.allows_multiple and not never_negative(capacity):
            return True  # the search can release capacity
        return fits(requested, capacity, consumed, {}, self._supply.rules)

    def _has_counters(self, device: SliceDevice, pool: Pool) -> bool:
        if not device.counters or device.allows_multiple or not pool.counts_down:
            return True
        return suffice(self._supply.counters.left(pool), device, {})


class _Found:
    """The candidates of a pool. They are `certain` if only other devices and constraints can rule them out."""

    __slots__ = ("_by_value", "_certain", "_counts", "_lists", "devices")

    def __init__(self, devices: Sequence[SliceDevice], certain: bool, rules: SearchRules) -> None:
        self.devices = devices
        self._certain, self._lists = certain, rules.lists
        self._counts = not rules.gives_back and any(device.counters for device in devices)
        self._by_value: dict[str, dict[Value, list[int]]] = {}
        """The positions of devices by attribute and value, as far as they were asked for."""

    def lacks(self, required: Required) -> bool:
        """Whether no candidate has one of the required values of an attribute."""
        return self._certain and any(self._of(attribute).keys().isdisjoint(values) for attribute, values in required)

    def with_values(self, required: Required, first: int) -> Sequence[int]:
        """The positions from `first` on, without those that can't be chosen if that has no effect on counters."""
        if not required or not self._certain or self._counts:
            return range(first, len(self.devices))
        attribute, values = required[0]
        places = self._of(attribute)
        found = sorted({place for value in values for place in places.get(value, ())})
        return found[bisect_left(found, first) :]

    def _of(self, attribute: str) -> Mapping[Value, list[int]]:
        places = self._by_value.get(attribute)
        if places is None:
            places = self._by_value[attribute] = {}
            for position, device in enumerate(self.devices):
                for value in values_of(device.attribute(attribute), lists=self._lists):
                    places.setdefault(value, []).append(position)
        return places
