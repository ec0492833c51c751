"""The macros that iterate over lists and maps. Their cost is that of the comprehension that cel-go expands them to.

Mirrors cel-go's parser/macro.go and ext/comprehensions.go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from celpy.celtypes import BoolType, IntType, ListType, MapType
from celpy.evaluation import CELEvalError

from bayplan.devices.cel.costs import NEW_LIST, Meter
from bayplan.devices.cel.library.lists import insert
from bayplan.devices.cel.parsing import CONSTANT, Tree
from bayplan.devices.cel.values import CelError, type_name

Evaluate = Callable[[Mapping[str, Any], Tree], Any]
"""Evaluates an expression in which further variables are bound."""

_NAME = 1
"""The cost of reading the loop's accumulator."""
_CALL = 1


class Loop:
    """One loop: the names of its variables, and the expressions that use them."""

    def __init__(self, meter: Meter, evaluate: Evaluate, names: list[str], bodies: list[Tree]) -> None:
        self._spend = meter.spend
        self._evaluate = evaluate
        self._names = names
        self._bodies = bodies

    def run(self, name: str, values: Any) -> Any:
        """The result of the loop, which can be a CELEvalError. Raises CostExceeded."""
        if not isinstance(values, (ListType, MapType)):
            return CELEvalError(f"expression of type '{type_name(values)}' cannot be range of a comprehension")
        rounds = self._rounds(values)
        match name:
            case "all" | "exists":
                found = self._quantified(rounds, decisive=name == "exists")
            case "exists_one" | "existsOne":
                found = self._one(rounds)
            case "transformMap" | "transformMapEntry":
                found = self._entries(rounds, whole=name == "transformMapEntry")
            case _:
                found = self._list(rounds, name)
        self._spend(_NAME)
        return found

    def _rounds(self, values: Any) -> Iterable[tuple[Any, ...]]:
        if len(self._names) == 1:
            return ((value,) for value in values)
        return values.items() if isinstance(values, MapType) else ((IntType(i), each) for i, each in enumerate(values))

    def _body(self, variables: tuple[Any, ...], which: int = 0) -> Any:
        return self._evaluate(dict(zip(self._names, variables, strict=True)), self._bodies[which])

    def _quantified(self, rounds: Iterable[tuple[Any, ...]], decisive: bool) -> Any:
        condition = _NAME + _CALL + (_CALL if decisive else 0)
        found: Any = BoolType(not decisive)
        for variables in rounds:
            self._spend(condition)
            if isinstance(found, BoolType) and bool(found) is decisive:
                break
            self._spend(_NAME)
            value = self._body(variables)
            if isinstance(value, BoolType):
                found = value if bool(value) is decisive else found
            elif isinstance(found, BoolType):
                found = value if isinstance(value, CELEvalError) else CELEvalError("no such overload")
        return found

    def _one(self, rounds: Iterable[tuple[Any, ...]]) -> Any:
        count = 0
        for variables in rounds:
            holds = self._holds(variables)
            if isinstance(holds, CELEvalError):
                return holds
            if holds:
                self._spend(_NAME + _CALL)
                count += 1
        self._spend(_CALL)
        return BoolType(count == 1)

    def _holds(self, variables: tuple[Any, ...]) -> Any:
        value = self._body(variables)
        if isinstance(value, (BoolType, CELEvalError)):
            return value
        return CELEvalError("no such overload")

    def _list(self, rounds: Iterable[tuple[Any, ...]], name: str) -> Any:
        found = ListType()
        for variables in rounds:
            if name == "filter" or len(self._bodies) == 2:
                holds = self._holds(variables)
                if isinstance(holds, CELEvalError):
                    return holds
                if not holds:
                    continue
            constant = name != "filter" and self._bodies[-1].data == CONSTANT
            self._spend(_NAME + _CALL + (0 if constant else NEW_LIST))
            if name == "filter":
                self._spend(_NAME)
                value = variables[0]
            else:
                value = self._body(variables, -1)
            if isinstance(value, CELEvalError):
                return value
            found.append(value)
        return found

    def _entries(self, rounds: Iterable[tuple[Any, ...]], whole: bool) -> Any:
        found = MapType()
        for variables in rounds:
            if len(self._bodies) == 2:
                holds = self._holds(variables)
                if isinstance(holds, CELEvalError):
                    return holds
                if not holds:
                    continue
            self._spend(_NAME + _CALL + (0 if whole else _NAME))
            value = self._body(variables, -1)
            if isinstance(value, CELEvalError):
                return value
            if whole and not isinstance(value, MapType):
                return CELEvalError("no such overload")
            try:
                insert(found, value if whole else MapType({variables[0]: value}))
            except CelError as error:
                return CELEvalError(str(error))
        return found
