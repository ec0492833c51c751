import asyncio

import pytest
from lightkube.models.core_v1 import Pod, PodCondition
from lightkube.models.meta_v1 import ObjectMeta
from tests.service.conftest import make_pod, writing
from tests.support.tables import cases
from tests.support.waiting import until

from bayplan.client import ApiError, TransportError
from bayplan.core.api.objects import UndecodableObject
from bayplan.foundations.failures import Failures
from bayplan.running.client.errors import InvalidNameError
from bayplan.running.service import pod_status
from bayplan.running.service.pod_status import PodStatusWriter

MESSAGE = "0/1 nodes are available: 1 Insufficient cpu."


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch) -> None:
    monkeypatch.setattr(pod_status, "_RETRY_SECONDS", (0,))


def condition(**changes) -> PodCondition:
    values = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": MESSAGE,
        "observedGeneration": 1,
    }
    return PodCondition(**{**values, **changes})


async def test_writes_the_condition(client, clock) -> None:
    async with writing(PodStatusWriter(client, clock)) as writer:
        writer.not_scheduled(make_pod(), "Unschedulable", MESSAGE)
    [(_, _, namespace, name, patch)] = client.requests
    assert (namespace, name) == ("default", "web")
    assert patch == {
        "metadata": {"uid": "uid-web"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": MESSAGE,
                    "lastProbeTime": None,
                    "lastTransitionTime": "2027-01-15T08:16:40Z",
                    "observedGeneration": 1,
                }
            ]
        },
    }


@cases(
    "standing, written",
    {
        "the same": (condition(), False),
        "another message": (condition(message="0/2 nodes are available."), True),
        "another reason": (condition(reason="SchedulerError"), True),
        "an older generation": (condition(observedGeneration=None), True),
    },
)
async def test_writes_a_condition_only_when_it_changes(client, clock, standing, written) -> None:
    async with writing(PodStatusWriter(client, clock)) as writer:
        writer.not_scheduled(make_pod(conditions=[standing]), "Unschedulable", MESSAGE)
    assert bool(client.requests) is written
    if written:
        assert "lastTransitionTime" not in client.requests[0][4]["status"]["conditions"][0]


@pytest.mark.feature("Nominated pods: nominatedNodeName during slow bindings")
@pytest.mark.parametrize(
    ("current", "wanted", "written"),
    [
        ("", None, {}),
        ("a", None, {}),
        ("a", "a", {}),
        ("", "a", {"nominatedNodeName": "a"}),
        ("a", "", {"nominatedNodeName": None}),
    ],
)
async def test_writes_a_nomination_only_when_it_changes(client, clock, current, wanted, written) -> None:
    async with writing(PodStatusWriter(client, clock)) as writer:
        pod = make_pod(conditions=[condition()], nominatedNodeName=current or None)
        writer.not_scheduled(pod, "Unschedulable", MESSAGE, wanted)
    assert [request[4]["status"] for request in client.requests] == ([written] if written else [])


async def test_a_newer_status_replaces_a_failing_older_one(client, clock) -> None:
    client.will("patch", TransportError("refused", sent=False), ApiError(500))
    async with writing(PodStatusWriter(client, clock)) as writer:
        writer.not_scheduled(make_pod(), "Unschedulable", "first", "a")
        await asyncio.sleep(0)
        writer.not_scheduled(make_pod(), "Unschedulable", "second")
    last = client.requests[-1][4]["status"]
    assert last["conditions"][0]["message"] == "second"
    assert last["nominatedNodeName"] == "a"
    assert len(client.requests) == 3


@pytest.mark.parametrize(("status", "logged"), [(404, False), (409, False), (403, True), (422, True)])
async def test_a_refused_status_is_dropped(client, clock, caplog, status, logged) -> None:
    client.will("patch", ApiError(status, "", "no"))
    async with writing(PodStatusWriter(client, clock)) as writer:
        writer.not_scheduled(make_pod(), "Unschedulable", MESSAGE)
    assert len(client.requests) == 1
    assert bool(caplog.text) is logged


async def test_nothing_is_written_about_a_deleted_pod(client, clock) -> None:
    writer = PodStatusWriter(client, clock)
    writer.not_scheduled(make_pod(), "Unschedulable", MESSAGE)
    writer.forget("uid-web")
    async with writing(writer):
        writer.not_scheduled(make_pod("other"), "Unschedulable", MESSAGE)
    assert [request[3] for request in client.requests] == ["other"]


@pytest.mark.feature("Nominated pods: nominatedNodeName during slow bindings")
async def test_a_nomination_is_cleared_even_if_it_was_not_reported_yet(client, clock) -> None:
    writer = PodStatusWriter(client, clock)
    writer.nominate(make_pod(), "a")
    writer.clear_nomination(make_pod())
    async with writing(writer):
        writer.clear_nomination(make_pod("other"))
    assert [request[4]["status"] for request in client.requests] == [{"nominatedNodeName": None}] * 2


async def test_withdraw_waits_for_a_running_request(client, clock) -> None:
    writer = PodStatusWriter(client, clock)
    asked, answer = asyncio.Event(), asyncio.Event()

    async def patch(*_: object, **__: object) -> None:
        asked.set()
        await answer.wait()
        raise TransportError("gone", sent=True)

    client.patch = patch
    async with writing(writer):
        writer.not_scheduled(make_pod(), "Unschedulable", MESSAGE)
        await asked.wait()
        withdrawn = asyncio.create_task(writer.withdraw("uid-web"))
        await asyncio.sleep(0)
        assert not withdrawn.done()
        asked.clear()
        answer.set()
        await withdrawn
    assert not asked.is_set(), "a withdrawn write is not retried"


