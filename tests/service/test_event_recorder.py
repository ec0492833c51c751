import msgspec
from tests.service.conftest import make_pod, writing
from tests.support.tables import cases

from bayplan.client import ApiError, TransportError
from bayplan.running.client import events
from bayplan.running.service import event_recorder
from bayplan.running.service.event_recorder import EventRecorder


def failed(recorder: EventRecorder, pod, note: str = "0/1 nodes are available.") -> None:
    recorder.record(pod, "test", "Warning", "FailedScheduling", "Scheduling", note)


async def test_events_equal_those_of_upstream(client, clock) -> None:
    async with writing(EventRecorder(client, clock)) as recorder:
        recorder.record(make_pod(), "test", "Normal", "Scheduled", "Binding", "Successfully assigned default/web to a")
    [(_, method, path, body)] = client.requests
    event = msgspec.json.decode(body)
    assert (method, path) == ("POST", "/apis/events.k8s.io/v1/namespaces/default/events")
    assert event["metadata"]["name"].startswith("web.")
    assert event["eventTime"] == "2027-01-15T08:16:40.000000Z"
    assert event["reportingInstance"].startswith("test-")
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "namespace": "default",
        "name": "web",
        "uid": "uid-web",
        "resourceVersion": "7",
    }
    fields = ("type", "reason", "action", "note", "reportingController")
    assert [event[field] for field in fields] == [
        "Normal", "Scheduled", "Binding", "Successfully assigned default/web to a", "test",
    ]  # fmt: skip


async def test_a_repetition_starts_a_series_and_further_ones_are_counted(client, clock) -> None:
    async with writing(EventRecorder(client, clock)) as recorder:
        for _ in range(5):
            failed(recorder, make_pod())
    assert [request[0] for request in client.requests] == ["request", "patch"]
    name = msgspec.json.decode(client.requests[0][3])["metadata"]["name"]
    assert client.requests[1][3:] == (name, {"series": {"count": 2, "lastObservedTime": "2027-01-15T08:16:40.000000Z"}})


@cases("other", {"another name": make_pod("other"), "another uid": make_pod(uid="another")})
async def test_event_of_another_pod_is_not_a_repetition(client, clock, other) -> None:
    async with writing(EventRecorder(client, clock)) as recorder:
        failed(recorder, make_pod())
        failed(recorder, other)
    assert [request[0] for request in client.requests] == ["request", "request"]


async def test_series_of_an_expired_event_starts_over(client, clock) -> None:
    client.will("patch", ApiError(404, "NotFound"))
    async with writing(EventRecorder(client, clock)) as recorder:
        failed(recorder, make_pod())
        failed(recorder, make_pod())
    last = msgspec.json.decode(client.requests[-1][3])
    assert last["series"]["count"] == 2


async def test_event_is_retried_after_a_server_error(client, clock, monkeypatch) -> None:
    monkeypatch.setattr(events, "_RETRY_SECONDS", 0)
    client.will("request", TransportError("refused", sent=False), ApiError(503), ApiError(429))
    async with writing(EventRecorder(client, clock)) as recorder:
        failed(recorder, make_pod())
    assert len(client.requests) == 4


async def test_a_refused_status_is_dropped(client, clock, caplog) -> None:
    client.will("request", ApiError(422, "Invalid", "no such field"))
    async with writing(EventRecorder(client, clock)) as recorder:
        failed(recorder, make_pod())
    assert len(client.requests) == 1
    assert "no such field" in caplog.text


async def test_excess_events_are_dropped_and_counted(client, clock, caplog, monkeypatch) -> None:
    monkeypatch.setattr(event_recorder, "_CAPACITY", 2)
    recorder = EventRecorder(client, clock)
    for number in range(5):
        failed(recorder, make_pod(f"pod-{number}"))
    assert recorder.dropped == 3
    assert "2 dropped" in caplog.text


async def test_long_note_is_truncated(client, clock) -> None:
    async with writing(EventRecorder(client, clock)) as recorder:
        failed(recorder, make_pod(), "x" * 2000)
    note = msgspec.json.decode(client.requests[0][3])["note"]
    assert len(note) == events.NOTE_LIMIT
    assert note.endswith("x ...")
