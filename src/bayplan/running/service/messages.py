"""Writes why pods are pending that share the attempts of another pod."""

from __future__ import annotations

import asyncio

from bayplan.core.executor.ports import UNSCHEDULABLE, Statuses
from bayplan.core.queue import SchedulingQueue

_PER_SECOND = 50
_IDLE_SECONDS = 0.5


async def write_messages(queue: SchedulingQueue, statuses: Statuses) -> None:
    """Write new messages until cancelled.

    One attempt can change the message of thousands of pods, several times a second. Their conditions are written at a
    bounded rate, so that they take no time from other pods. Each gets the latest message when its turn comes.
    """
    while True:
        queued = queue.groups.update_message()
        if queued is not None:
            statuses.not_scheduled(queued.pod, UNSCHEDULABLE, queued.message)
        await asyncio.sleep(_IDLE_SECONDS if queued is None else 1 / _PER_SECOND)
