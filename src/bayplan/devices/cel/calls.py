"""Function calls: checks the argument types, counts the cost, and converts failures to values.

cel-python's evaluator looks up all functions and operators in its activation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from celpy.celtypes import ListType, MapType
from celpy.evaluation import Activation, CELEvalError

from bayplan.devices.cel.celtypes import Type
from bayplan.devices.cel.costs import CHARGED_AFTERWARDS, Meter, call_cost, size
from bayplan.devices.cel.declarations import FUNCTIONS
from bayplan.devices.cel.library import IMPLEMENTATIONS
from bayplan.devices.cel.values import CelError, as_cel, type_name


class Calls(Activation):
    """The functions of one evaluation."""

    def __init__(self, meter: Meter) -> None:
        super().__init__()
        self._meter = meter

    def resolve_function(self, name: str) -> Callable[..., Any]:
        """The function for a name; called by cel-python."""
        return partial(self.call, name)

    def call(self, name: str, *arguments: Any) -> Any:
        """The result of a function, which can be a CELEvalError. Raises CostExceeded.

        `name` is the declared name, with a leading dot for a method.
        """
        failure = next((argument for argument in arguments if isinstance(argument, CELEvalError)), None)
        bare = name.removeprefix(".")
        if failure is not None:
            if len(arguments) <= 2:
                self._meter.spend(call_cost(name, arguments, None))
            return failure
        if bare not in CHARGED_AFTERWARDS:
            self._meter.spend(call_cost(name, arguments, None))
        if name == "_+_" and isinstance(arguments[0], ListType):
            self._meter.copy(sum(map(size, arguments)))
        result = _called(name, bare, arguments)
        if bare in CHARGED_AFTERWARDS:
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
    """Whether a value has a type. Only the first element of a list or map is checked, and none of a list of lists."""
    if wanted.dynamic or wanted.free:
        return True
    if wanted.name != type_name(value):
        return False
    if isinstance(value, ListType):
        element = wanted.parameters[0]
        return not value or element.name == "list" or _fits(element, value[0])
    return not isinstance(value, MapType) or all(_fit(wanted.parameters, entry) for entry in [*value.items()][:1])
