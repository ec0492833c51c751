"""The decision core and its plugins get the time from their callers. import-linter can't forbid `datetime.now`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src" / "bayplan" / "core"
CORE = ["api", "devices", "cluster", "framework", "plugins", "queue", "scheduling"]
CLOCKS = {"datetime.now", "datetime.utcnow", "datetime.today", "date.today", "get_running_loop().time", "loop.time"}


def clock_reads(text):
    """Every use of a clock: its line and its expression."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute):
            used = ast.unparse(node)
            if used.startswith("time.") or any(used == clock or used.endswith(f".{clock}") for clock in CLOCKS):
                yield node.lineno, used


@pytest.mark.parametrize("package", CORE)
def test_core_package_reads_no_clock(package):
    modules = list((SOURCES / package).rglob("*.py"))
    assert modules
    reads = {
        f"{path.relative_to(SOURCES)}:{line}: {used}"
        for path in modules
        for line, used in clock_reads(path.read_text(encoding="utf-8"))
    }
    assert reads == set()


@pytest.mark.parametrize(
    "text",
    [
        "datetime.now(UTC)",
        "datetime.datetime.now()",
        "date.today()",
        "def f(clock=time.monotonic): pass",
        "asyncio.get_running_loop().time()",
    ],
)
def test_use_of_a_clock_is_found(text):
    assert list(clock_reads(text))


@pytest.mark.parametrize("text", ["handle.now()", "timedelta(seconds=1)", "datetime.fromtimestamp(seconds, UTC)"])
def test_time_from_the_caller_is_allowed(text):
    assert not list(clock_reads(text))
