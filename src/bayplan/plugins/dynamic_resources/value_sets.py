"""Constraints between devices whose attributes may have several values, with the feature gate DRAListTypeAttributes.

Mirrors matchAttributeConstraint, distinctAttributeConstraint and attributeAsSet of
structured/internal/experimental, which kube-scheduler uses with that gate.
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

_NOTHING: frozenset[Value] = frozenset()


class MatchAnyValue(MatchAttribute):
    """All devices must have a value in common.

    As upstream, removing a device doesn't bring back the common values that adding it has ruled out.
    """

    keeps_narrow = True
    _common: frozenset[Value] = _NOTHING

    def add(self, request: str, sub_request: str, device: SliceDevice) -> bool:
        """Add a device that has one of the common values."""
        if not self._concerns(request, sub_request):
            return True
        values = values_of(device.attribute(self.attribute), lists=True)
        common = values & self._common if self._count else values
        if not common:
            return False
        self._common = common
        self._count += 1
        return True

    def state(self) -> object:
        """The common values, and the number of devices with them."""
        return self._count, self._common if self._count else _NOTHING

    def _allowed(self) -> frozenset[Value]:
        return self._common


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
