"""Profiles what is measured with pyinstrument, an optional dependency.

pyinstrument samples, follows no other threads, and needs no rights to trace other processes, as py-spy does. To profile
`bayplan run`, run this module instead of `bayplan`:

    python -m bayplan.benchmarking.profiling FILE run ...
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bayplan.foundations.file_replacement import replace_text
from bayplan.foundations.lazy import library

INTERVAL = 0.0005
"""Seconds between samples: a decision takes about 0.1 ms."""


@contextmanager
def profiling(path: Path) -> Iterator[None]:
    """Profile this thread while the context is open, and write a page (.html) or a speedscope file (.json)."""
    pyinstrument: Any = library("pyinstrument")
    profiler = pyinstrument.Profiler(interval=INTERVAL, async_mode="disabled")
    profiler.start()
    try:
        yield
    finally:
        profiler.stop()
        renderers: Any = library("pyinstrument.renderers")
        renderer = renderers.HTMLRenderer()
        if path.suffix == ".json":
            renderer = renderers.SpeedscopeRenderer()
            # Without this, each call is a frame of its own, and is left out because it is so short.
            processors: Any = library("pyinstrument.processors")
            renderer.processors.insert(0, processors.aggregate_repeated_calls)
        replace_text(path, profiler.output(renderer))


def profiled_bayplan(path: Path) -> list[str]:
    """The arguments of Python that run `bayplan`, whose arguments follow, while it is profiled."""
    return ["-m", "bayplan.benchmarking.profiling", str(path)]


def main(path: str, *arguments: str) -> None:
    """Run `bayplan` with these arguments, and write its profile."""
    sys.argv = ["bayplan", *arguments]
    with profiling(Path(path)):
        runpy.run_module("bayplan", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
