"""Compiles the selection of fields and elements: one unit for each qualifier, none where an optional one is absent.

Mirrors cel-go's interpreter/attributes.go and the costs of interpreter/runtimecost.go.
"""

from __future__ import annotations

from typing import Any

from bayplan.devices.cel.calls import Code
from bayplan.devices.cel.costs import SPENT, Frame
from bayplan.devices.cel.library.operators import look_up, text_of
from bayplan.devices.cel.values import ABSENT, PRIMITIVE, CelError, Failure, Optional, type_name

_Selected = tuple[bool, Optional] | Failure
"""Whether the selection is optional, and the selected value; or why nothing can be selected."""


def compile_field(whole: Code, name: str, *, optional: bool) -> Code:
    """Compile the selection of a field."""

    def field(frame: Frame) -> Any:
        target = whole(frame)
        if type(target) is dict and not optional and name in target:
            frame[SPENT] += 1
            return target[name]
        return _value(frame, target, name, _select(target, name, optional=optional))

    return field


def compile_presence(whole: Code, name: str) -> Code:
    """Compile the macro `has`."""

    def has(frame: Frame) -> Any:
        selected = _select(whole(frame), name, optional=False)
        return selected if isinstance(selected, Failure) else selected[1].present

    return has


def compile_element(whole: Code, key: Code, *, optional: bool) -> Code:
    """Compile the selection of an element."""

    def element(frame: Frame) -> Any:
        target = whole(frame)
        if type(target) is Optional and not target.present:
            return ABSENT
        if type(target) is Failure:
            return target
        index = key(frame)
        return _value(frame, target, index, _select(target, index, optional=optional))

    return element


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
