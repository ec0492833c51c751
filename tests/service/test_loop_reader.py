import asyncio
import threading

import pytest

from bayplan.service.loop_reader import LoopReader, LoopUnavailableError


def broken() -> None:
    raise KeyError("state")


async def test_reads_in_the_thread_of_the_loop() -> None:
    reader = LoopReader()
    reader.open()
    assert reader.read(threading.get_ident, 1) == threading.get_ident(), "without waiting, in that thread itself"
    assert await asyncio.to_thread(reader.read, threading.get_ident, 5) == threading.get_ident()
    with pytest.raises(KeyError):
        await asyncio.to_thread(reader.read, broken, 5)


async def test_waits_so_long_at_most() -> None:
    reader, read = LoopReader(), []
    reader.open()
    outcome = []

    def look() -> None:
        try:
            reader.read(lambda: read.append(1), 0.01)
        except LoopUnavailableError as error:
            outcome.append(str(error))

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()  # which blocks the loop
    assert outcome == ["the scheduler's event loop is blocked for more than 0.01 s"]
    await asyncio.sleep(0)
    assert read == [], "nobody waits for it any more"


def test_before_and_after_the_loop_runs() -> None:
    reader = LoopReader()
    with pytest.raises(LoopUnavailableError, match="does not run"):
        reader.read(list, 1)

    async def run() -> None:
        reader.open()

    asyncio.run(run())
    with pytest.raises(LoopUnavailableError, match="has ended"):
        threading_read(reader)
    reader.close()
    with pytest.raises(LoopUnavailableError, match="does not run"):
        reader.read(list, 1)


def threading_read(reader: LoopReader) -> None:
    problems = []

    def read() -> None:
        try:
            reader.read(list, 1)
        except LoopUnavailableError as error:
            problems.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    thread.join()
    raise problems[0]
