import asyncio
import gc
import logging
import random
import time
from contextlib import asynccontextmanager
from dataclasses import fields

import msgspec
import pytest
from tests.support.tables import cases
from tests.support.waiting import PATIENCE

from bayplan.client import ApiError, Backoff, Client, ConfigError, Pace, Reflector, TransportError
from bayplan.core.api.kinds import NODE, POD, custom_kind
from bayplan.core.api.objects import decode
from bayplan.foundations.turns import LONGEST_TURN
from bayplan.running.client.errors import RequestTimeoutError
from bayplan.running.client.list_watch import QUIET_PAUSE
from bayplan.running.client.pace import AWAY
from bayplan.testing.builders import make_node
from bayplan.testing.in_memory import make_client

BACKOFF = Backoff(initial=1.0, longest=8.0, jitter=0.0)
PACED = {each.name for each in fields(Pace)}


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
    """A client with scripted lists and watches. At the end of the script, `done` is set and requests hang."""

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
    """A handler that records its calls by name and version."""

    def __init__(self):
        self.calls = []

    def added(self, new):
        self.calls.append(("added", new.metadata.name, new.metadata.resourceVersion))

    def updated(self, old, new):
        versions = (old.metadata.resourceVersion, new.metadata.resourceVersion)
        self.calls.append(("updated", new.metadata.name, *versions))

    def deleted(self, old):
        self.calls.append(("deleted", old.metadata.name, old.metadata.resourceVersion))

    def undecodable(self, raw, error):
        self.calls.append(("undecodable", error.name))


@asynccontextmanager
async def running(client, handler=None, *, sleeps, **options):
    paced = {"backoff": BACKOFF, "rng": random.Random(1), "sleep": sleeps, "clock": lambda: 0.0}
    paced |= {name: options.pop(name) for name in PACED & options.keys()}
    reflector = Reflector(client, POD, handler or Recorder(), pace=Pace(**paced), **options)
    task = asyncio.create_task(reflector.run())
    try:
        yield reflector
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def follow(sleeps, *steps, **options):
    """The calls of the handler, the requests, and the keys in the store at the end of the script."""
    script, recorder = Script(*steps), Recorder()
    async with running(script, recorder, sleeps=sleeps, **options) as reflector:
        await asyncio.wait_for(script.done.wait(), PATIENCE)
    return recorder.calls, script.asked, list(reflector.store)


A1, A2, A3, B1 = document("a", 1), document("a", 2), document("a", 3), document("b", 1)


async def test_list_then_watch(sleeps):
    calls, asked, store = await follow(
        sleeps,
        listed(5, A1, B1),
        [
            line("MODIFIED", document("a", 6)),
            line("ADDED", document("c", 7)),
            line("DELETED", document("b", 8)),
            bookmark(20),
        ],
    )
    assert calls == [
        ("added", "a", "1"),
        ("added", "b", "1"),
        ("updated", "a", "1", "6"),
        ("added", "c", "7"),
        ("deleted", "b", "1"),
    ]
    assert asked == [("list", 500, None), ("watch", "5"), ("watch", "20")]
    assert store == ["n/a", "n/c"]


async def test_handler_gets_each_page_and_synced_is_set_after_the_last(sleeps):
    script = Script(listed(5, A1, token="t"))
    async with running(script, sleeps=sleeps, page_size=1) as reflector:
        await asyncio.wait_for(script.done.wait(), PATIENCE)
        assert list(reflector.store) == ["n/a"]
        assert not reflector.synced.is_set()
    script = Script(listed(5, A1, token="t"), listed(5, B1))
    async with running(script, sleeps=sleeps, page_size=1) as reflector:
        await asyncio.wait_for(reflector.synced.wait(), PATIENCE)
        assert list(reflector.store) == ["n/a", "n/b"]
    assert script.asked[:2] == [("list", 1, None), ("list", 1, "t")]


GONE = ApiError(410, "Expired", "too old")
TOO_LARGE = ApiError(504, "Timeout", "Too large", {"causes": [{"reason": "ResourceVersionTooLarge"}]})
GONE_EVENT = line("ERROR", {"code": 410, "reason": "Expired"})


