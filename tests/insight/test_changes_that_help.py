"""What would help pending pods: the kinds of changes, and what is never proposed."""

from __future__ import annotations

import pytest
from bayplan_documents import document

from bayplan.insight import Insight, Snapshot

ZONE = "topology.kubernetes.io/zone"
WEB = {"matchLabels": {"app": "web"}}
TERM = [{"topologyKey": ZONE, "labelSelector": WEB}]
AFFINITY, ANTI_AFFINITY = (
    {"affinity": {name: {"requiredDuringSchedulingIgnoredDuringExecution": TERM}}}
    for name in ("podAffinity", "podAntiAffinity")
)
SPREAD = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": WEB}]
CLAIMED = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}
NEXT_TO_WEB = {
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": WEB}
            ]
        }
    }
}


def elsewhere(zone):
    rule = {"key": ZONE, "operator": "NotIn", "values": [zone]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}
    return {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}}


def node(name, zone="x", cpu="2"):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    labels = {"kubernetes.io/hostname": name, ZONE: zone}
    made = document("Node", name, namespace="", status={"allocatable": room, "capacity": room})
    made["metadata"]["labels"] = labels
    return made


def pod(name, cpu="1", on=None, app="", **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    made = document("Pod", name, spec={"containers": [container], **({"nodeName": on} if on else {}), **spec})
    made["metadata"] |= {"uid": name, "labels": {"app": app}}
    return made


def storage_class(name, provisioner="csi.example.com"):
    fields = {"provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    return document("StorageClass", name, "storage.k8s.io/v1", namespace="", **fields)


def claim(name, storage_class_name):
    resources = {"requests": {"storage": "5Gi"}}
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class_name, "resources": resources}
    made = document("PersistentVolumeClaim", name, spec=spec)
    made["metadata"]["uid"] = name
    return made


CASES = {
    "missing claim": (
        [node("a"), storage_class("fast"), pod("new", **CLAIMED)],
        "create the persistentvolumeclaim data with storage class fast",
    ),
    "missing claim where nothing is provisioned": (
        [node("a"), storage_class("local", "kubernetes.io/no-provisioner"), pod("new", **CLAIMED)],
        "create the persistentvolumeclaim data and a persistent volume of 1Gi for it",
    ),
    "missing storage class": (
        [node("a"), storage_class("fast"), claim("data", "gold"), pod("new", **CLAIMED)],
        "create the storage class gold like fast",
    ),
    "unbound claim without a class": (
        [node("a"), claim("data", ""), pod("new", **CLAIMED)],
        "create a persistent volume of 5Gi for the persistentvolumeclaim data",
    ),
    "no local volume": (
        [
            node("a"),
            storage_class("local", "kubernetes.io/no-provisioner"),
            claim("data", "local"),
            pod("new", **CLAIMED),
        ],
        "create a persistent volume of 5Gi for the persistentvolumeclaim data",
    ),
    "topology spread": (
        [
            node("a"),
            node("b", "y", cpu="500m"),
            pod("web-0", on="a", app="web"),
            pod("new", app="web", topologySpreadConstraints=SPREAD),
        ],
        f"set whenUnsatisfiable to ScheduleAnyway in the pod's spread over {ZONE}",
    ),
    "affinity to other zones": (
        [node("a"), pod("new", **elsewhere("x"))],
        "make the required node affinity of the pod preferred",
    ),
    "two nodes with the same plugins for different reasons": (
        [
            node("a", cpu="1"),
            node("b", cpu="3"),
            node("c"),
            pod("web-0", cpu="1", on="b", app="web"),
            pod("large", cpu="1", on="b"),
            pod("alone", cpu="2", on="c", **ANTI_AFFINITY),
            pod("new", cpu="1500m", app="web", **NEXT_TO_WEB),
        ],
        "let the pod request only 1 cpu and delete pod default/alone",
    ),
    "affinity to no pod": (
        [node("a"), pod("new", **AFFINITY)],
        "make the required pod affinity of the pod preferred",
    ),
    "anti-affinity of the pod": (
        [node("a"), node("b"), pod("web-0", on="a", app="web", priority=9), pod("new", **ANTI_AFFINITY)],
        "make the required pod anti-affinity of the pod preferred",
    ),
    "anti-affinity of a pod elsewhere in the zone": (
        [node("a"), node("b"), pod("alone", cpu="2", on="a", **ANTI_AFFINITY), pod("new", app="web")],
        "delete pod default/alone",
    ),
    "room": (
        [
            node("a"),
            pod("high", on="a", priority=9),
            pod("low", cpu="500m", on="a", priority=1),
            pod("equal", cpu="500m", on="a", priority=2),
            pod("new", priority=2, preemptionPolicy="Never"),
        ],
        "delete the pods default/low, default/equal on a",
    ),
}


@pytest.mark.parametrize(("objects", "change"), CASES.values(), ids=CASES)
def test_explain_finds_a_change_that_helps(objects, change):
    helps = Insight(Snapshot.of(objects)).explain("default/new").help

    assert any(each.change.text.startswith(change) for each in helps), helps
    assert not {"default/high", "default/web-0"} & {key for each in helps for key in each.change.delete}


def test_one_large_victim_is_preferred_to_two_small_ones():
    small = [pod(f"small-{number}", cpu="500m", on="a") for number in range(2)]
    objects = [node("a"), *small, pod("large", on="a"), pod("new", preemptionPolicy="Never")]
    helps = Insight(Snapshot.of(objects)).explain("default/new").help

    assert helps[0].change.delete == ("default/large",)


def test_change_with_more_parts_than_needed_is_left_out():
    tainted = node("a")
    tainted["spec"] = {"taints": [{"key": "gpu", "effect": "NoSchedule"}]}
    helps = Insight(Snapshot.of([tainted, pod("new", cpu="1")])).explain("default/new").help

    assert [each.change.text for each in helps] == [
        "add a toleration of gpu:NoSchedule to the pod",
        "remove the taint gpu:NoSchedule from a",
    ]
