"""Devices that are the same for a search: if it finds nothing with one of them, it finds nothing with the others.

Upstream tries each of them, which takes long where devices are alike and requests can't be satisfied.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

from bayplan.core.devices.cel.selectors import CompileError, RuntimeFailure
from bayplan.core.devices.slices import SliceDevice
from bayplan.core.plugins.dynamic_resources.candidates import Supply
from bayplan.core.plugins.dynamic_resources.constraints import Constraint, values_of


class Interchangeable:
    """Compares devices by what the requests and the constraints of some claims can see of them."""

    def __init__(
        self,
        supply: Supply,
        expressions: Iterable[str],
        derived: Iterable[str],
        constraints: Sequence[Sequence[Constraint]],
    ) -> None:
        """`expressions` are those of selectors, `derived` those of attributes that requests derive."""
        self._supply = supply
        self._expressions = tuple(dict.fromkeys(expressions))
        self._derived = tuple(dict.fromkeys(derived))
        self._constraints = list(chain.from_iterable(constraints))
        self._attributes = sorted({each.attribute for each in self._constraints})
        self._kinds: dict[SliceDevice, Hashable] = {}

    def state(self) -> list[object]:
        """The state of the constraints. As upstream, they may differ after a device was tried and given back."""
        return [each.state() for each in self._constraints]

    def kind(self, device: SliceDevice) -> Hashable:
        """A value that is equal for devices that are the same."""
        kind = self._kinds.get(device)
        if kind is None:
            kind = self._kinds[device] = self._kind(device)
        return kind

    def _kind(self, device: SliceDevice) -> Hashable:
        if device.allows_multiple or device.counters:
            return device.id
        try:
            readings = tuple(self._supply.selectors.reading(each, device.facts) for each in self._expressions)
            readings += tuple(self._supply.derivations.reading(each, device.facts) for each in self._derived)
        except (CompileError, RuntimeFailure):
            return device.id
        values = tuple(values_of(device.attribute(each), lists=self._supply.rules.lists) for each in self._attributes)
        taints = tuple((each.key, each.value, each.effect) for each in device.taints)
        capacity = repr((device.spec.capacity, self._supply.taken.consumed.get(device.id)))
        return readings, values, taints, capacity
