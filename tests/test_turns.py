import asyncio

import pytest

from bayplan.foundations.turns import LONGEST_TURN, Turn


class Time:
    seconds = 100.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def time():
    return Time()


@pytest.mark.parametrize(("worked", "over"), [(0.0, False), (LONGEST_TURN * 0.9, False), (LONGEST_TURN * 1.1, True)])
async def test_other_tasks_run_at_the_end_of_a_turn(time, worked, over):
    others = []
    asyncio.get_running_loop().call_soon(others.append, "ran")
    turn = Turn(time)
    time.seconds += worked
    assert turn.is_over() is over
    await turn.pause()
    assert bool(others) is over
    assert not turn.is_over()


async def test_a_task_that_waited_restarts_its_turn(time):
    turn = Turn(time)
    time.seconds += 2 * LONGEST_TURN
    turn.restart()
    assert not turn.is_over()
