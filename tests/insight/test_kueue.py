"""Why Kueue does not admit a workload, in explain, from objects of v1beta1 and of v1beta2."""

import pytest

from bayplan.answers.snapshots.snapshot import Snapshot
from bayplan.core.api.kinds import JOB
from bayplan.insight import Insight

VERSIONS = ("v1beta1", "v1beta2")


def obj(kind, name, version, spec=None, status=None, namespace="team", **metadata):
    return {
        "apiVersion": f"kueue.x-k8s.io/{version}",
        "kind": kind,
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {}), **metadata},
        "spec": spec or {},
        "status": status or {},
    }


def node(name, cpu="4"):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    status = {"allocatable": room, "capacity": room}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": status}


def template(cpu):
    return {
        "spec": {
            "restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
        }
    }


def job(name, cpu="1", count=2):
    spec = {"suspend": True, "parallelism": count, "completions": count, "template": template(cpu)}
    metadata = {
        "name": name,
        "namespace": "team",
        "uid": f"uid-{name}",
        "labels": {"kueue.x-k8s.io/queue-name": "local"},
    }
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


def workload(
    name,
    version,
    *,
    cpu="1",
    count=2,
    priority=0,
    created="2026-01-01T00:00:00Z",
    conditions=(),
    checks=(),
    active=True,
):
    """The Workload of a Job."""
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": f"uid-{name}"}
    spec = {
        "queueName": "local",
        "priority": priority,
        "active": active,
        "podSets": [{"name": "main", "count": count, "template": template(cpu)}],
    }
    status = {
        "conditions": [{"type": type_, "status": status, "message": text} for type_, status, text in conditions],
        "admissionChecks": list(checks),
    }
    return obj("Workload", f"job-{name}", version, spec, status, ownerReferences=[owner], creationTimestamp=created)


def cluster_queue(name, version, nominal, total="0", borrowed="0", cohort="", active=True, **quota):
    field = {"v1beta1": "cohort", "v1beta2": "cohortName"}[version]
    resources = [{"name": "cpu", "nominalQuota": nominal, **quota}]
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [{"name": "default", "resources": resources}]}]}
    if cohort:
        spec[field] = cohort
    usage = [{"name": "default", "resources": [{"name": "cpu", "total": total, "borrowed": borrowed}]}]
    status = {"flavorsReservation": usage}
    if not active:
        status["conditions"] = [{"type": "Active", "status": "False", "message": "Can't admit: flavor missing"}]
    return obj("ClusterQueue", name, version, spec, status, namespace="")


def local(version, queue="all", **spec):
    return obj("LocalQueue", "local", version, {"clusterQueue": queue, **spec})


def reasons(*objects, name="one"):
    """The reasons that explain names for the pods of a Job that are missing."""
    missing = Insight(Snapshot.of([node("a"), *objects])).explain_owner("job", name, "team").missing
    assert missing.reasons[0] == "the job is suspended"
    return list(missing.reasons[1:])


PENDING = ("QuotaReserved", "False", "couldn't assign flavors to pod set main")
FULL = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 No preemption victims found for incoming pod."
)
BEFORE = "team/job-first, team/job-older"
PLACED = "if it were started, all of its 2 pods would be placed now"


