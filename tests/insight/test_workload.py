"""Why a workload has fewer pods than it asks for."""

import pytest
from bayplan_documents import document, node, pod, workload
from tests.support.tables import cases

from bayplan.insight import Insight, QuestionError, Snapshot

QUOTA = 'pods "web-5d4f-x2x4z" is forbidden: exceeded quota: team, requested: pods=1, used: pods=24, limited: pods=24'


def replica_set(replicas, *conditions, **spec):
    found = workload("ReplicaSet", "web-5d4f", replicas, **spec)
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "web", "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    found["status"] = {"conditions": list(conditions)}
    return found


def failure(message):
    return {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": message}


def event(kind, name, note, when="2026-01-01T00:00:00Z", reason="FailedCreate"):
    about = {"kind": kind, "name": name, "namespace": "default"}
    found = document("Event", f"{name}.{abs(hash(note)):x}", involvedObject=about, reason=reason, message=note)
    return {**found, "type": "Warning", "lastTimestamp": when}


def web_pods(number, ready=True, kind=("ReplicaSet", "web-5d4f")):
    for each in range(number):
        found = pod(f"{kind[1]}-{each}", "a", cpu="10m", owner=kind)
        found["metadata"]["labels"] = {"pod-template-hash": "5d4f"}
        found["status"] = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
        yield found


def ask(kind, name, *objects):
    return Insight(Snapshot.of([node("a"), *objects])).explain_owner(kind, name)


def priority(found, name):
    found["spec"]["template"]["spec"]["priorityClassName"] = name
    return found


SYSTEM = document("PriorityClass", "known", "scheduling.k8s.io/v1", namespace="", value=5)
DEPLOYMENT = workload("Deployment", "web", 60)


TEMPLATE = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
CRON_JOB = document(
    "CronJob", "nightly", "batch/v1", spec={"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}
)


def job(name, pods, **spec):
    return document(
        "Job", name, "batch/v1", spec={"parallelism": pods, "completions": pods, "template": TEMPLATE, **spec}
    )


def run(name, pods, condition="", **spec):
    found = job(name, pods, **spec)
    owner = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": "nightly", "controller": True}
    found["metadata"]["ownerReferences"] = [owner]
    found["status"] = {"conditions": [{"type": condition, "status": "True"}]} if condition else {}
    return found


@cases(
    "asked, objects, missing, reason",
    {
        "condition of the replica set": (
            "deployment/web",
            [DEPLOYMENT, replica_set(60, failure(QUOTA)), *web_pods(24)],
            36,
            f"replicaset default/web-5d4f: {QUOTA}",
        ),
        "event of the replica set": (
            "deployment/web",
            [DEPLOYMENT, replica_set(60), *web_pods(24), event("ReplicaSet", "web-5d4f", f"Error creating: {QUOTA}")],
            36,
            f"replicaset default/web-5d4f: {QUOTA}",
        ),
        "latest event of a stateful set": (
            "statefulset/db",
            [
                workload("StatefulSet", "db", 3, podManagementPolicy="Parallel"),
                event("StatefulSet", "db", "older", "2025-01-01T00:00:00Z"),
                event("StatefulSet", "db", "create Pod db-0 in StatefulSet db failed error: no"),
                event("StatefulSet", "db", "scaled", "2027-01-01T00:00:00Z", "SuccessfulCreate"),
                event("StatefulSet", "other", "of another one", "2027-01-01T00:00:00Z"),
            ],
            3,
            "statefulset default/db: create Pod db-0 in StatefulSet db failed error: no",
        ),
        "pods in order": (
            "sts/db",
            [workload("StatefulSet", "db", 3), *web_pods(1, ready=False, kind=("StatefulSet", "db"))],
            2,
            "pod default/db-0 isn't Ready: the next one is created after it (podManagementPolicy: OrderedReady)",
        ),
        "missing priority class": (
            "replicaset/api",
            [SYSTEM, priority(workload("ReplicaSet", "api", 2), "urgent")],
            2,
            "a pod of its template would be refused now:",
        ),
        "no replica set": (
            "deployment/web",
            [DEPLOYMENT],
            60,
            "no ReplicaSet was made for it: is the deployment controller running?",
        ),
        "event of a job of a cron job": (
            "cronjob/nightly",
            [CRON_JOB, run("nightly-29000000", 2), event("Job", "nightly-29000000", f"Error creating: {QUOTA}")],
            2,
            f"job default/nightly-29000000: {QUOTA}",
        ),
        "one of the jobs of a cron job": (
            "cronjob/nightly",
            [
                CRON_JOB,
                run("nightly-29000000", 1),
                *web_pods(1, kind=("Job", "nightly-29000000")),
                run("nightly-29000001", 3, suspend=True),
                run("nightly-28999999", 5, "Complete"),
                run("nightly-by-hand", 7),
            ],
            3,
            "the job is suspended",
        ),
        "suspended job": (
            "job/batch",
            [job("batch", 4, suspend=True)],
            4,
            "the job is suspended",
        ),
    },
)
def test_the_reason_is_named(asked, objects, missing, reason):
    answer = ask(*asked.split("/"), *objects)

    assert answer.missing is not None
    assert answer.missing.number == missing
    assert answer.missing.reasons[0].startswith(reason)
    assert answer.to_dict()["missing"]["pods"] == missing
    assert f"{missing} of {answer.missing.wanted} not created" in answer.text(width=200)
    assert reason in answer.text(width=400)


def test_a_missing_priority_class_is_named_in_the_words_of_the_api_server():
    answer = ask("replicaset", "api", SYSTEM, priority(workload("ReplicaSet", "api", 2), "urgent"))

    assert "no PriorityClass with name urgent was found" in answer.missing.reasons[0]


@cases(
    "asked, objects",
    {
        "priority classes were not read": ("replicaset/api", [priority(workload("ReplicaSet", "api", 2), "urgent")]),
        "nothing is wrong": ("deployment/web", [workload("Deployment", "web", 3), replica_set(3)]),
    },
)
def test_an_unknown_reason_is_no_reason(asked, objects):
    answer = ask(*asked.split("/"), *objects)

    assert answer.missing.reasons == ()
    assert "nothing that was read says why" in answer.text()


@cases(
    "asked, objects",
    {
        "complete": (
            "deployment/web",
            [workload("Deployment", "web", 3), replica_set(3, failure("old")), *web_pods(3)],
        ),
        "only its pods are known": ("replicaset/web-5d4f", [*web_pods(1)]),
        "finished": (
            "job/batch",
            [
                {
                    **job("batch", 4),
                    "status": {"succeeded": 4, "conditions": [{"type": "Complete", "status": "True"}]},
                }
            ],
        ),
    },
)
def test_nothing_is_missing(asked, objects):
    assert ask(*asked.split("/"), *objects).missing is None


def test_the_same_name_in_another_namespace_is_offered():
    other = {**DEPLOYMENT, "metadata": {"name": "web", "namespace": "team-b"}}

    with pytest.raises(QuestionError, match=r"there is no deployment default/web with pods in .+; there is team-b/web"):
        ask("deployment", "web", other)


def test_a_workload_of_another_kind_is_offered():
    with pytest.raises(QuestionError, match=r"; there is statefulset default/web$"):
        ask("deployment", "web", workload("StatefulSet", "web", 1))


def test_a_similar_name_is_offered():
    with pytest.raises(QuestionError, match="did you mean 'frontend'"):
        ask("deployment", "frontnd", workload("Deployment", "frontend", 1))
