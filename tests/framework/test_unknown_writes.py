"""The rule for writes whose outcome is unknown, against scripted replies, in virtual time."""

import asyncio

import pytest
from tests.support.stories import in_virtual_time
from tests.support.tables import cases

from bayplan.client import ApiError, TransportError
from bayplan.core.framework.status import PluginError
from bayplan.core.framework.unknown_writes import RuledOut, known

LOST, UNSENT = TransportError("no reply", sent=True), TransportError("refused", sent=False)
REFUSED, CONFLICT, GONE, AWAY = (ApiError(status) for status in (403, 409, 404, 503))
CHANGED = RuledOut("it was deleted")
WRITTEN, UNCHANGED, OVERTAKEN = "written", "unchanged", "overtaken"


class Scripted:
    """A write with scripted replies. The last one of each list is repeated."""

    name = "the change of x"

    def __init__(self, sent, found, seconds=0.0):
        self.seconds = seconds
        self.script = {"send": list(sent), "read": list(found)}
        self.requests = []

    def _next(self, verb):
        self.requests.append(verb)
        script = self.script[verb]
        return script.pop(0) if len(script) > 1 else script[0]

    async def send(self):
        reply = self._next("send")
        await asyncio.sleep(self.seconds)
        return _raised(reply)

    async def read(self):
        reply = self._next("read")
        await asyncio.sleep(self.seconds)
        return _raised(reply)

    def outcome(self, found):
        return found if found == WRITTEN else None

    def is_ruled_out(self, found):
        return found == OVERTAKEN


def _raised(reply):
    if isinstance(reply, Exception):
        raise reply
    return reply


def error_of(plugin_error_from):
    error = PluginError("P", "Bind", "failed")
    error.__cause__ = plugin_error_from
    return error


async def outcome(write, may_repeat=lambda: True):
    try:
        return await known(write, asyncio.sleep, may_repeat)
    except Exception as error:  # noqa: BLE001 - the error is what the tests are about
        return error


@cases(
    "sent, found, expected, requests",
    {
        "a reply": ([WRITTEN], [], WRITTEN, 1),
        "refused": ([REFUSED], [], REFUSED, 1),
        "never sent": ([UNSENT], [], UNSENT, 1),
        "no request": ([KeyError("bug")], [], KeyError, 1),
        "gone": ([GONE], [], GONE, 1),
        "conflict with its own first request": ([CONFLICT], [WRITTEN], WRITTEN, 2),
        "conflict": ([CONFLICT], [UNCHANGED], CONFLICT, 2),
        "error of the server, carried out": ([AWAY], [WRITTEN], WRITTEN, 2),
        "error of the server, not carried out": ([AWAY], [UNCHANGED], AWAY, 2),
        "lost, carried out": ([LOST], [LOST, AWAY, REFUSED, WRITTEN], WRITTEN, 5),
        "lost, overtaken": ([LOST], [OVERTAKEN], LOST, 2),
        "lost, object gone": ([LOST], [GONE], LOST, 2),
        "lost, then carried out": ([LOST, WRITTEN], [UNCHANGED], WRITTEN, 3),
        "lost often": ([LOST] * 9 + [WRITTEN], [UNCHANGED], WRITTEN, 19),
        "lost, the late one is carried out": ([LOST, CONFLICT], [UNCHANGED, WRITTEN], WRITTEN, 4),
        "lost, then refused": ([LOST, REFUSED], [UNCHANGED], REFUSED, 4),
        "lost, then a conflict with others": ([LOST, CONFLICT], [UNCHANGED], CONFLICT, 4),
        "lost, then away": ([LOST, AWAY, UNSENT, WRITTEN], [UNCHANGED], WRITTEN, 7),
        "lost, then too many": ([LOST, ApiError(429), ApiError(401), WRITTEN], [UNCHANGED], WRITTEN, 7),
        "within a plugin": ([error_of(LOST), WRITTEN], [UNCHANGED], WRITTEN, 3),
        "a plugin's own bug": ([error_of(KeyError("bug"))], [], PluginError, 1),
        "lost, then ruled out": ([LOST, CHANGED], [UNCHANGED], CHANGED, 3),
        "a gateway timeout": ([ApiError(504), WRITTEN], [UNCHANGED], WRITTEN, 3),
        "a bad gateway": ([ApiError(502), WRITTEN], [UNCHANGED], WRITTEN, 3),
        "a server timeout": ([ApiError(500, "ServerTimeout"), WRITTEN], [UNCHANGED], WRITTEN, 3),
        "etcd": ([ApiError(500, "", "etcdserver: leader changed"), WRITTEN], [UNCHANGED], WRITTEN, 3),
    },
)
def test_outcome(sent, found, expected, requests):
    write = Scripted(sent, found)
    result = in_virtual_time(outcome(write))
    assert result is expected or (isinstance(expected, type) and isinstance(result, expected))
    assert len(write.requests) == requests


