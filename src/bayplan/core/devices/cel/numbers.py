"""Writes arithmetic and comparisons: what loops do most. Integers and strings are written out, others are called."""

from __future__ import annotations

from itertools import product

from bayplan.core.devices.cel.calls import caller, write_call
from bayplan.core.devices.cel.costs import SPENT, tenths
from bayplan.core.devices.cel.values import LARGEST_INT, LEAST_INT, Failure
from bayplan.core.devices.cel.writing import FunctionSource, Value

_ARITHMETIC = {f"_{symbol}_": symbol for symbol in ("+", "-", "*")}
_COMPARISONS = {f"_{symbol}_": symbol for symbol in ("<", "<=", ">", ">=", "==", "!=")}
_DIVISIONS = {"_/_": "//", "_%_": "%"}
OPERATORS = frozenset({*_ARITHMETIC, *_COMPARISONS, *_DIVISIONS})
"""The names of the functions that are written out."""

_OVERFLOW = Failure("integer overflow")
_TENTHS = tuple(map(tenths, range(256)))
"""The cost of traversing short strings."""


def write_operator(unit: FunctionSource, name: str, left: Value, right: Value) -> Value:
    """Write an operator with two operands."""
    if left.kind is int and right.kind is int and name not in _DIVISIONS:
        return _of_integers(unit, name, left, right)
    result = unit.new()
    integers = _tests(unit, (left, right), "int")
    texts = _tests(unit, (left, right), "str") if name in _COMPARISONS else None

    def of_integers() -> None:
        unit.charge(1)
        if name in _DIVISIONS:
            unit.line(f"{result} = {left.text} {_DIVISIONS[name]} {right.text}")
        elif name in _COMPARISONS:
            unit.line(f"{result} = {left.text} {_COMPARISONS[name]} {right.text}")
        else:
            unit.line(f"{result} = {left.text} {_ARITHMETIC[name]} {right.text}")
            _limit(unit, result)

    def of_texts() -> None:
        size = unit.new()
        unit.line(f"{size} = len({left.text}) if len({left.text}) < len({right.text}) else len({right.text})")
        costs, cost = unit.given(_TENTHS), unit.given(tenths)
        unit.line(f"frame[{SPENT}] += {costs}[{size}] if {size} < {len(_TENTHS)} else {cost}({size})")
        unit.line(f"{result} = {left.text} {_COMPARISONS[name]} {right.text}")

    def of_others() -> None:
        unit.line(f"{result} = {unit.given(caller(name))}(frame, ({left.text}, {right.text}))")

    if integers is not None and name in _DIVISIONS:  # Python rounds negative quotients differently
        integers = " and ".join(filter(None, (integers, f"{left.text} >= 0 < {right.text}")))
    if texts == "":  # both certainly are strings
        of_texts()
        return Value(result, bool)
    known = [(test, write) for test, write in ((integers, of_integers), (texts, of_texts)) if test is not None]
    unit.cases(*known, ("", of_others)) if known else of_others()
    return Value(result)


def write_not(unit: FunctionSource, operand: Value) -> Value:
    """Write the negation of a truth value."""
    if operand.kind is bool:
        unit.charge(1)
        return unit.assigned(f"not {operand.text}", bool)
    result = unit.new()

    def of_bool() -> None:
        unit.charge(1)
        unit.line(f"{result} = not {operand.text}")

    def of_other() -> None:
        unit.line(f"{result} = {unit.given(caller('!_'))}(frame, ({operand.text},))")

    unit.cases((f"type({operand.text}) is bool", of_bool), ("", of_other))
    return Value(result)


def write_text(unit: FunctionSource, operand: Value) -> Value:
    """Write the conversion to a string."""
    if operand.kind is int:
        unit.charge(1)
        return unit.assigned(f"str({operand.text})", str)
    if operand.kind is not None:
        return write_call(unit, "string", [operand])
    result = unit.new()

    def of_integer() -> None:
        unit.charge(1)
        unit.line(f"{result} = str({operand.text})")

    def of_other() -> None:
        unit.line(f"{result} = {unit.given(caller('string'))}(frame, ({operand.text},))")

    unit.cases((unit.is_a(operand, "int"), of_integer), ("", of_other))
    return Value(result)


def _of_integers(unit: FunctionSource, name: str, left: Value, right: Value) -> Value:
    """Write an operator whose operands certainly are integers."""
    unit.charge(1)
    if name in _COMPARISONS:
        return unit.assigned(f"{left.text} {_COMPARISONS[name]} {right.text}", bool)
    symbol = _ARITHMETIC[name]
    ends = [_calculated(symbol, *pair) for pair in product((left.least, left.largest), (right.least, right.largest))]
    value = unit.assigned(f"{left.text} {symbol} {right.text}", int, min(ends), max(ends))
    if value.least >= LEAST_INT and value.largest <= LARGEST_INT:
        return value
    _limit(unit, value.text)
    return Value(value.text)


def _limit(unit: FunctionSource, name: str) -> None:
    """Replace a result that doesn't fit in 64 bits by a failure."""
    unit.line(f"if not {LEAST_INT} <= {name} <= {LARGEST_INT}: {name} = {unit.given(_OVERFLOW)}")


def _calculated(symbol: str, one: int, other: int) -> int:
    match symbol:
        case "+":
            return one + other
        case "-":
            return one - other
    return one * other


def _tests(unit: FunctionSource, values: tuple[Value, ...], kind: str) -> str | None:
    """The test whether all values are of a type; None if one of them certainly isn't."""
    if any(value.kind is not None and value.kind.__name__ != kind for value in values):
        return None
    return " and ".join(unit.is_a(value, kind) for value in values if value.kind is None)
