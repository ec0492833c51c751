"""Why a decision is not made again: which plugin read something that isn't recorded.

A second replay watches calls of clocks, random generators, the network and files, with the plugin that made them.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

from bayplan.answers.replay.replay import Replay, ReplayDifference
from bayplan.core.config import ExtraPlugin
from bayplan.core.framework.functions import FunctionPlugin
from bayplan.core.framework.interface import Background
from bayplan.core.framework.profile import implements

_CLOCKS = frozenset(
    f"{name}{unit}" for name in ("time", "monotonic", "perf_counter", "process_time") for unit in ("", "_ns")
)
_DATES = frozenset({"datetime.now", "datetime.utcnow", "datetime.today", "date.today"})
_FILES = frozenset({"open", "listdir", "scandir", "stat"})

Reads = dict[str, set[str]]
"""Plugin name -> what it read, such as `the clock (time.time)`."""


@contextmanager
def reads_of(plugins: Iterable[ExtraPlugin]) -> Iterator[Reads]:
    """Find out what plugins read of the world while the context is open: clocks, random numbers, the network, files.

    It sees calls of functions that are written in C, which all of these end in. It makes everything slower.
    """
    files = dict(_files_of(plugins))
    found: Reads = {}

    def called(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call" and (what := _what(argument)) and (name := _caller(frame, files)):
            found.setdefault(name, set()).add(what)

    before = sys.getprofile()
    sys.setprofile(called)
    threading.setprofile(called)  # a replay may need a thread of its own
    try:
        yield found
    finally:
        sys.setprofile(before)
        threading.setprofile(before)


def explained(
    difference: ReplayDifference, replay: Replay, plugins: Sequence[ExtraPlugin], changed: Sequence[str]
) -> ReplayDifference:
    """A difference with its likely causes: `changed`, and what a second replay finds that plugins read."""
    causes = list(changed)
    if plugins:
        with reads_of(plugins) as reads:
            replay.run()
        causes += [
            f"plugin {name} reads {', '.join(sorted(what))}, which is not recorded"
            for name, what in sorted(reads.items())
        ]
        causes += [
            f"plugin {plugin.name} has a background method, whose work a replay doesn't do"
            for profile in replay.profiles.values()
            for plugin in profile.every()
            if plugin.name in {each.name for each in plugins} and implements(plugin, Background)
        ]
    if replay.recording.manifest.redacted:
        causes.append("the recording is redacted: names have another order, and plugins may read what was replaced")
    if not causes:
        causes.append("unknown: something that decisions rest on is not in the recording")
    return replace(difference, causes=tuple(dict.fromkeys(causes)))


def _files_of(plugins: Iterable[ExtraPlugin]) -> Iterator[tuple[str, str]]:
    for plugin in plugins:
        code: Any = plugin.function if isinstance(plugin, FunctionPlugin) else plugin
        if not inspect.isclass(code) and not inspect.isfunction(code):
            code = type(code)
        try:
            yield inspect.getfile(code), plugin.name
        except TypeError:
            continue


def _caller(frame: FrameType | None, files: Mapping[str, str]) -> str:
    """The plugin in whose file the call, or what led to it, was made; "" if that is no plugin's."""
    while frame is not None:
        name = files.get(frame.f_code.co_filename)
        if name is not None:
            return name
        frame = frame.f_back
    return ""


def _what(function: Any) -> str:
    """What a function reads; "" if that is nothing from outside."""
    module, name = getattr(function, "__module__", None) or "", getattr(function, "__qualname__", "")
    if module == "time" and name in _CLOCKS:
        return f"the clock (time.{name})"
    if name in _DATES:
        return f"the clock ({name})"
    if name.startswith(("Random.", "SystemRandom.")) or name in {"urandom", "getrandom"}:
        return "random numbers"
    if name.startswith("socket.") or module == "_socket":
        return "the network"
    if module in {"io", "_io", "posix", "nt"} and name in _FILES:
        return "files"
    return ""