def test_last_error_of_several_requests_says_nothing_about_the_others():
    refused = ApiError(403)
    refused.__cause__ = ApiError(500)  # as a Bind plugin that tries twice
    write = Scripted([refused], [WRITTEN])
    assert in_virtual_time(outcome(write)) == WRITTEN


def test_not_repeated_if_it_must_not_be():
    write = Scripted([LOST], [UNCHANGED])
    assert in_virtual_time(outcome(write, lambda: False)) is LOST
    assert write.requests == ["send", "read"]


def test_waits_grow_and_do_not_end_while_the_server_is_away(caplog):
    async def story():
        write = Scripted([LOST], [LOST])
        running = asyncio.create_task(outcome(write))
        await asyncio.sleep(3600)
        running.cancel()
        return write, running.done()

    write, done = in_virtual_time(story())
    assert not done
    assert 3600 / 5 < len(write.requests) < 3600 / 5 + 10
    assert caplog.text.count("cannot find out whether the change of x was carried out") == 1


@cases(
    "at, sent, found, result, requests",
    {
        "while it is sent": (0.5, [WRITTEN], [WRITTEN], [WRITTEN], 2),
        "while it is sent, not carried out": (0.5, [WRITTEN], [UNCHANGED], [WRITTEN], 3),
        "while it is sent, ruled out": (0.5, [WRITTEN], [OVERTAKEN], [], 2),
        "while it is read": (1.5, [LOST], [WRITTEN], [WRITTEN], 3),
        "while it waits": (2.05, [LOST, WRITTEN], [UNCHANGED], [WRITTEN], 3),
        "then refused": (2.05, [LOST, REFUSED], [UNCHANGED], [], 4),
    },
)
def test_cancellation_waits_for_the_outcome(at, sent, found, result, requests):
    """Each request takes a second."""

    async def story():
        write, outcomes = Scripted(sent, found, seconds=1.0), []
        task = asyncio.create_task(known(write, asyncio.sleep, carried_out=outcomes.append))
        await asyncio.sleep(at)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return write, outcomes

    write, outcomes = in_virtual_time(story())
    assert (outcomes, len(write.requests)) == (result, requests)


@cases("carried_out, times", {"a second one": (print, 2), "without a way to undo it": (None, 1)})
def test_cancellation_ends_it_at_once(carried_out, times):
    async def story():
        task = asyncio.create_task(known(Scripted([LOST], [LOST]), asyncio.sleep, carried_out=carried_out))
        await asyncio.sleep(100)
        for _ in range(times):
            task.cancel()
            await asyncio.sleep(0)
        return task.cancelled()

    assert in_virtual_time(story())


def test_error_keeps_its_cause():
    sent = [error_of(CONFLICT)]
    error = in_virtual_time(outcome(Scripted(sent, [OVERTAKEN])))
    assert (error, error.__cause__) == (sent[0], CONFLICT)
