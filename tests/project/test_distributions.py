"""`make dist` builds a complete wheel. In an empty environment, it installs, runs the demo and creates projects."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src"
BUILD = "-m build --no-isolation"
"""What `make dist` runs. It builds the wheel from the source archive, which must be complete for that."""
NO_INDEX = re.compile(r"No matching distribution|Connection|Temporary failure|timed out", re.IGNORECASE)
PIP = "-m pip --disable-pip-version-check --no-input"


def run(program, arguments, *more, cwd, home=None):
    """The finished process. It doesn't see the sources that run the tests."""
    environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
    environment["PATH"] = f"{Path(program).parent}:{environment['PATH']}"
    if home is not None:
        environment["HOME"] = str(home)
    command = [str(program), *arguments.split(), *map(str, more)]
    return subprocess.run(command, cwd=cwd, env=environment, capture_output=True, text=True, check=False)


def succeeded(done):
    assert done.returncode == 0, f"{' '.join(done.args)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("dist")
    succeeded(run(sys.executable, BUILD, "--outdir", folder, ROOT, cwd=folder))
    assert len(list(folder.glob("bayplan-*.tar.gz"))) == 1
    (path,) = folder.glob("bayplan-*.whl")
    return path


def test_make_dist_runs_the_tested_command():
    assert f"$(BIN)/python {BUILD}\n" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_wheel_contains_every_file_of_the_package(wheel):
    files = {path for path in SOURCES.rglob("*") if path.is_file() and path.parent.name != "__pycache__"}
    with zipfile.ZipFile(wheel) as archive:
        packed = {name for name in archive.namelist() if not name.startswith("bayplan-")}
    assert packed == {path.relative_to(SOURCES).as_posix() for path in files}


@pytest.mark.timeout(300)
def test_installed_wheel_runs_the_demo_and_creates_a_project_that_installs(wheel, tmp_path):
    succeeded(run(sys.executable, "-m venv", tmp_path / "venv", cwd=tmp_path))
    python, bayplan = (tmp_path / "venv" / "bin" / name for name in ("python", "bayplan"))
    locked = ROOT / "requirements" / "runtime.txt"
    done = run(python, f"{PIP} install --no-compile --require-hashes --requirement", locked, cwd=tmp_path)
    if done.returncode and NO_INDEX.search(done.stderr):
        pytest.skip(f"needs a package index: {done.stderr.strip().splitlines()[-1]}")
    succeeded(done)
    # The locked requirements are all that the wheel needs.
    succeeded(run(python, f"{PIP} install --no-index", wheel, cwd=tmp_path))

    (tmp_path / "home").mkdir()
    summary = succeeded(run(bayplan, "demo", cwd=tmp_path, home=tmp_path / "home"))
    assert "✓ the 100 pods of crowd are bound" in summary

    succeeded(run(bayplan, "new my-scheduler", cwd=tmp_path))
    project = tmp_path / "my-scheduler"
    _, install, test = re.search(r"```sh\n(.*?)```", (project / "README.md").read_text(), re.DOTALL)[1].splitlines()
    # A new environment has no Bayplan: the command must find it where this one was installed from.
    succeeded(run(python, f"{PIP} uninstall --yes bayplan", cwd=tmp_path))
    shell = f"PATH={python.parent}:$PATH; {install} && {test} --collect-only"
    assert re.search(r"\b1\d tests collected", succeeded(run("/bin/bash", "-c", shell, cwd=project)))
