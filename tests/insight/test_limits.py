"""The limits of questions: what they may add to a cluster, in Python and on the command line."""

import json
import tracemalloc

import pytest
from tests.support.commands import bayplan
from tests.support.tables import cases

from bayplan.insight import Changes, Insight, LimitError, Limits, Snapshot, Stopped

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1"}},
    "status": {"allocatable": {"cpu": "4", "memory": "16Gi", "pods": "110"}},
}
TEMPLATE = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]},
}


def workload(kind="Deployment", replicas=1, template=TEMPLATE, version="apps/v1", **spec):
    selector = {"matchLabels": {"app": "web"}}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
    }


def job(parallelism):
    template = {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}
    spec = {"parallelism": parallelism, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "web"}, "spec": spec}


def with_claims(number):
    claims = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {}}}}
    claims["spec"]["resources"]["requests"]["storage"] = "1Gi"
    return workload("StatefulSet", number, serviceName="web", volumeClaimTemplates=[claims])


DAEMON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "d",
        "namespace": "default",
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
        ],
    },
    "spec": {**TEMPLATE["spec"], "nodeName": "n1"},
}
LARGE = {**TEMPLATE, "metadata": {"labels": {"app": "web"}, "annotations": {"text": "x" * 200_000}}}
CUSTOM = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "t", "namespace": "default"}}
FEW = Limits(nodes=10, pods=20, objects=5, memory=2**20)

QUESTIONS = {
    "nodes": (Changes(add_nodes=["11xlike:n1"]), "11xlike:n1: 11 new nodes in one question; the limit of nodes is 10"),
    "nodes in parts": (Changes(add_nodes=["6xlike:n1", "5xlike:n1"]), "5xlike:n1: 11 new nodes in one question"),
    "replicas": (Changes(objects=[workload(replicas=21)]), "21 new pods in one question; the limit of pods is 20"),
    "replicas of a scale": (
        Changes(scale=["deployment/old=21"]),
        "scale deployment/old=21: 21 new pods in one question",
    ),
    "stateful set": (Changes(objects=[workload("StatefulSet", 21, serviceName="web")]), "21 new pods in one question"),
    "job": (Changes(objects=[job(21)]), "21 new pods in one question"),
    "workloads together": (
        Changes(objects=[workload(replicas=11), workload("ReplicaSet", 10)]),
        "default/web: 21 new pods in one question",
    ),
    "custom workload": (
        Changes(
            objects=[{**CUSTOM, "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": 10**9, "template": TEMPLATE}}}}]
        ),
        "21 new pods in one question",
    ),
    "claims": (Changes(objects=[with_claims(6)]), "6 new objects in one question; the limit of objects is 5"),
    "memory": (
        Changes(objects=[workload(replicas=20, template=LARGE)]),
        "4 MiB of new objects in one question; the limit of memory is 1 MiB",
    ),
}
OLD = {**workload(), "metadata": {"name": "old", "namespace": "default"}}
OLD_SET = {**workload("ReplicaSet"), "metadata": {"name": "old-5f", "namespace": "default"}}
OLD_SET["metadata"]["ownerReferences"] = [
    {"apiVersion": "apps/v1", "kind": "Deployment", "name": "old", "uid": "o", "controller": True}
]


@cases("changes, message", QUESTIONS)
def test_question_for_more_than_a_limit_names_it(changes, message):
    insight = Insight(Snapshot.of([NODE, OLD, OLD_SET]), limits=FEW)
    with pytest.raises(LimitError) as raised:
        insight.what_if(changes)
    assert message in str(raised.value)
    insight.what_if(Changes(add_nodes=["10xlike:n1"], objects=[workload(replicas=20)]))


def test_pods_of_daemon_sets_on_new_nodes_count():
    insight = Insight(Snapshot.of([NODE, DAEMON]), limits=Limits(nodes=10, pods=4))
    with pytest.raises(LimitError, match="5xlike:n1: 5 new pods"):
        insight.what_if(Changes(add_nodes=["5xlike:n1"]))


def test_limit_is_found_before_anything_is_created():
    insight = Insight(Snapshot.of([NODE]))
    insight.what_if(Changes(objects=[job(1)]))  # imports what it needs
    tracemalloc.start()
    try:
        for changes in (
            Changes(add_nodes=["1000000xlike:n1"]),
            Changes(objects=[workload(replicas=1_000_000)]),
            Changes(objects=[job(1_000_000)]),
            Changes(objects=[workload(replicas=10_000, template=LARGE)]),
        ):
            with pytest.raises(LimitError):
                insight.what_if(changes)
        assert tracemalloc.get_traced_memory()[1] < 60_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "changes",
    [
        Changes(add_nodes=["20xlike:n1"]),
        Changes(objects=[workload(replicas=20)]),
        Changes(objects=[job(20)]),
        Changes(cordon=["kubernetes.io/hostname in (n1)"]),
    ],
)
def test_stopped_question_leaves_the_cluster_as_it_was(changes):
    insight = Insight(Snapshot.of([NODE, {**DAEMON, "spec": TEMPLATE["spec"]}]))
    before = insight.what_if(Changes(cordon=["n1"])).to_dict()
    for last in range(1, 200, 9):
        calls = 0

        def stop(_, last=last):
            nonlocal calls
            calls += 1
            if calls == last:
                raise Stopped

        try:
            insight.what_if(changes, progress=stop)
        except Stopped:
            continue
        break
    assert calls > 1
    assert insight.what_if(Changes(cordon=["n1"])).to_dict() == before


@pytest.fixture
def files(tmp_path):
    cluster, manifest = tmp_path / "cluster.json", tmp_path / "web.json"
    cluster.write_text(json.dumps(NODE))
    manifest.write_text(json.dumps(workload(replicas=50_001)))
    return {"cluster": str(cluster), "manifest": str(manifest)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["what-if", "--add-nodes", "1000000xlike:n1"],
            "1000000xlike:n1: 1,000,000 new nodes in one question; the limit",
        ),
        (["what-if", "-f", "{manifest}"], "50,001 new pods in one question; the limit of pods is 50,000"),
        (["fit", "-f", "{manifest}"], "50,001 new pods in one question; the limit of pods is 50,000"),
        (["balance", "-f", "{manifest}"], "50,001 new pods in one question; the limit of pods is 50,000"),
    ],
)
def test_typo_on_the_command_line_is_one_message(files, arguments, message):
    given = [each.format(**files) for each in arguments]
    result = bayplan(*given, "--from", files["cluster"], status=2)
    assert message in result.stderr
    assert result.stderr.endswith("; if that is not a typo, pass --yes\n")
    assert result.stderr.count("\n") == 1


def test_yes_lifts_the_limits(files):
    arguments = ["what-if", "--add-nodes", "5001xlike:n1", "--from", files["cluster"]]
    result = bayplan(*arguments, "--yes")
    assert "add 5,001 nodes like n1" in result.output
