"""The C library's heap: what a decision frees is kept for the next one, and what many objects leave is given back."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEEP = 256 * 2**20
_SPARE = 32 * 2**20
"""Bytes. Less freed memory isn't worth giving back."""


class _Usage(ctypes.Structure):
    """Mirrors glibc's struct mallinfo2."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in (
            *("arena", "ordblks", "smblks", "hblks", "hblkhd"),
            *("usmblks", "fsmblks", "uordblks", "fordblks", "keepcost"),
        )
    ]


def keep_heap() -> None:
    """Let the C library keep up to 256 MiB of freed memory instead of returning it to the system.

    Each decision creates and frees arrays of all nodes. By default glibc returns their pages to the system, which then
    maps and zeroes them again for the next decision. Affects the whole process. Does nothing with other C libraries.
    """
    mallopt = _function("mallopt")
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEEP)
        mallopt(_M_MMAP_THRESHOLD, _KEEP // 8)


def give_back() -> None:
    """Return the pages of freed memory to the system if there are many.

    Python's own allocator keeps the memory of small objects for later ones. With `PYTHONMALLOC=malloc`, they are a part
    of this heap, too. Takes milliseconds. Does nothing with other C libraries.
    """
    usage, trim = _function("mallinfo2"), _function("malloc_trim")
    if usage is None or trim is None:
        return
    usage.restype = _Usage
    if usage().fordblks > _SPARE:
        trim(0)


def _function(name: str) -> Any:
    """Return a function of the C library; None if it has none of this name."""
    return getattr(ctypes.CDLL(None), name, None) if sys.platform.startswith("linux") else None
