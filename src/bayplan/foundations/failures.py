"""Failures of plugins and of background work: counted, and logged once per distinct failure.

One Failures belongs to one scheduler. A failure costs its own work only; the metric counts each.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import signal
from collections import Counter
from pathlib import Path
from traceback import walk_tb

log = logging.getLogger(__name__)

_LONGEST_TEXT = 500
_PLUGINS = str(Path(__file__).parents[1] / "core" / "plugins")
_CALLERS = (str(Path(__file__).parents[1]), str(Path(importlib.__file__).parent), inspect.__file__, "<frozen")


class Failures:
    """Counts failures by the work that failed and the type of the error; `counts` has these pairs.

    `logged`: whether failures are logged, too.

    `examples`: the first error of each pair, with its message and its line.

    Failures of the same work, type and line are the same. The first one is logged, then the tenth, the hundredth and so
    on.
    """

    def __init__(self, *, logged: bool = True) -> None:
        self._logged = logged
        self.counts: Counter[tuple[str, str]] = Counter()
        self.examples: dict[tuple[str, str], str] = {}
        self._same: Counter[tuple[str, str, str]] = Counter()

    def record(
        self, work: str, error: BaseException, about: object = "", *, message: str = "", expected: bool = False
    ) -> None:
        """Record that work failed.

        `about`: the object that it concerned, for the log. `message` replaces the work and the error in the log. An
        `expected` error is, for example, an invalid reply. Any other error is a bug: the first one is logged with its
        traceback.
        """
        kind = type(error).__name__
        line = _line_of(error)
        self.counts[work, kind] += 1
        if (work, kind) not in self.examples:
            self.examples[work, kind] = f"{described(error)} ({line})" if line else described(error)
        self._same[work, kind, line] += 1
        count = self._same[work, kind, line]
        if not self._logged or count != _power_of_ten(count):
            return
        concerns = f" ({about})" if about else ""
        text = f"{message}{concerns}" if message else f"{work} failed{concerns}: {described(error)}"
        times = f"; {count} times so far" if count > 1 else ""
        log.error("%s%s", text, times, exc_info=None if expected or count > 1 else error)


def described(error: BaseException) -> str:
    """Return the type and the message of an exception, as one line."""
    try:
        text = _line(str(error))
    except BaseException:  # noqa: BLE001 - `__str__` may be a plugin's
        text = "(the message cannot be read)"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def shown(value: object) -> str:
    """Return a value of a plugin's for a message, as one line: its `repr`, or its type if that fails."""
    try:
        return _line(repr(value))
    except BaseException:  # noqa: BLE001 - `__repr__` may be a plugin's
        return f"an object of the type {type(value).__name__}"


def printable(text: str) -> str:
    """Return a text without halves of characters, which no file and no terminal takes, as a plain str."""
    return str.encode(text, errors="backslashreplace").decode()


def _line(text: str) -> str:
    text = " ".join(printable(text).split())
    return f"{text[:_LONGEST_TEXT]}..." if len(text) > _LONGEST_TEXT else text


def drop_callers(error: BaseException) -> bool:
    """Drop the frames that called a plugin from the traceback of the plugin's exception.

    Returns whether there are frames of the plugin. If not, the traceback is unchanged.
    """
    trace = error.__traceback__
    while trace is not None and _calls_plugins(trace.tb_frame.f_code.co_filename):
        trace = trace.tb_next
    if trace is not None:
        error.__traceback__ = trace
    return trace is not None


def is_ctrl_c(error: BaseException) -> bool:
    """Return whether an exception means that the user pressed Ctrl-C.

    A KeyboardInterrupt does, unless the program handles SIGINT itself, as the service does: then code has raised it.
    """
    return isinstance(error, KeyboardInterrupt) and signal.getsignal(signal.SIGINT) is signal.default_int_handler


def _calls_plugins(file: str) -> bool:
    return file.startswith(_CALLERS) and not file.startswith(_PLUGINS)


def _line_of(error: BaseException) -> str:
    """Where an exception was raised, as `file:line`; "" without a traceback."""
    lines = [f"{frame.f_code.co_filename}:{line}" for frame, line in walk_tb(error.__traceback__)]
    return lines[-1] if lines else ""


def _power_of_ten(count: int) -> int:
    """The largest power of ten that is not larger than a positive count."""
    return int(10 ** (len(str(count)) - 1))
