"""Checks plugins when they are registered, so that a method with a wrong name or signature is reported at once.

A misspelled method would otherwise never be called, and its plugin would accept every node. The methods and their
parameters come from the protocols of `interface.py` and `gangs.py`, so that a new extension point is checked, too.
"""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from itertools import islice
from typing import Any

import msgspec

from bayplan.core.api.kinds import kind_of
from bayplan.core.framework import gangs, interface
from bayplan.core.framework.events import ANY, Action, ClusterEvent, EventHint, Topics
from bayplan.core.framework.functions import InvalidPlugin
from bayplan.core.framework.interface import Plugin
from bayplan.foundations.failures import described, is_ctrl_c, shown

_FORMS = {
    form: tuple(name for name, method in vars(form).items() if inspect.isfunction(method) and not name.startswith("_"))
    for module in (interface, gangs)
    for form in vars(module).values()
    if isinstance(form, type) and getattr(form, "_is_runtime_protocol", False) and form.__module__ == module.__name__
}
"""The protocols of both modules that a plugin may implement, with their methods."""
_METHODS = {
    name: tuple(inspect.signature(getattr(form, name)).parameters)[1:]
    for form, names in _FORMS.items()
    for name in names
}
"""Every method that an extension point calls, with its parameter names."""
_MOST_HINTS = 1000
_MOST_WEIGHT = 2**31 - 1
_MAY_BE_ASYNC = {"pre_bind", "bind"}
_MUST_BE_ASYNC = {"background"}
_UPSTREAM_NAMES = {
    "less": "sort_key",
    "eventstoregister": "events",
    "signpod": "sign",
    "normalizescore": "normalize_scores",
}
"""The Go names of methods whose Python names differ by more than case and underscores."""
_EXPECTED_NAMES = {name.replace("_", ""): name for name in _METHODS} | _UPSTREAM_NAMES


def check_plugin(plugin: type[Plugin] | Plugin) -> None:
    """Check a plugin class or instance.

    Raises InvalidPlugin if it has no name, implements no extension point or only a part of one, or has a method that
    cannot be called as its extension point calls it.
    """
    cls = plugin if isinstance(plugin, type) else type(plugin)
    if not getattr(plugin, "name", "") or not isinstance(plugin.name, str):
        raise InvalidPlugin(f"plugin class {cls.__name__} has no `name`: set it to the plugin's name in configuration")
    methods = [name for name in _METHODS if getattr(cls, name, None) is not None]
    weight = getattr(plugin, "weight", 1)
    if type(weight) is not int or not 0 < weight <= _MOST_WEIGHT:
        raise InvalidPlugin(f"plugin {plugin.name!r}: its weight is {shown(weight)}, expected a positive integer")
    if not isinstance(plugin.reads_pods, bool):
        raise InvalidPlugin(f"plugin {plugin.name!r}: reads_pods is {shown(plugin.reads_pods)}, expected True or False")
    for name in dir(cls):
        expected = _EXPECTED_NAMES.get(name.replace("_", "").lower())
        if expected not in {None, name} and not name.startswith("_") and callable(getattr(cls, name)):
            raise InvalidPlugin(f"plugin {plugin.name!r} has {name}, which is never called: rename it to {expected}")
    _check_arguments(plugin)
    if not methods:
        raise InvalidPlugin(
            f"plugin {plugin.name!r} implements no extension point: it has none of {', '.join(_METHODS)}"
        )
    for names in _FORMS.values():
        missing = [name for name in names if name not in methods]
        if missing and len(missing) < len(names):
            present = next(name for name in names if name in methods)
            raise InvalidPlugin(f"plugin {plugin.name!r} has {present}, but lacks {', '.join(missing)}")
    for name in methods:
        _check_method(plugin.name, name, getattr(cls, name))


def check_events(plugin: Any) -> None:
    """Raise InvalidPlugin if the plugin's `events` fails, or yields something other than valid EventHints."""
    try:
        hints = list(islice(plugin.events(), _MOST_HINTS + 1))
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise InvalidPlugin(f"plugin {plugin.name!r}: events failed: {described(error)}") from error
    if len(hints) > _MOST_HINTS:
        raise InvalidPlugin(f"plugin {plugin.name!r}: events yields more than {_MOST_HINTS} hints")
    for hint in hints:
        if not _is_hint(hint):
            raise InvalidPlugin(
                f"plugin {plugin.name!r}: events yielded {shown(hint)}, "
                "expected an EventHint(ClusterEvent(resource, action), hint)"
            )
        if hint.event.resource != ANY:
            try:
                kind_of(hint.event.resource)
            except ValueError as error:
                raise InvalidPlugin(f"plugin {plugin.name!r}: events: {error}") from None


def _is_hint(hint: Any) -> bool:
    return (
        isinstance(hint, EventHint)
        and isinstance(hint.event, ClusterEvent)
        and (type(hint.event.resource), type(hint.event.action)) == (str, Action)
        and (hint.hint is None or callable(hint.hint))
        and (hint.topics is None or isinstance(hint.topics, Topics))
        and (hint.still_gated is None or callable(hint.still_gated))
    )


def _check_arguments(plugin: type[Plugin] | Plugin) -> None:
    type_ = plugin.arguments
    if type_ is None or (isinstance(type_, type) and (issubclass(type_, msgspec.Struct) or is_dataclass(type_))):
        return
    raise InvalidPlugin(
        f"plugin {plugin.name!r}: `arguments` is {shown(type_)}, expected a type: a msgspec.Struct or a dataclass"
    )


def _check_method(plugin: str, name: str, method: Any) -> None:
    arguments = _METHODS[name]
    if not callable(method):
        raise InvalidPlugin(f"plugin {plugin!r}: {name} is {shown(method)}, expected a method")
    if name in _MUST_BE_ASYNC and not inspect.iscoroutinefunction(method):
        raise InvalidPlugin(f"plugin {plugin!r}: {name} runs as a background task: make it an `async def`")
    if name not in _MAY_BE_ASYNC | _MUST_BE_ASYNC and inspect.iscoroutinefunction(method):
        raise InvalidPlugin(
            f"plugin {plugin!r}: {name} must not be asynchronous: make it a plain `def`, and await in "
            f"{' or '.join(sorted(_MAY_BE_ASYNC))} instead"
        )
    try:
        parameters = inspect.signature(method)
    except ValueError:  # functions written in C may have no signature
        return
    try:
        parameters.bind(None, *arguments)
    except TypeError as error:
        raise InvalidPlugin(
            f"plugin {plugin!r}: {name} is called with ({', '.join(arguments)}), but {error}; "
            f"expected def {name}(self, {', '.join(arguments)})"
        ) from None
