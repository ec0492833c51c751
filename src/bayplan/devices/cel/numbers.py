"""Compiles arithmetic and comparisons: what loops do most, so operands that are variables or constants are not called.

The source of each combination of operator and operands is a fixed text, which is compiled once. Nothing of an
expression gets into it: the places of variables and the constants are arguments.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from bayplan.devices.cel.costs import SPENT, Frame, tenths
from bayplan.devices.cel.values import LARGEST_INT, LEAST_INT, Failure

Code = Callable[[Frame], Any]
Call = Callable[[Frame, Any], Any]


class Operand(NamedTuple):
    """An operand: how its value is read (a key of `_READ`), and the closure, the place or the constant."""

    kind: str
    given: Any


OPERATORS = {
    **{f"_{sign}_": sign for sign in ("+", "-", "*")},
    **{f"_{sign}_": sign for sign in ("<", "<=", ">", ">=", "==", "!=")},
}
"""The operators by the names of their functions."""

_READ = {"code": "{}(frame)", "variable": "frame[{}]", "constant": "{}"}
_COST = {"code": 0, "variable": 1, "constant": 0}
_ARITHMETIC = """
            result = one {sign} other
            return result if least <= result <= largest else overflow"""
_COMPARISON = """
            return one {sign} other
        if type(one) is str and type(other) is str:
            frame[{spent}] += {cost} + tenths(min(len(one), len(other)))
            return one {sign} other"""
_SOURCE = """
def make(left, right, call, tenths, least, largest, overflow):
    def operate(frame):
        one = {left}
        other = {right}
        if type(one) is int and type(other) is int:
            frame[{spent}] += {cost} + 1{body}
        frame[{spent}] += {cost}
        return call(frame, (one, other))
    return operate
"""


def compile_operator(name: str, left: Operand, right: Operand, call: Call) -> Code:
    """Compile an operator. `call` calls its function, for operands that are neither integers nor strings."""
    make = _maker(OPERATORS[name], left.kind, right.kind)
    compiled: Code = make(left.given, right.given, call, tenths, LEAST_INT, LARGEST_INT, Failure("integer overflow"))
    return compiled


@cache
def _maker(sign: str, left: str, right: str) -> Callable[..., Code]:
    body = _ARITHMETIC if sign in "+-*" else _COMPARISON
    values = {"sign": sign, "spent": SPENT, "cost": _COST[left] + _COST[right]}
    source = _SOURCE.format(
        left=_READ[left].format("left"), right=_READ[right].format("right"), body=body.format(**values), **values
    )
    made: dict[str, Any] = {}
    exec(compile(source, f"<{left} {sign} {right}>", "exec"), made)  # noqa: S102 - the text is one of the above
    maker: Callable[..., Code] = made["make"]
    return maker
