"""Work that plugins start with `handle.start`."""

import asyncio
from contextlib import asynccontextmanager

from bayplan.running.service.background import StartedWork


@asynccontextmanager
async def running(started):
    task = asyncio.create_task(started.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(asyncio.wait([task]), started.cancel())
    assert task.cancelled()


async def test_started_work_runs_concurrently_in_named_tasks():
    started, done, go = StartedWork(), [], asyncio.Event()

    async def work():
        await go.wait()
        done.append(asyncio.current_task().get_name())

    started.start("first", work)
    async with running(started):
        started.start("second", work)
        assert not done
        go.set()
        await started.drain(1.0)
        assert done == ["first", "second"]


async def test_failed_work_is_logged_and_stops_nothing_else(caplog):
    started, done = StartedWork(), []

    async def breaks():
        raise ValueError("no luck")

    async def works():
        done.append("works")

    async with running(started):
        started.start("write a poem", breaks)
        started.start("write a letter", works)
        await started.drain(1.0)
    assert done == ["works"]
    assert "work that a plugin started failed (write a poem): ValueError: no luck" in caplog.text
    assert "no luck" in caplog.text


async def test_unfinished_work_is_cancelled_on_exit(caplog):
    started, ended = StartedWork(), []

    async def never():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async with running(started):
        started.start("wait for ever", never)
        await started.drain(0.01)
        assert "was not finished in time" in caplog.text
        assert not ended
    assert ended == ["cancelled"]


async def test_work_that_never_started_leaves_no_coroutine():
    started = StartedWork()
    started.start("never", asyncio.Event().wait)
