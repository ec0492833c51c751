import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from bayplan.core.api.times import whole_seconds
from bayplan.foundations.clock import ManualClock, RunningClock

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def test_manual_clock_makes_calls_at_their_time_in_order():
    clock, calls = ManualClock(NOON), []
    clock.call_later(20, lambda: calls.append(("late", clock.now())))
    clock.call_later(10, lambda: calls.append(("early", clock.now())))
    clock.call_later(10, lambda: clock.call_later(5, lambda: calls.append(("nested", clock.now()))))
    clock.call_later(10, lambda: calls.append(("never", clock.now()))).cancel()
    clock.advance(15)
    assert calls == [("early", NOON + timedelta(seconds=10)), ("nested", NOON + timedelta(seconds=15))]
    clock.advance(60)
    assert calls[2:] == [("late", NOON + timedelta(seconds=20))]
    assert clock.now() == NOON + timedelta(seconds=75)


async def test_sleep_ends_at_its_time():
    clock = ManualClock(NOON)
    sleeper = asyncio.create_task(clock.sleep(30))
    await asyncio.sleep(0)
    clock.advance(29)
    await asyncio.sleep(0)
    assert not sleeper.done()
    clock.advance(1)
    await asyncio.wait_for(sleeper, 1)


async def test_a_running_clock_runs_at_its_rate():
    clock = RunningClock(rate=1000)
    start = clock.now()
    began = asyncio.get_running_loop().time()
    await clock.sleep(60)
    assert asyncio.get_running_loop().time() - began < 5
    assert clock.now() >= start + timedelta(seconds=60)


def test_rate_of_a_clock_must_be_positive():
    with pytest.raises(ValueError, match="must be greater than 0, not -1"):
        RunningClock(rate=-1)


def test_times_of_objects_have_whole_seconds():
    assert whole_seconds(NOON.replace(microsecond=999_999)) == NOON
