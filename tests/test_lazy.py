"""Packages whose `__init__` runs when a name of them is asked for."""

import subprocess
import sys

import pytest

FIRST = """
print("the package runs")
from lazy_package.client import CLIENT
from lazy_package.inner import VALUE
name = "package"
"""
CLIENT = """
from lazy_package import inner
CLIENT = inner.VALUE
"""


@pytest.fixture
def run(tmp_path):
    """Runs a program next to a package, and returns what it prints."""
    package = tmp_path / "lazy_package"
    package.mkdir()
    (package / "__init__.py").write_text(FIRST)
    (package / "inner.py").write_text("VALUE = 7\n")
    (package / "client.py").write_text(CLIENT)

    def run(program):
        program = f"from bayplan.foundations.lazy import import_lazily\n{program}"
        command = [sys.executable, "-c", program]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.split("\n")[:-1]

    return run


LAZILY = "import_lazily('lazy_package')\n"


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        (f"{LAZILY}from lazy_package.inner import VALUE; print(VALUE)", ["7"]),
        (f"{LAZILY}import lazy_package; print(lazy_package.name)", ["the package runs", "package"]),
        (f"{LAZILY}from lazy_package import name, VALUE; print(name, VALUE)", ["the package runs", "package 7"]),
        (f"{LAZILY}from lazy_package import inner; print(inner.VALUE)", ["the package runs", "7"]),
        (f"{LAZILY}from lazy_package import *; print(name)", ["the package runs", "package"]),
        (f"{LAZILY}import lazy_package; print(hasattr(lazy_package, 'other'))", ["the package runs", "False"]),
        (f"{LAZILY}from lazy_package.client import CLIENT; print(CLIENT)", ["7"]),
        (f"{LAZILY}import lazy_package; print(lazy_package.client.CLIENT)", ["the package runs", "7"]),
        (f"import lazy_package\n{LAZILY}print(lazy_package.name)", ["the package runs", "package"]),
        ("import_lazily('no_such_package'); print('nothing')", ["nothing"]),
    ],
)
def test_package_runs_when_a_name_is_asked_for(run, program, printed):
    assert run(program) == printed


def test_package_runs_once_in_many_threads(run):
    program = f"""{LAZILY}
import lazy_package
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(8) as threads:
    print({{*threads.map(lambda _: lazy_package.name, range(100))}})
"""
    assert run(program) == ["the package runs", "{'package'}"]


def test_lightkube_is_as_always_for_users_of_bayplan(run):
    assert run("import bayplan.core.api.objects; from lightkube.core.client import Client; print(Client.__name__)") == [
        "Client"
    ]
    printed = run(
        "import bayplan.core.api.objects, lightkube; print(lightkube.Client.__name__, len(lightkube.__all__) > 5)"
    )
    assert printed == ["Client True"]


MODULE_ON_USE = """
from bayplan.foundations.lazy import has_run, on_use, run_now
before = list(sys.meta_path)
with on_use():
    from bayplan.core.api import patterns, suggestions
assert sys.meta_path == before
print(has_run(patterns), "bayplan.core.api.patterns" in sys.modules, patterns.__name__)
"""


@pytest.mark.parametrize(
    ("program", "printed"),
    [
        ("patterns.re; print(has_run(patterns), has_run(suggestions))", ["True False"]),
        ("import bayplan.core.api.patterns as again; print(again is patterns, has_run(again))", ["True False"]),
        ("from bayplan.core.api.patterns import re; print(has_run(patterns))", ["True"]),
        ("run_now(patterns); run_now(patterns); print(has_run(patterns))", ["True"]),
        ("print(hasattr(patterns, 'nothing'), has_run(patterns))", ["False True"]),
        ("import bayplan.core.api.times as times; print(has_run(times))", ["True"]),
        (
            "print(type(patterns.__loader__).__name__, patterns.__spec__.loader is patterns.__loader__)",
            ["SourceFileLoader True"],
        ),
    ],
)
def test_module_runs_when_something_of_it_is_used(run, program, printed):
    assert run(f"import sys\n{MODULE_ON_USE}{program}") == ["False True bayplan.core.api.patterns", *printed]
