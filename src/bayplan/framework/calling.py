"""The function through which every plugin method is called.

A cycle carries its own caller (`CycleState.call`), so that the service can time each call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bayplan.framework.status import PluginError

Caller = Callable[..., Any]
"""`(plugin, point, method, *arguments)` -> the method's return value. Raises only PluginError."""


def call(plugin: Any, point: str, method: Callable[..., Any], /, *arguments: Any) -> Any:
    """Call a plugin's method and turn any exception that it raises into a PluginError.

    The watchdog finds the plugin that blocks the event loop by looking for this frame on the stack.
    """
    try:
        return method(*arguments)
    except PluginError:
        raise
    except Exception as error:
        raise PluginError(plugin.name, point, f"{type(error).__name__}: {error}") from error
