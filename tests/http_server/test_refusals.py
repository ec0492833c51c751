"""Log lines about refusals, on virtual time."""

import asyncio
import logging

import pytest

from bayplan.foundations.http_server import Refusals
from bayplan.testing.virtual_time import VirtualTime

log = logging.getLogger("bayplan.test")


@pytest.fixture
def runner():
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        yield runner


def test_refusals_are_logged_once_a_minute_per_kind(runner, caplog):
    async def story():
        refusals = Refusals(log, 60)
        for number in range(1000):
            refusals.record("invalid token", f"request {number}")
        refusals.record("invalid HTTP")
        await asyncio.sleep(30)
        assert caplog.messages == ["invalid token: request 0", "invalid HTTP"]
        await asyncio.sleep(31)
        assert caplog.messages[2:] == ["invalid token: 999 more times within 60 s; the latest: request 999"]
        refusals.record("invalid token", "again")
        await asyncio.sleep(60)
        assert caplog.messages[3:] == ["invalid token: once more within 60 s; the latest: again"]
        await asyncio.sleep(600)
        refusals.record("invalid token", "later")
        assert caplog.messages[4:] == ["invalid token: later"]

    runner.run(story())


def test_numbers_are_logged_at_the_end(runner, caplog):
    async def story():
        refusals = Refusals(log, 60)
        for _ in range(3):
            refusals.record("invalid HTTP")
        refusals.close()
        await asyncio.sleep(600)

    runner.run(story())
    assert caplog.messages == ["invalid HTTP", "invalid HTTP: 2 more times within 60 s"]


def test_texts_of_clients_stay_on_one_short_line(runner, caplog):
    async def story():
        Refusals(log, 60).record("invalid token", "GET /a\nW forged line\x1b[31m" + "x" * 10_000)

    runner.run(story())
    [message] = caplog.messages
    assert message.startswith("invalid token: GET /a W forged line [31mxxx")
    assert len(message) < 550
