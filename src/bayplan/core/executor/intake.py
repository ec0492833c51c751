"""Intake: the only way in which watch events, and the results of bindings, change the state.

Changes are applied in the order in which they come, on the scheduler's event loop. While an attempt holds the intake,
they wait. So no attempt sees the state change, and a reader in `look` never sees a what-if.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from bayplan.core.executor.ports import Measures

log = logging.getLogger(__name__)

T = TypeVar("T")


class Intake:
    """Applies changes to the state and the queue, in order; while an attempt holds it, changes wait.

    `wake` is called after every change, because the loop may have work to do. `measures` records how long each took.
    """

    def __init__(self, wake: Callable[[], None], measures: Measures | None = None) -> None:
        self._wake = wake
        self._measures = measures
        self._holders = 0
        self._applying = False
        self._afterwards: list[Callable[[], None]] = []
        self._waiting: deque[Callable[[], None]] = deque()

    def take(self, event: str, change: Callable[..., None], *arguments: Any) -> None:
        """Apply a change now, or once the intake is released. `event` names the change in metrics."""
        if self._holders:
            self._waiting.append(lambda: self._apply(event, change, *arguments))
        else:
            self._apply(event, change, *arguments)
            self._wake()

    def afterwards(self, step: Callable[[], None]) -> None:
        """Call `step` once the change that is being applied is complete; at once if there is none."""
        if self._applying:
            self._afterwards.append(step)
        else:
            step()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Make changes wait until every holder has released the intake."""
        self._holders += 1
        try:
            yield
        finally:
            self._holders -= 1
            if not self._holders:
                self._release()

    async def look(self, look: Callable[[], T]) -> T:
        """Return `look()`, called while no attempt holds the intake, so that it sees no what-if."""
        if not self._holders:
            return look()
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def look_now() -> None:
            if not answer.done():
                try:
                    answer.set_result(look())
                except Exception as error:  # noqa: BLE001 - it is raised in the caller
                    answer.set_exception(error)

        self._waiting.append(look_now)
        return await answer

    def _release(self) -> None:
        while self._waiting:
            try:
                self._waiting.popleft()()
            except Exception:
                log.exception("a change that waited for the end of an attempt could not be applied")
        self._wake()

    def _apply(self, event: str, change: Callable[..., None], *arguments: Any) -> None:
        measures = self._measures
        began = 0.0 if measures is None else measures.now()
        outermost, self._applying = not self._applying, True
        try:
            change(*arguments)
        finally:
            if outermost:
                self._applying = False
                while self._afterwards:
                    self._afterwards.pop()()
        if measures is not None:
            measures.handled(event, began)
