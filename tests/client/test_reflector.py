from __future__ import annotations

import asyncio
import gc
import logging
import random
import time
from contextlib import asynccontextmanager

import msgspec
import pytest

from bayplan.api.kinds import NODE, POD
from bayplan.api.objects import decode
from bayplan.client import ApiError, Backoff, Client, ConfigError, Reflector, TransportError
from bayplan.client.list_watch import QUIET_PAUSE
from bayplan.testing.builders import make_node
from bayplan.testing.in_memory import make_client
from bayplan.turns import LONGEST_TURN

BACKOFF = Backoff(initial=1.0, longest=8.0, jitter=0.0)


def document(name, version, uid=None, **more):
    metadata = {"name": name, "namespace": "n", "uid": uid or f"uid-{name}", "resourceVersion": str(version)}
    return {"metadata": metadata | more.pop("metadata", {}), **more}


def listed(version, *documents, token=""):
    metadata = {"resourceVersion": str(version)} | ({"continue": token} if token else {})
    return msgspec.json.encode({"metadata": metadata, "items": documents})


def line(kind, obj):
    return msgspec.json.encode({"type": kind, "object": obj}) + b"\n"


def bookmark(version):
    return line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})


class Script(Client):
    """Answers lists and watches from a script; where it ends, `done` is set and the reflector waits for ever."""

    def __init__(self, *steps):
        self.steps = list(steps)
        self.asked = []
        self.done = asyncio.Event()

    async def request(self, method, path, *, params=None, body=None, content_type=""):
        self.asked.append(("list", params.get("limit"), params.get("continue")))
        return await self._next()

    async def stream(self, path, *, params=None, seconds=None, idle=None):
        self.asked.append(("watch", params["resourceVersion"]))
        step = await self._next()
        for chunk in step if isinstance(step, list) else [step]:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk

    async def close(self): ...

    async def _next(self):
        if not self.steps:
            self.done.set()
            await asyncio.Event().wait()
        step = self.steps.pop(0)
        if isinstance(step, Exception):
            raise step
        return step


class Recorder:
    """A handler that remembers what it was told, by name and version."""

    def __init__(self):
        self.told = []

    def added(self, new):
        self.told.append(("added", new.metadata.name, new.metadata.resourceVersion))

    def updated(self, old, new):
        versions = (old.metadata.resourceVersion, new.metadata.resourceVersion)
        self.told.append(("updated", new.metadata.name, *versions))

    def deleted(self, old):
        self.told.append(("deleted", old.metadata.name, old.metadata.resourceVersion))

    def undecodable(self, raw, error):
        self.told.append(("undecodable", error.name))


@asynccontextmanager
async def running(client, handler=None, *, sleeps, **options):
    options = {"backoff": BACKOFF, "rng": random.Random(1), "sleep": sleeps, "clock": lambda: 0.0} | options
    reflector = Reflector(client, POD, handler or Recorder(), **options)
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def follow(sleeps, *steps, **options):
    """What a handler is told, what the server is asked, and which keys are in the store when the script has ended."""
    script, recorder = Script(*steps), Recorder()
    async with running(script, recorder, sleeps=sleeps, **options) as reflector:
        await asyncio.wait_for(script.done.wait(), 5)
    return recorder.told, script.asked, list(reflector.store)


A1, A2, A3, B1 = document("a", 1), document("a", 2), document("a", 3), document("b", 1)


async def test_list_then_watch(sleeps):
    told, asked, store = await follow(
        sleeps,
        listed(5, A1, B1),
        [
            line("MODIFIED", document("a", 6)),
            line("ADDED", document("c", 7)),
            line("DELETED", document("b", 8)),
            bookmark(20),
        ],
    )
    assert told == [
        ("added", "a", "1"),
        ("added", "b", "1"),
        ("updated", "a", "1", "6"),
        ("added", "c", "7"),
        ("deleted", "b", "1"),
    ]
    assert asked == [("list", 500, None), ("watch", "5"), ("watch", "20")]
    assert store == ["n/a", "n/c"]


