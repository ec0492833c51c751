"""Conditions of PodGroups. Cases of TestUpdatePodGroupCondition (schedule_one_podgroup_test)."""

from datetime import UTC, datetime

from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.client import ApiError
from bayplan.core.api.custom_objects import CustomObject
from bayplan.core.api.kinds import custom_kind
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.gangs import GangOutcome
from bayplan.core.plugins.gang_scheduling.conditions import GroupReport, PodGroupConditions, changed_condition

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
EARLIER = "2025-12-31T00:00:00Z"
PLACED, REFUSED, ERROR = GangOutcome.PLACED, GangOutcome.REFUSED, GangOutcome.ERROR


def group(*conditions, generation=None, uid="uid-1", version="7", api="scheduling.k8s.io/v1alpha2"):
    metadata = {"name": "red", "namespace": "default", "uid": uid, "resourceVersion": version}
    if generation is not None:
        metadata["generation"] = generation
    return CustomObject(apiVersion=api, metadata=metadata, status={"conditions": list(conditions)})


def condition(status, reason, message="", **others):
    return {
        "type": "PodGroupScheduled",
        "status": status,
        "reason": reason,
        "message": message,
        "lastTransitionTime": EARLIER,
        **others,
    }


SCHEDULED = condition("True", "Scheduled")
UNSCHEDULABLE = condition("False", "Unschedulable", "too few")
FAILED = condition("False", "SchedulerError", "oh")
NEW = {"lastTransitionTime": "2026-01-01T12:00:00Z"}
CASES = {
    "scheduled, on an empty status": (group(), PLACED, "", SCHEDULED | NEW),
    "unschedulable, on an empty status": (group(), REFUSED, "too few", UNSCHEDULABLE | NEW),
    "an error, on an empty status": (group(), ERROR, "oh", FAILED | NEW),
    "from unschedulable to scheduled": (group(UNSCHEDULABLE), PLACED, "", SCHEDULED | NEW),
    "from an error to scheduled": (group(FAILED), PLACED, "", SCHEDULED | NEW),
    "from scheduled to unschedulable: never": (group(SCHEDULED), REFUSED, "too few", None),
    "from scheduled to an error: never": (group(SCHEDULED), ERROR, "oh", None),
    "from unschedulable to an error: no transition": (group(UNSCHEDULABLE), ERROR, "oh", FAILED),
    "from an error to unschedulable: no transition": (group(FAILED), REFUSED, "too few", UNSCHEDULABLE),
    "another reason: no transition": (
        group(UNSCHEDULABLE),
        REFUSED,
        "fewer",
        condition("False", "Unschedulable", "fewer"),
    ),
    "scheduled already": (group(SCHEDULED), PLACED, "", None),
    "unschedulable already": (group(UNSCHEDULABLE), REFUSED, "too few", None),
    "observed generation": (
        group(generation=3),
        PLACED,
        "",
        condition("True", "Scheduled", observedGeneration=3) | NEW,
    ),
    "other conditions are ignored": (group({**SCHEDULED, "type": "Other"}), REFUSED, "too few", UNSCHEDULABLE | NEW),
}


@cases("before, outcome, message, after", CASES)
def test_changed_condition(before, outcome, message, after):
    assert changed_condition(before, GroupReport(outcome, message), NOW) == after


@cases("before, outcome, message, after", CASES)
def test_changed_condition_in_1_37(before, outcome, message, after):
    old = [renamed(each) for each in before["status"]["conditions"]]
    before = before | {"apiVersion": "scheduling.k8s.io/v1beta1", "status": {"conditions": old}}
    assert changed_condition(before, GroupReport(outcome, message), NOW) == (after and renamed(after))


def renamed(condition):
    return condition | {"type": condition["type"].replace("PodGroupScheduled", "PodGroupInitiallyScheduled")}


class Client:
    """A client that records patches, or fails."""

    def __init__(self):
        self.patches = []
        self.error = None

    async def patch(self, kind, name, patch, namespace, *, subresource):
        if self.error is not None:
            raise self.error
        assert (kind.resource, subresource) == ("podgroups.scheduling.k8s.io", "status")
        self.patches.append((f"{namespace}/{name}", patch))


class Stage:
    def __init__(self, *conditions):
        state = ClusterState()
        self.handle = OfflineHandle(state)
        self.handle.client = self.client = Client()
        self.handle.time = NOW
        self.groups = state.objects[custom_kind(POD_GROUPS)]
        self.groups.set("default/red", group(*conditions))
        self.writer = PodGroupConditions(self.handle, self.groups)

    def written(self):
        return [patch["status"]["conditions"][-1]["reason"] for _, patch in self.client.patches]


async def test_latest_report_is_written_and_other_conditions_are_kept():
    other = {"type": "DisruptionTarget", "status": "True"}
    stage = Stage(other)
    stage.writer.report("default/red", ERROR, "oh")
    stage.writer.report("default/red", REFUSED, "too few")
    assert await stage.writer.catch_up() == {}
    ((key, patch),) = stage.client.patches
    assert key == "default/red"
    assert patch["metadata"] == {"uid": "uid-1", "resourceVersion": "7"}
    assert patch["status"]["conditions"] == [other, UNSCHEDULABLE | NEW]


async def test_placed_group_stays_placed_before_the_server_confirms_it():
    stage = Stage()
    stage.writer.report("default/red", PLACED, "")
    stage.writer.report("default/red", REFUSED, "too few")
    await stage.writer.catch_up()
    stage.writer.report("default/red", REFUSED, "too few")
    await stage.writer.catch_up()
    assert stage.written() == ["Scheduled"]


async def test_recreated_group_gets_a_new_condition():
    stage = Stage()
    stage.writer.report("default/red", PLACED, "")
    await stage.writer.catch_up()
    stage.groups.remove("default/red")
    stage.groups.set("default/red", group(uid="uid-2"))
    stage.writer.report("default/red", REFUSED, "too few")
    await stage.writer.catch_up()
    assert stage.written() == ["Scheduled", "Unschedulable"]


async def test_reports_of_unknown_groups_are_ignored():
    stage = Stage()
    stage.writer.report("default/blue", PLACED, "")
    stage.writer.report("default/red", PLACED, "")
    stage.groups.remove("default/red")
    assert await stage.writer.catch_up() == {}
    assert stage.client.patches == []


FAILURES = {
    "server error": (ApiError(500, "InternalError", "no"), True),
    "conflict": (ApiError(409, "Conflict", "no"), True),
    "group deleted": (ApiError(404, "NotFound", "no"), False),
}


@cases("error, again", FAILURES)
async def test_failed_write(error, again):
    stage = Stage()
    stage.client.error = error
    stage.writer.report("default/red", REFUSED, "too few")
    assert bool(await stage.writer.catch_up()) is again
