"""check finds what users get wrong in manifests, and nothing where nothing is wrong."""

import copy
import re

import pytest
from checked_clusters import MISTAKES, MOUNTING, RIGHT, WEB, cluster, deployment, node, spread
from tests.support.tables import cases

from bayplan.answers.insight.answers import Stopped
from bayplan.answers.insight.checking.rules import RULES
from bayplan.core.api.kinds import POD
from bayplan.insight import Changes, Insight, QuestionError, Snapshot


def checked(*documents, snapshot=None, **options):
    return Insight(snapshot or Snapshot.of(cluster())).check(documents, **options)


@cases("documents, rule, what, message", MISTAKES)
def test_mistake_is_found(documents, rule, what, message):
    found = [each for each in checked(*documents).findings if each.rule == rule]
    assert [each.object for each in found][:1] == [what]
    assert message in found[0].message
    assert found[0].next
    assert found[0].level == RULES[rule].level


def test_all_rules_have_a_mistake():
    known = {rule for _, rule, _, _ in MISTAKES.values()}
    own = {"uneven-spread", "next-version", "kueue-never-admits", "kueue-waits"}
    assert known | own == set(RULES)  # those have tests of their own


@cases("document", RIGHT)
def test_right_manifests_have_no_findings(document):
    beside = [] if document["kind"] in {"Deployment", "StatefulSet"} else [WEB]
    found = checked(*beside, document)
    assert [(each.rule, each.message) for each in found.findings] == []
    assert found.passes
    assert found.summary.startswith("nothing is wrong; ")


def test_check_fails_from_a_level_on():
    for level, passes in (("error", True), ("warning", True), ("note", False)):
        assert checked(deployment(requests={}), fail_on=level).passes is passes


def test_next_step_of_pods_that_stay_pending_was_tried():
    found = checked(deployment(replicas=3, pod={"nodeSelector": {"disktype": "standart"}})).findings
    pending = next(each for each in found if each.rule == "pending")
    assert pending.next.endswith("(tried)")


def test_next_step_of_a_rollout_is_a_change_of_the_manifest():
    found = checked(*MISTAKES["the next rollout"][0]).findings
    assert found[0].next.startswith("set maxSurge to 0 and maxUnavailable to 1 in deployment shop/web")


def test_existing_workload_is_rolled_out():
    """Its new pods can't run beside its old ones, although both fit alone."""
    before = MISTAKES["the next rollout"][0][0]
    snapshot = Insight(Snapshot.of(cluster())).changed(Changes(objects=[before])).snapshot
    running = [
        {"apiVersion": "v1", "kind": "Pod", **document, "spec": {**document["spec"], "nodeName": node}}
        for node, key in zip("abc", sorted(set(snapshot.of_kind(POD)) - {"shop/low"}), strict=True)
        for document in [snapshot.document(POD, key)]
    ]
    changed = copy.deepcopy(before)
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = "nginx:2"
    found = checked(changed, snapshot=snapshot.but(change=running)).findings
    assert [(each.rule, each.object) for each in found] == [("rollout-stuck", "deployment shop/web")]
    assert "the rollout of deployment shop/web gets stuck: 0 of 3 new pods would be placed" in found[0].message


def test_spread_after_the_next_rollout():
    """Old pods count while new ones come, so that the new ones are uneven once the old ones are gone."""
    nodes = Snapshot.of(cluster()[:3])
    (found,) = checked(deployment(replicas=4, pod=spread({"app": "web"})), snapshot=nodes).findings
    assert (found.rule, found.object) == ("uneven-spread", "deployment shop/web")
    assert re.fullmatch(
        r"after the next rollout, its pods are spread over topology.kubernetes.io/zone with a skew of 2, and maxSkew "
        r"is 1: z. has 3, z. has 1; that came of [1-7] of 8 tries, with old pods in other orders",
        found.message,
    )
    assert "add matchLabelKeys: [pod-template-hash] to the constraint" in found.next
    keys = spread({"app": "web"}, matchLabelKeys=["pod-template-hash"])
    assert not checked(deployment(replicas=4, pod=keys), snapshot=nodes).findings


