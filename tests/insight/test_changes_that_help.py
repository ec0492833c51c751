"""What would help pending pods: the kinds of changes, and what is never proposed."""

import pytest
from bayplan_documents import document
from tests.support.tables import cases

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


NEW = pod("new", **CLAIMED)
CASES = {
    "missing claim": (
        [node("a"), storage_class("fast"), NEW],
        "create the persistentvolumeclaim data with storage class fast",
    ),
    "missing claim where nothing is provisioned": (
        [node("a"), storage_class("local", "kubernetes.io/no-provisioner"), NEW],
        "create the persistentvolumeclaim data and a persistent volume of 1Gi for it",
    ),
    "missing storage class": (
        [node("a"), storage_class("fast"), claim("data", "gold"), NEW],
        "create the storage class gold like fast",
    ),
    "unbound claim without a class": (
        [node("a"), claim("data", ""), NEW],
        "create a persistent volume of 5Gi for the persistentvolumeclaim data",
    ),
    "no local volume": (
        [node("a"), storage_class("local", "kubernetes.io/no-provisioner"), claim("data", "local"), NEW],
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
    "affinity to no pod": ([node("a"), pod("new", **AFFINITY)], "make the required pod affinity of the pod preferred"),
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


@cases("objects, change", CASES)
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


def replica(name, on=None, cpu="1", **spec):
    made = pod(name, cpu, on=on, **spec)
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    made["metadata"]["ownerReferences"] = [owner]
    return made


def tainted(name, value, **kwargs):
    made = node(name, **kwargs)
    made["spec"] = {"taints": [{"key": "state", "value": value, "effect": "NoSchedule"}]}
    return made


def cordoned(name):
    made = node(name)
    taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
    made["spec"] = {"unschedulable": True, "taints": [taint]}
    return made


def helps(*objects):
    return [each.text for each in Insight(Snapshot.of(objects)).explain("default/new").help]


def test_each_taint_is_tried_and_the_one_of_most_nodes_first():
    nodes = [tainted("a", "batch"), *(tainted(f"m{number}", "maintenance") for number in range(3))]

    found = helps(*nodes, pod("new"))

    assert found[0].startswith("add a toleration of state=maintenance:NoSchedule")
    assert "remove the taint state=maintenance:NoSchedule from m0 -> m0 (3 nodes like that)" in found
    assert any("state=batch" in each for each in found)


CHANGED_PODS = {
    "toleration": ([tainted("a", "x")], {}, "add a toleration of state=x:NoSchedule to the pod -> a"),
    "node selector": (
        [node("a")],
        {"nodeSelector": {"disk": "ssd"}},
        "remove disk=ssd from the pod's nodeSelector -> a",
    ),
    "gate": ([node("a")], {"schedulingGates": [{"name": "a.io/b"}]}, "remove the scheduling gate a.io/b -> a"),
    "request": ([node("a", cpu="500m")], {}, "let the pod request only 500m cpu -> a"),
}


@cases("nodes, spec, change", CHANGED_PODS)
def test_a_pod_of_a_server_is_changed_as_one_of_a_manifest(nodes, spec, change):
    """The changed pod has the version that the server knows."""
    new = pod("new", **spec)
    new["metadata"]["resourceVersion"] = "7"

    assert change in helps(*nodes, new)


def test_a_change_has_no_part_that_is_for_other_nodes():
    """With less cpu, the pod fits b as well, where it needs no toleration."""
    found = helps(tainted("a", "x", cpu="2"), node("b", cpu="3"), pod("new", cpu="4"))

    assert "let the pod request only 3 cpu -> b" in found
    assert [each for each in found if "toleration" in each and "-> b" in each] == []


def test_a_cordon_is_one_blocker():
    found = helps(cordoned("a"), node("b", cpu="500m"), pod("new"))

    assert "uncordon a -> a" in found
    insight = Insight(Snapshot.of([cordoned("a"), node("b", cpu="500m"), tainted("c", "x", cpu="500m"), pod("new")]))
    assert [each.to_dict() for each in insight.why_not("default/new", "a").blockers] == [
        {"plugin": "NodeUnschedulable", "reasons": ["node(s) were unschedulable"], "text": "node(s) were unschedulable"}
    ]
    assert [(miss.nodes, len(miss.blockers)) for miss in insight.explain("default/new").nearest] == [
        (("a",), 1),
        (("b",), 1),
        (("c",), 2),
    ]
    assert "uncordon a" in [each["change"] for each in insight.explain_all().to_dict()["freeing"]["changes"]]


def test_a_cordon_is_one_blocker_of_a_node_with_other_taints():
    both = cordoned("a")
    both["spec"]["taints"].append({"key": "state", "value": "x", "effect": "NoSchedule"})
    insight = Insight(Snapshot.of([both, pod("new")]))

    assert [each.text for each in insight.why_not("default/new", "a").blockers] == [
        "node(s) were unschedulable",
        "node(s) had untolerated taint(s): state=x:NoSchedule",
    ]
    assert "uncordon a and add a toleration of state=x:NoSchedule to the pod -> a" in helps(both, pod("new"))


def priority_class(name, value):
    return document("PriorityClass", name, "scheduling.k8s.io/v1", namespace="", value=value)


CLASSES = [priority_class("medium", 5), priority_class("high", 50), priority_class("system-node-critical", 2000001000)]
PRIORITIES = {
    "a pod of higher priority has the node": (
        [pod("full", cpu="2", on="a", priority=10), pod("new")],
        ["give the pod the priority class high -> a (evicts 1 pod of default)"],
    ),
    "the lowest class is enough": (
        [pod("full", cpu="2", on="a", priority=1), pod("new")],
        ["give the pod the priority class medium -> a (evicts 1 pod of default)"],
    ),
    "it never preempts": ([pod("full", cpu="2", on="a", priority=1), pod("new", preemptionPolicy="Never")], []),
    "only its siblings could go": ([replica("web-0", on="a", cpu="2"), replica("new")], []),
    "only system classes are higher": ([pod("full", cpu="2", on="a", priority=50), pod("new", priority=50)], []),
    "no eviction helps": ([pod("new", cpu="3")], []),
}


@cases("objects, expected", PRIORITIES)
def test_a_higher_priority_class_is_proposed_with_its_victims(objects, expected):
    found = helps(node("a"), *CLASSES, *objects)

    assert [each for each in found if "priority class" in each] == expected


@pytest.mark.parametrize("key", ["kubernetes.io/hostname", ZONE, "kubernetes.io/arch"])
def test_what_a_node_is_stays(key):
    found = helps(node("a"), pod("new", nodeSelector={key: "other"}))

    assert found
    assert not any(each.startswith("label") for each in found)


def test_labels_with_another_value_are_changed_last_and_say_who_selects_them():
    first = node("a")
    first["metadata"]["labels"]["disk"] = "hdd"
    found = helps(first, pod("old", on="a", nodeSelector={"disk": "hdd"}), pod("new", nodeSelector={"disk": "ssd"}))

    changed = "label a with disk=ssd -> a (disk was hdd, which default/old selected)"
    assert changed in found
    assert found.index("remove disk=ssd from the pod's nodeSelector -> a") < found.index(changed)


def test_no_replica_is_deleted_for_another_one():
    found = helps(node("a"), *(replica(f"web-{number}", on="a") for number in range(2)), replica("new"))

    assert found
    assert not any("delete" in each for each in found)


def test_deletions_say_whose_pods_they_cost():
    other = pod("old", on="a", cpu="2", preemptionPolicy="Never")
    other["metadata"]["namespace"] = "team-b"

    assert "delete pod team-b/old on a -> a (evicts 1 pod of team-b)" in helps(
        node("a"), other, pod("new", preemptionPolicy="Never")
    )


def test_pod_of_a_daemon_set_goes_to_no_other_node():
    field = {"key": "metadata.name", "operator": "In", "values": ["a"]}
    terms = {"nodeSelectorTerms": [{"matchFields": [field]}]}
    daemon = pod("new", affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}})
    daemon["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "d", "controller": True}
    ]

    assert helps(node("a"), node("b"), pod("full", cpu="2", on="a"), *CLASSES, daemon) == [
        "delete pod default/full on a -> a (evicts 1 pod of default)",
        "give the pod the priority class medium -> a (evicts 1 pod of default)",
    ]


def test_a_gated_pod_that_fits_is_ungated():
    gates = [{"name": "acme.io/quota"}, {"name": "acme.io/review"}]

    assert helps(node("a"), pod("new", schedulingGates=gates)) == [
        "remove the scheduling gates acme.io/quota and acme.io/review -> a"
    ]


def test_nodes_with_equal_blockers_are_shown_together():
    answer = Insight(Snapshot.of([*(node(f"n{number:02}", cpu="500m") for number in range(30)), pod("new")])).explain(
        "default/new"
    )

    assert [len(each.nodes) for each in answer.nearest] == [30]
    assert answer.nearest[0].text.startswith("n00, n01, n02, n03, n04 and 25 more: Insufficient cpu")


def test_nodes_are_counted_by_taint():
    nodes = [*(tainted(f"m{number}", "maintenance") for number in range(3)), tainted("b", "batch")]
    (group,) = Insight(Snapshot.of([*nodes, pod("new")])).explain("default/new").groups

    assert (
        group.text == "node(s) had untolerated taint(s): state=maintenance:NoSchedule (3), state=batch:NoSchedule (1)"
    )
