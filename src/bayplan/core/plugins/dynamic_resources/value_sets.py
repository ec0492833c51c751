"""Constraints between devices whose attributes may have several values, with the feature gate DRAListTypeAttributes.

Mirrors matchAttributeConstraint, distinctAttributeConstraint and attributeAsSet of
structured/internal/experimental, which kube-scheduler uses with that gate from 1.37 on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lightkube.models.resource_v1 import DeviceConstraint

from bayplan.core.devices.slices import SliceDevice
from bayplan.core.plugins.dynamic_resources.constraints import (
    Constraint,
    DistinctAttribute,
    DistinctDevices,
    MatchAttribute,
    Reading,
    Value,
    values_of,
)
from bayplan.core.plugins.dynamic_resources.rules import SearchRules


class MatchAnyValue(MatchAttribute):
    """All devices must have a value in common."""

    def __init__(self, requests: list[str] | None, attribute: str, read: Reading | None = None) -> None:
        super().__init__(requests, attribute, read)
        self._common: list[frozenset[Value]] = []
        """The common values of the first devices: of one, of two, and so on."""

    def add(self, request: str, sub_request: str, device: SliceDevice) -> bool:
        """Add a device that has one of the common values."""
        if not self._concerns(request, sub_request):
            return True
        read = self._read
        value = device.attribute(self.attribute) if read is None else read(request, sub_request, device)
        values = values_of(value, lists=True)
        common = values & self._common[-1] if self._common else values
        if not common:
            return False
        self._common.append(common)
        self._count += 1
        return True

    def remove(self, request: str, sub_request: str, device: SliceDevice) -> None:
        """Remove the last device."""
        if self._concerns(request, sub_request):
            self._common.pop()
            self._count -= 1

    def state(self) -> object:
        """The common values."""
        return tuple(self._common)

    def _allowed(self) -> frozenset[Value]:
        return self._common[-1]


class DistinctValues(DistinctDevices):
    """The devices must have no value in common."""

    def _is_new(self, value: Mapping[str, Any]) -> bool:
        values = values_of(value, lists=True)
        return bool(values) and all(values.isdisjoint(values_of(other, lists=True)) for other in self._values)


def constraint_of(
    spec: DeviceConstraint, rules: SearchRules, read: Callable[[str], Reading | None] | None = None
) -> Constraint | None:
    """A claim's constraint; None for an unknown type. `read` is given the attribute, as requests may derive it."""
    if spec.matchAttribute is not None:
        attribute = spec.matchAttribute
        kind = MatchAnyValue if rules.lists else MatchAttribute
        return kind(spec.requests, attribute, read(attribute) if read is not None else None)
    if spec.distinctAttribute is None:
        return None
    attribute = spec.distinctAttribute
    if not rules.distinct_devices:
        return DistinctAttribute(spec.requests, attribute)
    distinct = DistinctValues if rules.lists else DistinctDevices
    return distinct(spec.requests, attribute, read(attribute) if read is not None else None)
