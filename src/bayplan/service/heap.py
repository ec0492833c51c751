"""Keeps the process's heap from shrinking and growing again with every decision."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEEP = 256 * 2**20


def keep_heap() -> None:
    """Let the C library keep memory that was freed, up to 256 MiB, instead of giving it back at once.

    A decision makes and drops arrays of all nodes; by default glibc returns their pages to the system after each, and
    the next decision has them mapped and zeroed anew. Does nothing with another C library. Concerns the whole process.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEEP)
        mallopt(_M_MMAP_THRESHOLD, _KEEP // 8)
