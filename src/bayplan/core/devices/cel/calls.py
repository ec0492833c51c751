"""Writes function calls, which check the types of the arguments, count the cost, and convert failures to values.

The compiler writes Python source; each CEL function is one Python call in it (`library/`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from bayplan.core.devices.cel.celtypes import Type
from bayplan.core.devices.cel.costs import CHARGED_AFTERWARDS, METER, SPENT, STOP, Frame, cost_of, size
from bayplan.core.devices.cel.declarations import FUNCTIONS
from bayplan.core.devices.cel.library import IMPLEMENTATIONS
from bayplan.core.devices.cel.values import CelError, Failure, type_name
from bayplan.core.devices.cel.writing import FunctionSource, Value

Call = Callable[[Frame, Sequence[Any]], Any]
"""Calls a function with these arguments, some of them Failures."""


def write_call(unit: FunctionSource, name: str, arguments: Sequence[Value]) -> Value:
    """Write the call of a function. `name` is the declared name, with a leading dot for a method."""
    given = ", ".join(argument.text for argument in arguments)
    return unit.assigned(f"{unit.given(caller(name))}(frame, ({given}{',' if len(arguments) == 1 else ''}))")


@cache
def caller(name: str) -> Call:
    """The function that calls the function declared as `name`."""
    bare = name.removeprefix(".")
    implementation, overloads, cost = IMPLEMENTATIONS[bare], FUNCTIONS[name], cost_of(name)
    afterwards, concatenates = bare in CHARGED_AFTERWARDS, name == "_+_"
    known: set[tuple[type, ...]] = set()
    """Types of arguments that are known to fit."""

    def fits(types: tuple[type, ...], arguments: Sequence[Any]) -> bool:
        if not any(_fit(overload.arguments, arguments) for overload in overloads):
            return False
        if not any(issubclass(each, (list, dict)) for each in types):
            known.add(types)
        return True

    def charge(frame: Frame, arguments: Sequence[Any], result: Any) -> None:
        frame[SPENT] += 1 if cost is None else cost(arguments, result)
        if frame[SPENT] > frame[STOP]:
            frame[METER].check(frame)

    def call(frame: Frame, arguments: Sequence[Any]) -> Any:
        types = tuple(map(type, arguments))
        if Failure in types:
            if len(arguments) <= 2:
                frame[SPENT] += 1 if cost is None else cost(arguments, None)
            return arguments[types.index(Failure)]
        if not afterwards:
            charge(frame, arguments, None)
        if concatenates and types[0] is list:
            frame[METER].copy(sum(map(size, arguments)))
        if types in known or fits(types, arguments):
            try:
                result = implementation(*arguments)
            except CelError as error:
                result = Failure(str(error))
        else:
            result = Failure(f"no such overload: {bare}({', '.join(map(type_name, arguments))})")
        if afterwards:
            charge(frame, arguments, result)
        return result

    return call


def _fit(wanted: Sequence[Type], values: Sequence[Any]) -> bool:
    return len(wanted) == len(values) and all(map(_fits, wanted, values))


def _fits(wanted: Type, value: Any) -> bool:
    """Whether a value has a type. Only the first element of a list or map is checked, and none of a list of lists."""
    if wanted.dynamic or wanted.free:
        return True
    if wanted.name != type_name(value):
        return False
    if isinstance(value, list):
        element = wanted.parameters[0]
        return not value or element.name == "list" or _fits(element, value[0])
    return not isinstance(value, dict) or all(_fit(wanted.parameters, entry) for entry in [*value.items()][:1])
