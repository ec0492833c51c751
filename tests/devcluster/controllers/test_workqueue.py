import asyncio

import pytest

from bayplan.foundations.clock import ManualClock
from bayplan_devcluster.controllers.workqueue import WorkQueue


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> WorkQueue[str]:
    return WorkQueue(clock)


async def test_key_is_queued_once(queue: WorkQueue[str]):
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert [await queue.get(), await queue.get()] == ["a", "b"]
    assert len(queue) == 0


async def test_key_is_not_returned_again_while_it_is_processed(queue: WorkQueue[str]):
    queue.add("a")
    await queue.get()
    queue.add("a")
    assert len(queue) == 0
    queue.done("a")
    assert await queue.get() == "a"
    queue.done("a")
    assert len(queue) == 0


async def test_delayed_key_is_due_at_its_earliest_time(queue: WorkQueue[str], clock: ManualClock):
    queue.add_after("a", 60)
    queue.add_after("a", 10)
    queue.add_after("a", 30)
    clock.advance(9)
    assert len(queue) == 0
    clock.advance(1)
    assert await queue.get() == "a"
    queue.done("a")
    clock.advance(100)
    assert len(queue) == 0


async def test_closed_queue_has_no_due_keys(queue: WorkQueue[str], clock: ManualClock):
    queue.add_after("a", 10)
    queue.close()
    clock.advance(20)
    assert len(queue) == 0


async def test_retry_backoff_grows_until_it_is_reset(queue: WorkQueue[str], monkeypatch: pytest.MonkeyPatch):
    waits: list[float] = []
    monkeypatch.setattr(asyncio.get_running_loop(), "call_later", lambda delay, *_: waits.append(delay))
    for _ in range(3):
        queue.retry("a")
    queue.forget("a")
    queue.retry("a")
    assert waits == [0.005, 0.01, 0.02, 0.005]
