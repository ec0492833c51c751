from datetime import UTC, datetime, timedelta

from bayplan_devcluster.controllers.daemonset import LONGEST_DELAY, FailedPodsBackoff

START = datetime(2026, 1, 1, tzinfo=UTC)
KEY = ("uid", 1, "node-0")


def test_each_failure_waits_twice_as_long_as_the_last():
    backoff, now, waits = FailedPodsBackoff(), START, []
    for _ in range(12):
        waits.append(backoff.wait(KEY, now))
        now += timedelta(seconds=waits[-1])
        assert not waits[-1] or backoff.wait(KEY, now) == 0
    assert waits == [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, LONGEST_DELAY]


def test_remaining_delay_is_returned():
    backoff = FailedPodsBackoff()
    backoff.wait(KEY, START)
    assert backoff.wait(KEY, START + timedelta(seconds=0.25)) == 0.75


def test_delay_starts_over_after_a_long_time_and_for_another_node():
    backoff = FailedPodsBackoff()
    for _ in range(3):
        backoff.wait(KEY, START)
    assert backoff.wait(("uid", 1, "node-1"), START) == 0
    assert backoff.wait(KEY, START + timedelta(seconds=2 * LONGEST_DELAY + 1)) == 0
    assert backoff.wait(KEY, START + timedelta(seconds=2 * LONGEST_DELAY + 1)) == 1
