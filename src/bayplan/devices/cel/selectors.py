"""Device selectors: compiled expressions, and a cache of their results.

Mirrors k8s.io/dynamic-resource-allocation/cel/compile.go and cache.go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from bayplan.devices.cel.costs import CostExceeded, Meter
from bayplan.devices.cel.device import DeviceFacts, UnreadableAttribute
from bayplan.devices.cel.values import Failure, type_name

if TYPE_CHECKING:
    from bayplan.devices.cel.compiling import Program
    from bayplan.devices.cel.reading import Path

_MAX_COMPILED = 256
_MAX_RESULTS = 65536

__all__ = ["CompileError", "DeviceFacts", "RuntimeFailure", "Selector", "Selectors"]


_NO_BOOL = {
    **{name: f"unsupported type conversion from '{name}' to bool" for name in ("int", "uint")},
    "string": "unsupported native conversion from string to 'bool'",
    **{name: f"type conversion error from {name.capitalize()} to 'bool'" for name in ("double", "bytes")},
    **{name: f"type conversion error from {name} to 'bool'" for name in ("list", "map")},
}
"""What cel-go says of results that aren't bool, by type."""


class CompileError(ValueError):
    """An expression isn't a valid selector. The message is the reason."""


class RuntimeFailure(ValueError):
    """The evaluation of an expression failed for a device."""


class Selector:
    """A compiled expression.

    `lists`: attributes may have lists of values, as with the feature gate DRAListTypeAttributes. `stored`: it may use
    what the gates disable, as expressions of stored objects may.
    """

    def __init__(self, expression: str, *, lists: bool = False, stored: bool = True) -> None:
        """Raises CompileError."""
        self._lists = lists
        self._program, self._reads = _compiled(expression, lists=lists, stored=stored)

    def reading(self, device: DeviceFacts) -> Hashable:
        """What the expression can read of a device: devices with the same reading have the same result.

        Raises RuntimeFailure for a device on which no expression can be evaluated.
        """
        try:
            return device.reading(self._reads, lists=self._lists)
        except UnreadableAttribute as error:
            raise RuntimeFailure(str(error)) from None

    def matches(self, device: DeviceFacts, meter: Meter | None = None) -> bool:
        """Whether the expression selects a device. `meter` limits the evaluation. Raises RuntimeFailure."""
        try:
            value = self._program.run(device.variable(lists=self._lists), device, meter)
        except UnreadableAttribute as error:
            raise RuntimeFailure(str(error)) from None
        except CostExceeded:
            raise RuntimeFailure("operation cancelled: actual cost limit exceeded") from None
        except RecursionError:
            raise RuntimeFailure("expression is nested too deeply") from None
        if isinstance(value, Failure):
            raise RuntimeFailure(value.message)
        if not isinstance(value, bool):
            name = type_name(value)
            why = _NO_BOOL.get(name) or f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'"
            raise RuntimeFailure(f"CEL result of type {name} could not be converted to bool: {why}")
        return value


def _go_on() -> None:
    """Neither stop an evaluation nor what follows it."""


class Selectors:
    """A cache of compiled expressions and of their results. `lists` is that of Selector.

    `during` is called every few milliseconds of an evaluation, `after` after each one, once its result is cached. They
    stop the work by raising an exception.
    """

    def __init__(
        self, during: Callable[[], None] = _go_on, after: Callable[[], None] = _go_on, *, lists: bool = False
    ) -> None:
        self._during, self._after, self._lists = during, after, lists
        self._compiled: OrderedDict[str, Selector | CompileError] = OrderedDict()
        self._results: OrderedDict[tuple[str, Hashable], bool | RuntimeFailure] = OrderedDict()

    def matches(self, expression: str, device: DeviceFacts) -> bool:
        """Whether an expression selects a device. Raises CompileError or RuntimeFailure."""
        selector = self._selector(expression)
        key = (expression, selector.reading(device))
        result = self._results.get(key)
        if result is None:
            try:
                result = selector.matches(device, Meter(checkpoint=self._during))
            except RuntimeFailure as failure:
                result = failure
            self._results[key] = result
            if len(self._results) > _MAX_RESULTS:
                self._results.popitem(last=False)
            self._after()
        if isinstance(result, RuntimeFailure):
            raise result.with_traceback(None)
        return result

    def reading(self, expression: str, device: DeviceFacts) -> Hashable:
        """What an expression can read of a device. Raises CompileError or RuntimeFailure."""
        return self._selector(expression).reading(device)

    def _selector(self, expression: str) -> Selector:
        found = self._compiled.get(expression)
        if found is None:
            try:
                found = Selector(expression, lists=self._lists)
            except CompileError as error:
                found = error
            self._compiled[expression] = found
            if len(self._compiled) > _MAX_COMPILED:
                self._compiled.popitem(last=False)
        if isinstance(found, CompileError):
            raise found.with_traceback(None)
        return found


def _compiled(expression: str, *, lists: bool, stored: bool) -> tuple[Program, Sequence[Path]]:
    # Imported at the first selector: most clusters have none.
    from bayplan.devices.cel.celtypes import ANY, BOOL, DYN
    from bayplan.devices.cel.checking import InvalidExpression, check
    from bayplan.devices.cel.compiling import compile_program
    from bayplan.devices.cel.parsing import InvalidSyntax, parse
    from bayplan.devices.cel.planning import PlanError, plan
    from bayplan.devices.cel.reading import reads

    try:
        tree = parse(expression)
        found = check(tree, lists=lists, stored=stored)
        if found not in {BOOL, ANY} and not (lists and found == DYN):
            raise CompileError(f"must evaluate to bool or the unknown type, not {found.declared}")
        planned = plan(tree)
        return compile_program(planned), reads(planned) or ()
    except (InvalidSyntax, InvalidExpression) as error:
        raise CompileError(f"compilation failed: {error}") from None
    except PlanError as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    except RecursionError:
        raise CompileError("compilation failed: expression is nested too deeply") from None
