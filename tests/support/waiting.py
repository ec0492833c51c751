"""Waiting for what sends no notification: other threads and processes, logs, and state that has no event."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from bayplan.testing.observer import PATIENCE as OBSERVER_PATIENCE

PATIENCE = OBSERVER_PATIENCE
"""How long tests wait for an event. It is no limit for what they test, so it suits the busiest machine."""


async def until(condition: Callable[[], Any], *, within: float = PATIENCE, step: float = 0.01) -> Any:
    """Wait until a function or a coroutine function returns something true, and return that.

    `step`: seconds between two calls. Raises TimeoutError after `within` seconds.
    """
    async with asyncio.timeout(within):
        while True:
            found = condition()
            if inspect.isawaitable(found):
                found = await found
            if found:
                return found
            await asyncio.sleep(step)