async def test_pages_are_handed_over_one_by_one_and_synced_comes_after_the_last(sleeps):
    script = Script(listed(5, A1, token="t"))
    async with running(script, sleeps=sleeps, page_size=1) as reflector:
        await asyncio.wait_for(script.done.wait(), 5)
        assert list(reflector.store) == ["n/a"]
        assert not reflector.synced.is_set()
    script = Script(listed(5, A1, token="t"), listed(5, B1))
    async with running(script, sleeps=sleeps, page_size=1) as reflector:
        await asyncio.wait_for(reflector.synced.wait(), 5)
        assert list(reflector.store) == ["n/a", "n/b"]
    assert script.asked[:2] == [("list", 1, None), ("list", 1, "t")]


GONE = ApiError(410, "Expired", "too old")
GONE_EVENT = line("ERROR", {"code": 410, "reason": "Expired"})


@pytest.mark.parametrize("gone", [pytest.param(GONE, id="as an answer"), pytest.param([GONE_EVENT], id="as an event")])
async def test_after_410_a_list_tells_exactly_what_changed(sleeps, gone):
    told, asked, store = await follow(
        sleeps,
        listed(5, A1, B1, document("same", 3), document("twin", 3, "old")),
        gone,
        listed(50, document("a", 9), document("same", 3), document("new", 8), document("twin", 7, "new")),
    )
    assert told[4:] == [
        ("updated", "a", "1", "9"),
        ("added", "new", "8"),
        ("deleted", "twin", "3"),
        ("added", "twin", "7"),
        ("deleted", "b", "1"),
    ]
    assert asked[2:] == [("list", 500, None), ("watch", "50")]
    assert sorted(store) == ["n/a", "n/new", "n/same", "n/twin"]


async def test_a_list_that_expires_between_pages_is_read_in_one_piece(sleeps):
    told, asked, _ = await follow(sleeps, listed(5, A1, token="t"), GONE, listed(6, A2, B1))
    assert told == [("added", "a", "1"), ("updated", "a", "1", "2"), ("added", "b", "1")]
    assert asked == [("list", 500, None), ("list", 500, "t"), ("list", None, None), ("watch", "6")]
    assert sleeps == []


BROKEN = TransportError("cut", sent=True)
REFUSED = TransportError("connection refused", sent=False)


async def test_a_watch_that_breaks_in_the_middle_of_a_line_goes_on_from_the_last_event(sleeps):
    half = line("MODIFIED", document("a", 7))
    told, asked, _ = await follow(
        sleeps, listed(5, A1), [line("MODIFIED", document("a", 6)), half[:30], BROKEN], [half], [BROKEN]
    )
    assert told == [("added", "a", "1"), ("updated", "a", "1", "6"), ("updated", "a", "6", "7")]
    assert asked == [("list", 500, None), ("watch", "5"), ("watch", "6"), ("watch", "7"), ("watch", "7")]


async def test_a_watch_that_says_nothing_is_begun_once_a_second(sleeps):
    now = 0.0

    async def sleep(seconds):
        nonlocal now
        now += seconds
        await sleeps(seconds)

    await follow(sleeps, listed(5), [], [BROKEN], [bookmark(6)], [], sleep=sleep, clock=lambda: now)
    assert sleeps == [QUIET_PAUSE, QUIET_PAUSE, 0.0, QUIET_PAUSE]


async def test_failures_wait_longer_and_longer_until_something_comes(sleeps):
    unavailable = ApiError(503, "ServiceUnavailable")
    broken = [TransportError("no answer in time", sent=True)] * 2
    await follow(
        sleeps,
        unavailable,
        ConfigError("plugin"),
        *broken,
        unavailable,
        listed(5),
        unavailable,
        [bookmark(6)],
        unavailable,
    )
    assert sleeps == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 0.0, 1.0]


async def test_retry_after_is_honoured(sleeps):
    busy = ApiError(429, "TooManyRequests", retry_after=30.0)
    _, asked, _ = await follow(sleeps, busy, listed(5), busy)
    assert sleeps == [30.0, 30.0]
    assert asked == [("list", 500, None)] * 2 + [("watch", "5")] * 2


async def test_a_server_that_comes_back_with_an_older_past_is_listed_again(sleeps):
    told, asked, store = await follow(
        sleeps, listed(50, A1, B1), REFUSED, listed(3, token="t"), listed(3, document("b", 2, "other"))
    )
    assert asked == [("list", 500, None), ("watch", "50"), ("list", 1, None), ("list", 500, None), ("watch", "3")]
    assert told[2:] == [("deleted", "b", "1"), ("added", "b", "2"), ("deleted", "a", "1")]
    assert store == ["n/b"]


