"""The demo as a process, with and without a terminal."""

import os
import pty
import re
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET
from contextlib import suppress
from pathlib import Path

from tests.support.tables import cases

from bayplan.faces.cli.demo.outcome import EXPECTATIONS

COMMAND = [sys.executable, "-m", "bayplan", "demo"]
QUICK = ["--clock-rate", "60"]


def run(*arguments, **options):
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, encoding="utf-8", timeout=60, check=False, **options
    )


def test_the_demo_succeeds(tmp_path):
    picture = tmp_path / "demo.svg"
    began = time.monotonic()
    done = run("--save-svg", str(picture))
    assert time.monotonic() - began < 60
    assert (done.returncode, done.stderr) == (0, "")
    for expectation in EXPECTATIONS:
        assert f"✓ {expectation.what}\n" in re.sub(r" +\n", "\n", done.stdout)
    assert "8/8  crowd.yaml" in done.stdout
    assert done.stdout.startswith("Starting a cluster of 12 simulated nodes ...\n")
    hints = " ".join(done.stdout.partition("Try next:")[2].split())
    assert all(f"bayplan {command}" in hints for command in ("cluster --scheduler", "demo --keep", "new my-scheduler"))
    assert "default/nowhere is pending: 0/12 nodes are available" in done.stdout
    assert re.search(r"decisions +\d+ per second", done.stdout)
    assert re.search(r"p50 \d+ ms, p99 \d+ ms", done.stdout)
    svg = picture.read_text(encoding="utf-8")
    assert ET.fromstring(svg).tag.endswith("svg")
    assert "@font-face" not in svg


def test_in_a_terminal_it_draws_a_table_and_can_keep_the_cluster_running():
    text, process = in_terminal("--keep", *QUICK, until="Press Ctrl-C")
    assert "node-b4" in text
    assert "cordoned" in text
    assert "\x1b[" in text
    kubeconfig = Path(re.search(r"export KUBECONFIG=(\S+)", text)[1])
    assert "http://127.0.0.1:" in kubeconfig.read_text(encoding="utf-8")
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=15) == 0
    assert not kubeconfig.exists()


def in_terminal(*arguments, until):
    """Run the demo in a terminal. Returns its output until `until` appears, and the process."""
    main, side = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "40"}
    process = subprocess.Popen([*COMMAND, *arguments], stdin=side, stdout=side, stderr=side, env=environment)
    os.close(side)
    text = ""
    while until not in text:
        text += os.read(main, 1 << 16).decode(errors="replace")
    threading.Thread(target=_drain, args=(main,)).start()
    return text, process


def _drain(terminal):
    """Read the rest of the output, as a terminal does."""
    with os.fdopen(terminal, "rb", buffering=0) as rest, suppress(OSError):
        while rest.read(1 << 16):
            pass


@cases("number", {"SIGINT": signal.SIGINT, "SIGTERM": signal.SIGTERM})
def test_a_signal_stops_it(number):
    process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8")
    assert next(line for line in process.stdout if "2/8" in line)
    process.send_signal(number)
    output, _ = process.communicate(timeout=15)
    assert process.returncode == 130
    assert "Traceback" not in output


def test_it_exits_when_the_pipe_is_closed():
    process = subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8")
    assert process.stdout.readline() == "Starting a cluster of 12 simulated nodes ...\n"
    assert "the scheduler lists" in process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(timeout=15) == 130
    process.stderr.close()


@cases(
    "arguments, complaint",
    {
        "a stopped clock": (["--clock-rate", "0"], "0 is not in the range"),
        "not a number": (["--clock-rate", "fast"], "'fast' is not a valid float"),
        "a missing directory": (["--save-svg", "/nowhere/at/all.svg"], "/nowhere/at is not a directory"),
        "an argument": (["please"], "unexpected extra argument (please)"),
    },
)
def test_invalid_options_are_rejected(arguments, complaint):
    done = run(*arguments)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert "Traceback" not in done.stderr
