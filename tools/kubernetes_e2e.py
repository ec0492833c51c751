"""Runs the [sig-scheduling] specs of Kubernetes' e2e suite on an embedded cluster with Bayplan as its scheduler.

    python tools/kubernetes_e2e.py /path/to/e2e.test [runs [version]]

Each run has a new cluster, of that version of Kubernetes: 1.36, or 1.37 with the specs of 1.36 that apply to it. Prints
each spec with its result, and the suite's summary; all output goes to a log file. The exit status is 1 if a run fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

FOCUS = r"\[sig-scheduling\]"
START_SECONDS = 30.0
SKIPPED = {"1.37": r"(Workload|PodGroup) API availability"}
"""By version, the specs that use an API version which it doesn't serve."""
SHOWN = re.compile(r"^(• |Ran \d+ of|(SUCCESS|FAIL)! --|\s*\[FAIL)|^\[sig-scheduling\]")
"""The lines of the suite's output that are printed."""


def main(arguments: list[str]) -> int:
    """Run the suite. Returns the exit status."""
    if not arguments or not arguments[0]:
        click.echo("skipped: set E2E_TEST to the e2e.test binary of Kubernetes 1.36, see docs/conformance.md")
        return 0
    path, count, version, *_ = [*arguments, "", ""]
    suite, runs, version = Path(path), int(count or 1), version or "1.36"
    if not suite.is_file():
        click.echo(f"E2E_TEST names {suite}, which is not a file", err=True)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="bayplan-e2e-"))
    failed = 0
    for number in range(1, runs + 1):
        kubeconfig, log = folder / f"kubeconfig-{number}", folder / f"run-{number}.log"
        click.echo(f"run {number} of {runs}; all output is in {log}")
        cluster = "cluster", "--pod-groups", "--emulated-version", version, "--kubeconfig", kubeconfig
        with background(folder / f"cluster-{number}.log", *cluster):
            wait_for(kubeconfig)
            options = ("--scheduler-name", "default-scheduler", "--leader-elect=false", "--secure-port", "0")
            with background(folder / f"scheduler-{number}.log", "run", "--kubeconfig", kubeconfig, *options):
                failed += run(suite, kubeconfig, log, SKIPPED.get(version, "")) != 0
    return 1 if failed else 0


def run(suite: Path, kubeconfig: Path, log: Path, skip: str) -> int:
    """Run the suite once, without the specs that `skip` matches. Returns its exit status."""
    options = ["-provider=skeleton", f"-kubeconfig={kubeconfig}", f"-ginkgo.focus={FOCUS}", "-ginkgo.v"]
    if skip:
        options.append(f"-ginkgo.skip={skip}")
    with (
        log.open("w") as output,
        subprocess.Popen(  # noqa: S603 - the program that the user named
            [suite, *options, "-ginkgo.no-color"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process,
    ):
        for line in process.stdout or ():
            output.write(line)
            if SHOWN.search(line):
                click.echo(line.rstrip())
    return process.returncode


@contextmanager
def background(log: Path, *arguments: str | Path) -> Iterator[None]:
    """Run a command of Bayplan until the end of the block."""
    with log.open("w") as output:
        process = subprocess.Popen(  # noqa: S603 - Bayplan itself
            [sys.executable, "-m", "bayplan", *arguments], stdout=output, stderr=output
        )
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def wait_for(path: Path) -> None:
    """Wait until the cluster has written its kubeconfig. Raises TimeoutError."""
    deadline = time.monotonic() + START_SECONDS
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"the cluster has not started within {START_SECONDS:g} s: see its log next to {path}")
        time.sleep(0.1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
