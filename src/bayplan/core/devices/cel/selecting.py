"""Writes the selection of fields and elements: one unit for each qualifier, none where an optional one is absent.

Mirrors cel-go's interpreter/attributes.go and the costs of interpreter/runtimecost.go.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.core.devices.cel.costs import SPENT, Frame
from bayplan.core.devices.cel.library.operators import look_up, text_of
from bayplan.core.devices.cel.values import ABSENT, PRIMITIVE, CelError, Failure, Optional, type_name
from bayplan.core.devices.cel.writing import Code, FunctionSource, Value

_Selected = tuple[bool, Optional] | Failure
"""Whether the selection is optional, and the selected value; or why nothing can be selected."""


def write_field(unit: FunctionSource, whole: Value, name: str, *, optional: bool) -> Value:
    """Write the selection of a field."""
    result, key = unit.new(), unit.given(name)

    def of_map() -> None:
        unit.charge(1)
        unit.line(f"{result} = {whole.text}[{key}]")

    def of_other() -> None:
        unit.line(f"{result} = {unit.given(_selected)}(frame, {whole.text}, {key}, {optional})")

    if optional:
        of_other()
    else:
        unit.cases((f"type({whole.text}) is dict and {key} in {whole.text}", of_map), ("", of_other))
    return Value(result)


def write_element(unit: FunctionSource, whole: Value, write_key: Callable[[], Value], *, optional: bool) -> Value:
    """Write the selection of an element. The key is evaluated only if there is something to select from."""
    result = unit.new()

    def absent() -> None:
        unit.line(f"{result} = {unit.given(ABSENT)}")

    def fails() -> None:
        unit.line(f"{result} = {whole.text}")

    def selects() -> None:
        key = write_key()

        def of_list() -> None:
            unit.charge(1)
            unit.line(f"{result} = {whole.text}[{key.text}]")

        def of_other() -> None:
            unit.line(f"{result} = {unit.given(_selected)}(frame, {whole.text}, {key.text}, {optional})")

        if optional:
            of_other()
            return
        in_list = f"type({whole.text}) is list and type({key.text}) is int and 0 <= {key.text} < len({whole.text})"
        unit.cases((in_list, of_list), ("", of_other))

    is_absent = f"type({whole.text}) is Optional and not {whole.text}.present"
    unit.cases((is_absent, absent), (f"type({whole.text}) is Failure", fails), ("", selects))
    return Value(result)


def compile_presence(whole: Code, name: str) -> Code:
    """Compile the macro `has`."""

    def has(frame: Frame) -> Any:
        selected = _select(whole(frame), name, optional=False)
        return selected if isinstance(selected, Failure) else selected[1].present

    return has


def _selected(frame: Frame, target: Any, key: Any, optional: bool) -> Any:
    return _value(frame, target, key, _select(target, key, optional=optional))


def _select(target: Any, key: Any, *, optional: bool) -> _Selected:
    if type(target) is Optional:
        if not target.present:
            return True, ABSENT
        target, optional = target.value, True
    for part in (target, key):
        if type(part) is Failure:
            return part
    if type(key) not in PRIMITIVE:
        return Failure(f"invalid qualifier type: {type_name(key)}")
    try:
        return optional, look_up(target, key)
    except CelError as error:
        return Failure(str(error))


def _value(frame: Frame, target: Any, key: Any, selected: _Selected) -> Any:
    if isinstance(selected, Failure):
        return selected
    optional, value = selected
    if optional:
        frame[SPENT] += value.present
        return value
    frame[SPENT] += 1
    if value.present:
        return value.value
    problem = "index out of bounds" if isinstance(target, list) else "no such key"
    return Failure(f"{problem}: {text_of(key)}")
