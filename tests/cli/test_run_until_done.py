"""The event loop of commands that run plugins."""

import asyncio

import pytest

from bayplan.faces.cli.ending import ProcessEnding
from bayplan.faces.cli.serving import run_until_done


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
def test_task_of_a_plugin_cannot_end_the_event_loop(error, caplog):
    done = []

    async def fail():
        raise error("oh")

    async def main():
        tasks = [asyncio.create_task(fail()) for _ in range(2)]
        await asyncio.wait(tasks)
        done.extend(task.done() for task in tasks)
        for task in tasks:
            task.exception()

    run_until_done(main(), ProcessEnding())
    assert done == [True, True]
    assert f"a task that a plugin created failed: {error.__name__}: oh" in caplog.text


def test_exit_of_the_main_coroutine_ends_the_loop():
    async def main():
        raise SystemExit(3)

    with pytest.raises(SystemExit) as ended:
        run_until_done(main(), ProcessEnding())
    assert ended.value.code == 3