@cases("gone", {"as a response": GONE, "as an event": [GONE_EVENT]})
async def test_list_after_410_notifies_only_of_changes(sleeps, gone):
    calls, asked, store = await follow(
        sleeps,
        listed(5, A1, B1, document("same", 3), document("twin", 3, "old")),
        gone,
        listed(50, document("a", 9), document("same", 3), document("new", 8), document("twin", 7, "new")),
    )
    assert calls[4:] == [
        ("updated", "a", "1", "9"),
        ("added", "new", "8"),
        ("deleted", "twin", "3"),
        ("added", "twin", "7"),
        ("deleted", "b", "1"),
    ]
    assert asked[2:] == [("list", 500, None), ("watch", "50")]
    assert sorted(store) == ["n/a", "n/new", "n/same", "n/twin"]


async def test_list_that_expires_between_pages_is_read_in_one_page(sleeps):
    calls, asked, _ = await follow(sleeps, listed(5, A1, token="t"), GONE, listed(6, A2, B1))
    assert calls == [("added", "a", "1"), ("updated", "a", "1", "2"), ("added", "b", "1")]
    assert asked == [("list", 500, None), ("list", 500, "t"), ("list", None, None), ("watch", "6")]
    assert sleeps == []


BROKEN = TransportError("cut", sent=True)
REFUSED = TransportError("connection refused", sent=False)


async def test_watch_that_breaks_within_a_line_resumes_from_the_last_event(sleeps):
    half = line("MODIFIED", document("a", 7))
    calls, asked, _ = await follow(
        sleeps, listed(5, A1), [line("MODIFIED", document("a", 6)), half[:30], BROKEN], [half], [BROKEN]
    )
    assert calls == [("added", "a", "1"), ("updated", "a", "1", "6"), ("updated", "a", "6", "7")]
    assert asked == [("list", 500, None), ("watch", "5"), ("watch", "6"), ("watch", "7"), ("watch", "7")]


async def test_watches_without_events_start_once_a_second(sleeps):
    now = 0.0

    async def sleep(seconds):
        nonlocal now
        now += seconds
        await sleeps(seconds)

    await follow(sleeps, listed(5), [], [BROKEN], [bookmark(6)], [], sleep=sleep, clock=lambda: now)
    assert sleeps == [QUIET_PAUSE, QUIET_PAUSE, 0.0, QUIET_PAUSE]


async def test_backoff_grows_until_a_success(sleeps):
    denied = ApiError(403, "Forbidden")
    await follow(sleeps, denied, ConfigError("plugin"), *[denied] * 3, listed(5), denied, [bookmark(6)], denied)
    assert sleeps == [1.0, 2.0, 4.0, 8.0, 8.0, 8.0, 0.0, 1.0]


@cases(
    "error",
    {
        "refuses connections": REFUSED,
        "sends no response": TransportError("the request timed out", sent=True),
        "is not ready": ApiError(503, "ServiceUnavailable"),
        "is behind a load balancer": ApiError(502, ""),
        "fills its caches": ApiError(429, "TooManyRequests"),
    },
)
@cases("after", {"410": GONE, "older": TOO_LARGE, "403": ApiError(403, "Forbidden")})
async def test_every_kind_is_followed_again_within_two_seconds_after_an_outage(sleeps, error, after):
    backoff = Backoff(initial=0.2, longest=15.0, jitter=0.5)
    await follow(sleeps, *[error] * 8, listed(5, A1), after, listed(7, A1), backoff=backoff)
    assert sleeps[0] < sleeps[1] < sleeps[2] < 1.0, "the first waits are short"
    assert max(sleeps[:8]) <= AWAY * 1.5 <= 2.0
    assert sleeps[8] <= 0.3, "what the outage leads to doesn't wait as for an outage"


async def test_requests_that_fail_slowly_are_repeated_less_often(sleeps):
    now = 0.0

    def clock():
        nonlocal now
        now += 2.0
        return now

    await follow(sleeps, *[ApiError(504, "Timeout")] * 6, clock=clock)
    assert sleeps == [1.0, 2.0, 4.0, 4.0, 4.0, 4.0]


async def test_backoff_respects_retry_after(sleeps):
    busy = ApiError(429, "TooManyRequests", retry_after=30.0)
    _, asked, _ = await follow(sleeps, busy, listed(5), busy)
    assert sleeps == [30.0, 30.0]
    assert asked == [("list", 500, None)] * 2 + [("watch", "5")] * 2


async def test_server_that_returns_with_older_versions_is_listed_again(sleeps):
    calls, asked, store = await follow(
        sleeps, listed(50, A1, B1), REFUSED, listed(3, token="t"), listed(3, document("b", 2, "other"))
    )
    assert asked == [("list", 500, None), ("watch", "50"), ("list", 1, None), ("list", 500, None), ("watch", "3")]
    assert calls[2:] == [("deleted", "b", "1"), ("added", "b", "2"), ("deleted", "a", "1")]
    assert store == ["n/b"]


