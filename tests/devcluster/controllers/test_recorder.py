import asyncio
from contextlib import asynccontextmanager

import msgspec
import pytest
from tests.service.conftest import ScriptedClient
from tests.support.waiting import turns

from bayplan.client import ApiError
from bayplan.core.api.kinds import NODE
from bayplan.foundations.clock import ManualClock
from bayplan.testing.builders import make_node
from bayplan_devcluster.controllers.recorder import BURST, REFILL_SECONDS, EventRecorder, EventSink


class Recording:
    def __init__(self):
        self.client, self.clock = ScriptedClient(), ManualClock()
        self._sink = EventSink(self.client, self.clock)
        self._recorder = EventRecorder(self._sink, "node-controller")

    @asynccontextmanager
    async def written(self):
        """Writes what the block records before it returns."""
        yield
        writing = asyncio.create_task(self._sink.run())
        await turns(10 * BURST)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)

    def ready(self, message="Node a is ready"):
        self._recorder.normal(NODE, make_node("a"), "NodeReady", message)

    @property
    def created(self):
        return [msgspec.json.decode(body) for verb, *_, body in self.client.requests if verb == "request"]

    @property
    def changes(self):
        return [changes for verb, *_, changes in self.client.requests if verb == "patch"]


@pytest.fixture
def recording():
    return Recording()


async def test_events_are_those_of_kube_controller_manager(recording):
    async with recording.written():
        recording.ready()
    [event] = recording.created
    assert event["metadata"].pop("name").startswith("a.")
    assert event["involvedObject"].pop("uid")
    assert event == {
        "metadata": {"namespace": "default"},
        "involvedObject": {"apiVersion": "v1", "kind": "Node", "name": "a"},
        "type": "Normal",
        "reason": "NodeReady",
        "message": "Node a is ready",
        "source": {"component": "node-controller"},
        "reportingComponent": "node-controller",
        "firstTimestamp": "2026-01-01T00:00:00Z",
        "lastTimestamp": "2026-01-01T00:00:00Z",
        "count": 1,
    }


async def test_identical_events_are_counted(recording):
    async with recording.written():
        recording.ready()
        recording.clock.advance(60)
        recording.ready()
        recording.ready("Node a is ready again")
    assert [event["message"] for event in recording.created] == ["Node a is ready", "Node a is ready again"]
    assert recording.changes == [{"count": 2, "lastTimestamp": "2026-01-01T00:01:00Z"}]


async def test_an_expired_event_is_created_again_with_its_count(recording):
    async with recording.written():
        recording.ready()
    recording.client.will("patch", ApiError(404, "NotFound"))
    async with recording.written():
        recording.ready()
    first, second = recording.created
    assert second == {**first, "count": 2}


async def test_an_object_has_a_limited_number_of_events(recording):
    async with recording.written():
        for number in range(BURST + 5):
            recording.ready(f"message {number}")
    assert len(recording.created) == BURST
    recording.clock.advance(REFILL_SECONDS)
    async with recording.written():
        recording.ready("one more")
        recording.ready("one too many")
    assert [event["message"] for event in recording.created[BURST:]] == ["one more"]
