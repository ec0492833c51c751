"""check says which workloads Kueue would never admit, and which not yet: the queue, the quota and the amount."""

import pytest
from checked_clusters import cluster, deployment
from tests.support.tables import cases

from bayplan.insight import Insight, Snapshot

LABELS = {"kueue.x-k8s.io/queue-name": "local"}


def obj(kind, name, version="v1beta2", namespace="", **fields):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": f"kueue.x-k8s.io/{version}", "kind": kind, "metadata": metadata, **fields}


def queue(name="all", nominal=8, used=3, version="v1beta2", resource="cpu", **spec):
    quota = {"name": resource, "nominalQuota": nominal}
    flavors = [{"name": "default", "resources": [quota]}]
    reserved = {"name": "default", "resources": [{"name": resource, "total": used}]}
    groups = [{"coveredResources": [resource], "flavors": flavors}]
    spec = {"namespaceSelector": {}, "resourceGroups": groups, **spec}
    return obj("ClusterQueue", name, version, spec=spec, status={"flavorsReservation": [reserved]})


def local(queue="all", name="local", **spec):
    return obj("LocalQueue", name, namespace="shop", spec={"clusterQueue": queue, **spec})


def job(name="train", cpu="1", count=2, **spec):
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    spec = {"suspend": True, "parallelism": count, "completions": count, "template": template, **spec}
    metadata = {"name": name, "namespace": "shop", "labels": LABELS}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def queued(document):
    return {**document, "metadata": {**document["metadata"], "labels": LABELS}}


