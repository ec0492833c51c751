"""explain --all-pending groups pods that Kueue has gated by what its objects tell."""

import pytest
from test_kueue import PENDING, VERSIONS, cluster_queue, local, node, obj, template, workload

from bayplan.answers.snapshots.snapshot import Snapshot
from bayplan.insight import Insight

GATE = "kueue.x-k8s.io/admission"


def gated(name, owner, gates=(GATE,), labels=()):
    """A pod of a workload that Kueue holds back by the gate of its pods."""
    metadata = {"name": name, "namespace": "team", "uid": name, "labels": dict(labels)}
    if owner:
        metadata["ownerReferences"] = [{"apiVersion": "batch/v1", "kind": "Job", "name": owner, "uid": f"uid-{owner}"}]
    spec = {**template("1")["spec"], "schedulingGates": [{"name": gate} for gate in gates]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def causes(*objects):
    answer = Insight(Snapshot.of([node("a"), *objects])).explain_all(examples=0, free=False)
    return {cause.message: len(cause.pods) for cause in answer.causes}


@pytest.mark.parametrize("version", VERSIONS)
def test_gated_pods_are_grouped_by_what_kueue_tells(version):
    small = workload("small", version, conditions=[PENDING])
    waits = [{"name": "room", "state": "Pending", "message": "no room for team/small"}]
    stopped = workload("stopped", version)
    stopped["spec"]["queueName"] = "closed"
    assert causes(
        *(gated(f"big-{number}", f"big-{number % 2}") for number in range(6)),
        workload("big-0", version, cpu="3", conditions=[PENDING]),
        workload("big-1", version, cpu="5", conditions=[PENDING]),
        gated("small-0", "small"),
        small,
        gated("checked-0", "checked"),
        workload("checked", version, conditions=[("QuotaReserved", "True", "")], checks=waits),
        gated("off-0", "off"),
        workload("off", version, active=False),
        gated("stopped-0", "stopped"),
        stopped,
        obj("LocalQueue", "closed", version, {"clusterQueue": "all", "stopPolicy": "Hold"}),
        gated("unknown-0", "unknown", labels={"kueue.x-k8s.io/queue-name": "local"}.items()),
        local(version),
        cluster_queue("all", version, "4"),
    ) == {
        "not admitted by Kueue: clusterqueue all has too little quota left of cpu in flavor default": 6,
        "not admitted by Kueue: it waits for its turn in clusterqueue all": 1,
        "not admitted by Kueue: it has its quota; admission check room is Pending": 1,
        "not admitted by Kueue: its workload is not active (spec.active: false)": 1,
        "not admitted by Kueue: localqueue team/closed is stopped (stopPolicy: Hold)": 1,
        "not admitted by Kueue: Kueue has made no workload for it": 1,
    }


def test_other_gates_and_clusters_without_kueue_are_as_before():
    assert causes(gated("one", ""), gated("two", "", (GATE, "other"))) == {
        f"waiting for scheduling gates: [{GATE}]": 1,
        f"waiting for scheduling gates: [{GATE} other]": 1,
    }


def test_an_odd_workload_costs_itself_only():
    odd = workload("odd", VERSIONS[0])
    odd["spec"]["podSets"] = [{"count": "many", "template": 3}]
    found = causes(
        gated("one", "odd"),
        odd,
        gated("two", "fine"),
        workload("fine", VERSIONS[0], active=False),
        local(VERSIONS[0]),
        cluster_queue("all", VERSIONS[0], "4"),
    )
    assert found.pop("not admitted by Kueue: its workload is not active (spec.active: false)") == 1
    ((message, number),) = found.items()
    assert (message.startswith("an object of Kueue can't be read"), number) == (True, 1)
