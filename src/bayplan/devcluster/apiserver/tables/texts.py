"""Ages, and what the cells of several kinds read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bayplan.devcluster.apiserver.schema import Object


def since_text(moment: str | None, now: datetime) -> str:
    """The time since a moment, `<unknown>` if there is none."""
    return "<unknown>" if not moment else duration((now - datetime.fromisoformat(moment)).total_seconds())


def duration(seconds: float) -> str:
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


def condition(conditions: Sequence[Object], kind: str) -> Object:
    """The condition of a type, {} if there is none."""
    return next((one for one in conditions if one["type"] == kind), {})
