"""Sharing the event loop: a task with much work lets other tasks run every few milliseconds.

Long work on the scheduler's event loop asks here every few steps, so that watches and bindings go on.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

LONGEST_TURN = 0.005
"""Seconds that a task may work before other tasks run."""


class Turn:
    """The time that a task has been working. Call `pause` between the steps of the work.

    `monotonic` returns seconds; tests and tasks on virtual time pass their own.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._began = monotonic()

    def restart(self) -> None:
        """Start a new turn, after the task has waited for something."""
        self._began = self._monotonic()

    def is_over(self) -> bool:
        """Whether the turn has lasted longer than LONGEST_TURN."""
        return self._monotonic() - self._began > LONGEST_TURN

    async def pause(self) -> None:
        """Let other tasks run if the turn is over."""
        if self.is_over():
            await asyncio.sleep(0)
            self.restart()
