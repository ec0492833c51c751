"""A thread that works for requests, one step at a time. A step has a time limit, and ends when no request waits.

    worker = Worker("questions", longest=30.0)
    answer = await worker.run(lambda progress: insight.fit(objects, progress=progress))

A step asks its progress now and then, and ends there. One that doesn't is ended wherever it is (see `ending.py`), if
what it has left in an unknown state can be made again.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from bayplan.answers.insight.answers import Progress, QuestionError, Stopped, silent
from bayplan.faces.asking.ending import EndedError, Ending

T = TypeVar("T")

LONGEST = 30.0
"""The most seconds of a question. The next one waits meanwhile."""


class TooLongError(QuestionError):
    """A step that took longer than it may."""


class Worker:
    """The thread and its limit. `longest`: the most seconds of a step.

    Steps own what they use, because there is only this thread for them.
    """

    def __init__(self, name: str, longest: float) -> None:
        self.longest = longest
        self._thread = ThreadPoolExecutor(1, name)
        self._closed = threading.Event()

    async def run(
        self, step: Callable[[Progress], T], tell: Progress = silent, renew: Callable[[], None] | None = None
    ) -> T:
        """Take a step, and end it when the caller is cancelled. See `start`."""
        stop = threading.Event()
        try:
            return await self.start(step, stop=stop, tell=tell, renew=renew)
        finally:
            stop.set()

    def start(
        self,
        step: Callable[[Progress], T],
        *,
        stop: threading.Event,
        late: str = "",
        tell: Progress = silent,
        renew: Callable[[], None] | None = None,
    ) -> asyncio.Future[T]:
        """Take a step when it is its turn. Its result raises what the step raises, and TooLongError.

        `stop`: set when all requests are gone. `late`: the message of TooLongError. `tell`: called with the progress.
        `renew`: makes again what the step uses, if it was ended where that is in an unknown state; without it, a step
        ends only where it asks its progress. All are called in the thread.
        """

        def run() -> T:
            if stop.is_set() or self._closed.is_set():
                raise QuestionError("the request is gone")
            end = time.monotonic() + self.longest
            stopped = False

            def over() -> bool:
                return stop.is_set() or self._closed.is_set() or time.monotonic() > end

            def progress(text: str) -> None:
                nonlocal stopped
                if over():
                    stopped = True
                    raise Stopped
                tell(text)

            try:
                if renew is None:
                    result = step(progress)
                else:
                    with Ending(over):
                        result = step(progress)
            except Stopped:
                stopped = True
            except MemoryError:
                raise QuestionError("it needs more memory than the server may take") from None
            except EndedError:
                stopped = True
                if renew is not None:
                    renew()
            if stopped:  # also if the step has a result with what was known by then
                message = f"it took longer than {self.longest:g} s, which is the server's limit of time"
                raise TooLongError(late or message) from None
            return result

        return asyncio.get_running_loop().run_in_executor(self._thread, run)

    def close(self, last: Callable[[], None] | None = None) -> None:
        """End the step in progress, and drop those that wait. `last`: called in the thread after them."""
        self._closed.set()
        if last is not None:
            self._thread.submit(last)
        self._thread.shutdown(wait=False)
