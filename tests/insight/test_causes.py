"""`explain` names the object that a pod really waits for: one that is gone, has finished, or comes back."""

import pytest
from bayplan_documents import document, node, pod
from tests.support.tables import cases

from bayplan.core.config import parse_configuration
from bayplan.core.versions import VERSIONS, gates_of, with_gangs
from bayplan.insight import Insight, Snapshot

WAITS = document(
    "StorageClass",
    "disk",
    "storage.k8s.io/v1",
    namespace="",
    provisioner="disk.acme.io",
    volumeBindingMode="WaitForFirstConsumer",
)
SELECTED = "volume.kubernetes.io/selected-node"
DATA = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
DEVICE_CLASS = document("DeviceClass", "gpu", "resource.k8s.io/v1", namespace="", spec={})
SLICE = document(
    "ResourceSlice",
    "n1-devices",
    "resource.k8s.io/v1",
    namespace="",
    spec={
        "driver": "gpu.acme.io",
        "nodeName": "n1",
        "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "g0"}],
    },
)
REQUESTS = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
TAINTED = "node(s) had untolerated taint(s): "


def claim(**annotations):
    spec = {"accessModes": ["ReadWriteOnce"], "storageClassName": "disk", "resources": {"requests": {"storage": "1Gi"}}}
    found = document("PersistentVolumeClaim", "data", spec=spec, status={"phase": "Pending"})
    found["metadata"]["annotations"] = annotations
    return found


def device_claim(name="mine", **status):
    found = document("ResourceClaim", name, "resource.k8s.io/v1", spec=REQUESTS, status=status)
    found["metadata"]["uid"] = name
    return found


def template(name):
    return document("ResourceClaimTemplate", name, "resource.k8s.io/v1", spec={"spec": REQUESTS})


def tainted(key, *conditions):
    found = node("n1", taints=[{"key": key, "effect": "NoSchedule"}])
    names = ("type", "status", "message")
    found["status"]["conditions"] = [dict(zip(names, each, strict=True)) for each in conditions]
    return found


def with_status(made, **status):
    return {**made, "status": status}