async def test_withdraw_drops_a_queued_status_at_once(client, clock) -> None:
    writer = PodStatusWriter(client, clock)
    writer.not_scheduled(make_pod(), "Unschedulable", MESSAGE)
    await writer.withdraw("uid-web")
    async with writing(writer):
        pass
    assert client.requests == []


class SlowServer:
    """Applies patches to a pod's status in their order, each after `go`, and replies with the version."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.nominated = ""
        self.version = 7
        self.go = asyncio.Semaphore(0)
        self.asked = asyncio.Event()

    async def patch(self, _kind, _name, patch, _namespace=None, **_options):
        self.asked.set()
        await self.go.acquire()
        self.version += 1
        status = patch["status"]
        self.messages += [condition["message"] for condition in status.get("conditions", ())]
        if "nominatedNodeName" in status:
            self.nominated = status["nominatedNodeName"] or ""
        return Pod(metadata=ObjectMeta(name="web", resourceVersion=str(self.version)))


async def test_message_that_equals_the_cached_one_is_written_after_a_different_one_in_flight(clock) -> None:
    """A node comes tainted and loses its taint at once: the first message must not remain."""
    server = SlowServer()
    writer, cached = PodStatusWriter(server, clock), make_pod(conditions=[condition()])
    async with writing(writer):
        writer.not_scheduled(cached, "Unschedulable", "1 node(s) had untolerated taint(s)")
        await server.asked.wait()
        writer.not_scheduled(cached, "Unschedulable", MESSAGE)
        server.go.release()
        server.go.release()
    assert server.messages[-1] == MESSAGE


async def test_message_that_equals_the_cached_one_replaces_a_queued_one(clock) -> None:
    server = SlowServer()
    writer, cached = PodStatusWriter(server, clock), make_pod(conditions=[condition()])
    writer.not_scheduled(cached, "Unschedulable", "1 node(s) had untolerated taint(s)")
    writer.not_scheduled(cached, "Unschedulable", MESSAGE)
    async with writing(writer):
        pass
    assert server.messages == []


async def test_nominated_node_that_equals_the_cached_one_is_written_after_another_one(clock) -> None:
    server = SlowServer()
    writer, cached = PodStatusWriter(server, clock), make_pod()
    async with writing(writer):
        writer.nominate(cached, "a")
        await server.asked.wait()
        writer.nominate(cached, "")
        server.go.release()
        server.go.release()
    assert server.nominated == ""
    assert server.version == 9


async def test_cached_pod_that_is_older_than_the_last_write_is_not_compared_with(clock) -> None:
    server = SlowServer()
    server.go = asyncio.Semaphore(10)
    writer, cached = PodStatusWriter(server, clock), make_pod(conditions=[condition()])
    async with writing(writer):
        writer.not_scheduled(cached, "Unschedulable", "another")
        await writer.drain(5)
        writer.not_scheduled(cached, "Unschedulable", "another")  # the watch has not reported the write yet
        await writer.drain(5)
        assert server.messages == ["another"]
        writer.not_scheduled(cached, "Unschedulable", MESSAGE)
    assert server.messages == ["another", MESSAGE]


async def test_unchanged_status_is_not_written_again(clock) -> None:
    server = SlowServer()
    server.go = asyncio.Semaphore(10)
    writer, cached = PodStatusWriter(server, clock), make_pod()
    async with writing(writer):
        for _ in range(5):
            writer.not_scheduled(cached, "Unschedulable", MESSAGE, "")
            await writer.drain(5)
    assert server.messages == [MESSAGE]


@pytest.mark.parametrize(
    "error",
    [UndecodableObject("not JSON"), InvalidNameError("'a/b'"), AttributeError("metadata")],
    ids=lambda error: type(error).__name__,
)
async def test_reply_that_cannot_be_used_costs_one_write_and_is_written_again_by_the_next_attempt(
    client, clock, error
) -> None:
    client.will("patch", error)
    failures = Failures()
    async with writing(PodStatusWriter(client, clock, failures)) as writer:
        writer.not_scheduled(make_pod(), "Unschedulable", MESSAGE)
        await writer.drain(5)
        assert len(client.requests) == 1
        writer.not_scheduled(make_pod(), "Unschedulable", MESSAGE)
    assert len(client.requests) == 2
    assert failures.counts == {("writing the status of a pod", type(error).__name__): 1}


async def test_pod_whose_writes_fail_does_not_hold_up_others(client, clock, monkeypatch) -> None:
    monkeypatch.setattr(pod_status, "_RETRY_SECONDS", (60,))
    client.will("patch", *[TransportError("gone", sent=True)] * 10)
    monkeypatch.setattr(pod_status, "_WRITERS", 1)
    writer = PodStatusWriter(client, clock)
    task = asyncio.create_task(writer.run())
    for number in range(11):
        writer.not_scheduled(make_pod(f"web-{number}"), "Unschedulable", MESSAGE)
    await until(lambda: len(client.requests) >= 11, step=0.0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for number in range(11):
        writer.forget(f"uid-web-{number}")
