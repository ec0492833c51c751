"""Constraints between devices whose attributes may have several values, with the feature gate DRAListTypeAttributes.

Mirrors matchAttributeConstraint, distinctAttributeConstraint and attributeAsSet of
structured/internal/experimental, which kube-scheduler uses with that gate from 1.37 on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lightkube.models.resource_v1 import DeviceConstraint

from bayplan.devices.slices import SliceDevice
from bayplan.plugins.dynamic_resources.constraints import (
    Constraint,
    DistinctAttribute,
    MatchAttribute,
    Value,
    values_of,
)


class MatchAnyValue(MatchAttribute):
    """All devices must have a value in common."""

    def __init__(self, requests: list[str] | None, attribute: str) -> None:
        super().__init__(requests, attribute)
        self._common: list[frozenset[Value]] = []
        """The common values of the first devices: of one, of two, and so on."""

    def add(self, request: str, sub_request: str, device: SliceDevice) -> bool:
        """Add a device that has one of the common values."""
        if not self._concerns(request, sub_request):
            return True
        values = values_of(device.attribute(self.attribute), lists=True)
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


class DistinctValues(DistinctAttribute):
    """The devices of different requests must have no value in common. Only the last device of each request counts."""

    def _distinct(self, value: Mapping[str, Any]) -> bool:
        values = values_of(value, lists=True)
        return bool(values) and all(values.isdisjoint(values_of(other, lists=True)) for other in self._values.values())


def constraint_of(spec: DeviceConstraint, *, lists: bool) -> Constraint | None:
    """A claim's constraint; None for an unknown type. `lists`: attributes may have several values."""
    if spec.matchAttribute is not None:
        return (MatchAnyValue if lists else MatchAttribute)(spec.requests, spec.matchAttribute)
    if spec.distinctAttribute is not None:
        return (DistinctValues if lists else DistinctAttribute)(spec.requests, spec.distinctAttribute)
    return None
