"""Checks plugins when they are registered: a method that cannot be called as its point calls it is named at once."""

from __future__ import annotations

import inspect
from dataclasses import is_dataclass
from typing import Any

import msgspec

from bayplan.api.kinds import kind_of
from bayplan.framework import interface
from bayplan.framework.events import ANY, ClusterEvent, EventHint
from bayplan.framework.functions import InvalidPlugin
from bayplan.framework.interface import Plugin

_FORMS = {
    form: tuple(name for name, method in vars(form).items() if inspect.isfunction(method) and not name.startswith("_"))
    for form in vars(interface).values()
    if isinstance(form, type) and getattr(form, "_is_runtime_protocol", False) and form.__module__ == interface.__name__
}
"""What a plugin may implement, with the methods that belong together."""
_CALLED = {
    name: tuple(inspect.signature(getattr(form, name)).parameters)[1:]
    for form, names in _FORMS.items()
    for name in names
}
"""Every method that a point calls, with the names of what it is called with."""
_MAY_WAIT = {"pre_bind", "bind"}
_MUST_WAIT = {"background"}
_UPSTREAM_NAMES = {
    "less": "sort_key",
    "eventstoregister": "events",
    "signpod": "sign",
    "normalizescore": "normalize_scores",
}
"""What methods are called in Go, where that is not the same but for case and underscores."""
_MEANT = {name.replace("_", ""): name for name in _CALLED} | _UPSTREAM_NAMES


def check_plugin(plugin: type[Plugin] | Plugin) -> None:
    """Raises InvalidPlugin for a class or an instance that no point could call, or that a point could not call."""
    cls = plugin if isinstance(plugin, type) else type(plugin)
    if not getattr(plugin, "name", "") or not isinstance(plugin.name, str):
        raise InvalidPlugin(f"plugin class {cls.__name__} has no `name`: set it to what configuration should call it")
    methods = [name for name in _CALLED if callable(getattr(cls, name, None))]
    for name in dir(cls):
        meant = _MEANT.get(name.replace("_", "").lower())
        if meant not in {None, name} and not name.startswith("_") and callable(getattr(cls, name)):
            raise InvalidPlugin(f"plugin {plugin.name!r} has {name}, which nobody calls: its name is {meant} here")
    _check_arguments(plugin)
    if not methods:
        raise InvalidPlugin(f"plugin {plugin.name!r} takes part in nothing: it has none of {', '.join(_CALLED)}")
    for names in _FORMS.values():
        lacking = [name for name in names if name not in methods]
        if lacking and len(lacking) < len(names):
            there = next(name for name in names if name in methods)
            raise InvalidPlugin(f"plugin {plugin.name!r} has {there}, but lacks {', '.join(lacking)}")
    for name in methods:
        _check_method(plugin.name, name, getattr(cls, name))


def check_events(plugin: Any) -> None:
    """Raises InvalidPlugin for a plugin whose `events` are none."""
    try:
        hints = list(plugin.events())
    except Exception as error:  # a plugin of the user's may raise anything
        raise InvalidPlugin(f"plugin {plugin.name!r}: events failed: {type(error).__name__}: {error}") from error
    for hint in hints:
        if not isinstance(hint, EventHint) or not isinstance(hint.event, ClusterEvent):
            raise InvalidPlugin(
                f"plugin {plugin.name!r}: events gave {hint!r}, "
                "expected an EventHint(ClusterEvent(resource, action), hint)"
            )
        if hint.event.resource != ANY:
            try:
                kind_of(hint.event.resource)
            except ValueError as error:
                raise InvalidPlugin(f"plugin {plugin.name!r}: events: {error}") from None


def _check_arguments(plugin: type[Plugin] | Plugin) -> None:
    wanted = plugin.arguments
    if wanted is None or (isinstance(wanted, type) and (issubclass(wanted, msgspec.Struct) or is_dataclass(wanted))):
        return
    raise InvalidPlugin(
        f"plugin {plugin.name!r}: `arguments` is {wanted!r}, expected a type: a msgspec.Struct or a dataclass"
    )


def _check_method(plugin: str, name: str, method: Any) -> None:
    wanted = _CALLED[name]
    if name in _MUST_WAIT and not inspect.iscoroutinefunction(method):
        raise InvalidPlugin(f"plugin {plugin!r}: {name} is a task of its own: make it an `async def`")
    if name not in _MAY_WAIT | _MUST_WAIT and inspect.iscoroutinefunction(method):
        raise InvalidPlugin(
            f"plugin {plugin!r}: {name} is asynchronous, but nobody waits for it: make it a plain `def`, and do what "
            f"takes time in {' or '.join(sorted(_MAY_WAIT))}"
        )
    try:
        parameters = inspect.signature(method)
    except ValueError:  # written in C: nothing is known of it
        return
    try:
        parameters.bind(None, *wanted)
    except TypeError as error:
        raise InvalidPlugin(
            f"plugin {plugin!r}: {name} is called with ({', '.join(wanted)}), but {error}; "
            f"expected def {name}(self, {', '.join(wanted)})"
        ) from None
