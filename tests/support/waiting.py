"""Waiting for what sends no notification: other threads and processes, logs, and state that has no event."""

import asyncio
import inspect
import time
from collections.abc import Callable
from typing import Any

from bayplan.testing.observer import PATIENCE as OBSERVER_PATIENCE

PATIENCE = OBSERVER_PATIENCE
"""How long tests wait for an event. It is no limit for what they test, so it suits the busiest machine."""


async def until(condition: Callable[[], Any], *, within: float | None = PATIENCE, step: float = 0.01) -> Any:
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


def eventually(condition: Callable[[], Any], *, within: float = PATIENCE, step: float = 0.01) -> Any:
    """`until` for threads and tests without an event loop: wait until a function returns something true."""
    deadline = time.monotonic() + within
    while not (found := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"nothing true within {within:g} s")
        time.sleep(step)
    return found


async def turns(number: int = 20) -> None:
    """Let all tasks go on until they wait for something. `number`: the most steps that this takes."""
    for _ in range(number):
        await asyncio.sleep(0)


def without_end(progress: Callable[[str], None], said: str = "", *, step: float = 0.001) -> None:
    """A question that never ends by itself: it tells its progress, which raises an error to end it."""
    while True:
        progress(said)
        time.sleep(step)