@pytest.mark.parametrize("version", VERSIONS)
def test_the_quota_that_lacks_is_named_with_who_borrows_and_the_place_in_the_queue(version):
    assert reasons(
        job("one"),
        workload("one", version, conditions=[PENDING]),
        workload("first", version, priority=10, conditions=[PENDING]),
        workload("older", version, created="2025-01-01T00:00:00Z"),
        workload("running", version, conditions=[("QuotaReserved", "True", ""), ("Admitted", "True", "")]),
        local(version),
        cluster_queue("all", version, "4", total="3", cohort="ours"),
        cluster_queue("theirs", version, "2", total="2500m", borrowed="500m", cohort="ours"),
        cluster_queue("elsewhere", version, "100"),
    ) == [
        (
            "clusterqueue all, flavor default: 2 cpu requested, 500m of the quota of 4 free: 1500m more needed; in its "
            "cohort, theirs borrows 500m"
        ),
        (
            "Kueue preempts no workload for it: clusterqueue all has withinClusterQueue: Never, "
            "reclaimWithinCohort: Never, borrowWithinCohort: Never"
        ),
        f"workload team/job-one is number 3 of 3 that wait in clusterqueue all; before it: {BEFORE}",
        "Kueue says of workload team/job-one: couldn't assign flavors to pod set main",
        PLACED,
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_what_can_be_borrowed_counts_up_to_the_limits(version):
    def lack(**quota):
        found = reasons(
            job("one", cpu="3"),
            workload("one", version, cpu="3"),
            local(version),
            cluster_queue("all", version, "2", cohort="ours", **quota),
            cluster_queue("theirs", version, "3", total="1", cohort="ours", lendingLimit="2"),
        )
        return [line for line in found if line.startswith("clusterqueue")]

    text = "clusterqueue all, flavor default: 6 cpu requested, 2 of the quota of 2 free and {} to borrow in cohort ours"
    text += ": {} more needed"
    assert lack() == [text.format(2, 2)]
    limited = "; the borrowingLimit of clusterqueue all lets it have no more"
    assert lack(borrowingLimit="1") == [text.format(1, 3) + limited]


@pytest.mark.parametrize("version", VERSIONS)
def test_with_its_quota_the_checks_say_what_it_waits_for(version):
    message = "1 of 2 members fit; the next one: 0/1 nodes are available: 1 Insufficient cpu."
    checks = [{"name": "room", "state": "Pending", "message": message}, {"name": "fine", "state": "Ready"}]
    condition = {"type": "Active", "status": "False", "message": "its parameters are missing"}
    assert reasons(
        job("one", cpu="3"),
        workload("one", version, cpu="3", conditions=[("QuotaReserved", "True", "")], checks=checks),
        local(version),
        cluster_queue("all", version, "100", total="6"),
        obj("AdmissionCheck", "room", version, status={"conditions": [condition]}, namespace=""),
    ) == [
        f"workload team/job-one has its quota; admission check room is Pending: {message}",
        "admission check room is not active: its parameters are missing",
        f"if it were started, 1 of its 2 pods would be placed now: {FULL}",
    ]


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([], "there is no localqueue team/local", id="no queue"),
        pytest.param(
            [local("v1beta2")], "there is no clusterqueue all, which localqueue team/local names", id="no cluster queue"
        ),
        pytest.param(
            [local("v1beta2", stopPolicy="Hold"), cluster_queue("all", "v1beta2", "9")],
            "localqueue team/local is stopped (stopPolicy: Hold)",
            id="stopped",
        ),
        pytest.param(
            [local("v1beta2"), cluster_queue("all", "v1beta2", "9", active=False)],
            "clusterqueue all is not active: Can't admit: flavor missing",
            id="inactive",
        ),
        pytest.param(
            [local("v1beta2"), cluster_queue("all", "v1beta2", "a lot")],
            "an object of Kueue can't be read: 'a lot' is not a quantity",
            id="odd quota",
        ),
    ],
)
def test_what_is_wrong_with_a_queue_is_one_line(objects, expected):
    found = reasons(job("one"), workload("one", "v1beta2"), *objects)
    assert found[0].startswith(expected)
    assert found[-1] == PLACED


def test_a_job_whose_workload_is_missing_or_not_active():
    queues = [local("v1beta2"), cluster_queue("all", "v1beta2", "9")]
    assert reasons(job("one"), *queues)[0] == "Kueue has made no workload for job team/one: does Kueue run?"
    inactive = reasons(job("one"), workload("one", "v1beta2", active=False), *queues)[0]
    assert inactive == "workload team/job-one is not active (spec.active: false), so Kueue doesn't admit it"
    assert reasons(job("one")) == [PLACED]  # a cluster without Kueue


def test_an_unknown_version_is_one_line():
    found = reasons(
        job("one"), obj("Workload", "job-one", "v2"), cluster_queue("all", "v1beta2", "9"), local("v1beta2")
    )
    assert found[0] == "1 object of workloads in kueue.x-k8s.io/v2 are not read: v1beta1 and v1beta2 are known"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_gated_pod_is_told_more_than_its_gate(version):
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "team", "uid": "u"},
        "spec": {**template("1")["spec"], "schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]},
    }
    pod["spec"]["schedulerName"] = "default-scheduler"
    own = workload("web", version, count=1)
    own["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "web", "uid": "u"}]
    snapshot = Snapshot.of([node("a"), pod, own, local(version), cluster_queue("all", version, "4", total="4")])
    notes = Insight(snapshot).explain("team/web").notes
    assert "clusterqueue all, flavor default: 1 cpu requested, 0 of the quota of 4 free: 1 more needed" in notes
    assert "workload team/job-web is number 1 of 1 that wait in clusterqueue all" in notes


@pytest.mark.parametrize("redact", [False, True])
def test_a_saved_snapshot_says_the_same(tmp_path, redact):
    snapshot = Snapshot.of(
        [node("a"), job("one"), workload("one", "v1beta1"), local("v1beta1"), cluster_queue("all", "v1beta1", "1")]
    )
    snapshot.save(tmp_path / "saved", redact=redact)
    saved = Insight(Snapshot.load(tmp_path / "saved"))
    ((key, _),) = saved.snapshot.of_kind(JOB).items()
    namespace, _, name = key.partition("/")
    lines = saved.explain_owner("job", name, namespace).missing.reasons
    assert any("2 cpu requested, 1 of the quota of 1 free: 1 more needed" in line for line in lines)
