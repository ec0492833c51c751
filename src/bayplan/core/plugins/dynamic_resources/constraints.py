"""Constraints between the devices of a claim. Mirrors matchAttributeConstraint and distinctAttributeConstraint.

They are updated during the search: `add` before a device is taken, and `remove` to undo a successful `add`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from bayplan.core.devices.slices import SliceDevice

_KINDS = ("string", "int", "bool", "version")
_LISTS = {"strings": "string", "ints": "int", "bools": "bool", "versions": "version"}

Value = tuple[str, Any]
"""The kind and the value of an attribute."""
Reading = Callable[[str, str, SliceDevice], Mapping[str, Any] | None]
"""Returns a device's attribute for a request and its alternative ("" for a request itself)."""


class Constraint(Protocol):
    """A constraint on the devices of a claim."""

    def add(self, request: str, sub_request: str, device: SliceDevice) -> bool:
        """Add a device. Returns False, without adding it, if it would violate the constraint."""

    def remove(self, request: str, sub_request: str, device: SliceDevice) -> None:
        """Remove a device."""

    def state(self) -> object:
        """What further devices are compared with. It is equal if they get the same answers."""

    @property
    def attribute(self) -> str:
        """The attribute that is compared."""


class _Concerned:
    """A constraint on an attribute. It applies to the requests that it names, or to all if it names none.

    With `read`, the value of the attribute isn't simply the device's: it depends on the request. It is seldom given.
    """

    def __init__(self, requests: list[str] | None, attribute: str, read: Reading | None = None) -> None:
        self._requests = frozenset(requests or ())
        self.attribute = attribute
        self._read = read
        self._count = 0

    def _concerns(self, request: str, sub_request: str) -> bool:
        if not self._requests or request in self._requests:
            return True
        return bool(sub_request) and f"{request}/{sub_request}" in self._requests


class MatchAttribute(_Concerned):
    """All devices must have the same value."""

    _value: Mapping[str, Any]

    def required(self, request: str, sub_request: str) -> tuple[str, frozenset[Value]] | None:
        """The attribute, and of its values those that devices of a request must have one of; None for any value."""
        if not self._count or not self._concerns(request, sub_request):
            return None
        return self.attribute, self._allowed()

    def add(self, request: str, sub_request: str, device: SliceDevice) -> bool:
        """Add a device with the common value."""
        if not self._concerns(request, sub_request):
            return True
        read = self._read
        value = device.attribute(self.attribute) if read is None else read(request, sub_request, device)
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
        """Remove any device."""
        if self._concerns(request, sub_request):
            self._count -= 1

    def state(self) -> object:
        """The common value, and the number of devices with it."""
        return self._count, self._value if self._count else None

    def _allowed(self) -> frozenset[Value]:
        return frozenset((kind, each) for kind, each in self._value.items() if kind in _KINDS and each is not None)


class DistinctAttribute(_Concerned):
    """The devices of different requests must have different values. Only the last device of each request counts."""

    def __init__(self, requests: list[str] | None, attribute: str) -> None:
        super().__init__(requests, attribute)
        self._values: dict[str, Mapping[str, Any]] = {}

    def add(self, request: str, sub_request: str, device: SliceDevice) -> bool:
        """Add a device with a new value."""
        if not self._concerns(request, sub_request):
            return True
        value = device.attribute(self.attribute)
        if value is None:
            return False
        if self._count and not _differs(value, self._values.values()):
            return False
        self._values[request] = value
        self._count += 1
        return True

    def remove(self, request: str, sub_request: str, device: SliceDevice) -> None:
        """Remove the device of a request."""
        if self._concerns(request, sub_request):
            self._values.pop(request, None)
            self._count -= 1

    def state(self) -> object:
        """The number of devices, and the values by request."""
        return self._count, dict(self._values)


class DistinctDevices(_Concerned):
    """All devices must have different values. Mirrors distinctAttributeConstraint of 1.37."""

    def __init__(self, requests: list[str] | None, attribute: str, read: Reading | None = None) -> None:
        super().__init__(requests, attribute, read)
        self._values: list[Mapping[str, Any]] = []

    def add(self, request: str, sub_request: str, device: SliceDevice) -> bool:
        """Add a device with a new value."""
        if not self._concerns(request, sub_request):
            return True
        read = self._read
        value = device.attribute(self.attribute) if read is None else read(request, sub_request, device)
        if value is None or not self._is_new(value):
            return False
        self._values.append(value)
        return True

    def remove(self, request: str, sub_request: str, device: SliceDevice) -> None:
        """Remove the last device."""
        if self._concerns(request, sub_request):
            self._values.pop()

    def state(self) -> object:
        """The values of the devices."""
        return tuple(self._values)

    def _is_new(self, value: Mapping[str, Any]) -> bool:
        return _differs(value, self._values)


def _differs(value: Mapping[str, Any], others: Iterable[Mapping[str, Any]]) -> bool:
    """Whether a value differs from others. One of an unknown kind doesn't."""
    kind = _kind(value)
    return all(kind and other.get(kind) != value[kind] for other in others)


def values_of(attribute: Mapping[str, Any] | None, *, lists: bool) -> frozenset[Value]:
    """The values of a device's attribute: one, those of a list if there can be `lists`, or none of a known kind."""
    if attribute is None:
        return frozenset()
    kind = _kind(attribute)
    if kind:
        return frozenset([(kind, attribute[kind])])
    if not lists:
        return frozenset()
    return frozenset((of, each) for listed, of in _LISTS.items() for each in attribute.get(listed) or ())


def _kind(value: Mapping[str, Any]) -> str:
    return next((kind for kind in _KINDS if value.get(kind) is not None), "")
