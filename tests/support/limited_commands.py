"""Runs commands of `bayplan`, each in a process of its own with a limit of memory, and says what each of them took.

The processes are forked from one that has imported everything, so that a command takes milliseconds.

    with LimitedCommands(2 * 2**30) as commands:
        ran = commands.run("history", "show", "night")
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any, Self

LONGEST = 30
"""Seconds of CPU after which a command is ended."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command did. `seconds`: of CPU. `memory`: the most that it held, in MiB. `status`: -9 if it was killed."""

    status: int
    output: str
    errors: str
    seconds: float
    memory: float


class LimitedCommands:
    """A process that forks commands. `memory`: the most bytes of addresses that each may have."""

    def __init__(self, memory: int) -> None:
        self._memory = memory

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.support.limited_commands", str(self._memory)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate(timeout=LONGEST)

    def run(self, *arguments: object, stdin: str = "") -> Ran:
        """Run a command, and wait for its end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([[str(each) for each in arguments], stdin]) + "\n")
        self._process.stdin.flush()
        return Ran(**json.loads(self._process.stdout.readline()))


def _serve(memory: int) -> None:
    import pyarrow.parquet

    from bayplan.answers.history.sources import audit, k8shark, kwok, simkube, trace
    from bayplan.faces.cli import main
    from bayplan.faces.cli.insight import cluster_options
    from bayplan.insight import Insight
    from bayplan.running.recording import files

    assert all((pyarrow, cluster_options, audit, k8shark, kwok, simkube, trace, Insight, files))
    for line in sys.stdin:
        arguments, given = json.loads(line)
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors, tempfile.TemporaryFile() as feed:
            feed.write(given.encode())
            feed.seek(0)
            began = time.monotonic()
            child = os.fork()
            if not child:
                _become(main, arguments, memory, (feed, output, errors))
            pid, status, usage = os.wait4(child, 0)
            assert pid == child
            assert time.monotonic() >= began
            found = {
                "status": os.waitstatus_to_exitcode(status),
                "output": _text(output),
                "errors": _text(errors),
                "seconds": usage.ru_utime + usage.ru_stime,
                "memory": usage.ru_maxrss / 1024,
            }
        print(json.dumps(found), flush=True)  # noqa: T201 - the reply


def _become(main: Any, arguments: Sequence[str], memory: int, files: Sequence[IO[bytes]]) -> None:
    for number, file in enumerate(files):
        os.dup2(file.fileno(), number)
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (LONGEST, LONGEST))
    signal.alarm(4 * LONGEST)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - the process ends below
    status = 1
    try:
        main(list(arguments), prog_name="bayplan")
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 - what a user would see
        sys.excepthook(*sys.exc_info())
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(status)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read(1_000_000).decode(errors="replace")


if __name__ == "__main__":
    _serve(int(sys.argv[1]))
