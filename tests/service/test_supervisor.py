import asyncio
import logging

import pytest
from tests.support.waiting import PATIENCE

from bayplan.foundations.failures import Failures
from bayplan.running.service.supervisor import Supervisor, outcome


@pytest.mark.parametrize(
    "error",
    [ValueError("no luck"), asyncio.CancelledError(), SystemExit(3), KeyboardInterrupt(), GeneratorExit()],
    ids=lambda error: type(error).__name__,
)
async def test_work_that_raises_is_recorded_and_restarted(error, caplog) -> None:
    failures, calls, again = Failures(), 0, asyncio.Event()

    async def work() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            raise error
        again.set()

    tasks = Supervisor(failures)
    tasks.start("some work", work, restart_seconds=0)
    await asyncio.wait_for(again.wait(), PATIENCE)
    await tasks.stop()
    assert calls == 2
    assert failures.counts == {("some work", type(error).__name__): 1}
    assert caplog.text.count("some work failed") == 1


async def test_stop_cancels_all_work_and_waits_for_it() -> None:
    ended = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    failures = Failures()
    tasks = Supervisor(failures)
    for _ in range(3):
        tasks.start("waiting", work)
    await asyncio.sleep(0)
    await tasks.stop()
    assert len(ended) == 3
    assert not failures.counts


async def test_work_that_cancels_its_own_task_is_restarted(caplog) -> None:
    failures, calls, again = Failures(), 0, asyncio.Event()

    async def work() -> None:
        nonlocal calls
        calls += 1
        if calls == 1:
            asyncio.current_task().cancel()
            await asyncio.sleep(0)
        again.set()

    tasks = Supervisor(failures)
    tasks.start("some work", work, restart_seconds=0)
    await asyncio.wait_for(again.wait(), PATIENCE)
    await tasks.stop()
    assert failures.counts == {("some work", "CancelledError"): 1}


async def test_outcome_passes_on_the_cancellation_of_its_task() -> None:
    task = asyncio.create_task(outcome(asyncio.Event().wait))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_failures_of_a_kind_are_counted_and_logged_once_until_the_tenth(caplog) -> None:
    failures = Failures()
    with caplog.at_level(logging.ERROR):
        for number in range(25):
            failures.record("writing an event", ValueError(f"number {number}"), "pod default/web", expected=True)
        failures.record("writing an event", TypeError("another kind"))
    assert failures.counts == {("writing an event", "ValueError"): 25, ("writing an event", "TypeError"): 1}
    assert [record.getMessage() for record in caplog.records] == [
        "writing an event failed (pod default/web): ValueError: number 0",
        "writing an event failed (pod default/web): ValueError: number 9; 10 times so far",
        "writing an event failed: TypeError: another kind",
    ]
    assert [record.exc_info is not None for record in caplog.records] == [False, False, True]
