"""Expressions that derive an attribute from a device.

Mirrors EvaluateDerivedAttribute and valToDeviceAttribute of k8s.io/dynamic-resource-allocation/cel/compile.go in 1.37.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from bayplan.core.devices.cel.device import DeviceFacts
from bayplan.core.devices.cel.selectors import Evaluations, Expression, RuntimeFailure, go_on
from bayplan.core.devices.cel.values import Semver, Uint, type_name

if TYPE_CHECKING:
    from bayplan.core.devices.cel.celtypes import Type
    from bayplan.core.devices.cel.costs import Meter

Attribute = Mapping[str, Any]
"""An attribute in the form that resource slices have: a value or a list of values by kind, such as string or ints."""
_SINGLE = frozenset({"bool", "int", "string", "kubernetes.Semver", "google.protobuf.Any", "dyn"})
_KINDS: Mapping[type, tuple[str, Callable[[Any], Any]]] = {
    bool: ("bool", bool),
    int: ("int", int),
    str: ("string", str),
    Semver: ("version", str),
}
_NAMES = {"version": "semver"}
_GO = {"string": "string", "kubernetes.Semver": "semver.Version", "int": "int64", "uint": "uint64", "double": "float64"}
"""Go's names for types of CEL, as far as they differ."""


class Derivation(Expression[Attribute]):
    """An expression that derives an attribute: a bool, an int, a string, a version, or a list of such values."""

    @staticmethod
    def _refuse(found: Type, *, lists: bool) -> str:
        listed = lists and found.name == "list" and len(found.parameters) == 1 and found.parameters[0].name in _SINGLE
        if found.name in _SINGLE or listed:
            return ""
        or_lists = " or a list of these scalars" if lists else ""
        return f"must evaluate to a primitive scalar (string, integer, boolean, semver){or_lists}, not {found.declared}"

    def result(self, device: DeviceFacts, meter: Meter | None = None) -> Attribute:
        """The attribute of a device. `meter` limits the evaluation. Raises RuntimeFailure."""
        value = self._value(device, meter)
        kind = _kind(value)
        if kind is not None:
            name, written = kind
            return {name: written(value)}
        if not isinstance(value, list):
            raise RuntimeFailure(f"unsupported CEL return type: {_go(value)}")
        if not value:
            return {"strings": []}
        kind = _kind(value[0])
        if kind is None:
            raise RuntimeFailure(f"unsupported list element type: {_go(value[0])}")
        name, written = kind
        for index, each in enumerate(value):
            if _kind(each) != kind:
                wanted = _NAMES.get(name, name)
                raise RuntimeFailure(f"expected list element at index {index} to be {wanted}, got {_go(each)}")
        return {f"{name}s": [written(each) for each in value]}


class Derivations(Evaluations[Attribute]):
    """A cache of derivations and of their results: `during` and `after` are those of Evaluations."""

    def __init__(self, during: Callable[[], None] = go_on, after: Callable[[], None] = go_on) -> None:
        super().__init__(Derivation, during, after, lists=True)


def _kind(value: Any) -> tuple[str, Callable[[Any], Any]] | None:
    return None if isinstance(value, Uint) else _KINDS.get(type(value))


def _go(value: Any) -> str:
    name = type_name(value)
    return _GO.get(name, name)
