"""The time that the server writes into objects. A test or a demo may let it run faster than the wall's."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Tells the time."""

    def now(self) -> datetime:
        """The current time, with a time zone."""
        ...


class SystemClock:
    """The wall's clock."""

    def now(self) -> datetime:
        """The current time, UTC."""
        return datetime.now(UTC)


def timestamp(moment: datetime) -> str:
    """As Kubernetes writes a `Time`: whole seconds, UTC."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def parse_timestamp(text: str) -> datetime:
    """Reads what `timestamp` wrote."""
    return datetime.fromisoformat(text)