def job_set(count):
    running = {name: value for name, value in job(count=count)["spec"].items() if name != "suspend"}
    spec = {"suspend": True, "replicatedJobs": [{"name": "w", "template": {"spec": running}}]}
    metadata = {"name": "train", "namespace": "shop", "labels": LABELS}
    return {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet", "metadata": metadata, "spec": spec}


def admitted(cpu):
    """The Workload of job shop/train, which holds so much quota."""
    assigned = {"name": "main", "flavors": {"cpu": "default"}, "resourceUsage": {"cpu": cpu}}
    status = {
        "conditions": [{"type": "QuotaReserved", "status": "True"}, {"type": "Admitted", "status": "True"}],
        "admission": {"clusterQueue": "all", "podSetAssignments": [assigned]},
    }
    workload = obj("Workload", "job-train", namespace="shop", spec={"queueName": "local"}, status=status)
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u", "controller": True}
    workload["metadata"]["ownerReferences"] = [owner]
    return workload


def found(documents, *kueue):
    findings = Insight(Snapshot.of([*cluster(), *kueue])).check(documents).findings
    return [each for each in findings if each.rule.startswith("kueue")]


ALL = [queue(), local()]
COHORT = [
    queue(nominal=8, used=6, cohortName="both", borrowingLimit=None),
    queue("other", nominal=4, used=1, cohortName="both"),
    local(),
]
NEVER, WAITS = "kueue-never-admits", "kueue-waits"
ASKED = {
    "fits": ([job(count=5)], ALL, []),
    "no queue of its own": ([{**job(count=99), "metadata": {"name": "train", "namespace": "shop"}}], ALL, []),
    "no Kueue": ([job(count=99)], [], []),
    "more than the whole quota": (
        [job(count=5, cpu="2")],
        ALL,
        [(NEVER, "clusterqueue all, flavor default: 10 cpu requested, and its whole quota is 8: 2 too many")],
    ),
    "more than is free": (
        [job(count=6)],
        ALL,
        [(WAITS, "clusterqueue all, flavor default: 6 cpu requested, 5 of the quota of 8 free: 1 more needed")],
    ),
    "fewer at a time than in all": ([job(count=50, parallelism=5)], ALL, []),
    "an older version": (
        [job(count=6)],
        [queue(version="v1beta1"), local()],
        [(WAITS, "clusterqueue all, flavor default: 6 cpu requested, 5 of the quota of 8 free: 1 more needed")],
    ),
    "the first one takes quota": (
        [job(count=3), job("second", count=3)],
        ALL,
        [(WAITS, "clusterqueue all, flavor default: 3 cpu requested, 2 of the quota of 8 free: 1 more needed")],
    ),
    "some pods of a Deployment": (
        [queued(deployment(replicas=6, requests={"cpu": "1"}))],
        ALL,
        [(WAITS, "1 of 6 pods: clusterqueue all, flavor default: 1 cpu requested, 0 of the quota of 8 free: 1 more")],
    ),
    "borrowed": ([job(count=5)], COHORT, []),
    "more than can be borrowed now": (
        [job(count=6)],
        COHORT,
        [(WAITS, "6 cpu requested, 2 of the quota of 8 free and 3 to borrow in cohort both: 1 more needed")],
    ),
    "more than can ever be borrowed": (
        [job(count=13)],
        COHORT,
        [(NEVER, "13 cpu requested, and its whole quota is 8, with 4 to borrow in cohort both: 1 too many")],
    ),
    "pods are counted": (
        [job(count=9, cpu="1m")],
        [queue(resource="pods", nominal=8, used=0), queue("cpu"), local()],
        [(NEVER, "clusterqueue all has no quota of cpu, so that Kueue admits nothing that requests it")],
    ),
    "a custom workload": (
        [job_set(count=6)],
        ALL,
        [(WAITS, "clusterqueue all, flavor default: 6 cpu requested, 5 of the quota of 8 free: 1 more needed")],
    ),
    "admitted already, and applied again": ([job(count=8)], [*ALL, job(count=8), admitted("3")], []),
    "a misspelled queue": (
        [job()],
        [queue(), local(name="locla")],
        [(NEVER, "there is no localqueue shop/local: did you mean 'locla'?")],
    ),
    "a queue of nothing": (
        [job()],
        [queue(), local("none")],
        [(NEVER, "there is no clusterqueue none, which localqueue shop/local names")],
    ),
    "the queue is in the manifests": ([*ALL, job(count=9)], [queue("x"), local("x", "y")], [(NEVER, "1 too many")]),
    "stopped": (
        [job()],
        [queue(), local(stopPolicy="Hold")],
        [(WAITS, "localqueue shop/local is stopped (stopPolicy: Hold)")],
    ),
    "odd amounts": ([job()], [queue(nominal="many"), local()], [(WAITS, "an object of Kueue can't be read: ")]),
    "odd groups": ([job()], [queue(resourceGroups=5), local()], [(WAITS, "an object of Kueue can't be read: ")]),
    "cohorts in a circle": (
        [job()],
        [
            queue(cohortName="a"),
            local(),
            obj("Cohort", "a", spec={"parentName": "b"}),
            obj("Cohort", "b", spec={"parentName": "a"}),
        ],
        [(NEVER, "cohort a > b > a is a cycle")],
    ),
}


@cases("documents, kueue, expected", ASKED)
def test_what_kueue_would_not_admit(documents, kueue, expected):
    findings = found(documents, *kueue)
    assert [each.rule for each in findings] == [rule for rule, _ in expected]
    assert all(text in each.message for each, (_, text) in zip(findings, expected, strict=True))
    assert all(each.next and each.object for each in findings)


def test_next_step_names_the_quota_and_the_amount():
    (finding,) = found([job(count=5, cpu="2")], *ALL)
    assert finding.object == "job shop/train"
    assert finding.next == "request less, or raise the nominalQuota of flavor default in clusterqueue all by 2 cpu"
    (finding,) = found([job(count=6)], *ALL)
    assert finding.next.startswith("wait until workloads of clusterqueue all end, request less, or raise")
    assert finding.next.endswith("by 1 cpu")


@pytest.mark.parametrize("limits", [{"default": {"cpu": "4"}, "defaultRequest": {"cpu": "4"}, "type": "Container"}])
def test_defaults_of_the_namespace_count(limits):
    bare = job(count=3)
    bare["spec"]["template"]["spec"]["containers"][0].pop("resources")
    limit = {
        "apiVersion": "v1",
        "kind": "LimitRange",
        "metadata": {"name": "usual", "namespace": "shop"},
        "spec": {"limits": [limits]},
    }
    (finding,) = found([bare], *ALL, limit)
    assert "12 cpu requested" in finding.message
