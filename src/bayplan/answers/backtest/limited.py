"""Runs work that calls a candidate's plugins in a process with limits, because a plugin may do anything.

A method that never returns can't be ended in the process that calls it, and one that takes all memory ends that
process. So the work runs in a fork, which has the plugins that were loaded. In it, a thread looks at the stack: code of
a plugin that stays in one call for too long is named, with its file and line.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from bayplan.answers.backtest.errors import BacktestError
from bayplan.answers.history.format import HistoryError
from bayplan.answers.simulation.models.parameters import ParametersError
from bayplan.core.config import ConfigurationError, PluginLoadError

T = TypeVar("T")
Progress = Callable[[str], None]

CALL_SECONDS = 30.0
"""Seconds that one call of a plugin may take, unless an option says otherwise."""
MEMORY_MIB = 4096
"""MiB that a process may take when it begins, unless an option says otherwise."""
_LOOKS = 4
"""How often the stack is looked at while a call may last."""
_POLL = 0.25
_SLACK = 10.0
"""Seconds after which a process is ended that doesn't even look at its stack, as code in C may keep it from that."""
_OURS = (str(Path(__file__).parents[2]), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"), "<")


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Of a process that runs a candidate's plugins. `call_seconds`: of one call of a plugin."""

    call_seconds: float = CALL_SECONDS
    memory_mib: int = MEMORY_MIB


def run_limited(work: Callable[[Progress], T], limits: RunLimits, progress: Progress = lambda _: None) -> T:
    """Run work in a process with limits. `progress` is called here. The result is sent by pickle.

    Raises BacktestError with one line about work that fails, takes too long or needs too much memory.
    """
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=_Child(work, limits, sending).run)
    process.start()
    sending.close()
    try:
        found: T = _received(receiving, limits, progress)
        return found
    finally:
        receiving.close()
        _end(process.pid or 0)
        process.kill()
        process.join()


def limit_memory(mib: int = MEMORY_MIB) -> None:
    """Let this process take at most so many MiB more. What takes more raises MemoryError.

    For a server: it has threads, so it can't fork, and a plugin that takes all memory would end it for everyone.
    """
    most = _addresses() + mib * 2**20
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def can_fork() -> bool:
    """Whether a fork is possible, and certain to go on: a lock that another thread holds stays locked in it."""
    return "fork" in multiprocessing.get_all_start_methods() and threading.active_count() == 1


def _received(receiving: Connection, limits: RunLimits, progress: Progress) -> Any:
    heard, known = time.monotonic(), ""
    while True:
        if not receiving.poll(_POLL):
            if time.monotonic() - heard > limits.call_seconds + _SLACK:
                raise BacktestError(f"a plugin has not returned for {limits.call_seconds:g} s from code in C")
            if known:
                progress(known)  # which may raise Stopped
            continue
        heard = time.monotonic()
        try:
            what, value = receiving.recv()
        except EOFError:
            raise BacktestError("the process with the candidate's plugins was ended, perhaps for its memory") from None
        if what == "found":
            return value
        if what == "failed":
            raise BacktestError(value)
        if what == "progress":
            known = str(value)
            progress(known)


def _end(process: int) -> None:
    """End a process with those that it has started."""
    try:
        os.killpg(process, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


class _Child:
    """The process that runs the work."""

    def __init__(self, work: Callable[[Progress], Any], limits: RunLimits, sending: Connection) -> None:
        self._work = work
        self._limits = limits
        self._sending = sending
        self._lock = threading.Lock()

    def run(self) -> None:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this process
        limit_memory(self._limits.memory_mib)
        threading.Thread(target=self._watch, args=(threading.get_ident(),), daemon=True).start()
        try:
            self._send("found", self._work(lambda text: self._send("progress", text)))
        except (BacktestError, HistoryError, ConfigurationError, PluginLoadError, ParametersError) as error:
            self._send("failed", str(error))
        except MemoryError:
            self._send("failed", f"it needs more than {self._limits.memory_mib:,} MiB of memory")
        except BaseException as error:  # noqa: BLE001 - the parent reports it, whatever a plugin raises
            self._send("failed", f"{type(error).__name__}: {' '.join(str(error).split())}")
        os._exit(0)

    def _send(self, what: str, value: object) -> None:
        with self._lock:
            self._sending.send((what, value))

    def _watch(self, main: int) -> None:
        """Look whether one call of a plugin takes too long, and tell the parent that the process is alive."""
        seen: FrameType | None = None
        since = time.monotonic()
        while True:
            time.sleep(self._limits.call_seconds / _LOOKS)
            called = next(_of_plugins(sys._current_frames().get(main)), None)  # noqa: SLF001 - it is documented
            if called is not seen:
                seen, since = called, time.monotonic()
            elif called is not None and time.monotonic() - since >= self._limits.call_seconds:
                code = called.f_code
                place = f"{code.co_qualname} ({code.co_filename}, line {called.f_lineno})"
                self._send("failed", f"{place} has not returned for {self._limits.call_seconds:g} s")
                return
            self._send("alive", None)


def _addresses() -> int:
    """The bytes of addresses that this process has: libraries reserve some that they never use."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
    except (OSError, ValueError):
        return 2**30  # another system than Linux


def _of_plugins(frame: FrameType | None) -> Iterator[FrameType]:
    """The outermost frame below `_Child.run` that is neither of Bayplan nor of a library, if there is one."""
    found = None
    while frame is not None and frame.f_code is not _Child.run.__code__:
        if not frame.f_code.co_filename.startswith(_OURS):
            found = frame
        frame = frame.f_back
    if found is not None and frame is not None:
        yield found