def test_next_version_decides_otherwise():
    """From 1.37 on, the node with the fitting amount of storage is preferred for a volume that is made there."""
    capacity = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIStorageCapacity",
            "metadata": {"name": f"room-{name}", "namespace": "default"},
            "storageClassName": "made",
            "capacity": size,
            "nodeTopology": {"matchLabels": {"kubernetes.io/hostname": name}},
        }
        for name, size in (("a", "10Gi"), ("b", "100Gi"))
    ]
    storage = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "made"},
            "provisioner": "disk.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": "disk.example.com"},
            "spec": {"storageCapacity": True},
        },
    ]
    snapshot = Snapshot.of([node("a", "z1"), node("b", "z2"), *storage, *capacity])
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "shop"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "made",
        },
    }
    found = checked(claim, deployment(replicas=1, pod=MOUNTING, strategy={"type": "Recreate"}), snapshot=snapshot)
    assert [(each.rule, each.object) for each in found.findings] == [("next-version", "deployment shop/web")]
    assert "Kubernetes 1.37 decides otherwise about 1 pod" in found.findings[0].message
    assert "StorageCapacityScoring" in found.findings[0].message


def test_refused_objects_alone_are_bad_input():
    with pytest.raises(QuestionError, match="nodeSelectr"):
        checked(MISTAKES["refused"][0][1])


@pytest.mark.parametrize("metadata", ["x", [], 1, True])
def test_odd_metadata_costs_its_object_only(metadata):
    assert [each.rule for each in checked(WEB, {**WEB, "metadata": metadata}).findings] == ["refused"]


def test_stopped_check_says_so():
    def stop(text):
        if text == "likely mistakes":
            raise Stopped

    found = checked(*MISTAKES["pending"][0], progress=stop)
    assert found.interrupted
    assert [each.rule for each in found.findings] == ["pending"]
    assert "interrupted" in found.text()


def test_findings_are_sorted_and_shown_up_to_a_limit():
    documents = [document for given, _, _, _ in MISTAKES.values() for document in given]
    names = {(each["kind"], each["metadata"]["namespace"], each["metadata"]["name"]): each for each in documents}
    found = checked(*names.values(), shown=2)
    levels = [each.level for each in found.findings]
    assert levels == sorted(levels, key=["error", "warning", "note"].index)
    assert f"and {len(levels) - 2} more findings: --limit 0 shows them" in found.text()
    assert len(found.rows()) == len(levels) > 5


def test_pods_that_the_next_version_counts_otherwise_are_read_again():
    large = deployment("large", replicas=1, requests={"cpu": "1"})
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"resized-{name}", "namespace": "shop"},
            "spec": {
                "nodeName": name,
                "containers": [
                    {"name": "grows", "image": "i", "resources": {"requests": {"cpu": "2"}}},
                    {"name": "shrinks", "image": "i", "resources": {"requests": {"cpu": "1"}}},
                ],
            },
            "status": {
                "phase": "Running",
                "containerStatuses": [
                    {
                        "name": each,
                        "image": "i",
                        "imageID": "",
                        "ready": True,
                        "restartCount": 0,
                        "allocatedResources": {"cpu": cpu},
                        "resources": {"requests": {"cpu": cpu}},
                    }
                    for each, cpu in (("grows", "1"), ("shrinks", "2"))
                ],
            },
        }
        for name in "abc"
    ]
    nodes = [each for each in cluster() if each["kind"] == "Node"]
    found = checked(large, snapshot=Snapshot.of([*nodes, *pods]))
    assert [each.rule for each in found.findings] == ["pending", "next-version"]
    assert "AtomicResizes" in found.findings[1].message
