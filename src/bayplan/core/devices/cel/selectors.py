"""Device selectors, and other expressions about a device: compiled expressions, and a cache of their results.

Mirrors k8s.io/dynamic-resource-allocation/cel/compile.go and cache.go.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from bayplan.core.devices.cel.costs import CostExceeded, Meter
from bayplan.core.devices.cel.device import DeviceFacts, UnreadableAttribute
from bayplan.core.devices.cel.values import Failure, type_name
from bayplan.foundations.lazy import on_use, run_now

with on_use():  # at the first expression: most clusters have none
    from bayplan.core.devices.cel import checking, compiling, declarations, parsing, planning, reading


if TYPE_CHECKING:
    from bayplan.core.devices.cel.celtypes import Type
    from bayplan.core.devices.cel.compiling import Program
    from bayplan.core.devices.cel.reading import Path

MOST_COMPILED = 256
"""How many compiled expressions are kept."""
_MAX_RESULTS = 65536

R = TypeVar("R")

__all__ = ["CompileError", "DeviceFacts", "Evaluations", "Expression", "RuntimeFailure", "Selector", "Selectors"]


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


class Expression(ABC, Generic[R]):
    """A compiled expression about a device.

    `lists`: attributes may have lists of values, as with the feature gate DRAListTypeAttributes. `stored`: it may use
    what the gates disable, as expressions of stored objects may.
    """

    def __init__(self, expression: str, *, lists: bool = False, stored: bool = True) -> None:
        """Raises CompileError."""
        self._lists = lists
        self._program, self._reads = _compiled(expression, self._refuse, lists=lists, stored=stored)

    @staticmethod
    @abstractmethod
    def _refuse(found: Type, *, lists: bool) -> str:
        """Why an expression can't be of this type; "" if it can."""

    @abstractmethod
    def result(self, device: DeviceFacts, meter: Meter | None = None) -> R:
        """The result for a device. `meter` limits the evaluation. Raises RuntimeFailure."""

    def reading(self, device: DeviceFacts) -> Hashable:
        """What the expression can read of a device: devices with the same reading have the same result.

        Raises RuntimeFailure for a device on which no expression can be evaluated.
        """
        try:
            return device.reading(self._reads, lists=self._lists)
        except UnreadableAttribute as error:
            raise RuntimeFailure(str(error)) from None

    def _value(self, device: DeviceFacts, meter: Meter | None) -> Any:
        """The value of the expression. Raises RuntimeFailure."""
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
        return value


class Selector(Expression[bool]):
    """An expression that selects devices."""

    @staticmethod
    def _refuse(found: Type, *, lists: bool) -> str:
        known = found.name in {"bool", "google.protobuf.Any"} or (lists and found.name == "dyn")
        return "" if known else f"must evaluate to bool or the unknown type, not {found.declared}"

    def result(self, device: DeviceFacts, meter: Meter | None = None) -> bool:
        """Whether the expression selects a device. `meter` limits the evaluation. Raises RuntimeFailure."""
        value = self._value(device, meter)
        if not isinstance(value, bool):
            name = type_name(value)
            why = _NO_BOOL.get(name) or f"type conversion error from '{name.rpartition('.')[2]}' to 'bool'"
            raise RuntimeFailure(f"CEL result of type {name} could not be converted to bool: {why}")
        return value

    matches = result


def go_on() -> None:
    """Neither stop an evaluation nor what follows it."""


class Evaluations(Generic[R]):
    """A cache of compiled expressions of one `kind`, and of their results. `lists` is that of Expression.

    `during` is called every few milliseconds of an evaluation, `after` after each one, once its result is cached. They
    stop the work by raising an exception.
    """

    def __init__(
        self,
        kind: type[Expression[R]],
        during: Callable[[], None] = go_on,
        after: Callable[[], None] = go_on,
        *,
        lists: bool = False,
    ) -> None:
        self._kind = kind
        self._during, self._after, self._lists = during, after, lists
        self._compiled: OrderedDict[str, Expression[R] | CompileError] = OrderedDict()
        self._results: OrderedDict[tuple[str, Hashable], R | RuntimeFailure] = OrderedDict()

    def result(self, expression: str, device: DeviceFacts) -> R:
        """The result of an expression for a device. Raises CompileError or RuntimeFailure."""
        compiled = self._expression(expression)
        key = (expression, compiled.reading(device))
        result = self._results.get(key)
        if result is None:
            try:
                result = compiled.result(device, Meter(checkpoint=self._during))
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
        return self._expression(expression).reading(device)

    def prepare(self, expression: str) -> None:
        """Compile an expression ahead of its first use, which says what is wrong with it, if anything is."""
        with suppress(CompileError):
            self._expression(expression)

    def _expression(self, expression: str) -> Expression[R]:
        found = self._compiled.get(expression)
        if found is None:
            try:
                found = self._kind(expression, lists=self._lists)
            except CompileError as error:
                found = error
            self._compiled[expression] = found
            if len(self._compiled) > MOST_COMPILED:
                self._compiled.popitem(last=False)
        if isinstance(found, CompileError):
            raise found.with_traceback(None)
        return found


class Selectors(Evaluations[bool]):
    """A cache of selectors and of their results."""

    def __init__(
        self, during: Callable[[], None] = go_on, after: Callable[[], None] = go_on, *, lists: bool = False
    ) -> None:
        super().__init__(Selector, during, after, lists=lists)

    matches = Evaluations.result
    """Whether an expression selects a device."""


def import_compiler() -> Iterator[None]:
    """Import the compiler and build its parser, in steps."""
    for module in (declarations, checking, parsing, compiling, planning, reading):
        run_now(module)
        yield

    parsing.parse("true")
    yield


def _compiled(
    expression: str, refuse: Callable[..., str], *, lists: bool, stored: bool
) -> tuple[Program, Sequence[Path]]:
    try:
        tree = parsing.parse(expression)
        found = checking.check(tree, lists=lists, stored=stored)
        problem = refuse(found, lists=lists)
        if problem:
            raise CompileError(problem)
        planned = planning.plan(tree)
        return compiling.compile_program(planned), reading.reads(planned) or ()
    except (parsing.InvalidSyntax, checking.InvalidExpression) as error:
        raise CompileError(f"compilation failed: {error}") from None
    except planning.PlanError as error:
        raise CompileError(f"program instantiation failed: {error}") from None
    except RecursionError:
        raise CompileError("compilation failed: expression is nested too deeply") from None
