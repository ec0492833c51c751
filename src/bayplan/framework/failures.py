"""Failures of plugins: turns what a plugin raises into a PluginError, and logs where it was raised.

The log shows the plugin's own frames once for each place; after that, failures at the place are only counted.
"""

from __future__ import annotations

import dis
import importlib
import logging
from collections import Counter
from pathlib import Path
from traceback import FrameSummary, extract_tb, format_list

from bayplan.framework.status import PluginError

log = logging.getLogger(__name__)

_MOST_PLACES = 1000
_LONGEST_TEXT = 500
_PACKAGE = str(Path(__file__).parents[1])
_IMPORTLIB = str(Path(importlib.__file__).parent)
_RAISE = dis.opmap["RAISE_VARARGS"]

_Place = tuple[str, str, str]
"""What happened, the exception's type, and file with line."""

_counts: Counter[_Place] = Counter()


def failure(plugin: str, point: str, error: BaseException) -> PluginError:
    """Log what a plugin raised at an extension point, and return it as a PluginError of one line.

    Raises `error` itself if it is not the plugin's: the user pressed Ctrl-C.
    """
    return PluginError(plugin, point, log_failure(f"plugin {plugin} failed in {point}", error))


def log_failure(what: str, error: BaseException) -> str:
    """Log that `what` happened because of an exception, and return `described(error)`.

    Raises `error` itself if the user pressed Ctrl-C.
    """
    if pressed_ctrl_c(error):
        raise error
    frames = plugin_frames(error)
    line = line_of(frames)
    problem = described(error)
    place = (what, type(error).__name__, line)
    if len(_counts) >= _MOST_PLACES and place not in _counts:
        _counts.clear()
    _counts[place] += 1
    count = _counts[place]
    if count == 1:
        log.error("%s: %s%s", what, problem, "".join(["\n", *format_list(frames)]).rstrip())
    elif count == 10 ** (len(str(count)) - 1):
        log.error("%s: %s: %d times so far at %s", what, problem, count, line)
    return problem


def forget_failures() -> None:
    """Show the frames of the next failure at each place again, because the plugins are new."""
    _counts.clear()


def described(error: BaseException) -> str:
    """Return the type and the message of an exception, as one line."""
    try:
        text = " ".join(str(error).split())
    except BaseException:  # noqa: BLE001 - `__str__` is the plugin's too
        text = "(the message cannot be read)"
    if len(text) > _LONGEST_TEXT:
        text = f"{text[:_LONGEST_TEXT]}..."
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def plugin_frames(error: BaseException) -> list[FrameSummary]:
    """Return the frames of an exception's traceback from the first one outside this package on.

    For a plugin of this package, these are all frames.
    """
    frames = list(extract_tb(error.__traceback__))
    for index, frame in enumerate(frames):
        if not frame.filename.startswith((_PACKAGE, _IMPORTLIB, "<frozen")):
            return frames[index:]
    return [frame for frame in frames if "framework" not in Path(frame.filename).parts]


def pressed_ctrl_c(error: BaseException) -> bool:
    """Return whether a KeyboardInterrupt was raised by the user's Ctrl-C, not by a `raise` statement."""
    trace = error.__traceback__
    if not isinstance(error, KeyboardInterrupt) or trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    return trace.tb_frame.f_code.co_code[trace.tb_lasti] != _RAISE


def line_of(frames: list[FrameSummary]) -> str:
    """Return `file:line` of the innermost frame that is in the same file as the outermost one; "" without frames."""
    own = [frame for frame in frames if frame.filename == frames[0].filename]
    return f"{own[-1].filename}:{own[-1].lineno}" if own else ""
