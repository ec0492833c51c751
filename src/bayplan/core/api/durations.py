"""Durations in the format of Kubernetes' configuration files, such as `10s`, `1m30s` or `250ms`, and for people."""

from __future__ import annotations

import re
from decimal import Decimal

EXPECTED_DURATION = "bayplan.dev/expected-duration"
"""The annotation of pods that says how long they run, as in `30m` or `p50=20m,p90=1h`."""
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([a-zµμ]+)")
_SECONDS = {"ns": "1e-9", "us": "1e-6", "µs": "1e-6", "μs": "1e-6", "ms": "1e-3", "s": "1", "m": "60", "h": "3600"}


def parse(text: str) -> float:
    """The duration in seconds. Mirrors Go's time.ParseDuration. Raises ValueError for a malformed one."""
    prefix, unsigned = (text[0], text[1:]) if text[:1] in {"+", "-"} else ("+", text)
    if unsigned == "0":
        return 0.0
    total, position = Decimal(0), 0
    for part in _PART.finditer(unsigned):
        if part.start() != position or part[2] not in _SECONDS:
            break
        total += Decimal(part[1]) * Decimal(_SECONDS[part[2]])
        position = part.end()
    if not unsigned or position != len(unsigned):
        raise ValueError("expected a duration such as 10s, 1m30s or 250ms")
    return float(-total if prefix == "-" else total)


def human(seconds: float) -> str:
    """A duration in two units at most. Mirrors HumanDuration of apimachinery's pkg/util/duration."""
    if seconds < -1:
        return "<invalid>"
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 120:
        return f"{whole}s"
    if minutes < 10:
        return _two(minutes, "m", whole % 60, "s")
    if minutes < 180:
        return f"{minutes}m"
    if hours < 8:
        return _two(hours, "h", minutes % 60, "m")
    if hours < 48:
        return f"{hours}h"
    if hours < 192:
        return _two(days, "d", hours % 24, "h")
    if days < 730:
        return f"{days}d"
    return _two(days // 365, "y", days % 365, "d") if days < 2920 else f"{days // 365}y"


def _two(large: int, unit: str, small: int, subunit: str) -> str:
    return f"{large}{unit}{small}{subunit}" if small else f"{large}{unit}"
