"""when, about a workload that Kueue doesn't admit: whose end frees the quota that it waits for."""

import pytest
from test_gated_pods import gated
from test_kueue import PENDING, VERSIONS, cluster_queue, job, local, node, obj, template, workload
from test_when import NOW

from bayplan.answers.insight.questions.starts import StartTimes
from bayplan.core.api.durations import EXPECTED_DURATION
from bayplan.insight import Insight, Snapshot

RESERVED = [("QuotaReserved", "True", ""), ("Admitted", "True", "")]


def running(name, version, cpu, expected=""):
    """An admitted workload with one pod that runs since now."""
    held = workload(name, version, cpu=cpu, count=1, conditions=RESERVED)
    usage = {"name": "main", "count": 1, "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": cpu}}
    held["status"]["admission"] = {"clusterQueue": "all", "podSetAssignments": [usage]}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}", "controller": True}
    metadata = {"name": f"{name}-0", "namespace": "team", "uid": f"{name}-0", "ownerReferences": [owner]}
    if expected:
        metadata["annotations"] = {EXPECTED_DURATION: expected}
    started = NOW.isoformat().replace("+00:00", "Z")
    status = {"phase": "Running", "startTime": started}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    return [held, {**pod, "spec": {**template(cpu)["spec"], "nodeName": "a"}, "status": status}]


def asked(what, version, *objects, nominal="4", total="4", **options):
    known = [node("a", cpu="32"), local(version), cluster_queue("all", version, nominal, total=total)]
    return Insight(Snapshot.of([*known, *objects], taken=NOW)).when(what, namespace="team", **options)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("what", ["job/one", "workload/job-one", "team/one-0"])
def test_the_quota_is_free_once_enough_workloads_have_ended(version, what):
    found = asked(
        what,
        version,
        job("one"),
        workload("one", version, conditions=[PENDING]),
        gated("one-0", "one"),
        *running("short", version, "1", "10m"),
        *running("long", version, "2", "30m"),
        *running("forever", version, "1"),
    )
    assert found.start == StartTimes(1800.0, 1800.0, 1800.0)
    assert [(each.workload, each.frees, each.ends, each.source) for each in found.admission.frees] == [
        ("team/job-short", "1 cpu in flavor default", 600.0, "annotation"),
        ("team/job-long", "2 cpu in flavor default", 1800.0, "annotation"),
    ]
    assert found.admission.reasons[0].endswith("0 of the quota of 4 free: 2 more needed")
    assert found.to_dict()["p50"] == 1800.0


@pytest.mark.parametrize("strategy", ["BestEffortFIFO", "StrictFIFO"])
def test_those_before_it_in_the_queue_get_freed_quota_first(strategy):
    version = VERSIONS[0]
    queue = cluster_queue("all", version, "4", total="4")
    queue["spec"]["queueingStrategy"] = strategy
    found = Insight(
        Snapshot.of(
            [
                node("a", cpu="32"),
                local(version),
                queue,
                workload("one", version, count=1, conditions=[PENDING]),
                workload("first", version, cpu="3", count=1, priority=9, conditions=[PENDING]),
                *running("short", version, "1", "10m"),
                *running("long", version, "3", "30m"),
            ],
            taken=NOW,
        )
    ).when("workload/job-one", namespace="team")
    assert found.start.p50 == {"BestEffortFIFO": 600.0, "StrictFIFO": 1800.0}[strategy]


def test_nothing_that_is_foreseen_frees_enough():
    version = VERSIONS[1]
    found = asked(
        "job/one", version, job("one"), workload("one", version, cpu="9"), *running("short", version, "4", "1m")
    )
    assert (found.start.p50, found.never) == (None, 1.0)


def test_stopped_queues_and_open_checks_are_named():
    version = VERSIONS[1]
    stopped = obj("LocalQueue", "local", version, {"clusterQueue": "all", "stopPolicy": "Hold"})
    found = asked("job/one", version, job("one"), workload("one", version), stopped, total="0")
    assert (found.start.p50, found.admission.reasons[0]) == (
        None,
        "localqueue team/local is stopped (stopPolicy: Hold)",
    )
    waits = [{"name": "room", "state": "Pending", "message": "no room"}]
    checked = workload("one", version, conditions=[("QuotaReserved", "True", "")], checks=waits)
    found = asked("job/one", version, job("one"), checked)
    assert found.admission.reasons == ("workload team/job-one has its quota; admission check room is Pending: no room",)


def test_an_odd_workload_is_one_line():
    version = VERSIONS[0]
    odd = workload("odd", version)
    odd["spec"]["podSets"] = 5
    assert asked("workload/job-odd", version, odd).admission.reasons[0].startswith("an object of Kueue can't be read")
