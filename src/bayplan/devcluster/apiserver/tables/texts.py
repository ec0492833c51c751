"""Ages, and what the cells of several kinds read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bayplan.api.durations import human
from bayplan.devcluster.apiserver.schema import Object


def since_text(moment: str | None, now: datetime) -> str:
    """The time since a moment, `<unknown>` if there is none."""
    return "<unknown>" if not moment else human((now - datetime.fromisoformat(moment)).total_seconds())


def condition(conditions: Sequence[Object], kind: str) -> Object:
    """The condition of a type, {} if there is none."""
    return next((one for one in conditions if one["type"] == kind), {})
