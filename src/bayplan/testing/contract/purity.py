"""The promise of functions that are declared pure: their results depend on the pod and the node alone."""

from __future__ import annotations

import builtins
import datetime as dt
import inspect
import os
import random
import secrets
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import BuiltinMethodType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from bayplan.core.api.kinds import POD
from bayplan.core.framework.functions import FunctionPlugin
from bayplan.testing.contract.examples import Example, ExampleChange, pod_info
from bayplan.testing.contract.promise import Breach, promise
from bayplan.testing.contract.subject import Subject, ask, difference
from bayplan.testing.strategies import at, edited

_PARSES = {"asctime", "mktime", "strftime", "strptime", "struct_time"}
_CLOCKS = {id(value) for name, value in vars(time).items() if callable(value) and name not in _PARSES}
_FROM_OUTSIDE = {id(each) for each in (os.environ, os.getenv, os.urandom, builtins.open, builtins.input)} | {
    id(value) for module in (secrets, uuid) for value in vars(module).values() if isinstance(value, FunctionType)
}
_CURRENT = {"now", "utcnow", "today"}
_GENERATORS = (random.Random, np.random.Generator, np.random.RandomState)
_DEEPEST = 3
"""How many attributes of a module are followed, as in `datetime.datetime.now`."""
_UNVERSIONED = ("metadata.annotations", "status.")
"""The beginnings of fields of pods on a node that may change without a new version of the node."""


@promise("pure", "a function declared pure depends on the pod and the node, and on nothing else", lambda it: it.pure)
def pure(subject: Subject, example: Example) -> None:
    """The function reads no clock, random numbers or environment, and neither changes nor reads other state."""
    plugin, world = subject.start(example)
    functions = list(_functions(plugin.function))
    for function in functions:
        for name in _impure(function):
            raise Breach(
                f"{function.__qualname__} uses {name}, which differs from call to call",
                f"compute what depends on {name} outside of the scheduler, for example as a label of the node; or "
                "remove pure=True, so that the function is called for every pod and node",
            )
    before, first = _state(functions), ask(plugin, world).texts(shared=True)
    for name, value in _state(functions).items():
        if value != before[name]:
            raise Breach(
                f"{name} changed from {before[name]} to {value} while the function was called",
                f"keep nothing in {name}: the function is not called for a pod or a node that it has seen; to keep "
                "state, write a Plugin class",
            )
    for change in _changes(example):
        with change.made(world.state):
            second = ask(plugin, world, pod_info(example.pod)).texts(shared=True)
        if found := difference(first, second, "before", "after"):
            raise Breach(
                f"{change.text}, which is no new version of its node, but {found}",
                "read labels, requests and priorities of the pods on a node, not their annotations or status; or "
                "remove pure=True",
            )


def _changes(example: Example) -> Iterator[ExampleChange]:
    """Changes of pods on nodes to values of the pending pod's variants."""
    variants = [variant for variant in example.variants if variant.path.startswith(_UNVERSIONED)]
    for document in example.bound:
        for variant in variants:
            after = edited(document, variant.path, at(variant.after or {}, variant.path))
            text = f"{variant.path} of Pod {document['metadata']['name']} changes"
            yield ExampleChange(text, POD, document, after, variant.path)


def _functions(function: Callable[..., Any]) -> Iterator[FunctionType]:
    """Yield a function, and those that it uses of its own module."""
    found: list[FunctionType] = []
    left = [function]
    while left:
        each = left.pop()
        each = each.function if isinstance(each, FunctionPlugin) else inspect.unwrap(each)
        if isinstance(each, FunctionType) and each.__module__ == function.__module__ and each not in found:
            found.append(each)
            left += [value for value in _used(each).values() if isinstance(value, FunctionType | FunctionPlugin)]
    yield from found


def _used(function: FunctionType) -> Mapping[str, Any]:
    """Return what a function refers to by name: globals, variables of enclosing functions, and defaults."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    used = {name: function.__globals__[name] for name in names if name in function.__globals__}
    used |= {name: getattr(builtins, name) for name in names - used.keys() if hasattr(builtins, name)}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        used[name] = cell.cell_contents
    defaults = inspect.signature(function).parameters.values()
    return used | {each.name: each.default for each in defaults if each.default is not each.empty}


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _impure(function: FunctionType) -> Iterator[str]:
    """Yield the names of what a function uses that reads a clock, random numbers or the environment."""
    codes = list(_codes(function.__code__))
    names = {name for code in codes for name in code.co_names}
    for name, value in _used(function).items():
        yield from _impure_names(name, value, names, _DEEPEST)
    for module in (time, random, secrets, dt, uuid, os):  # imported within the function
        if module.__name__ in names and module.__name__ not in function.__globals__:
            yield from _impure_names(module.__name__, module, names, _DEEPEST)


def _impure_names(name: str, value: Any, names: Iterable[str], depth: int) -> Iterator[str]:
    if id(value) in _CLOCKS or id(value) in _FROM_OUTSIDE or _of_generator(value) or _of_today(value):
        yield name
    elif depth and isinstance(value, ModuleType | type):
        for attribute in sorted(names):
            inner = getattr(value, attribute, None)
            if inner is not None:
                yield from _impure_names(f"{name}.{attribute}", inner, names, depth - 1)


def _of_generator(value: Any) -> bool:
    """Whether this is a random generator, or one of its methods."""
    owner = value.__self__ if isinstance(value, MethodType | BuiltinMethodType) else value
    return isinstance(owner, _GENERATORS)


def _of_today(value: Any) -> bool:
    """Whether this is a constructor of the current date or time."""
    if not isinstance(value, BuiltinMethodType) or value.__name__ not in _CURRENT:
        return False
    return isinstance(value.__self__, type) and issubclass(value.__self__, dt.date)


def _state(functions: Iterable[FunctionType]) -> dict[str, str]:
    """Return the variables that functions use, except modules, classes and functions, as text by name."""
    constant = (ModuleType, type, FunctionType, FunctionPlugin, BuiltinMethodType)
    return {
        name: repr(vars(value) if hasattr(value, "__dict__") else value)
        for function in functions
        for name, value in _used(function).items()
        if not isinstance(value, constant)
    }
