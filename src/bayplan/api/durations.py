"""Durations in the format of Kubernetes' configuration files, such as `10s`, `1m30s` or `250ms`.

Mirrors Go's time.ParseDuration.
"""

from __future__ import annotations

import re
from decimal import Decimal

_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)([a-zµμ]+)")
_SECONDS = {"ns": "1e-9", "us": "1e-6", "µs": "1e-6", "μs": "1e-6", "ms": "1e-3", "s": "1", "m": "60", "h": "3600"}


def parse(text: str) -> float:
    """The duration in seconds. Raises ValueError for a malformed one."""
    sign, unsigned = (text[0], text[1:]) if text[:1] in {"+", "-"} else ("+", text)
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
    return float(-total if sign == "-" else total)
