"""SIGUSR2 never ends the process, and sets the event even if it arrives before the event exists."""

import asyncio
import os
import signal
import subprocess
import sys

from tests.support.tables import cases

from bayplan.faces.cli.dump_signal import DumpSignal


def send(number: int = 1) -> None:
    for _ in range(number):
        os.kill(os.getpid(), signal.SIGUSR2)


@cases(
    "before, after, expected",
    {
        "none": (0, 0, False),
        "before the event loop": (1, 0, True),
        "several before the event loop": (3, 0, True),
        "in the event loop": (0, 1, True),
    },
)
def test_the_signal_sets_the_event(before, after, expected) -> None:
    async def run(dump_signal: DumpSignal) -> bool:
        requested = asyncio.Event()
        dump_signal.connect(requested)
        send(after)
        if expected:
            await asyncio.wait_for(requested.wait(), 5)
        return requested.is_set()

    with DumpSignal() as dump_signal:
        send(before)
        assert asyncio.run(run(dump_signal)) is expected
        send()  # and after the loop has ended


def test_the_previous_handler_is_restored() -> None:
    before = signal.getsignal(signal.SIGUSR2)
    with DumpSignal():
        assert signal.getsignal(signal.SIGUSR2) is not before
    assert signal.getsignal(signal.SIGUSR2) is before


EARLY = """
import os, signal, sys

class Found:
    def find_spec(self, name, path=None, target=None):
        if name == "bayplan.faces.cli.run_preparation":
            os.kill(os.getpid(), signal.SIGUSR2)

sys.meta_path.insert(0, Found())
from bayplan.faces.cli import main
main(["run", "--config", "does-not-exist.yaml"])
"""


def test_a_signal_during_imports_does_not_end_the_run_command() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "does-not-exist.yaml" in done.stderr