async def test_a_server_that_comes_back_as_it_was_is_watched_on(sleeps):
    _, asked, _ = await follow(sleeps, listed(50, A1), REFUSED, REFUSED, listed(50, token="t"))
    assert asked == [("list", 500, None), ("watch", "50"), ("list", 1, None), ("list", 1, None), ("watch", "50")]


TOO_LARGE = ApiError(504, "Timeout", "Too large", {"causes": [{"reason": "ResourceVersionTooLarge"}]})


@pytest.mark.parametrize(
    "step",
    [
        pytest.param([line("MODIFIED", document("a", 3))], id="an event from before"),
        pytest.param([bookmark(4)], id="a bookmark from before"),
        pytest.param([b"<html>\n"], id="no event at all"),
        pytest.param([b'{"type":"ADDED"}\n'], id="no object"),
        pytest.param(TOO_LARGE, id="a server that has not got so far"),
    ],
)
async def test_what_makes_the_past_doubtful_leads_to_a_list(sleeps, step):
    _, asked, _ = await follow(sleeps, listed(5, A1), step, listed(7, A1))
    assert asked == [("list", 500, None), ("watch", "5"), ("list", 500, None), ("watch", "7")]
    assert sleeps == [1.0]


async def test_what_comes_twice_is_told_once_and_what_is_not_there_is_not_deleted(sleeps):
    event = line("MODIFIED", document("a", 6))
    told, _, _ = await follow(
        sleeps, listed(5, A1), [event, event, line("DELETED", document("x", 7))], [line("SURPRISE", document("a", 8))]
    )
    assert told == [("added", "a", "1"), ("updated", "a", "1", "6")]


async def test_another_object_of_the_same_name(sleeps):
    told, _, _ = await follow(sleeps, listed(5, A1), [line("MODIFIED", document("a", 6, "other"))])
    assert told == [("added", "a", "1"), ("deleted", "a", "1"), ("added", "a", "6")]


BAD = {"spec": {"containers": 3}}


async def test_objects_that_cannot_be_decoded(sleeps):
    told, _, store = await follow(
        sleeps,
        listed(5, A1, document("bad", 2, **BAD)),
        [line("MODIFIED", document("a", 6, **BAD)), line("MODIFIED", document("bad", 7))],
        [line("MODIFIED", document("a", 8)), line("ADDED", document("gone", 9, **BAD))],
        [line("DELETED", document("gone", 10)), b'{"type":"ADDED","object":{"metadata":{"name":7}}}\n'],
    )
    assert told == [
        ("added", "a", "1"),
        ("undecodable", "bad"),
        ("undecodable", "a"),
        ("added", "bad", "7"),
        ("updated", "a", "1", "8"),
        ("undecodable", "gone"),
        ("undecodable", "7"),
    ]
    assert store == ["n/a", "n/bad"]


async def test_a_version_that_cannot_be_decoded_is_told_once_however_often_it_is_listed(sleeps):
    bad = document("bad", 2, **BAD)
    told, _, _ = await follow(sleeps, listed(5, bad), GONE, listed(6, bad), GONE, listed(7), GONE, listed(8, bad))
    assert told == [("undecodable", "bad")] * 2


async def test_a_decoder_of_the_callers_own_may_fail_in_any_way(sleeps):
    class Lengths:
        added = updated = deleted = lambda *_: None

        def __init__(self):
            self.refused = []

        def undecodable(self, raw, error):
            self.refused.append((len(raw), str(error)))

    def decode(raw):
        if b"odd" in raw:
            raise RuntimeError("odd")
        return len(raw)

    handler, script = Lengths(), Script(listed(5, A1, document("odd", 2)))
    async with running(script, handler, sleeps=sleeps, decode=decode) as reflector:
        await asyncio.wait_for(reflector.synced.wait(), 5)
    assert dict(reflector.store) == {"n/a": len(msgspec.json.encode(A1))}
    assert [error for _, error in handler.refused] == ["odd"]


async def test_a_handler_that_raises_is_named_and_the_rest_goes_on(sleeps, caplog):
    class Fragile(Recorder):
        def added(self, new):
            super().added(new)
            raise RuntimeError("oops")

    script, handler = Script(listed(5, A1, B1), [line("DELETED", document("a", 6))]), Fragile()
    with caplog.at_level(logging.ERROR):
        async with running(script, handler, sleeps=sleeps):
            await asyncio.wait_for(script.done.wait(), 5)
    assert [what for what, *_ in handler.told] == ["added", "added", "deleted"]
    assert [record.getMessage() for record in caplog.records] == [
        "handling a change of pods failed (Pod n/a put): RuntimeError: oops",
    ]


