#!/usr/bin/env python3
"""Measures how much CPU time `bayplan run` takes until /readyz says ok, on a small cluster.

    benchmarks/ready.py                                  # 3 nodes, no pods, 7 runs
    benchmarks/ready.py --beside ../main/.venv/bin/python  # this tree and another one, in turns
    benchmarks/ready.py --imports                        # the slowest imports until then

An embedded API server in another process holds the cluster. Modules come from bytecode, as they do in an image. The
figures are the fastest and the median of the runs, in seconds: user and system time of the process, and elapsed time.
`startup.py` measures a large cluster, where reading it takes most of the time.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import first_question
from process_usage import cpu_seconds
from served_cluster import served

POLL_SECONDS = 0.02


class Start(NamedTuple):
    """One start of the scheduler, in seconds until it was ready; `log` is what it wrote."""

    cpu: float
    elapsed: float
    log: str


def main() -> None:
    """Start the scheduler some times, and print the figures."""
    options = _options()
    pythons = [sys.executable, *options.beside]
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    with (
        tempfile.TemporaryDirectory(prefix="bayplan-benchmark-") as folder,
        served(Path(folder), first_question.cluster, options.nodes, options.pods) as kubeconfig,
    ):
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
        if options.imports:
            _start(sys.executable, kubeconfig)  # writes the bytecode
            first_question.show_imports(_start(sys.executable, kubeconfig, ["-X", "importtime"]).log)
            return
        for python in pythons:
            _start(python, kubeconfig)  # writes the bytecode
        starts: dict[str, list[Start]] = {python: [] for python in pythons}
        for _ in range(options.runs):
            for python in pythons:
                starts[python].append(_start(python, kubeconfig))
    print(f"{options.nodes} nodes, {options.pods} pods; fastest and median of {options.runs} runs until ready, in s")
    print(f"{'CPU':>10}{'elapsed':>16}")
    for python, found in starts.items():
        print(f"{_figures([each.cpu for each in found])}  {_figures([each.elapsed for each in found])}   {python}")


def _figures(seconds: Sequence[float]) -> str:
    return f"{min(seconds):6.2f} {statistics.median(seconds):6.2f}"


def _start(python: str, kubeconfig: Path, options: Sequence[str] = ()) -> Start:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    arguments = ["--kubeconfig", str(kubeconfig), "--bind-address", "127.0.0.1", "--secure-port", port]
    command = [python, *options, "-m", "bayplan", "run", *arguments]
    with tempfile.TemporaryFile("w+") as log:
        began = time.monotonic()
        process = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603 - bayplan
        try:
            while not _ready(port):
                if process.poll() is not None:
                    log.seek(0)
                    raise SystemExit(log.read())
                time.sleep(POLL_SECONDS)
            cpu, elapsed = cpu_seconds(process.pid), time.monotonic() - began
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait()
        log.seek(0)
        return Start(cpu, elapsed, log.read())


def _ready(port: str) -> bool:
    context = ssl._create_unverified_context()  # noqa: S323, SLF001 - a certificate that the scheduler signed itself
    try:
        with urllib.request.urlopen(f"https://127.0.0.1:{port}/readyz", timeout=5, context=context) as reply:
            return bool(reply.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=3, help="default: 3")
    parser.add_argument("--pods", type=int, default=0, help="default: none")
    parser.add_argument("--runs", type=int, default=7, help="how often it is started; default: 7")
    parser.add_argument("--beside", action="append", default=[], metavar="PYTHON", help="a Python with another bayplan")
    parser.add_argument("--imports", action="store_true", help="show the imports of a start instead")
    return parser.parse_args()


if __name__ == "__main__":
    main()
