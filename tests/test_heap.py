"""Freed memory is given back to the system."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

import pytest

MEASURE = """
from bayplan.foundations.heap import give_back, keep_heap

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096

keep_heap()
before = resident()
objects = [object() for _ in range(2_000_000)]
most = resident()
objects = objects[::20_000]  # the rest is scattered over the heap
kept = resident()
give_back()
print(most - before, kept - before, resident() - before)
"""


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="needs glibc 2.33")
def test_memory_of_small_objects_is_given_back_with_the_allocator_of_the_c_library():
    most, kept, left = measure(PYTHONMALLOC="malloc")
    assert kept > 0.7 * most
    assert left < 0.1 * most


def test_nothing_fails_with_another_c_library():
    hidden = "import ctypes; ctypes.CDLL = lambda name: None\n"
    assert len(measure(hidden)) == 3


def measure(first="", **environment):
    command = [sys.executable, "-c", first + MEASURE]
    done = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return [int(each) for each in done.stdout.split()]
