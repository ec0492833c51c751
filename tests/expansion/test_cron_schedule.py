from datetime import UTC, datetime

import pytest
from tests.support.tables import cases

from bayplan.core.expansion.cron_schedule import InvalidSchedule, parse


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@cases(
    "schedule, zone, after, due",
    {
        "steps": ("*/5 * * * *", None, "2026-03-01T10:02:30", "2026-03-01T10:05:00"),
        "after means after": ("*/5 * * * *", None, "2026-03-01T10:05:00", "2026-03-01T10:10:00"),
        "names": ("0 9 * * MON-FRI", None, "2026-03-06T10:00:00", "2026-03-09T09:00:00"),
        "question mark": ("0 0 1 * ?", None, "2026-03-06T10:00:00", "2026-04-01T00:00:00"),
        "time zone": ("0 9 * * *", "Europe/Berlin", "2026-07-01T06:30:00", "2026-07-01T07:00:00"),
        "hourly": ("@hourly", None, "2026-03-01T10:02:30", "2026-03-01T11:00:00"),
        "daily": ("@daily", None, "2026-03-01T10:02:30", "2026-03-02T00:00:00"),
        "weekly": ("@weekly", None, "2026-03-01T10:02:30", "2026-03-08T00:00:00"),
        "monthly": ("@monthly", None, "2026-03-01T10:02:30", "2026-04-01T00:00:00"),
        "yearly": ("@yearly", None, "2026-03-01T10:02:30", "2027-01-01T00:00:00"),
        "every": ("@every 1h30m", None, "2026-03-01T10:02:30", "2026-03-01T11:32:30"),
    },
)
def test_next_due_time(schedule, zone, after, due):
    assert parse(schedule, zone).after(at(after)) == at(due)


@cases(
    "since, until, latest",
    {
        "none yet": ("2026-03-01T10:00:00", "2026-03-01T10:59:59", None),
        "just now": ("2026-03-01T10:00:00", "2026-03-01T11:00:00", "2026-03-01T11:00:00"),
        "the last of some": ("2026-03-01T10:00:00", "2026-03-01T14:30:00", "2026-03-01T14:00:00"),
        "the last of many": ("2020-03-01T10:00:00", "2026-03-01T14:30:00", "2026-03-01T14:00:00"),
    },
)
def test_latest_due_time(since, until, latest):
    assert parse("@hourly").latest(at(since), at(until)) == (latest and at(latest))


@cases(
    "schedule, zone, complaint",
    {
        "four fields": ("* * * *", None, "expected exactly 5 fields, found 4"),
        "no such minute": ("61 * * * *", None, "61"),
        "no such day": ("0 0 31 2 *", None, "Bad day-of-month"),
        "no such descriptor": ("@sometimes", None, "expected exactly 5 fields"),
        "no duration": ("@every soon", None, "failed to parse duration 'soon'"),
        "no such zone": ("@hourly", "Mars/Olympus", "unknown time zone Mars/Olympus"),
    },
)
def test_invalid_schedule(schedule, zone, complaint):
    with pytest.raises(InvalidSchedule, match=complaint):
        parse(schedule, zone)
