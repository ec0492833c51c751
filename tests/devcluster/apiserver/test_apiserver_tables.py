"""The tables of `kubectl get`: ages, and the status of a pod."""

from datetime import UTC, datetime

import pytest

from bayplan_devcluster.apiserver.tables.cells import CELLS
from bayplan_devcluster.apiserver.tables.columns import columns_of, tables
from bayplan_devcluster.apiserver.tables.pods import pod_conditions

NOW = datetime(2026, 1, 1, 1, tzinfo=UTC)


def pod_cells(given, now):
    return [column.cell(given, now) for column in columns_of("pods")]


def container(name, restarts=0, *, ready=False, **state):
    return {"name": name, "ready": ready, "restartCount": restarts, "state": state, "lastState": {}}


def pod(status, *, deleted=False, **spec):
    metadata = {"name": "p", "creationTimestamp": "2026-01-01T00:00:00Z"}
    if deleted:
        metadata["deletionTimestamp"] = "2026-01-01T00:10:00Z"
    return {"metadata": metadata, "spec": {"containers": [{"name": "a"}, {"name": "b"}], **spec}, "status": status}


RUNNING = {"startedAt": "2026-01-01T00:00:00Z"}
SIDECAR = {"initContainers": [{"name": "s", "restartPolicy": "Always"}]}


@pytest.mark.parametrize(
    ("given", "ready", "status"),
    [
        (pod({"phase": "Pending"}), "0/2", "Pending"),
        (pod({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False",
              "reason": "SchedulingGated"}]}), "0/2", "SchedulingGated"),
        (pod({"phase": "Running", "containerStatuses": [container("a", ready=True, running=RUNNING),
              container("b", waiting={"reason": "CrashLoopBackOff"})]}), "1/2", "CrashLoopBackOff"),
        (pod({"phase": "Succeeded", "containerStatuses": [container("a", terminated={"reason": "Completed"}),
              container("b", terminated={"reason": "Completed"})]}), "0/2", "Completed"),
        (pod({"phase": "Failed", "containerStatuses": [container("a", terminated={"exitCode": 3}),
              container("b", terminated={"reason": "Completed"})]}), "0/2", "ExitCode:3"),
        (pod({"phase": "Failed", "reason": "OutOfcpu"}), "0/2", "OutOfcpu"),
        (pod({"phase": "Running"}, deleted=True), "0/2", "Terminating"),
        (pod({"phase": "Succeeded"}, deleted=True), "0/2", "Succeeded"),
        (pod({"phase": "Pending", "initContainerStatuses": [container("i")]}, initContainers=[{"name": "i"}]),
         "0/2", "Init:0/1"),
        (pod({"phase": "Pending", "initContainerStatuses": [container("i", terminated={"exitCode": 1})]},
             initContainers=[{"name": "i"}]), "0/2", "Init:ExitCode:1"),
        (pod({"phase": "Running", "initContainerStatuses": [{**container("s", ready=True, running=RUNNING),
              "started": True}], "containerStatuses": [container("a", ready=True, running=RUNNING)]}, **SIDECAR),
         "2/3", "Running"),
    ],
    ids=["pending", "gated", "crashing", "completed", "failed", "rejected", "terminating", "ended and deleted",
         "init waits", "init failed", "sidecar"],
)  # fmt: skip
def test_status_of_a_pod(given, ready, status):
    assert pod_cells(given, NOW)[:5] == ["p", ready, status, "0", "60m"]


def test_restarts_show_the_age_of_the_last_one():
    restarted = container("a", 3, ready=True, running=RUNNING)
    restarted["lastState"] = {"terminated": {"finishedAt": "2026-01-01T00:50:00Z"}}
    assert pod_cells(pod({"phase": "Running", "containerStatuses": [restarted]}), NOW)[3] == "3 (10m ago)"


def test_terminated_pod_has_a_row_condition():
    assert pod_conditions(pod({"phase": "Succeeded"}))[0]["reason"] == "Succeeded"
    assert pod_conditions(pod({"phase": "Running"})) == []


@pytest.mark.parametrize("resource", tables(), ids=lambda resource: resource or "others")
def test_every_column_has_a_description_and_a_value(resource):
    for column in columns_of(resource):
        assert column.definition()["description"], column.name
        assert column.find({}) == ([] if column.path else [{}])
        assert column.show in CELLS
