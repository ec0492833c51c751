"""Checks plugins when they are registered: a method that cannot be called as its point calls it is named at once."""

from __future__ import annotations

import inspect
from typing import Any

from bayplan.framework import interface
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


def check_plugin(plugin: type[Plugin] | Plugin) -> None:
    """Raises InvalidPlugin for a class or an instance that no point could call, or that a point could not call."""
    cls = plugin if isinstance(plugin, type) else type(plugin)
    if not getattr(plugin, "name", "") or not isinstance(plugin.name, str):
        raise InvalidPlugin(f"plugin class {cls.__name__} has no `name`: set it to what configuration should call it")
    methods = [name for name in _CALLED if callable(getattr(cls, name, None))]
    if not methods:
        raise InvalidPlugin(f"plugin {plugin.name!r} takes part in nothing: it has none of {', '.join(_CALLED)}")
    for names in _FORMS.values():
        lacking = [name for name in names if name not in methods]
        if lacking and len(lacking) < len(names):
            there = next(name for name in names if name in methods)
            raise InvalidPlugin(f"plugin {plugin.name!r} has {there}, but lacks {', '.join(lacking)}")
    for name in methods:
        _check_method(plugin.name, name, getattr(cls, name))


def _check_method(plugin: str, name: str, method: Any) -> None:
    wanted = _CALLED[name]
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