def being_deleted(made):
    return {**made, "metadata": {**made["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def explained(*objects, name="db", **options):
    return Insight(Snapshot.of(objects), **options).explain(f"default/{name}")


def blockers(answer):
    return [each for miss in answer.nearest for each in miss.blockers]


def helps(answer):
    return [each.text for each in answer.help]


def test_selected_node_that_is_gone_is_named_and_the_annotation_removed():
    answer = explained(node("n1"), WAITS, claim(**{SELECTED: "spot-7"}), pod("db", volumes=DATA))

    text = f"claim data (1Gi of class disk) has the annotation {SELECTED}=spot-7, and there is no node spot-7"
    assert blockers(answer) == [text]
    assert answer.cause == text
    assert helps(answer) == [f"remove the annotation {SELECTED} from the persistentvolumeclaim data -> n1"]


def test_pod_with_a_node_name_waits_for_a_claim_that_nobody_places():
    answer = explained(node("n1"), WAITS, claim(), pod("db", "n1", volumes=DATA))

    (note,) = answer.notes
    assert note.startswith("persistentvolumeclaim data is not bound and has no selected node, and gets none")
    assert note.endswith("nodeSelector kubernetes.io/hostname=n1 in place of nodeName")
    scheduled = with_status(pod("db", "n1", volumes=DATA), conditions=[{"type": "PodScheduled", "status": "True"}])
    assert explained(node("n1"), WAITS, claim(), scheduled).notes == ()


TEMPLATES = {
    "none": ((), "", ["create the resourceclaimtemplate one-gpuu for 1 device of class gpu -> n1"]),
    "a similar one": (
        [template("one-gpu")],
        " (did you mean one-gpu?)",
        [
            "let the pod use resourceclaimtemplate one-gpu -> n1",
            "create the resourceclaimtemplate one-gpuu for 1 device of class gpu -> n1",
        ],
    ),
}


@cases("templates, meant, tried", TEMPLATES)
def test_claim_of_a_missing_template_is_explained(templates, meant, tried):
    user = pod("db", resourceClaims=[{"name": "c", "resourceClaimTemplateName": "one-gpuu"}])

    answer = explained(node("n1"), DEVICE_CLASS, SLICE, *templates, user)

    missing = f"there is no resourceclaimtemplate one-gpuu in default{meant}, so claim c can't be made"
    assert any(note.startswith(missing) for note in answer.notes)
    assert helps(answer) == tried


def test_missing_device_class_is_made_for_the_devices_of_a_driver():
    user = pod("db", resourceClaims=[{"name": "c", "resourceClaimName": "mine"}])

    answer = explained(node("n1"), SLICE, device_claim(), user)

    assert blockers(answer) == ["claim mine, request r: device class gpu does not exist"]
    assert helps(answer) == ["create the deviceclass gpu for the devices of gpu.acme.io -> n1"]


def test_claim_that_is_being_deleted_names_the_pod_that_is_gone():
    reserved = {"reservedFor": [{"resource": "pods", "name": "old", "uid": "old-uid"}]}
    user = pod("db", resourceClaims=[{"name": "c", "resourceClaimName": "mine"}])

    answer = explained(node("n1"), DEVICE_CLASS, SLICE, being_deleted(device_claim(**reserved)), user)

    (text,) = blockers(answer)
    assert text.startswith('resourceclaim "mine" is being deleted: it is reserved for pod old, which is gone: ')


TAINTS = {
    "not ready": (
        ("node.kubernetes.io/unreachable", ("Ready", "Unknown", "Kubelet stopped posting node status.")),
        (
            "node.kubernetes.io/unreachable:NoSchedule (the taint stays while the node's condition Ready is Unknown: "
            "Kubelet stopped posting node status.)"
        ),
        ["add a node like n1 -> n1-new"],
    ),
    "disk pressure": (
        ("node.kubernetes.io/disk-pressure", ("DiskPressure", "True", "full")),
        (
            "node.kubernetes.io/disk-pressure:NoSchedule (the taint stays while the node's condition DiskPressure "
            "is True: full)"
        ),
        ["add a node like n1 -> n1-new"],
    ),
    "a condition that is over": (
        ("node.kubernetes.io/disk-pressure", ("DiskPressure", "False", "fine")),
        "node.kubernetes.io/disk-pressure:NoSchedule",
        [
            "add a toleration of node.kubernetes.io/disk-pressure:NoSchedule to the pod -> n1",
            "remove the taint node.kubernetes.io/disk-pressure:NoSchedule from n1 -> n1",
            "add a node like n1 -> n1-new",
        ],
    ),
    "a node that Cluster Autoscaler deletes": (
        ("ToBeDeletedByClusterAutoscaler",),
        "ToBeDeletedByClusterAutoscaler:NoSchedule (Cluster Autoscaler is deleting the node)",
        ["add a node like n1 -> n1-new"],
    ),
}


@cases("taint, text, tried", TAINTS)
def test_taint_that_comes_back_is_no_help(taint, text, tried):
    answer = explained(tainted(*taint), pod("db"))

    assert blockers(answer) == [TAINTED + text]
    assert helps(answer) == tried


def test_init_containers_that_have_ended_hold_room():
    init = [{"name": "setup", "image": "i", "resources": {"requests": {"cpu": "3"}}}]
    ended = [{"name": "setup", "state": {"terminated": {"exitCode": 0}}}]
    other = with_status(pod("web", "n1", initContainers=init), phase="Running", initContainerStatuses=ended)

    (text,) = blockers(explained(node("n1"), other, pod("db", cpu="2")))

    held = "pod default/web holds 2 more for its init containers, which have ended"
    assert text == f"Insufficient cpu: lacks 1 ({held})"


def test_nomination_to_a_node_that_is_gone_is_said():
    nominated = with_status(pod("db", cpu="8"), nominatedNodeName="n7")

    (note,) = [note for note in explained(node("n1"), nominated).notes if "nominated" in note]
    assert note.startswith("nominated to node n7, but there is no node n7")


def member(name, on=None, phase="Pending"):
    made = with_status(pod(name, on, schedulingGroup={"podGroupName": "trio"}), phase=phase)
    made["metadata"]["uid"] = name
    return made


def gang(count, **spec):
    policy = {"gang": {"minCount": count}}
    made = document("PodGroup", "trio", "scheduling.k8s.io/v1beta1", spec={"schedulingPolicy": policy, **spec})
    made["metadata"]["uid"] = "trio"
    return made


def test_finished_member_of_a_gang_is_named_and_fewer_members_are_tried():
    members = [member("w-0", "n1", "Succeeded"), member("w-1", "n1", "Running"), member("w-2")]

    answer = explained(node("n1"), gang(3), *members, name="w-2", gates=with_gangs(gates_of(VERSIONS[-1])))

    assert "w-0 exists, but has finished and does not count; nothing creates another one" in answer.notes
    assert helps(answer) == ["lower minCount of PodGroup trio to 2 -> n1"]


def test_fewer_members_are_tried_where_only_some_fit():
    members = [member(f"w-{number}") for number in range(3)]

    answer = explained(node("n1", cpu="2"), gang(3), *members, name="w-0", gates=with_gangs(gates_of(VERSIONS[-1])))

    assert "lower minCount of PodGroup trio to 2 -> n1" in helps(answer)


def test_what_rejects_all_nodes_comes_first():
    zone = "topology.kubernetes.io/zone"
    term = {"topologyKey": zone, "labelSelector": {"matchLabels": {"app": "web"}}}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    nodes = [node(name) for name in ("a1", "b1", "c1")]
    pods = [pod(f"web-{number}", on, affinity=apart) for number, on in enumerate(["a1", "b1", "c1", None])]
    for each in nodes:
        each["metadata"]["labels"][zone] = each["metadata"]["name"][0]
    for each in pods:
        each["metadata"]["labels"] = {"app": "web"}

    answer = explained(*nodes, *pods, name="web-3")

    assert answer.cause == (
        f"the pod's anti-affinity keeps it from each {zone} with a pod like default/web-0, and all 3 of them (a, b, c) "
        "have one"
    )
    assert answer.text().index("on all nodes: ") < answer.text().index("NODES")


def test_no_node_is_large_enough():
    answer = explained(node("n1"), node("n2", cpu="6"), pod("db", cpu="8"))

    assert answer.cause == "the pod requests 8 cpu, which no node has: the largest has 6"


def owned(kind, name, owner_kind, owner):
    reference = {"apiVersion": "apps/v1", "kind": owner_kind, "name": owner, "uid": owner, "controller": True}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "web"}}, "template": {"spec": {"containers": []}}}
    made = document(kind, name, "apps/v1", spec=spec)
    made["metadata"] |= {"uid": name, **({"ownerReferences": [reference]} if owner_kind else {})}
    return made


