"""How CEL is evaluated: cel-python's evaluator, with what Kubernetes' environment has and it lacks.

That is `cel.bind`, functions in the namespace `sets`, equality of values of any types, comparisons of numbers across
types, macros that do not raise, and a limit of the cost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import lark
from celpy.celtypes import BoolType, DoubleType, IntType, ListType, MapType, UintType
from celpy.evaluation import Activation, CELEvalError, Evaluator

MAX_COST = 1_000_000
"""What one evaluation may cost at most. Mirrors resourceapi.CELSelectorExpressionMaxCost."""

_NUMBERS = (IntType, UintType, DoubleType)
_ORDER: dict[str, Callable[[Any, Any], bool]] = {
    "relation_lt": lambda one, other: one < other,
    "relation_le": lambda one, other: one <= other,
    "relation_gt": lambda one, other: one > other,
    "relation_ge": lambda one, other: one >= other,
}
_MACROS = {"map", "filter", "all", "exists", "exists_one", "existsOne"}
_NAMESPACES = {"sets"}


class Meter:
    """What an evaluation has cost so far: a unit for each name, field, call and comparison."""

    __slots__ = ("spent",)

    def __init__(self) -> None:
        self.spent = 0

    def spend(self) -> None:
        """Raises CELEvalError when it is too much."""
        self.spent += 1
        if self.spent > MAX_COST:
            raise CELEvalError("operation cancelled: actual cost limit exceeded")


class SelectorEvaluator(Evaluator):
    """Evaluates one expression. Failures are values (CELEvalError), up to `evaluate`, which raises them."""

    def __init__(self, ast: lark.Tree[Any], activation: Activation, meter: Meter | None = None) -> None:
        super().__init__(ast, activation)
        self._meter = meter or Meter()

    def sub_evaluator(self, ast: lark.Tree[Any]) -> SelectorEvaluator:
        """An evaluator for a part of the expression that has variables of its own."""
        return SelectorEvaluator(ast, self.activation, self._meter)

    def relation(self, tree: lark.Tree[Any]) -> Any:
        """A comparison. Values of different types are unequal; numbers compare by what they are."""
        if len(tree.children) == 1:
            return self.visit(_tree(tree.children[0]))
        self._meter.spend()
        operation, right_tree = _tree(tree.children[0]), _tree(tree.children[1])
        left, right = self.visit(_tree(operation.children[0])), self.visit(right_tree)
        for side in (left, right):
            if isinstance(side, CELEvalError):
                return side
        match str(operation.data):
            case "relation_eq":
                return BoolType(equal(left, right))
            case "relation_ne":
                return BoolType(not equal(left, right))
            case "relation_in":
                if isinstance(right, MapType):
                    return BoolType(any(equal(left, key) for key in right))
                if isinstance(right, ListType):
                    return BoolType(any(equal(left, item) for item in right))
                return _no_overload("in", left, right)
        numbers = _is_number(left) and _is_number(right)
        if not numbers and (type(left) is not type(right) or isinstance(left, (MapType, ListType)) or left is None):
            return _no_overload(str(operation.data), left, right)
        one, other = (_plain(left), _plain(right)) if numbers else (left, right)
        try:
            return BoolType(bool(_ORDER[str(operation.data)](one, other)))
        except TypeError:
            return _no_overload(str(operation.data), left, right)

    def primary(self, tree: lark.Tree[Any]) -> Any:
        """A name, a literal, or something in parentheses."""
        self._meter.spend()
        return super().primary(tree)

    def member_dot(self, tree: lark.Tree[Any]) -> Any:
        """A field."""
        self._meter.spend()
        return super().member_dot(tree)

    def member_index(self, tree: lark.Tree[Any]) -> Any:
        """An element."""
        self._meter.spend()
        return super().member_index(tree)

    def member_dot_arg(self, tree: lark.Tree[Any]) -> Any:
        """A call with a receiver, or a macro."""
        self._meter.spend()
        receiver, name = _tree(tree.children[0]), str(tree.children[1])
        arguments = [_tree(each) for each in _tree(tree.children[2]).children] if _has_arguments(tree) else []
        namespace = identifier(receiver)
        if namespace == "cel" and name == "bind":
            value = self.visit(arguments[1])
            return value if isinstance(value, CELEvalError) else self._with(arguments[2], {_name(arguments[0]): value})
        if namespace in _NAMESPACES:
            return self._call(f"{namespace}.{name}", [self.visit(argument) for argument in arguments])
        if name in _MACROS and len(arguments) >= 2:
            return self._macro(self.visit(receiver), name, arguments)
        return self._call(name, [self.visit(receiver), *(self.visit(argument) for argument in arguments)])

    def _call(self, name: str, arguments: list[Any]) -> Any:
        return self.function_eval(lark.Token("IDENT", name), arguments)

    def _with(self, tree: lark.Tree[Any], variables: dict[str, Any]) -> Any:
        try:
            return self.sub_evaluator(tree).evaluate(variables)
        except CELEvalError as error:
            return error

    def _macro(self, values: Any, name: str, arguments: list[lark.Tree[Any]]) -> Any:
        """A macro over the elements of a list or the keys of a map; with two variables, index or key and value."""
        if isinstance(values, CELEvalError):
            return values
        if not isinstance(values, (ListType, MapType)):
            return _no_overload(name, values)
        two = len(arguments) == 3 and name != "map"
        names = [_name(argument) for argument in arguments[: 2 if two else 1]]
        bodies = arguments[2 if two else 1 :]
        results: list[Any] = []
        for variables in _elements(values, two):
            bound = dict(zip(names, variables, strict=True))
            result = self._with(bodies[0], bound)
            if name == "map" and len(bodies) == 2 and not isinstance(result, CELEvalError):
                if not result:
                    continue
                result = self._with(bodies[1], bound)
            if name not in {"all", "exists"} and isinstance(result, CELEvalError):
                return result
            if name == "filter":
                if result:
                    results.append(variables[0])
                continue
            results.append(result)
            if (name == "exists" and _is(result, True)) or (name == "all" and _is(result, False)):
                return BoolType(name == "exists")
        if name in {"map", "filter"}:
            return ListType(results)
        if name in {"all", "exists"}:
            failure = next((result for result in results if not isinstance(result, BoolType)), None)
            if failure is None:
                return BoolType(name == "all")
            return failure if isinstance(failure, CELEvalError) else _no_overload(name, failure)
        return BoolType(sum(1 for result in results if _is(result, True)) == 1)


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal, whatever their types are."""
    if _is_number(one) and _is_number(other):
        return bool(_plain(one) == _plain(other))
    if isinstance(one, ListType) and isinstance(other, ListType):
        return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other, strict=True))
    if isinstance(one, MapType) and isinstance(other, MapType):
        return one.keys() == other.keys() and all(equal(one[key], other[key]) for key in one)
    return type(one) is type(other) and bool(one == other)


