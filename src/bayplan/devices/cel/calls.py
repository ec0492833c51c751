"""How the functions of an expression are called: metered, for the types that they are for, failures being values.

cel-python's evaluator looks all of its functions up in its activation, operators too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from celpy.celtypes import ListType, MapType
from celpy.evaluation import Activation, CELEvalError

from bayplan.devices.cel.celtypes import Type
from bayplan.devices.cel.costs import PAID_AFTERWARDS, Meter, call_cost, size
from bayplan.devices.cel.declarations import FUNCTIONS
from bayplan.devices.cel.library import IMPLEMENTATIONS
from bayplan.devices.cel.values import CelError, as_cel, type_name


class Calls(Activation):
    """The functions that one evaluation can call."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter

    def resolve_function(self, name: str) -> Callable[..., Any]:
        """What a name that cel-python asks for does."""
        return partial(self.call, name)

    def call(self, name: str, *arguments: Any) -> Any:
        """What a function gives, which may be a CELEvalError. Raises CostExceeded.

        `name` is as it is declared: with a dot before it, if it is a method.
        """
        failure = next((argument for argument in arguments if isinstance(argument, CELEvalError)), None)
        bare = name.removeprefix(".")
        if failure is not None:
            if len(arguments) <= 2:
                self._meter.spend(call_cost(name, arguments, None))
            return failure
        if bare not in PAID_AFTERWARDS:
            self._meter.spend(call_cost(name, arguments, None))
        if name == "_+_" and isinstance(arguments[0], ListType):
            self._meter.copy(sum(map(size, arguments)))
        result = _called(name, bare, arguments)
        if bare in PAID_AFTERWARDS:
            self._meter.spend(call_cost(name, arguments, result))
        return result


def _called(name: str, bare: str, arguments: Sequence[Any]) -> Any:
    if not any(_fit(overload.arguments, arguments) for overload in FUNCTIONS[name]):
        return CELEvalError(f"no such overload: {bare}({', '.join(map(type_name, arguments))})")
    try:
        return as_cel(IMPLEMENTATIONS[bare](*arguments))
    except CelError as error:
        return CELEvalError(str(error))


def _fit(wanted: Sequence[Type], values: Sequence[Any]) -> bool:
    return len(wanted) == len(values) and all(map(_fits, wanted, values))


def _fits(wanted: Type, value: Any) -> bool:
    """Whether a value is of a type; of lists and maps, the first element tells, but for lists of lists."""
    if wanted.dynamic or wanted.free:
        return True
    if wanted.name != type_name(value):
        return False
    if isinstance(value, ListType):
        element = wanted.parameters[0]
        return not value or element.name == "list" or _fits(element, value[0])
    return not isinstance(value, MapType) or all(_fit(wanted.parameters, entry) for entry in [*value.items()][:1])
