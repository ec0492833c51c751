"""The functions through which every plugin method is called.

A cycle carries its own caller (`CycleState.call`), so that the service can time each call.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bayplan.core.framework.giving_way import GiveWay
from bayplan.core.framework.status import PluginError

Caller = Callable[..., Any]
"""`(plugin, point, method, *arguments)` -> the method's return value. Raises only PluginError and GiveWay."""


def call(plugin: Any, point: str, method: Callable[..., Any], /, *arguments: Any) -> Any:
    """Call a plugin's method and turn any exception that it raises into a PluginError.

    That includes SystemExit and CancelledError: a method that is not awaited cannot be cancelled. The watchdog finds
    the plugin that blocks the event loop by looking for this frame on
    the stack.
    """
    try:
        return method(*arguments)
    except (PluginError, GiveWay):
        raise
    except BaseException as error:
        raise PluginError.of(plugin.name, point, error) from error


async def wait_for(plugin: Any, point: str, answer: Awaitable[Any]) -> Any:
    """Await what a plugin's method returned, and turn any exception that it raises into a PluginError.

    Propagates PluginError and the cancellation of the current task.
    """
    try:
        return await answer
    except PluginError:
        raise
    except BaseException as error:
        if is_ending(error):
            raise
        raise PluginError.of(plugin.name, point, error) from error


def is_ending(error: BaseException) -> bool:
    """Return whether an exception from an awaitable ends the current task or coroutine.

    If not, it is an error of the awaitable. A plugin that cancels its own task can't be distinguished from a
    cancellation by another task.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    # GeneratorExit: `close` was called. It is raised in the awaiting frame itself, not below it.
    return isinstance(error, GeneratorExit) and (error.__traceback__ is None or error.__traceback__.tb_next is None)


def is_cancellation(error: BaseException) -> bool:
    """Return whether an exception is the cancellation of a task."""
    return isinstance(error, asyncio.CancelledError)
