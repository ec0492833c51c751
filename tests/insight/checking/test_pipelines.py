"""The action for GitHub, the job for GitLab and the hook for pre-commit do what they say: their scripts are run."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml
from checked_clusters import WEB, cluster, deployment

from bayplan.insight import Snapshot

ROOT = Path(__file__).parents[3]
ACTION = ROOT / ".github" / "actions" / "check" / "action.yml"
GITLAB = ROOT / "deploy" / "pipelines" / "gitlab-check.yml"
HOOKS = ROOT / ".pre-commit-hooks.yaml"
ENVIRONMENT = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Snapshot.of(cluster()).save("cluster.bayplan")
    (tmp_path / "right.yaml").write_text(yaml.dump(WEB))
    (tmp_path / "two words").mkdir()
    wrong = deployment("large", requests={"cpu": "6", "memory": "1Gi"})
    for file in ("two words/wrong.yaml", "wrong.yaml"):
        (tmp_path / file).write_text(yaml.dump(wrong))
    return tmp_path


def run(shell, script, folder, **environment):
    return subprocess.run(
        [*shell, script], cwd=folder, env=ENVIRONMENT | environment, capture_output=True, text=True, check=False
    )


def acted(folder, **inputs):
    """Run the action as a runner does: all inputs are given to the shell by its environment."""
    action = yaml.safe_load(ACTION.read_text())
    (step,) = (each for each in action["runs"]["steps"] if each.get("id") == "check")
    defaults = {name: each.get("default", "") for name, each in action["inputs"].items()}
    assert set(inputs) <= set(defaults)
    environment = {
        name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda found: (defaults | inputs)[found[1]], value)
        for name, value in step["env"].items()
    }
    assert "${{" not in step["run"]  # inputs in a script would be code
    (folder / "output").touch()
    done = run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c"],
        step["run"],
        folder,
        RUNNER_TEMP=str(folder),
        GITHUB_OUTPUT=str(folder / "output"),
        **environment,
    )
    return done, (folder / "output").read_text()


def test_action_annotates_files_and_writes_sarif(folder):
    done, output = acted(folder, manifests="two words/wrong.yaml\nright.yaml\n", **{"from": "cluster.bayplan"})
    assert done.returncode == 1, done.stderr
    assert "::error file=two words/wrong.yaml,line=1,title=pending%3A deployment shop/large::" in done.stdout
    assert output == "sarif=bayplan.sarif\n"
    (run,) = json.loads((folder / "bayplan.sarif").read_text())["runs"]
    assert run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "two%20words/wrong.yaml"


def test_action_says_why_nothing_was_checked(folder):
    done, output = acted(folder, manifests="none.yaml", **{"from": "cluster.bayplan"})
    assert done.returncode == 2
    assert "::error title=bayplan check::bayplan check: none.yaml: No such file or directory\n" in done.stdout
    assert output == ""
    assert not (folder / "bayplan.sarif").exists()


def gitlab(folder, **inputs):
    """Run the job as GitLab does: its inputs are replaced before YAML is read, and all lines are one script."""
    header, job = GITLAB.read_text().split("\n---\n")
    declared = yaml.safe_load(header)["spec"]["inputs"]
    values = {name: each.get("default", "") for name, each in declared.items()} | {"install": ""} | inputs
    assert set(values) == set(declared)
    text = re.sub(r"\$\[\[ inputs\.(\w+) \]\]", lambda found: json.dumps(values[found[1]]), job)
    (found,) = yaml.safe_load(text).values()
    script = "\n".join(found["script"])
    return found, run(["sh", "-ec"], script, folder, **found["variables"])


def test_job_of_gitlab_reports_tests(folder):
    job, done = gitlab(folder, manifests="wrong.yaml right.yaml", **{"from": "cluster.bayplan"})
    assert done.returncode == 1, done.stderr
    suites = ET.parse(folder / job["artifacts"]["reports"]["junit"]).getroot()
    assert int(suites.get("failures")) == 1
    assert all((folder / path).exists() for path in job["artifacts"]["paths"])
    assert "error: deployment shop/large (wrong.yaml:1): pending" in done.stdout


def test_hook_checks_the_files_that_it_is_given(folder):
    (hook,) = yaml.safe_load(HOOKS.read_text())
    assert hook["language"] == "python"  # pre-commit installs the tree, which has the command
    entry = f'{hook["entry"]} --from cluster.bayplan "$@"'
    for files, status in ((["right.yaml"], 0), (["right.yaml", "wrong.yaml"], 1)):
        done = subprocess.run(
            ["sh", "-c", entry, "hook", *files],
            cwd=folder,
            env=ENVIRONMENT,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == status, done.stderr
