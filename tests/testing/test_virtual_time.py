import asyncio
import time

import pytest

from bayplan.testing.virtual_time import BEGINNING, VirtualTime


def run(story):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(story)


def test_an_hour_takes_no_real_time_and_timers_run_in_order():
    happened = []

    async def wait(seconds):
        await asyncio.sleep(seconds)
        happened.append(asyncio.get_running_loop().time())

    async def story():
        await asyncio.gather(wait(3600), wait(0.5), wait(60))
        return asyncio.get_running_loop().now()

    began = time.monotonic()
    now = run(story())
    assert time.monotonic() - began < 60
    assert happened == pytest.approx([0.5, 60, 3600])
    assert (now - BEGINNING).total_seconds() == pytest.approx(3600)


def test_waiting_without_a_timer_is_an_error():
    async def story():
        with pytest.raises(AssertionError, match="never happen"):
            await asyncio.Event().wait()

    with pytest.raises(AssertionError, match="never happen"):
        run(story())
