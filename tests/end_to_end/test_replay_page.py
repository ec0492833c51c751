"""The commands of docs/replay.md work as they are, in a shell."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
def test_the_commands_of_the_page(tmp_path):
    page = (ROOT / "docs" / "replay.md").read_text(encoding="utf-8")
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    environ = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    environ |= {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"}
    try:
        done = subprocess.run(
            ["bash", "-eum", "-o", "pipefail", "-c", commands],
            cwd=tmp_path,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        stop = [sys.executable, "-m", "bayplan", "cluster", "--stop", "--kubeconfig", "dev.yaml"]
        subprocess.run(stop, cwd=tmp_path, env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "all are the same" in done.stdout
    assert re.search(r"pod default/urgent was placed on node node-\d", done.stdout)
    assert re.search(r"it preempts \d pods? on node node-\d", done.stdout)
    assert "chosen the same node, or one as good" in done.stdout
