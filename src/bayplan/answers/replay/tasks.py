"""Work that goes on beside attempts, stepped by the entries of a recording instead of an event loop.

Where the recorded scheduler waited for something outside, a replay waits for the entry that says how that ended.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Coroutine, Generator
from typing import Any

_MOST_STEPS = 10_000
"""Steps without an entry after which work counts as endless."""


class ReplayedTask:
    """A coroutine that is stepped. `inner`: PreBind, while that runs for a binding cycle."""

    def __init__(self, tasks: ReplayedTasks, work: Coroutine[Any, Any, Any]) -> None:
        self.inner: ReplayedTask | None = None
        self.ended = False
        self.result: Any = None
        self.error: Exception | None = None
        self._tasks = tasks
        self._work = work
        self._at: Any = None
        """What the work waits for: an `_Awaited`, or a future of asyncio."""
        self._inbox: defaultdict[type, deque[Any]] = defaultdict(deque)

    def step(self) -> None:
        """Let the work go on until it waits for an entry, or ends."""
        before, self._tasks.current = self._tasks.current, self
        try:
            for _ in range(_MOST_STEPS):
                try:
                    self._at = self._work.send(None)
                except StopIteration as end:
                    self.ended, self.result = True, end.value
                    return
                except Exception as error:  # noqa: BLE001 - it is the work's, and is raised where the work is awaited
                    self.ended, self.error = True, error
                    return
                if isinstance(self._at, _Awaited) or (isinstance(self._at, asyncio.Future) and not self._at.done()):
                    return
        finally:
            self._tasks.current = before

    def deliver(self, kind: type, value: Any) -> None:
        """Give the work an entry. A timer that it waits for has ended by now."""
        self._inbox[kind].append(value)
        if self.ended:
            return
        if isinstance(self._at, asyncio.Future) and not self._at.done():
            self._at.set_result(None)
        self.step()

    def next(self, kind: type) -> Any:
        """The next entry of a kind; None if it hasn't come."""
        inbox = self._inbox[kind]
        return inbox.popleft() if inbox else None

    def close(self) -> None:
        """End the work."""
        if not self.ended:
            self.ended = True
            self._work.close()


class ReplayedTasks:
    """The work of a replay, by number. `current`: the one that is being stepped."""

    def __init__(self) -> None:
        self.current: ReplayedTask | None = None
        self._count = 0
        self._running: dict[int, ReplayedTask] = {}

    def begin_at(self, number: int) -> None:
        """Give the next work this number."""
        self._count = number

    def add(self, work: Coroutine[Any, Any, Any]) -> None:
        """Add work, which has the next number."""
        self._running[self._count] = ReplayedTask(self, work)
        self._count += 1

    def get(self, number: int) -> ReplayedTask | None:
        """Work that has not ended."""
        return self._running.get(number)

    def drop_ended(self, number: int) -> None:
        """Forget work that has ended."""
        task = self._running.get(number)
        if task is not None and task.ended:
            del self._running[number]

    async def entry(self, kind: type) -> Any:
        """Wait for the next entry of a kind for the work that calls this."""
        assert self.current is not None
        return await _Awaited(self.current, kind)

    def close(self) -> None:
        """End all work."""
        for task in self._running.values():
            if task.inner is not None:
                task.inner.close()
            task.close()


class _Awaited:
    def __init__(self, task: ReplayedTask, kind: type) -> None:
        self._task = task
        self._kind = kind

    def __await__(self) -> Generator[Any, Any, Any]:
        while True:
            value = self._task.next(self._kind)
            if value is not None:
                return value
            yield self