def test_pods_of_a_deployment_are_found_by_owner_references():
    sets = [owned("Deployment", "web", "", ""), owned("ReplicaSet", "first", "Deployment", "web")]
    insight = Insight(Snapshot.of([node("n1"), *sets, pod("p", "n1", owner=("ReplicaSet", "first"))]))

    answer = insight.explain_owner("deployment", "web")

    assert (answer.placed, answer.missing) == (1, None)


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ({"matchLabels": {"app": "batch"}}, "preemption avoids that only where a candidate violates fewer budgets"),
        ({}, "preemption doesn't heed budgets whose selector is empty"),
    ],
)
def test_budget_that_a_preemption_violates_and_the_other_candidate_are_named(selector, why):
    guarded = [pod(f"low-{number}", f"n{number}", cpu="3", priority=number) for number in (1, 2)]
    for each in guarded:
        each["metadata"]["labels"] = {"app": "batch"}
    budget = document("PodDisruptionBudget", "batch", "policy/v1")
    budget |= {"spec": {"selector": selector}, "status": {"disruptionsAllowed": 0}}

    answer = explained(node("n1"), node("n2"), budget, *guarded, pod("db", cpu="3", priority=9))

    assert answer.victims == ("default/low-1",)
    allows = "which allows 0 evictions now"
    assert answer.notes[-2] == f"to evict default/low-1 violates the budget default/batch, {allows}: {why}"
    other = f"n2 (evicts default/low-2 of priority 2{', 1 against a budget' if selector else ''})"
    assert answer.notes[-1] == f"other candidates, where the preemption would cost more or as much: {other}"


IN_ONE_DOMAIN = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {
                "multiPoint": {
                    "enabled": [
                        {"name": name} for name in ("GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount")
                    ]
                }
            },
        }
    ],
}


def test_gang_in_one_domain_names_the_room_of_each():
    racks = [node("n1", cpu="2"), node("n2", cpu="1")]
    for rack, each in zip("ab", racks, strict=True):
        each["metadata"]["labels"]["rack"] = rack
    group = gang(3, schedulingConstraints={"topology": [{"key": "rack"}]})
    members = [member(f"w-{number}") for number in range(3)]

    answer = explained(*racks, group, *members, name="w-0", configuration=parse_configuration(IN_ONE_DOMAIN))

    room = "a has room for 2 of 3 members, b has room for 1 of 3 members"
    assert f"gang trio must be placed on nodes with the same rack: {room}" in answer.notes
