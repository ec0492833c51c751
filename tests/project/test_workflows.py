"""The workflows do what you can do on your machine: they call .ci/run and the Makefile, and actionlint accepts them."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = sorted(FOLDER.glob("*.yml"))
EACH = pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)


def jobs_of(path):
    return yaml.safe_load(path.read_bytes())["jobs"].values()


@EACH
def test_only_the_makefile_and_the_script_of_all_checks_are_run(path):
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in jobs_of(path):
        for step in job["steps"]:
            assert ("uses" in step) != ("run" in step), step
            if "run" in step and step["run"] != ".ci/run":
                program, target, *parameters = step["run"].split()
                assert (program, target in targets) == ("make", True), step["run"]
                assert all(re.match(r"[A-Z_]+=", each) for each in parameters if "=" in each)
                # What somebody names a tag or a branch never becomes part of a command.
                assert "${{" not in step["run"]


@EACH
def test_jobs_have_few_rights_and_an_end(path):
    workflow = yaml.safe_load(path.read_bytes())
    assert workflow["permissions"]["contents"] == "read"
    for job in workflow["jobs"].values():
        assert job["timeout-minutes"] <= 120
        if job.get("permissions", {}).get("id-token") == "write":
            assert job["environment"], "somebody approves it"


def test_every_python_that_is_promised_is_tested():
    checks = yaml.safe_load((FOLDER / "checks.yml").read_bytes())["jobs"]
    all_checks = next(step["with"]["python-version"] for step in checks["all"]["steps"] if "with" in step)
    tested = {*all_checks.split(), *checks["tests"]["strategy"]["matrix"]["python"]}
    assert tested == {"3.11", "3.12", "3.13", "3.14"}
    promised = re.findall(r'"Programming Language :: Python :: (3\.\d+)"', (ROOT / "pyproject.toml").read_text())
    assert set(promised) <= tested


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="no actionlint on the PATH")
@EACH
def test_actionlint_accepts_it(path):
    done = subprocess.run(["actionlint", str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
