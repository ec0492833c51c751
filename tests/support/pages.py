"""Runs the commands of a page as its readers do: pasted in order into a fresh shell, in a folder with an empty home.

    printed = in_a_shell(sh_blocks(page), tmp_path)

Only what belongs to the machine differs: ports are free ones, and kubectl waits for as long as the machine needs.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

LONGEST = 600
"""Seconds after which the commands are ended. It is beyond any machine's needs: what they wait for never comes."""


def sh_blocks(text: str) -> str:
    """The lines of all blocks of commands."""
    return "".join(re.findall(r"^```sh\n(.*?)^```$", text, re.MULTILINE | re.DOTALL))


def on_this_machine(line: str) -> str:
    """A command with free ports, and a wait of kubectl that outlasts a busy machine."""
    line = re.sub(r"\b(bayplan run)\b", r"\1 --secure-port 0", line)
    line = re.sub(r"\b(bayplan .*--port) \d+", r"\1 0", line)
    if re.match(r"kubectl .*\bwait\b", line):
        line = re.sub(r" --timeout \w+", "", line.partition(" #")[0].rstrip()) + f" --timeout {LONGEST}s"
    return line


def in_a_shell(commands: str, folder: Path, **environ: str) -> str:
    """What commands print. They end at the first that fails, which fails the test with what they have printed.

    `environ`: variables beside those of this process. Nothing that they started is left: no cluster, no process.
    """
    variables = {name: value for name, value in os.environ.items() if name != "KUBECONFIG"}
    variables |= {
        "HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}",
        **environ,
    }
    pasted = "\n".join(map(on_this_machine, commands.splitlines()))
    out, errors = folder / "stdout", folder / "stderr"
    with out.open("w") as stdout, errors.open("w") as stderr:
        # In files: what runs in the background holds them open for longer than the shell.
        shell = subprocess.Popen(
            ["bash", "-eux", "-o", "pipefail", "-c", pasted],
            cwd=folder,
            env=variables,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
        )
        try:
            status = shell.wait(LONGEST)
        except subprocess.TimeoutExpired:
            status = None
        finally:  # if a command failed, later ones have stopped neither the clusters nor the schedulers
            for kubeconfig in (*folder.glob("*.yaml"), folder / ".kube" / "config"):
                if kubeconfig.exists() and "current-context: bayplan" in kubeconfig.read_text(encoding="utf-8"):
                    stop = [sys.executable, "-m", "bayplan", "cluster", "--stop", "--kubeconfig", kubeconfig]
                    subprocess.run(stop, cwd=folder, env=variables, capture_output=True, check=False)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
    printed = out.read_text(encoding="utf-8")
    assert status == 0, f"{printed}\n{errors.read_text(encoding='utf-8')}\nthe status is {status}"
    return printed
