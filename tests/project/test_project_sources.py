"""Rules of CONTRIBUTING.md that ruff and import-linter can't check."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULES = [*SOURCES, *sorted((ROOT / "examples").glob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
NAMELESS = {"utils", "util", "common", "helpers", "helper", "base", "misc"}
LONGEST = 450
"""Lines; CONTRIBUTING.md says about 400."""
NAMED_TWICE = {
    "Deployment",  # the answer of a question, and the kind
    "Eligibility",  # of nodes for a spread constraint, and for a DaemonSet
    "EventRecorder",  # the scheduler's, and the controllers'
    "Limits",  # of an HTTP server, and of questions
    "Place",  # of a value in an object, and of a pod in the queue
    "PodState",  # what a queue holds of a pod, and the plugin
    "PodGroupSpec",  # as the API serves it, and as it is decided by
    "Request",  # of HTTP, and of devices
    "Step",  # of a history, and of a recorded scenario
    "TopologyConstraint",  # as the API serves it, and as it is decided by
    "Usage",  # of the cluster, and of a tally
    "WhatIf",  # an answer, and the protocol of plugins
    "Workload",  # the kind, that of a controller, and that of a benchmark
}
"""Public classes of the same name in places that don't meet, with their meanings."""


def short(path):
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", MODULES, ids=short)
def test_file_is_short_and_has_a_docstring(path):
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= LONGEST
    docstring = ast.get_docstring(ast.parse(text))
    assert docstring
    if path in SOURCES and path.name != "__init__.py":
        assert len(docstring.splitlines()) <= 12
    assert path.stem not in NAMELESS
    assert not NAMELESS & set(path.relative_to(ROOT).parts)


def test_plugins_of_scheduler_plugins_stay_small():
    """The originals' 20,000 lines are no model."""
    lines = {
        path: path.read_text(encoding="utf-8").count("\n") for path in (ROOT / "src/bayplan_plugins").rglob("*.py")
    }
    assert sum(lines.values()) <= 6000
    assert max(lines.values()) <= 400


def test_modules_that_docstrings_name_exist():
    """The head of a module leads to others: by their whole name, or by the name of a file in its package."""
    heads = {path: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "" for path in SOURCES}
    modules = [(path, name) for path, head in heads.items() for name in re.findall(r"`(bayplan(?:\.[a-z]\w*)+)`", head)]
    files = [(path, name) for path, head in heads.items() for name in re.findall(r"`([\w/]+\.py)`", head)]
    assert len(modules) > 50
    assert [(short(path), name) for path, name in modules if not is_module(name)] == []
    assert [(short(path), name) for path, name in files if not is_near(path, name)] == []


def is_module(name):
    path = ROOT / "src" / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").is_file()


def is_near(path, name):
    """Whether a file is in a module's package, in the package around it, or in a package in it."""
    return any((folder / name).is_file() for folder in (path.parent, path.parents[1])) or any(path.parent.rglob(name))


@pytest.mark.parametrize("path", sorted((ROOT / "benchmarks").glob("*.py")), ids=short)
def test_benchmark_can_be_imported(path, monkeypatch):
    monkeypatch.syspath_prepend(path.parent)  # as when it is run
    assert importlib.import_module(f"benchmarks.{path.stem}").__doc__


def test_test_files_have_distinct_names():
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, count in names.items() if count > 1] == []


def test_classes_have_distinct_names():
    names = Counter(
        node.name
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert {name for name, count in names.items() if count > 1} == NAMED_TWICE


def test_no_file_contains_the_path_of_the_clone():
    if len(ROOT.parts) < 3:
        pytest.skip(f"{ROOT} could be part of any other path")
    tracked = subprocess.run(
        ["git", "grep", "--files-with-matches", "--fixed-strings", f"{ROOT}/"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if tracked.returncode > 1:
        pytest.skip(f"not a clone: {tracked.stderr.strip()}")
    assert tracked.stdout == ""


@pytest.mark.parametrize("name", ["build", "dev", "history", "runtime"])
def test_requirements_are_pinned_with_hashes_and_name_no_registry(name):
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    assert "://" not in text
    pinned = re.findall(r"^([\w.-]+)==\S+.*?((?:\n {4}--hash=\S+.*)+)", text, re.MULTILINE)
    assert len(pinned) == len(re.findall(r"^[\w.-]+\b", text, re.MULTILINE)) > 0


def test_every_dependency_is_pinned():
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)
    for name, wanted in (
        ("runtime", project["project"]["dependencies"]),
        ("dev", [*project["project"]["dependencies"], *project["dependency-groups"]["dev"]]),
    ):
        text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8").lower()
        pinned = set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE))
        assert {re.match(r"[\w.-]+", each)[0].lower() for each in wanted} <= pinned


@pytest.mark.parametrize("failing", ["step true\nstep sh -c 'exit 7'", "beside sh -c 'exit 7'\nstep true\nfinish"])
def test_ci_script_stops_at_the_first_failure_and_names_it(failing):
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    steps = re.findall(r"^(?:step|beside) (.*)", script, re.MULTILINE)
    every_check = ["install", "conformance", "demo", "dist-twice", "lint", "test", "site"]
    assert [step for step in steps if "oldest" in step] == [f'"${{oldest[@]}}" {target}' for target in every_check]
    assert script.index("\nfinish\n") > script.rindex("\nbeside ")
    assert [step for step in steps if step.startswith('"${newest[@]}" test')]
    trial = re.sub(r"^((step|beside) .*|finish)\n", "", script, flags=re.MULTILINE)
    trial = trial.replace("printf '\\n==> all passed", f"{failing}\nstep echo unreachable\nprintf '\\n==> all passed")
    done = subprocess.run(["bash", "-c", trial, ".ci/run"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 7
    assert "FAILED with status 7" in done.stdout + done.stderr
    assert "unreachable" not in done.stdout


ABOUT = {"pod": {"about_pod", "pod_named", "_about", "preemptor"}, "node": {"about_node", "node"}}
"""The functions and variables whose values may follow these words in a log message."""


def log_calls(path):
    """Yield the line, the message and the arguments of every log call in a module."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and re.match(r"(log|logger)\.(?!isEnabled)", ast.unparse(node.func)):
            constants = [index for index, each in enumerate(node.args) if isinstance(each, ast.Constant)]
            if constants:
                message = node.args[constants[0]].value
                yield node.lineno, message, [ast.unparse(each) for each in node.args[constants[0] + 1 :]]


@pytest.mark.parametrize("package", ["scheduling", "queue", "service", "extender"])
def test_log_lines_pass_pods_and_nodes_as_fields(package):
    wrong = []
    for path in SOURCES:
        if package in path.parts:
            for line, message, arguments in log_calls(path):
                words = re.findall(r"(\w*) ?%[^%]", message)
                for word, argument in zip(words, arguments, strict=False):
                    called = argument.partition("(")[0]
                    if word in ABOUT and called not in ABOUT[word]:
                        wrong.append(f"{short(path)}:{line}: {argument}")
    assert wrong == []