async def test_server_that_returns_unchanged_is_watched_from_the_last_version(sleeps):
    _, asked, _ = await follow(sleeps, listed(50, A1), REFUSED, REFUSED, listed(50, token="t"))
    assert asked == [("list", 500, None), ("watch", "50"), ("list", 1, None), ("list", 1, None), ("watch", "50")]


@cases(
    "step",
    {
        "an event from before": [line("MODIFIED", document("a", 3))],
        "a bookmark from before": [bookmark(4)],
        "no event at all": [b"<html>\n"],
        "no object": [b'{"type":"ADDED"}\n'],
        "a server with older versions": TOO_LARGE,
    },
)
async def test_doubtful_version_leads_to_a_list(sleeps, step):
    _, asked, _ = await follow(sleeps, listed(5, A1), step, listed(7, A1))
    assert asked == [("list", 500, None), ("watch", "5"), ("list", 500, None), ("watch", "7")]
    assert sleeps == [1.0]


async def test_duplicate_events_and_deletions_of_unknown_objects_are_ignored(sleeps):
    event = line("MODIFIED", document("a", 6))
    calls, _, _ = await follow(
        sleeps, listed(5, A1), [event, event, line("DELETED", document("x", 7))], [line("SURPRISE", document("a", 8))]
    )
    assert calls == [("added", "a", "1"), ("updated", "a", "1", "6")]


async def test_new_object_of_the_same_name_is_deleted_and_added(sleeps):
    calls, _, _ = await follow(sleeps, listed(5, A1), [line("MODIFIED", document("a", 6, "other"))])
    assert calls == [("added", "a", "1"), ("deleted", "a", "1"), ("added", "a", "6")]


BAD = {"spec": {"containers": 3}}


async def test_undecodable_objects_are_reported(sleeps):
    calls, _, store = await follow(
        sleeps,
        listed(5, A1, document("bad", 2, **BAD)),
        [line("MODIFIED", document("a", 6, **BAD)), line("MODIFIED", document("bad", 7))],
        [line("MODIFIED", document("a", 8)), line("ADDED", document("gone", 9, **BAD))],
        [line("DELETED", document("gone", 10)), b'{"type":"ADDED","object":{"metadata":{"name":7}}}\n'],
    )
    assert calls == [
        ("added", "a", "1"),
        ("undecodable", "bad"),
        ("undecodable", "a"),
        ("added", "bad", "7"),
        ("updated", "a", "1", "8"),
        ("undecodable", "gone"),
        ("undecodable", "7"),
    ]
    assert store == ["n/a", "n/bad"]


async def test_custom_objects_may_have_no_namespace(sleeps):
    """Only the server knows whether their kind has any."""
    script, recorder = Script(listed(5, document("zones", 3, metadata={"namespace": None}), A1)), Recorder()
    reflector = Reflector(script, custom_kind("topologies.v1.example.com"), recorder, pace=Pace(sleep=sleeps))
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(script.done.wait(), PATIENCE)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert recorder.calls == [("added", "zones", "3"), ("added", "a", "1")]
    assert list(reflector.store) == ["zones", "n/a"]


async def test_undecodable_version_is_reported_once(sleeps):
    bad = document("bad", 2, **BAD)
    calls, _, _ = await follow(sleeps, listed(5, bad), GONE, listed(6, bad), GONE, listed(7), GONE, listed(8, bad))
    assert calls == [("undecodable", "bad")] * 2


async def test_any_exception_of_a_decoder_is_reported(sleeps):
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
        await asyncio.wait_for(reflector.synced.wait(), PATIENCE)
    assert dict(reflector.store) == {"n/a": len(msgspec.json.encode(A1))}
    assert [error for _, error in handler.refused] == ["odd"]


async def test_failing_handler_is_logged_and_the_next_change_follows(sleeps, caplog):
    class Fragile(Recorder):
        def added(self, new):
            super().added(new)
            raise RuntimeError("oops")

    script, handler = Script(listed(5, A1, B1), [line("DELETED", document("a", 6))]), Fragile()
    with caplog.at_level(logging.ERROR):
        async with running(script, handler, sleeps=sleeps):
            await asyncio.wait_for(script.done.wait(), PATIENCE)
    assert [what for what, *_ in handler.calls] == ["added", "added", "deleted"]
    assert [record.getMessage() for record in caplog.records] == [
        "handling a change of pods failed (Pod n/a put): RuntimeError: oops"
    ]


