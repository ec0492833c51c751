from datetime import UTC, datetime

import pytest
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.client import ApiError, TransportError
from bayplan.core.api.coscheduling import POD_GROUP_LABEL, POD_GROUPS
from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import POD, custom_kind
from bayplan.testing.builders import make_cluster, make_pod
from bayplan_plugins.coscheduling.status import PodGroupStatuses, next_status

NOW = datetime(2026, 2, 3, 4, 5, 6, 700, tzinfo=UTC)
STARTED = {"scheduleStartTime": "2026-02-03T04:05:06Z"}


def pods(*phases, **fields):
    return [make_pod(f"p-{number}", status={"phase": phase}, **fields).object for number, phase in enumerate(phases)]


CASES = {
    "no pods yet": ({}, pods(), ("Pending", 0, 0, 0), {}),
    "too few": ({"phase": "Pending"}, pods("Pending"), ("Pending", 0, 0, 0), {}),
    "enough": ({"phase": "Pending"}, pods("Pending", "Pending"), ("Scheduling", 0, 0, 0), STARTED),
    "all at once": ({}, pods("Running", "Running"), ("Running", 2, 0, 0), STARTED),
    "still scheduling": ({"phase": "Scheduling"}, pods("Running", "Pending"), ("Scheduling", 1, 0, 0), {}),
    "running": ({"phase": "Scheduling"}, pods("Running", "Running"), ("Running", 2, 0, 0), {}),
    "some succeeded": ({"phase": "Running"}, pods("Running", "Succeeded"), ("Running", 1, 1, 0), {}),
    "one is gone": ({"phase": "Running"}, pods("Running"), ("Pending", 1, 0, 0), {}),
    "one is rescheduled": ({"phase": "Running"}, pods("Running", "Pending"), ("Scheduling", 1, 0, 0), {}),
    "one has failed": ({"phase": "Running"}, pods("Running", "Failed"), ("Failed", 1, 0, 1), {}),
    "one has failed, too few have started": (
        {"phase": "Scheduling"},
        pods("Failed", "Pending"),
        ("Scheduling", 0, 0, 1),
        {},
    ),
    "all succeeded": ({"phase": "Running"}, pods("Succeeded", "Succeeded"), ("Finished", 0, 2, 0), {}),
    "enough succeeded, one has failed": (
        {"phase": "Running"},
        pods("Succeeded", "Succeeded", "Failed"),
        ("Finished", 0, 2, 1),
        {},
    ),
    "owned by a workload": (
        {"phase": "Pending"},
        pods("Pending", "Pending", owner=("batch/v1", "Job", "crew")),
        ("Scheduling", 0, 0, 0),
        STARTED | {"occupiedBy": "default/crew"},
    ),
}


@cases("before, members, after, more", CASES)
def test_next_status(before, members, after, more):
    status = next_status(before, 2, members, NOW)
    assert tuple(status.pop(name) for name in ("phase", "running", "succeeded", "failed")) == after
    assert status == more


@pytest.mark.parametrize("phase", ["Finished", "Failed"])
def test_final_phase_does_not_change(phase):
    status = {"phase": phase, "succeeded": 2}
    assert next_status(status, 2, pods("Running"), NOW) == status


class Server:
    """A client that lists these pods, and records patches or fails."""

    def __init__(self, members=(), error=None):
        self.members, self.error, self.written, self.asked = members, error, [], []

    async def list(self, kind, namespace, *, label_selector):
        self.asked.append((kind, namespace, label_selector))
        return type("Page", (), {"items": self.members})

    async def patch(self, kind, name, patch, namespace, *, subresource):
        if self.error is not None:
            raise self.error
        self.written.append((kind.plural, name, namespace, subresource, patch))


def statuses(server, status=None, spec=None):
    """The statuses of the group crew, and the handle's store of pods."""
    state = make_cluster().state
    handle = OfflineHandle(state)
    handle.client, handle.time = server, NOW
    groups = state.objects[custom_kind(POD_GROUPS)]
    metadata = {"name": "crew", "namespace": "default"}
    groups.set("default/crew", CustomObject(metadata=metadata, spec=spec or {"minMember": 2}, status=status))
    return PodGroupStatuses(handle, state.objects[POD], groups), state.objects[POD]


async def test_only_changed_fields_are_written():
    server = Server(pods("Running", "Running"))
    before = {"phase": "Scheduling", "running": 1, "succeeded": 0, "failed": 0}
    keeper, _ = statuses(server, before)
    assert await keeper.catch_up() == []
    assert server.asked == [(POD, "default", f"{POD_GROUP_LABEL}=crew")]
    patch = {"status": {"phase": "Running", "running": 2}}
    assert server.written == [("podgroups", "crew", "default", "status", patch)]
    await keeper.catch_up()
    assert len(server.asked) == 1, "there were no events since the last call"


async def test_pod_events_update_the_status():
    server = Server(pods("Running", "Running"))
    keeper, store = statuses(server, {"phase": "Running", "running": 2, "succeeded": 0, "failed": 0})
    await keeper.catch_up()
    member = make_pod("p-0", labels={POD_GROUP_LABEL: "crew"})
    for change in (lambda: store.set(member.key, member), lambda: store.remove(member.key)):
        asked = len(server.asked)
        change()
        await keeper.catch_up()
        assert len(server.asked) == asked + 1
    store.set("default/plain", make_pod("plain"))
    other = make_pod("other", labels={POD_GROUP_LABEL: "no-such-group"})
    store.set(other.key, other)
    asked = len(server.asked)
    await keeper.catch_up()
    assert len(server.asked) == asked
    assert server.written == []


async def test_invalid_group_is_ignored():
    server = Server()
    keeper, _ = statuses(server, spec={"minMember": "many"})
    assert await keeper.catch_up() == []
    assert server.written == []


async def test_group_without_min_member_is_not_finished_at_once():
    server = Server()
    keeper, _ = statuses(server, spec={"scheduleTimeoutSeconds": 5})
    await keeper.catch_up()
    assert server.written[0][-1]["status"]["phase"] == "Pending"


ERRORS = {
    "server unavailable": (TransportError("gone", sent=True), ["default/crew"]),
    "rejected by the server": (ApiError(403, "Forbidden", "no"), ["default/crew"]),
    "group deleted": (ApiError(404, "NotFound", "no such group"), []),
}


@cases("error, again", ERRORS)
async def test_failed_write_is_retried(error, again, caplog):
    keeper, _ = statuses(Server(error=error))
    assert await keeper.catch_up() == again
    assert ("could not update the status of PodGroup default/crew" in caplog.text) is bool(again)
