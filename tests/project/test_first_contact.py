"""The first commands of the README work as they are, pasted in order into a fresh shell."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
AFTER_MAKE = "source .venv/bin/activate\n"
"""What comes before needs no test here: the targets of the Makefile have their own."""
BEFORE = "## Run it on a cluster"
"""From here on, the commands are for a cluster of the reader's."""


def first_commands() -> str:
    text = README.partition(BEFORE)[0].partition(AFTER_MAKE)[2]
    return "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
@pytest.mark.timeout(400)
def test_the_first_commands_of_the_readme(tmp_path):
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    own = str(Path(sys.executable).parent)
    environ = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    environ |= {"HOME": str(tmp_path), "PATH": f"{own}{os.pathsep}{environ['PATH']}"}
    try:
        done = subprocess.run(
            ["bash", "-eu", "-o", "pipefail", "-c", first_commands()],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    finally:  # if a command failed, later ones have not stopped the clusters
        for arguments in ((), ("--kubeconfig", "dev.yaml")):
            stop = [sys.executable, "-m", "bayplan", "cluster", "--stop", *arguments]
            subprocess.run(stop, cwd=tmp_path, env=environ, capture_output=True, check=False)
    assert "Insufficient cpu: lacks 2" in done.stdout
    assert re.search(r"default/urgent  preempts  node-\d  +default/api-\w+-\w+\n", done.stdout)
    assert re.search(r"it evicted pods default/batch-\S+ default/batch-\S+ from node (node-\d) .*\n", done.stdout)
    assert re.search(r"pod default/urgent: it was placed on node node-\d\n", done.stdout)
    assert "what would help (each was tried)" in done.stdout
    assert "pod/tiered condition met" in done.stdout
    assert 'deployment "nginx" successfully rolled out' in done.stdout
    printed = {line.rstrip() for line in done.stdout.splitlines()}
    shown = re.findall(r"^```text\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    assert [len(block.splitlines()) for block in shown] == [5, 16]
    assert [line for block in shown for line in block.splitlines() if line not in printed] == []
    assert not (tmp_path / ".kube" / "config").exists()  # kubectl has its former context, which is none
