"""Times as Kubernetes keeps and writes them: UTC, in whole seconds (`Time`) or in microseconds (`MicroTime`).

A time of an object lost its fraction: round with `whole_seconds` before you compare.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta


def rfc3339(moment: datetime) -> str:
    """A `Time`: "2026-01-01T12:00:00Z"."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def rfc3339_micro(moment: datetime) -> str:
    """A `MicroTime`, as in events and leases: "2026-01-01T12:00:00.000000Z"."""
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def whole_seconds(moment: datetime) -> datetime:
    """A moment as a `Time` keeps it. Round with this before you compare with a time of an object."""
    return moment.replace(microsecond=0)


def micro_time(moment: datetime) -> datetime:
    """A moment for a `MicroTime` field of a typed object (a Lease, an Event).

    The encoder omits a fraction of zero, and API servers reject a MicroTime without its six digits, so a moment without
    microseconds gets one.
    """
    return moment if moment.microsecond else moment.replace(microsecond=1)


def with_zone(moment: datetime) -> datetime:
    """Return a time with a zone, so that it can be compared with others. A time without one is in UTC."""
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def time_meant(text: str, begin: datetime) -> datetime:
    """Return the time that a person means: with a date, or the first time of that kind since `begin`, in UTC.

    Raises ValueError, whose message says what is expected.
    """
    cleaned = text.strip().removesuffix("UTC").rstrip()
    try:
        if "-" in cleaned or "T" in cleaned:
            return with_zone(datetime.fromisoformat(cleaned))
        hours, minutes, seconds = (*map(int, cleaned.split(":")), 0)[:3]
        found = begin.astimezone(UTC).replace(hour=hours, minute=minutes, second=seconds, microsecond=0)
    except (ValueError, OverflowError):
        raise ValueError("expected a time such as 2026-03-02T03:12:00Z, 03:12 or 03:12:30 (UTC)") from None
    return found if found >= begin.replace(microsecond=0) else found + timedelta(days=1)


def seconds_since_epoch(moment: datetime) -> float:
    """Return the seconds since the epoch. A time without a zone is in UTC, whatever the zone of the machine is."""
    return with_zone(moment).timestamp()
