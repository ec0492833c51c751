"""Conditions of pods that the API server writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GATED: Mapping[str, Any] = {
    "type": "PodScheduled",
    "status": "False",
    "lastProbeTime": None,
    "reason": "SchedulingGated",
    "message": "Scheduling is blocked due to non-empty scheduling gates",
}
"""That of a pod with scheduling gates: no scheduler attempts it, so the API server says why it waits."""
