"""Constraints between the devices of a claim. Mirrors matchAttributeConstraint and distinctAttributeConstraint.

They follow the search: `add` is asked before a device is taken, and every successful `add` is undone by one `remove`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from lightkube.models.resource_v1 import DeviceConstraint

from bayplan.devices.slices import SliceDevice

_KINDS = ("string", "int", "bool", "version")


class Constraint(Protocol):
    """What has to hold between devices."""

    def add(self, request: str, sub_request: str, device: SliceDevice) -> bool:
        """Whether the device may join those that were added; it has, if so."""

    def remove(self, request: str, sub_request: str, device: SliceDevice) -> None:
        """The device has left."""


class _Concerned:
    """A constraint on an attribute, of the requests that it names, or of all where it names none."""

    def __init__(self, requests: list[str] | None, attribute: str) -> None:
        self._requests = frozenset(requests or ())
        self._attribute = attribute
        self._count = 0

    def _concerns(self, request: str, sub_request: str) -> bool:
        if not self._requests or request in self._requests:
            return True
        return bool(sub_request) and f"{request}/{sub_request}" in self._requests


class MatchAttribute(_Concerned):
    """All devices have the same value."""

    _value: Mapping[str, Any]

    def add(self, request: str, sub_request: str, device: SliceDevice) -> bool:
        """Whether the device has the value of those before it."""
        if not self._concerns(request, sub_request):
            return True
        value = device.attribute(self._attribute)
        if value is None:
            return False
        if not self._count:
            self._value, self._count = value, 1
            return True
        kind = _kind(value)
        if not kind or self._value.get(kind) is None or value[kind] != self._value[kind]:
            return False
        self._count += 1
        return True

    def remove(self, request: str, sub_request: str, device: SliceDevice) -> None:
        """One less; which one does not matter."""
        if self._concerns(request, sub_request):
            self._count -= 1


class DistinctAttribute(_Concerned):
    """No two requests' devices have the same value. Of each request the value of the latest device is compared."""

    def __init__(self, requests: list[str] | None, attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, Mapping[str, Any]] = {}

    def add(self, request: str, sub_request: str, device: SliceDevice) -> bool:
        """Whether the device has a value that is not there yet."""
        if not self._concerns(request, sub_request):
            return True
        value = device.attribute(self._attribute)
        if value is None:
            return False
        if self._count and not self._distinct(value):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str, sub_request: str, device: SliceDevice) -> None:
        """The request's value is free again."""
        if self._concerns(request, sub_request):
            self._values.pop(request, None)
            self._count -= 1

    def _distinct(self, value: Mapping[str, Any]) -> bool:
        kind = _kind(value)
        return all(kind and other.get(kind) != value[kind] for other in self._values.values())


def constraint_of(spec: DeviceConstraint) -> Constraint | None:
    """A claim's constraint; None for one of a kind that is not known."""
    if spec.matchAttribute is not None:
        return MatchAttribute(spec.requests, spec.matchAttribute)
    if spec.distinctAttribute is not None:
        return DistinctAttribute(spec.requests, spec.distinctAttribute)
    return None


def _kind(value: Mapping[str, Any]) -> str:
    return next((kind for kind in _KINDS if value.get(kind) is not None), "")
