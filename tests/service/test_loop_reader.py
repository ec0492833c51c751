import asyncio
import threading

import pytest

from bayplan.running.service.loop_reader import LoopReader, LoopUnavailableError


def broken() -> None:
    raise KeyError("state")


async def test_function_runs_in_the_thread_of_the_loop() -> None:
    reader = LoopReader()
    reader.open()
    assert reader.read(threading.get_ident, 1) == threading.get_ident(), "called directly in the loop's own thread"
    assert await asyncio.to_thread(reader.read, threading.get_ident, 5) == threading.get_ident()
    with pytest.raises(KeyError):
        await asyncio.to_thread(reader.read, broken, 5)


async def test_read_times_out_while_the_loop_is_blocked() -> None:
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
    assert outcome == ["the scheduler's event loop did not respond within 0.01 s"]
    await asyncio.sleep(0)
    assert read == [], "the call was cancelled"


def test_read_fails_before_and_after_the_loop_runs() -> None:
    reader = LoopReader()
    with pytest.raises(LoopUnavailableError, match="is not running"):
        reader.read(list, 1)

    async def run() -> None:
        reader.open()

    asyncio.run(run())
    with pytest.raises(LoopUnavailableError, match="has ended"):
        read_in_thread(reader)
    reader.close()
    with pytest.raises(LoopUnavailableError, match="is not running"):
        reader.read(list, 1)


def read_in_thread(reader: LoopReader) -> None:
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
