"""The clocks of a replay: what was recorded is given back, whatever the order in which the two clocks are read."""

from datetime import UTC, datetime

from bayplan.answers.replay.ports import ReplayedClock

DATE = datetime(2026, 11, 28, tzinfo=UTC)


def test_tasks_may_read_the_clocks_in_another_order():
    clock = ReplayedClock()
    clock.entry([100.0, DATE.timestamp(), 100.5, 101.0])
    assert (clock.now(), clock.monotonic(), clock.monotonic(), clock.monotonic()) == (DATE, 100.0, 100.5, 101.0)
    assert clock.exhausted == 0


def test_time_stands_still_where_a_clock_is_read_more_often():
    clock = ReplayedClock()
    clock.entry([100.0, DATE.timestamp()])
    assert (clock.monotonic(), clock.monotonic()) == (100.0, 100.0)
    assert (clock.now(), clock.now()) == (DATE, DATE)
    assert clock.exhausted == 2
    clock.entry([])
    assert clock.monotonic() == 100.0
