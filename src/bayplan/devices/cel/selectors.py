"""Device selectors: compiled expressions, and a cache of their results.

Mirrors k8s.io/dynamic-resource-allocation/cel/compile.go and cache.go.
"""

from __future__ import annotations

from collections import OrderedDict

from celpy.celtypes import BoolType
from celpy.evaluation import CELEvalError

from bayplan.devices.cel.celtypes import ANY, BOOL
from bayplan.devices.cel.checking import InvalidExpression, check
from bayplan.devices.cel.costs import CostExceeded, Meter
from bayplan.devices.cel.device import DeviceFacts, UnreadableAttribute
from bayplan.devices.cel.evaluation import SelectorEvaluator
from bayplan.devices.cel.parsing import InvalidSyntax, Tree, parse
from bayplan.devices.cel.planning import PlanError, plan
from bayplan.devices.cel.values import type_name

_MAX_COMPILED = 256
_MAX_RESULTS = 65536

__all__ = ["CompileError", "DeviceFacts", "RuntimeFailure", "Selector", "Selectors"]


class CompileError(ValueError):
    """An expression isn't a valid selector. The message is the reason."""


class RuntimeFailure(ValueError):
    """The evaluation of an expression failed for a device."""


class Selector:
    """A compiled expression."""

    def __init__(self, expression: str) -> None:
        """Raises CompileError."""
        self._plan = _compiled(expression)

    def matches(self, device: DeviceFacts, meter: Meter | None = None) -> bool:
        """Whether the expression selects a device. `meter` counts the cost. Raises RuntimeFailure."""
        try:
            variables = {"device": device.variable()}
            value = SelectorEvaluator(self._plan, variables, meter or Meter()).visit(self._plan)
        except UnreadableAttribute as error:
            raise RuntimeFailure(str(error)) from None
        except CostExceeded:
            raise RuntimeFailure("operation cancelled: actual cost limit exceeded") from None
        except RecursionError:
            raise RuntimeFailure("expression is nested too deeply") from None
        if isinstance(value, CELEvalError):
            raise RuntimeFailure(str(value.args[0]))
        if not isinstance(value, BoolType):
            raise RuntimeFailure(f"CEL result of type {type_name(value)} could not be converted to bool")
        return bool(value)


class Selectors:
    """A cache of compiled expressions and of their results."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, Selector | CompileError] = OrderedDict()
        self._results: OrderedDict[tuple[str, DeviceFacts], bool | RuntimeFailure] = OrderedDict()

    def matches(self, expression: str, device: DeviceFacts) -> bool:
        """Whether an expression selects a device. Raises CompileError or RuntimeFailure."""
        key = (expression, device)
        result = self._results.get(key)
        if result is None:
            selector = self._selector(expression)
            try:
                result = selector.matches(device)
            except RuntimeFailure as failure:
                result = failure
            self._results[key] = result
            if len(self._results) > _MAX_RESULTS:
                self._results.popitem(last=False)
        if isinstance(result, RuntimeFailure):
            raise result.with_traceback(None)
        return result

    def _selector(self, expression: str) -> Selector:
        found = self._compiled.get(expression)
        if found is None:
            try:
                found = Selector(expression)
            except CompileError as error:
                found = error
            self._compiled[expression] = found
            if len(self._compiled) > _MAX_COMPILED:
                self._compiled.popitem(last=False)
        if isinstance(found, CompileError):
            raise found.with_traceback(None)
        return found


def _compiled(expression: str) -> Tree:
    try:
        tree = parse(expression)
        found = check(tree)
        if found not in {BOOL, ANY}:
            raise CompileError(f"must evaluate to bool or the unknown type, not {found.declared}")
        return plan(tree)
    except (InvalidSyntax, InvalidExpression) as error:
        raise CompileError(f"compilation failed: {error}") from None
    except PlanError as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    except RecursionError:
        raise CompileError("compilation failed: expression is nested too deeply") from None
