"""Compiles function calls, which check the types of the arguments, count the cost, and convert failures to values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from bayplan.devices.cel.celtypes import Type
from bayplan.devices.cel.costs import CHARGED_AFTERWARDS, METER, SPENT, STOP, Frame, cost_of, size
from bayplan.devices.cel.declarations import FUNCTIONS
from bayplan.devices.cel.library import IMPLEMENTATIONS
from bayplan.devices.cel.values import CelError, Failure, type_name

Code = Callable[[Frame], Any]
"""A compiled expression: evaluates it. The value can be a Failure. Raises CostExceeded."""
Call = Callable[[Frame, Sequence[Any]], Any]
"""Calls a function with these arguments, of which some can be Failures."""


def compile_call(name: str, arguments: Sequence[Code]) -> Code:
    """Compile the call of a function. `name` is the declared name, with a leading dot for a method."""
    call = caller(name)
    if len(arguments) == 1:
        (only,) = arguments
        return lambda frame: call(frame, (only(frame),))
    return lambda frame: call(frame, [argument(frame) for argument in arguments])


@cache
def caller(name: str) -> Call:
    """The function that calls the function declared as `name`."""
    bare = name.removeprefix(".")
    implementation, overloads, cost = IMPLEMENTATIONS[bare], FUNCTIONS[name], cost_of(name)
    afterwards = bare in CHARGED_AFTERWARDS
    known: set[tuple[type, ...]] = set()
    """Types of arguments that are known to fit."""

    def fits(arguments: Sequence[Any]) -> bool:
        types = tuple(map(type, arguments))
        if types in known:
            return True
        if not any(_fit(overload.arguments, arguments) for overload in overloads):
            return False
        if not any(issubclass(each, (list, dict)) for each in types):
            known.add(types)
        return True

    def call(frame: Frame, arguments: Sequence[Any]) -> Any:
        for argument in arguments:
            if type(argument) is Failure:
                if len(arguments) <= 2:
                    frame[SPENT] += 1 if cost is None else cost(arguments, None)
                return argument
        if not afterwards:
            frame[SPENT] += 1 if cost is None else cost(arguments, None)
            if frame[SPENT] > frame[STOP]:
                frame[METER].check(frame)
        if name == "_+_" and type(arguments[0]) is list:
            frame[METER].copy(sum(map(size, arguments)))
        if fits(arguments):
            try:
                result = implementation(*arguments)
            except CelError as error:
                result = Failure(str(error))
        else:
            result = Failure(f"no such overload: {bare}({', '.join(map(type_name, arguments))})")
        if afterwards:
            frame[SPENT] += 1 if cost is None else cost(arguments, result)
            if frame[SPENT] > frame[STOP]:
                frame[METER].check(frame)
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