async def test_failures_are_logged_in_one_line(sleeps, caplog):
    with caplog.at_level(logging.WARNING):
        await follow(sleeps, REFUSED, listed(5))
    assert [record.getMessage() for record in caplog.records] == ["pods: connection refused; next try in 1.0 s"]


@pytest.mark.parametrize(
    ("steps", "problem"),
    [
        pytest.param([], "", id="nothing has failed yet"),
        pytest.param([REFUSED], "pods: connection refused", id="the server is away"),
        pytest.param([ApiError(403, "Forbidden", "no")], "pods: 403 Forbidden: no", id="it refuses"),
        pytest.param([REFUSED, listed(5)], "", id="a list came in the end"),
        pytest.param([listed(5), ApiError(403, "Forbidden", "no")], "pods: 403 Forbidden: no", id="no watch"),
    ],
)
async def test_what_the_last_try_failed_by(sleeps, steps, problem):
    script = Script(*steps)
    async with running(script, sleeps=sleeps) as reflector:
        await asyncio.wait_for(script.done.wait(), 5)
        assert reflector.problem == problem


@pytest.fixture
def no_garbage_collection():
    """For tests that measure short times: a full collection takes longer."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
async def test_others_get_their_turn_while_much_is_handed_over(sleeps):
    loop = asyncio.get_running_loop()
    gaps = []
    decode(POD.type, msgspec.json.encode(document("first", 1)))  # imports the models, which takes its time once

    async def tick():
        while True:
            began = time.thread_time()  # CPU time: other processes may keep us waiting, which is not meant here
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - began)

    class Slow(Recorder):
        def added(self, new):
            until = loop.time() + 0.001
            while loop.time() < until:
                pass

    script = Script(listed(5), [line("ADDED", document(str(n), n + 6)) for n in range(60)])
    ticker = asyncio.create_task(tick())
    async with running(script, Slow(), sleeps=sleeps):
        await asyncio.wait_for(script.done.wait(), 5)
    ticker.cancel()
    assert max(gaps) < 6 * LONGEST_TURN


async def test_scope_and_the_store(sleeps):
    client = make_client(make_node("a", labels={"x": "y"}), make_node("b"))
    reflector = Reflector(client, NODE, Recorder(), label_selector="x=y", sleep=sleeps)
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(reflector.synced.wait(), 5)
    store = reflector.store
    assert (list(store), len(store), store["a"].metadata.name, "b" in store) == (["a"], 1, "a", False)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


UNKNOWN = ApiError(404, "NotFound", "the server could not find the requested resource")


async def test_a_kind_that_the_server_lacks_is_looked_for(sleeps):
    script, recorder = Script(UNKNOWN, UNKNOWN, listed(5, A1), [line("ADDED", document("b", 7))]), Recorder()
    async with running(script, recorder, sleeps=sleeps, look_for_kind=10.0) as reflector:
        await asyncio.wait_for(script.done.wait(), 5)
        assert reflector.synced.is_set()
    assert recorder.told == [("added", "a", "1"), ("added", "b", "7")]
    assert sleeps[:2] == [10.0, 10.0]


async def test_a_kind_that_goes_takes_its_objects_along(sleeps):
    gone = [line("ERROR", {"kind": "Status", "code": 404, "reason": "NotFound"})]
    told, _, store = await follow(sleeps, listed(5, A1, B1), gone, UNKNOWN, listed(9, B1), look_for_kind=10.0)
    assert told == [
        ("added", "a", "1"),
        ("added", "b", "1"),
        ("deleted", "a", "1"),
        ("deleted", "b", "1"),
        ("added", "b", "1"),
    ]
    assert store == ["n/b"]


async def test_without_that_it_is_a_failure_like_any_other(sleeps):
    script = Script(UNKNOWN, listed(5, A1))
    async with running(script, Recorder(), sleeps=sleeps) as reflector:
        await asyncio.wait_for(script.done.wait(), 5)
        assert reflector.synced.is_set()
    assert sleeps[0] == 1.0
