"""Writes conditions, and && and ||: one operand can decide even if the other one fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.core.devices.cel.values import NO_OVERLOAD, Failure
from bayplan.core.devices.cel.writing import FunctionSource, Value


def failed(value: Any) -> Failure:
    """The failure of an operation on a value that isn't a truth value."""
    return value if type(value) is Failure else NO_OVERLOAD


def write_decided(unit: FunctionSource, left: Value, write_right: Callable[[], Value], *, decisive: bool) -> Value:
    """Write && or ||. The right operand is evaluated only if the left one doesn't decide."""
    result = unit.new()
    kinds: list[type | None] = []

    def decided() -> None:
        unit.line(f"{result} = {decisive}")

    def undecided() -> None:
        right = write_right()
        kinds.append(right.kind)
        unit.line(f"{result} = {right.text}")
        if left.kind is bool and right.kind is bool:
            return
        of_left, of_right = (f"{unit.given(failed)}({each.text})" for each in (left, right))
        if left.kind is bool:
            unit.line(f"if type({result}) is not bool: {result} = {of_right}")
        elif right.kind is bool:
            unit.line(f"if {result} is not {decisive} and type({left.text}) is not bool: {result} = {of_left}")
        else:
            unit.line(f"if {result} is not {decisive}:")
            unit.line(f" if type({left.text}) is not bool: {result} = {of_left}")
            unit.line(f" elif type({result}) is not bool: {result} = {of_right}")

    unit.cases((f"{left.text} is {decisive}", decided), ("", undecided))
    return Value(result, bool if left.kind is bool and kinds == [bool] else None)


def write_conditional(
    unit: FunctionSource, condition: Value, write_then: Callable[[], Value], write_otherwise: Callable[[], Value]
) -> Value:
    """Write a condition with its two branches."""
    result = unit.new()
    found: list[Value] = []

    def branch(write: Callable[[], Value]) -> Callable[[], None]:
        def written() -> None:
            value = write()
            found.append(value)
            unit.line(f"{result} = {value.text}")

        return written

    def fails() -> None:
        unit.line(f"{result} = {unit.given(failed)}({condition.text})")

    if condition.kind is bool:
        unit.cases((condition.text, branch(write_then)), ("", branch(write_otherwise)))
    else:
        then, otherwise = branch(write_then), branch(write_otherwise)
        unit.cases((f"{condition.text} is True", then), (f"{condition.text} is False", otherwise), ("", fails))
        return Value(result)
    kinds = {each.kind for each in found}
    return Value(
        result, kinds.pop() if len(kinds) == 1 else None, min(e.least for e in found), max(e.largest for e in found)
    )
