"""Ends work in a thread that doesn't end by itself: a question that is in a long step, or a plugin that hangs.

Questions ask their progress between steps, and end there. A step may take long, though: a parser, a sort, a method of a
plugin. What is over for a while is ended wherever it is, by an exception that CPython raises in the thread. What the
work was changing is in an unknown state then, so its owner makes it again.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

GRACE = 1.0
"""Seconds after which work is ended that doesn't ask its progress."""
_POLL = 0.1


class EndedError(BaseException):
    """Raised in a thread whose work has to end now. Not an Exception, so that few catch it."""


class Ending:
    """Ends the work of this thread while it is entered, some time after `over` says that it has to end.

    An EndedError that it raises reaches the code that has entered it; what catches it meanwhile gets another one.
    """

    def __init__(self, over: Callable[[], bool], grace: float = GRACE) -> None:
        self._over = over
        self._grace = grace
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._left = threading.Event()

    def __enter__(self) -> Self:
        threading.Thread(target=self._watch, name="ending", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while True:
            try:
                with self._lock:
                    self._left.set()
                # One that was raised just now arrives at the next turn of a loop. It isn't taken back: CPython 3.11
                # would remember that there is one for a thread, and all threads would look for it from then on.
                for _ in range(2):
                    pass
                return
            except EndedError:
                continue

    def _watch(self) -> None:
        waited, pause = 0.0, _POLL
        while not self._left.wait(pause):
            waited += pause if self._over() else 0.0
            if waited >= self._grace:
                pause = self._grace
                with self._lock:
                    if not self._left.is_set():
                        ctypes.pythonapi.PyThreadState_SetAsyncExc(
                            ctypes.c_ulong(self._thread), ctypes.py_object(EndedError)
                        )
