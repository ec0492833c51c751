"""The commands of docs/gangs.md work as they are, in a shell."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
@pytest.mark.timeout(400)
def test_the_commands_of_the_page(tmp_path):
    shutil.copytree(ROOT / "deploy", tmp_path / "deploy")
    page = (ROOT / "docs" / "gangs.md").read_text(encoding="utf-8")
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
        stop = [sys.executable, "-m", "bayplan", "cluster", "--stop", "--kubeconfig", "kc.yaml"]
        subprocess.run(stop, cwd=tmp_path, env=environ, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Stopped the cluster of kc.yaml") == 2
    assert len(re.findall(r"^podgroup.scheduling.x-k8s.io/(?:red|blue) +(?!created)", done.stdout, re.MULTILINE)) >= 2
    assert len(re.findall(r"^podgroup.scheduling.k8s.io/(?:red|blue) +(?!created)", done.stdout, re.MULTILINE)) >= 2
