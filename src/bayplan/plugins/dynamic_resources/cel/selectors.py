"""Device selectors: expressions compiled once, and their answers remembered by what a device tells of itself.

Mirrors k8s.io/dynamic-resource-allocation/cel/compile.go.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import celpy
import lark
from celpy.celparser import CELParseError
from celpy.celtypes import BoolType, IntType, MapType, StringType
from celpy.evaluation import Activation, CELEvalError

from bayplan.plugins.dynamic_resources.cel.checking import check
from bayplan.plugins.dynamic_resources.cel.evaluation import SelectorEvaluator
from bayplan.plugins.dynamic_resources.cel.functions import FUNCTIONS
from bayplan.plugins.dynamic_resources.cel.values import DomainMap, Quantity, Semver

_COMPILED = 256
_ANSWERS = 65536


class CompileError(ValueError):
    """An expression that is no selector: the message says why."""


class RuntimeFailure(ValueError):
    """An expression that failed on a device."""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What an expression sees of a device. Equal facts get equal answers."""

    driver: str
    allow_multiple: bool
    attributes: tuple[tuple[str, tuple[str, Any]], ...]
    """Name, and the kind of the value (string, int, bool, version; "" for what is not known) with the value."""
    capacity: tuple[tuple[str, str], ...]

    @classmethod
    def of(
        cls,
        driver: str,
        allow_multiple: bool,
        attributes: Mapping[str, Any] | None,
        capacity: Mapping[str, Any] | None,
    ) -> DeviceFacts:
        """Of the fields of a device, as resource slices carry them."""
        named = tuple(sorted((name, _attribute(value)) for name, value in (attributes or {}).items()))
        amounts = tuple(sorted((name, str(value.get("value", "0"))) for name, value in (capacity or {}).items()))
        return cls(driver, allow_multiple, named, amounts)


class Selectors:
    """The expressions that were compiled, and what they said."""

    def __init__(self) -> None:
        self._environment = celpy.Environment()
        self._base = Activation(functions=FUNCTIONS)
        self._compiled: OrderedDict[str, lark.Tree[Any] | CompileError] = OrderedDict()
        self._answers: OrderedDict[tuple[str, DeviceFacts], bool | RuntimeFailure] = OrderedDict()

    def matches(self, expression: str, device: DeviceFacts) -> bool:
        """Whether an expression selects a device. Raises CompileError or RuntimeFailure."""
        tree = self._compile(expression)
        key = (expression, device)
        answer = self._answers.get(key)
        if answer is None:
            try:
                answer = self._evaluate(tree, device)
            except RuntimeFailure as failure:
                answer = failure
            self._answers[key] = answer
            if len(self._answers) > _ANSWERS:
                self._answers.popitem(last=False)
        if isinstance(answer, RuntimeFailure):
            raise answer.with_traceback(None)
        return answer

    def _compile(self, expression: str) -> lark.Tree[Any]:
        found = self._compiled.get(expression)
        if found is None:
            try:
                found = self._environment.compile(expression)
                problem = check(found)
                if problem:
                    found = CompileError(problem)
            except CELParseError as error:
                where = f" at {error.line}:{error.column}" if error.line is not None else ""
                found = CompileError(f"compilation failed: syntax error{where}")
            except RecursionError:
                found = CompileError("compilation failed: expression is nested too deeply")
            self._compiled[expression] = found
            if len(self._compiled) > _COMPILED:
                self._compiled.popitem(last=False)
        if isinstance(found, CompileError):
            raise found.with_traceback(None)
        return found

    def _evaluate(self, tree: lark.Tree[Any], device: DeviceFacts) -> bool:
        variables = {"device": _variable(device)}
        try:
            value: Any = SelectorEvaluator(tree, self._base).evaluate(variables)
        except CELEvalError as error:
            raise RuntimeFailure(str(error.args[0]) if error.args else "evaluation failed") from None
        except (ArithmeticError, LookupError, RecursionError, TypeError, ValueError, AttributeError) as error:
            raise RuntimeFailure(f"{type(error).__name__}: {error}") from None
        if not isinstance(value, BoolType):
            raise RuntimeFailure(f"CEL result of type {_type_name(value)} could not be converted to bool")
        return bool(value)


def _variable(device: DeviceFacts) -> MapType:
    attributes, capacity = DomainMap(), DomainMap()
    for name, value in device.attributes:
        _put(attributes, name, device.driver, _attribute_value(name, *value))
    for name, text in device.capacity:
        _put(capacity, name, device.driver, Quantity.parse(text))
    variable = MapType()
    variable[StringType("driver")] = StringType(device.driver)
    variable[StringType("allowMultipleAllocations")] = BoolType(device.allow_multiple)
    variable[StringType("attributes")] = attributes
    variable[StringType("capacity")] = capacity
    return variable


def _put(by_domain: DomainMap, name: str, driver: str, value: Any) -> None:
    domain, slash, key = name.partition("/")
    if not slash:
        domain, key = driver, name
    if StringType(domain) not in by_domain:
        by_domain[StringType(domain)] = MapType()
    of_domain = by_domain[StringType(domain)]
    of_domain[StringType(key)] = value


def _attribute(value: Mapping[str, Any]) -> tuple[str, Any]:
    return next(
        ((kind, value[kind]) for kind in ("int", "bool", "string", "version") if value.get(kind) is not None),
        ("", None),
    )


def _attribute_value(name: str, kind: str, value: Any) -> Any:
    match kind:
        case "int":
            return IntType(value)
        case "bool":
            return BoolType(value)
        case "string":
            return StringType(value)
        case "version":
            try:
                return Semver.parse(value)
            except ValueError as error:
                raise RuntimeFailure(f"attribute {name}: parse semantic version: {error}") from None
    raise RuntimeFailure(f"attribute {name}: unsupported attribute value")


def _type_name(value: Any) -> str:
    return type(value).__name__.removesuffix("Type").lower()
