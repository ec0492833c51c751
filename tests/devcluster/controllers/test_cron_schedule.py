from __future__ import annotations

from datetime import UTC, datetime

import pytest

from bayplan.devcluster.controllers.cron_schedule import InvalidSchedule, parse


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("schedule", "zone", "after", "due"),
    [
        pytest.param("*/5 * * * *", None, "2026-03-01T10:02:30", "2026-03-01T10:05:00", id="steps"),
        pytest.param("*/5 * * * *", None, "2026-03-01T10:05:00", "2026-03-01T10:10:00", id="after means after"),
        pytest.param("0 9 * * MON-FRI", None, "2026-03-06T10:00:00", "2026-03-09T09:00:00", id="names"),
        pytest.param("0 0 1 * ?", None, "2026-03-06T10:00:00", "2026-04-01T00:00:00", id="question mark"),
        pytest.param("0 9 * * *", "Europe/Berlin", "2026-07-01T06:30:00", "2026-07-01T07:00:00", id="time zone"),
        pytest.param("@hourly", None, "2026-03-01T10:02:30", "2026-03-01T11:00:00", id="hourly"),
        pytest.param("@daily", None, "2026-03-01T10:02:30", "2026-03-02T00:00:00", id="daily"),
        pytest.param("@weekly", None, "2026-03-01T10:02:30", "2026-03-08T00:00:00", id="weekly"),
        pytest.param("@monthly", None, "2026-03-01T10:02:30", "2026-04-01T00:00:00", id="monthly"),
        pytest.param("@yearly", None, "2026-03-01T10:02:30", "2027-01-01T00:00:00", id="yearly"),
        pytest.param("@every 1h30m", None, "2026-03-01T10:02:30", "2026-03-01T11:32:30", id="every"),
    ],
)
def test_next_due_time(schedule, zone, after, due):
    assert parse(schedule, zone).after(at(after)) == at(due)


@pytest.mark.parametrize(
    ("since", "until", "latest"),
    [
        pytest.param("2026-03-01T10:00:00", "2026-03-01T10:59:59", None, id="none yet"),
        pytest.param("2026-03-01T10:00:00", "2026-03-01T11:00:00", "2026-03-01T11:00:00", id="just now"),
        pytest.param("2026-03-01T10:00:00", "2026-03-01T14:30:00", "2026-03-01T14:00:00", id="the last of some"),
        pytest.param("2020-03-01T10:00:00", "2026-03-01T14:30:00", "2026-03-01T14:00:00", id="the last of many"),
    ],
)
def test_latest_due_time(since, until, latest):
    assert parse("@hourly").latest(at(since), at(until)) == (latest and at(latest))


@pytest.mark.parametrize(
    ("schedule", "zone", "complaint"),
    [
        pytest.param("* * * *", None, "expected exactly 5 fields, found 4", id="four fields"),
        pytest.param("61 * * * *", None, "61", id="no such minute"),
        pytest.param("0 0 31 2 *", None, "Bad day-of-month", id="no such day"),
        pytest.param("@sometimes", None, "expected exactly 5 fields", id="no such descriptor"),
        pytest.param("@every soon", None, "failed to parse duration 'soon'", id="no duration"),
        pytest.param("@hourly", "Mars/Olympus", "unknown time zone Mars/Olympus", id="no such zone"),
    ],
)
def test_invalid_schedule(schedule, zone, complaint):
    with pytest.raises(InvalidSchedule, match=complaint):
        parse(schedule, zone)