async def test_failure_is_logged_in_one_line(sleeps, caplog):
    with caplog.at_level(logging.WARNING):
        await follow(sleeps, REFUSED, listed(5))
    assert [record.getMessage() for record in caplog.records] == ["pods: connection refused; retrying in 1.0 s"]


@cases(
    "steps, problem",
    {
        "nothing has failed yet": ([], ""),
        "the server is away": ([REFUSED], "pods: connection refused"),
        "rejected": ([ApiError(403, "Forbidden", "no")], "pods: 403 Forbidden: no"),
        "a list came in the end": ([REFUSED, listed(5)], ""),
        "no watch": ([listed(5), ApiError(403, "Forbidden", "no")], "pods: 403 Forbidden: no"),
    },
)
async def test_problem_is_the_error_of_the_last_attempt(sleeps, steps, problem):
    script = Script(*steps)
    async with running(script, sleeps=sleeps) as reflector:
        await asyncio.wait_for(script.done.wait(), PATIENCE)
        assert reflector.problem == problem


@pytest.fixture
def no_garbage_collection():
    """For tests that measure short times: a full collection takes longer."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_garbage_collection")
async def test_other_tasks_run_while_many_events_are_handled(sleeps):
    loop = asyncio.get_running_loop()
    gaps = []
    decode(POD.type, msgspec.json.encode(document("first", 1)))  # the first call imports the models

    async def tick():
        while True:
            began = time.thread_time()  # CPU time, as other processes may use the CPU
            await asyncio.sleep(0)
            gaps.append(time.thread_time() - began)

    class Slow(Recorder):
        def added(self, new):
            until = loop.time() + 0.001
            while loop.time() < until:
                pass

    script = Script(listed(5), [line("ADDED", document(str(n), n + 6)) for n in range(60)])
    ticker = asyncio.create_task(tick())
    async with running(script, Slow(), sleeps=sleeps, clock=time.monotonic):
        await asyncio.wait_for(script.done.wait(), PATIENCE)
    ticker.cancel()
    assert max(gaps) < 6 * LONGEST_TURN


@cases("step, turns", {"runs": (2 * LONGEST_TURN, [0, 1, 2, 3]), "stands still": (0.0, [0, 0, 0, 0])})
async def test_other_tasks_run_when_the_turn_is_over_by_the_given_clock(sleeps, step, turns):
    now, others, seen = 0.0, 0, []

    async def other():
        nonlocal others
        while True:
            await asyncio.sleep(0)
            others += 1

    class Slow(Recorder):
        """The machine takes long, which the clock doesn't say."""

        def added(self, new):
            nonlocal now
            now += step
            seen.append(others)
            until = time.monotonic() + 2 * LONGEST_TURN
            while time.monotonic() < until:
                pass

    script = Script(listed(5), [line("ADDED", document(str(n), n + 6)) for n in range(4)])
    task = asyncio.create_task(other())
    async with running(script, Slow(), sleeps=sleeps, clock=lambda: now):
        await asyncio.wait_for(script.done.wait(), PATIENCE)
    task.cancel()
    assert [each - seen[0] for each in seen] == turns


async def test_store_has_the_selected_objects(sleeps):
    client = make_client(make_node("a", labels={"x": "y"}), make_node("b"))
    reflector = Reflector(client, NODE, Recorder(), label_selector="x=y", pace=Pace(sleep=sleeps))
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(reflector.synced.wait(), PATIENCE)
    store = reflector.store
    assert (list(store), len(store), store["a"].metadata.name, "b" in store) == (["a"], 1, "a", False)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


UNKNOWN = ApiError(404, "NotFound", "the server could not find the requested resource")


async def test_missing_kind_is_retried(sleeps):
    script, recorder = Script(UNKNOWN, UNKNOWN, listed(5, A1), [line("ADDED", document("b", 7))]), Recorder()
    async with running(script, recorder, sleeps=sleeps, look_for_kind=10.0) as reflector:
        await asyncio.wait_for(script.done.wait(), PATIENCE)
        assert reflector.synced.is_set()
    assert recorder.calls == [("added", "a", "1"), ("added", "b", "7")]
    assert sleeps[:2] == [10.0, 10.0]


