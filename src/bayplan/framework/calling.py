"""How plugins are called: the one function through which all of their answers and exceptions come.

A cycle carries the function that calls for it (`CycleState.call`), so that a shell may put a stopwatch around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.framework.status import PluginError

Caller = Callable[..., Any]
"""(plugin, point, method, *arguments) -> the method's answer. Raises PluginError only."""


def call(plugin: Any, point: str, method: Callable[..., Any], /, *arguments: Any) -> Any:
    """Call a plugin; whatever it raises becomes a PluginError. Whoever finds this frame on a stack sees who blocks."""
    try:
        return method(*arguments)
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(plugin.name, point, f"{type(error).__name__}: {error}") from error
