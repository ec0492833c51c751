"""Profiles what is measured with pyinstrument, an optional dependency.

pyinstrument samples, knows asyncio's tasks, and needs no rights to trace other processes, as py-spy does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

INTERVAL = 0.0005
"""Seconds between samples: a decision takes about 0.1 ms."""


@contextmanager
def profiling(path: Path) -> Iterator[None]:
    """Profile this thread while the context is open, and write a page (.html) or a speedscope file (.json)."""
    pyinstrument: Any = import_module("pyinstrument")
    profiler = pyinstrument.Profiler(interval=INTERVAL, async_mode="disabled")
    profiler.start()
    try:
        yield
    finally:
        profiler.stop()
        renderers: Any = import_module("pyinstrument.renderers")
        renderer = renderers.SpeedscopeRenderer() if path.suffix == ".json" else renderers.HTMLRenderer()
        path.write_text(profiler.output(renderer), encoding="utf-8")


def profiled_module(path: Path) -> list[str]:
    """The arguments of Python that run a module, named after them, under pyinstrument."""
    renderer = "speedscope" if path.suffix == ".json" else "html"
    return ["-m", "pyinstrument", "-r", renderer, "-o", str(path), "-i", str(INTERVAL)]