async def test_store_is_emptied_when_the_kind_disappears(sleeps):
    gone = [line("ERROR", {"kind": "Status", "code": 404, "reason": "NotFound"})]
    calls, _, store = await follow(sleeps, listed(5, A1, B1), gone, UNKNOWN, listed(9, B1), look_for_kind=10.0)
    assert calls == [
        ("added", "a", "1"),
        ("added", "b", "1"),
        ("deleted", "a", "1"),
        ("deleted", "b", "1"),
        ("added", "b", "1"),
    ]
    assert store == ["n/b"]


GROUPS = [custom_kind(f"podgroups.{version}.scheduling.k8s.io") for version in ("v1beta1", "v1alpha3", "v1alpha2")]


@asynccontextmanager
async def following_versions(sleeps, *steps):
    """Follow PodGroups in any of three versions until the script ends. Yields the reflector and the script."""
    script = Script(*steps)
    options = {"backoff": BACKOFF, "rng": random.Random(1), "sleep": sleeps, "clock": lambda: 0.0}
    handler, older = Recorder(), GROUPS[1:]
    reflector = Reflector(script, GROUPS[0], handler, look_for_kind=10.0, older=older, pace=Pace(**options))
    task = asyncio.create_task(reflector.run())
    await asyncio.wait_for(script.done.wait(), PATIENCE)
    try:
        yield reflector, handler.calls
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_an_older_version_of_the_kind_is_followed(sleeps):
    added = [line("ADDED", document("b", 7))]
    async with following_versions(sleeps, UNKNOWN, UNKNOWN, listed(5, A1), added) as (reflector, calls):
        assert calls == [("added", "a", "1"), ("added", "b", "7")]
        assert {each["apiVersion"] for each in reflector.store.values()} == {"scheduling.k8s.io/v1alpha2"}
    assert sleeps[:2] == [0.0, 0.0]


async def test_all_versions_are_asked_for_until_the_server_has_one(sleeps, caplog):
    caplog.set_level(logging.INFO, logger="bayplan.running.client")
    async with following_versions(sleeps, *[UNKNOWN] * 4, listed(5, A1)) as (reflector, calls):
        assert calls == [("added", "a", "1")]
        assert reflector.store["n/a"]["apiVersion"] == "scheduling.k8s.io/v1alpha3"
    assert sleeps[:4] == [0.0, 0.0, 10.0, 0.0]
    versions = " or ".join(kind.api_version for kind in GROUPS)
    lacking = f"the API server has no podgroups ({versions}): install their definition or enable their API; "
    assert caplog.messages == [
        f"{lacking}none count until then",
        "the API server has podgroups (scheduling.k8s.io/v1alpha3) now",
    ]


async def test_objects_are_read_again_in_the_version_of_a_server_that_was_updated(sleeps):
    gone = [line("ERROR", {"kind": "Status", "code": 404, "reason": "NotFound"})]
    steps = (UNKNOWN, UNKNOWN, listed(5, A1, B1), gone, listed(5, A1))
    async with following_versions(sleeps, *steps) as (reflector, calls):
        assert calls == [("added", "a", "1"), ("added", "b", "1"), ("updated", "a", "1", "1"), ("deleted", "b", "1")]
        assert reflector.store["n/a"]["apiVersion"] == "scheduling.k8s.io/v1beta1"


async def test_missing_kind_is_an_ordinary_failure_by_default(sleeps):
    script = Script(UNKNOWN, listed(5, A1))
    async with running(script, Recorder(), sleeps=sleeps) as reflector:
        await asyncio.wait_for(script.done.wait(), PATIENCE)
        assert reflector.synced.is_set()
    assert sleeps[0] == 1.0


@pytest.mark.parametrize(("events", "level"), [([line("ADDED", document("a", 6))], "DEBUG"), ([], "INFO")])
async def test_silence_after_changes_is_logged_at_debug(sleeps, caplog, events, level):
    caplog.set_level(logging.DEBUG, "bayplan.running.client")
    await follow(sleeps, listed(5), [*events, RequestTimeoutError("GET /pods")])
    [record] = [record for record in caplog.records if "the watch broke" in record.message]
    assert record.levelname == level


@pytest.mark.parametrize("metadata", [{"name": ""}, {"namespace": ""}, {"name": "a/b"}, {"name": ".."}])
async def test_objects_without_an_address_are_not_decoded(sleeps, metadata):
    odd = document("odd", 6, metadata=metadata)
    calls, _, store = await follow(sleeps, listed(5), [line("ADDED", odd), line("ADDED", document("good", 7))])
    assert [call[0] for call in calls] == ["undecodable", "added"]
    assert store == ["n/good"]
