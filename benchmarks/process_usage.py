"""What a process has used of CPU and memory, as Linux reports it in /proc."""

from __future__ import annotations

import os
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """The user and system time of a process."""
    fields = _read(pid, "stat").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_mib(pid: int) -> float:
    """The memory that a process has now."""
    return _mib(pid, "VmRSS:")


def peak_mib(pid: int) -> float:
    """The most memory that a process has had. Unlike `ru_maxrss`, without that of the process that started it."""
    return _mib(pid, "VmHWM:")


def _mib(pid: int, name: str) -> float:
    _, found, value = _read(pid, "status").partition(name)
    if not found:
        raise ProcessLookupError(f"process {pid} has ended")
    return int(value.split()[0]) / 1024


def _read(pid: int, name: str) -> str:
    """Raises OSError if there is no such process."""
    return Path(f"/proc/{pid}/{name}").read_text(encoding="utf-8", errors="replace")
