"""Keeps the heap from shrinking and growing with every decision."""

from __future__ import annotations

import ctypes
import sys

_M_TRIM_THRESHOLD = -1
_M_MMAP_THRESHOLD = -3
_KEEP = 256 * 2**20


def keep_heap() -> None:
    """Let the C library keep up to 256 MiB of freed memory instead of returning it to the system.

    Each decision creates and frees arrays of all nodes. By default glibc returns their pages to the system, which then
    maps and zeroes them again for the next decision. Affects the whole process. Does nothing with other C libraries.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_TRIM_THRESHOLD, _KEEP)
        mallopt(_M_MMAP_THRESHOLD, _KEEP // 8)
