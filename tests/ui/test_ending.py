"""Work that doesn't end by itself is ended, and leaves nothing behind in the interpreter."""

import subprocess
import sys
import time

import pytest
from tests.support.waiting import without_end

from bayplan.faces.asking.ending import EndedError, Ending

LEFT = """
import sys
from bayplan.faces.asking.ending import EndedError, Ending

def spin():
    while True:
        pass

with Ending(lambda: False):
    pass
try:
    with Ending(lambda: True, grace=0.01):
        spin()
except EndedError:
    sys.setprofile(lambda *_: None)  # in CPython 3.11, functions don't begin while an exception waits for its thread
    print("left")
"""


def test_nothing_waits_for_a_thread_that_was_left():
    ran = subprocess.run([sys.executable, "-c", LEFT], check=False, capture_output=True, text=True, timeout=30)
    assert (ran.stdout, ran.stderr) == ("left\n", "")


def catch_twice():
    caught = 0
    while True:
        try:
            without_end(lambda _: None)
        except EndedError:
            caught += 1
            if caught == 3:
                raise


def test_work_that_catches_its_end_is_ended_again():
    with pytest.raises(EndedError), Ending(lambda: True, grace=0.01):
        catch_twice()


def test_work_that_is_not_over_is_left_alone():
    with Ending(lambda: False, grace=0.01):
        end = time.perf_counter() + 0.3
        while time.perf_counter() < end:
            pass
