"""The commands of docs/provisioning.md work as they are, in a shell."""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(200)
@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl on the PATH")
def test_the_commands_of_the_page(tmp_path):
    for folder in ("deploy", "examples"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    page = (ROOT / "docs" / "provisioning.md").read_text(encoding="utf-8")
    commands = "".join(re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL))
    environ = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    environ |= {"HOME": str(tmp_path), "PATH": f"{Path(sys.executable).parent}{os.pathsep}{environ['PATH']}"}
    # As a person would, but without the port of another scheduler of this machine.
    commands = commands.replace("--provisioning-requests &", "--provisioning-requests --secure-port=0 &")
    with (tmp_path / "stdout").open("w") as stdout, (tmp_path / "stderr").open("w") as stderr:
        # In files: what runs in the background has them open for longer than the shell.
        shell = ["bash", "-eu", "-o", "pipefail", "-c", commands]
        process = subprocess.Popen(
            shell, cwd=tmp_path, env=environ, stdout=stdout, stderr=stderr, start_new_session=True
        )
        try:
            status = process.wait()
        finally:
            stop = [sys.executable, "-m", "bayplan", "cluster", "--stop", "--kubeconfig", "kc.yaml"]
            subprocess.run(stop, cwd=tmp_path, env=environ, capture_output=True, check=False)
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # the scheduler, if a command before its end has failed
    printed = (tmp_path / "stdout").read_text()
    assert status == 0, (tmp_path / "stderr").read_text()
    assert "provisioningrequest.autoscaling.x-k8s.io/train condition met" in printed
    held = re.search(r'^\{"held-0":"(.*)"\}$', printed, re.MULTILINE)
    assert held is not None, printed
    assert sum(map(int, re.findall(r":(\d+)", held[1]))) == 4
    assert re.search(r"^provisioningrequest default/train +4 +0 ", printed, re.MULTILINE), printed
    assert len(re.findall(r"^train-\S+ ", printed, re.MULTILINE)) == 4