def identifier(tree: lark.Tree[Any]) -> str | None:
    """The name that an expression consists of, if it is no more than a name."""
    while len(tree.children) == 1:
        child = tree.children[0]
        if isinstance(child, lark.Token):
            return str(child) if tree.data == "ident" else None
        tree = child
    return None


def _elements(values: Any, two: bool) -> Any:
    if two:
        return list(values.items()) if isinstance(values, MapType) else [(IntType(i), v) for i, v in enumerate(values)]
    return [(value,) for value in values]


def _name(tree: lark.Tree[Any]) -> str:
    name = identifier(tree)
    if name is None:
        raise CELEvalError("argument is not an identifier")
    return name


def _has_arguments(tree: lark.Tree[Any]) -> bool:
    return len(tree.children) == 3 and tree.children[2] is not None


def _is(value: Any, wanted: bool) -> bool:
    return isinstance(value, BoolType) and bool(value) is wanted


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS)


def _plain(value: Any) -> int | float:
    return float(value) if isinstance(value, DoubleType) else int(value)


def _tree(child: Any) -> lark.Tree[Any]:
    assert isinstance(child, lark.Tree)
    return child


def _no_overload(name: str, *values: Any) -> CELEvalError:
    types = ", ".join(type(value).__name__ for value in values)
    return CELEvalError(f"no such overload: {name}({types})", TypeError, ())
