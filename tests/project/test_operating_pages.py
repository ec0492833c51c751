"""The blocks about operating Bayplan: commands that end by themselves run in their order, in a fresh folder.

All others are named here, with what they need. `test_project_pages.py` checks the options of all of them.
"""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner
from tests.project.test_hostile_files import CLUSTER

from bayplan.faces.cli import main

ROOT = Path(__file__).parents[2]
NEEDED = {
    "bayplan run": "a cluster; test_cluster_pages.py runs it",
    "bayplan cluster": "ports; test_cluster_pages.py runs it",
    "bayplan extender": "a port; test_cluster_pages.py runs it",
    "bayplan demo": "a terminal; tests/cli/demo run it",
    "kubectl": "a cluster",
    "docker": "a daemon",
    "export": "a shell",
    "mv": "a control plane",
    "cp": "a control plane",
    "make": "binaries of Kubernetes, or a network",
    "git tag": "a release to make",
    "go": "the source of Kubernetes",
    "e2e.test": "the suite of Kubernetes",
    "python3": "a network",
    "pip": "a network",
    "pipx": "a network",
    "uv": "a network",
}
"""Commands that don't end by themselves, or that need more than this machine: what."""


def lines_of(page):
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return [
        line
        for block in re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
        if line.strip() and not line.startswith("#")
    ]


@pytest.mark.parametrize("page", ["devcluster", "deploying", "plugins", "extender", "conformance", "installing"])
def test_commands_of_the_page_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copy(ROOT / "examples/policy/policy.py", "policy.py")
    monkeypatch.syspath_prepend(str(tmp_path))
    Path("dump.json").write_bytes(CLUSTER)
    Path("scheduler.yaml").write_text(
        yaml.safe_dump({"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"})
    )
    for line in lines_of(page):
        if not any(f"{line} ".startswith(f"{command} ") for command in NEEDED):
            command, _, receiver = line.partition(" | ")
            done = CliRunner().invoke(main, shlex.split(command, comments=True)[1:], catch_exceptions=False)
            assert done.exit_code == 0, (line, done.output)
            if receiver.startswith("kubectl apply"):
                assert all(
                    {"apiVersion", "kind", "metadata"} <= each.keys() for each in yaml.safe_load_all(done.stdout)
                )


def test_what_a_command_needs_is_said_of_commands_that_are_there():
    pages = [path.stem for path in ROOT.glob("docs/*.md")]
    lines = [line for page in pages for line in lines_of(page)]
    assert [command for command in NEEDED if not any(f"{line} ".startswith(f"{command} ") for line in lines)] == []
