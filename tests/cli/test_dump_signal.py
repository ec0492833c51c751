"""SIGUSR2: whenever it comes, it ends nothing, and is answered as soon as there is somebody to answer."""

import asyncio
import os
import signal
import subprocess
import sys

import pytest

from bayplan.cli.dump_signal import DumpSignal


def send(number: int = 1) -> None:
    for _ in range(number):
        os.kill(os.getpid(), signal.SIGUSR2)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(0, 0, False, id="none"),
        pytest.param(1, 0, True, id="before there is a loop"),
        pytest.param(3, 0, True, id="several before"),
        pytest.param(0, 1, True, id="while the loop runs"),
    ],
)
def test_whenever_it_comes_it_is_heard(before, after, expected) -> None:
    async def run(heard: DumpSignal) -> bool:
        asked = heard.asked()
        send(after)
        if expected:
            await asyncio.wait_for(asked.wait(), 5)
        return asked.is_set()

    with DumpSignal() as heard:
        send(before)
        assert asyncio.run(run(heard)) is expected
        send()  # and after the loop has ended


def test_what_was_there_before_is_put_back() -> None:
    before = signal.getsignal(signal.SIGUSR2)
    with DumpSignal():
        assert signal.getsignal(signal.SIGUSR2) is not before
    assert signal.getsignal(signal.SIGUSR2) is before


EARLY = """
import os, signal, sys

class Found:
    def find_spec(self, name, path=None, target=None):
        if name == "bayplan.cli.run_preparation":
            os.kill(os.getpid(), signal.SIGUSR2)

sys.meta_path.insert(0, Found())
from bayplan.cli import main
main(["run", "--config", "does-not-exist.yaml"])
"""


def test_one_that_comes_while_the_run_command_still_imports_does_not_end_it() -> None:
    done = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True, check=False)
    assert done.returncode == 2, done.stderr
    assert "does-not-exist.yaml" in done.stderr
