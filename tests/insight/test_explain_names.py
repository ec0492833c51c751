"""`explain` names the objects that a rejection is about: which claim, volume, class, pod, driver, label."""

import yaml
from tests.support.documents import of_kind
from tests.support.tables import cases

from bayplan.insight import Insight, Snapshot

ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
WEB = {"app": "web"}
SPREAD = "the pod's constraint spreads over"
CLOSED = "cp counts, but the pod can't go there for its taints"
FEW = "minDomains is 3, but only a and b have nodes that count, so the minimum is 0"
CPU = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}
NO_MATCH = "node(s) didn't match Pod's node affinity/selector: "


def spread(key, **fields):
    selector = {"matchLabels": WEB}
    return {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector, **fields}


def rule(name, key):
    terms = [{"topologyKey": key, "labelSelector": {"matchLabels": WEB}}]
    return {name: {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def node(name, zone="a", cpu="4", pods="110", room=None, **labels):
    room = {"cpu": cpu, "memory": "8Gi", "pods": pods, **(room or {})}
    labels = {HOSTNAME: name, ZONE: zone, **labels}
    return of_kind("Node", name, metadata={"labels": labels}, status={"capacity": room, "allocatable": room})


def asking(**amounts):
    resources = {"requests": amounts, "limits": amounts}
    return {"containers": [{"name": "c", "image": "i", "resources": resources}]}


def with_status(pod, **status):
    return {**pod, "status": {"phase": "Running" if pod["spec"].get("nodeName") else "Pending", **status}}


def resizing(pod, has, condition, reason=None):
    """A pod whose container has some cpu, other than it requests."""
    container = {"name": "c", "resources": {"requests": {"cpu": has}}, "allocatedResources": {"cpu": has}}
    condition = {"type": condition, "status": "True", **({"reason": reason} if reason else {})}
    return with_status(pod, conditions=[condition], containerStatuses=[{**_STARTED, **container}])


_STARTED = {"image": "i", "imageID": "i", "ready": True, "restartCount": 0}


def ending(pod):
    gone = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    return {**pod, "metadata": {**pod["metadata"], **gone}}


def pod(name, on=None, claims=(), labels=None, **spec):
    volumes = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    fields = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes, **spec}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels or {}},
        "spec": {**fields, **({"nodeName": on} if on else {})},
    }


def claim(name="data", volume="", mode="ReadWriteOnce", class_name="", size="5Gi"):
    bound = {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}} if volume else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": name, **bound},
        "spec": {
            "accessModes": [mode],
            "storageClassName": class_name,
            "resources": {"requests": {"storage": size}},
            **({"volumeName": volume} if volume else {}),
        },
        "status": {"phase": "Bound" if volume else "Pending"},
    }


def volume(name="pv", claim="data", key=None, value="", labels=None, **source):
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "default"}
    expression = {"key": key, "operator": "In", "values": [value]}
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "claimRef": {**reference, "name": claim, "uid": claim},
            **({"nodeAffinity": affinity} if key else {}),
            **(source or {"local": {"path": "/d"}}),
        },
        "status": {"phase": "Bound"},
    }


def local_volume(size, zone):
    made = volume(key=ZONE, value=zone)
    del made["spec"]["claimRef"]
    made["spec"] |= {"capacity": {"storage": size}, "storageClassName": "disk"}
    made["status"] = {"phase": "Available"}
    return made


def storage_class(name="disk", mode="WaitForFirstConsumer", provisioner="disk.acme.io", **fields):
    return of_kind("StorageClass", name, provisioner=provisioner, volumeBindingMode=mode, **fields)


NO_VOLUME = (
    "claim data (5Gi of class disk) finds no free volume that the node can access, and the class provisions none"
)
CSI = {"csi": {"driver": "disk.acme.io", "volumeHandle": "h"}}
CAPACITY = yaml.safe_load(
    """
- {apiVersion: storage.k8s.io/v1, kind: CSIDriver, metadata: {name: disk.acme.io}, spec: {storageCapacity: true}}
- apiVersion: storage.k8s.io/v1
  kind: CSIStorageCapacity
  metadata: {name: c, namespace: kube-system}
  storageClassName: disk
  nodeTopology: {matchLabels: {topology.kubernetes.io/zone: a}}
  capacity: 1Gi
"""
)
LIMITED = yaml.safe_load(
    """
- apiVersion: storage.k8s.io/v1
  kind: CSINode
  metadata: {name: n1}
  spec: {drivers: [{name: disk.acme.io, nodeID: n1, allocatable: {count: 1}}]}
"""
)
LOCAL = storage_class(provisioner="kubernetes.io/no-provisioner")
DISK = claim(class_name="disk")
OF_A_CLAIM = {  # of the pod, on node n1
    "volume of a node that is gone": (
        [claim(volume="pv"), volume(key=HOSTNAME, value="old")],
        f"volume pv of claim data wants {HOSTNAME} in (old), which no node has",
        None,
    ),
    "volume in another zone": (
        [claim(volume="pv"), volume(key=ZONE, value="b")],
        f"volume pv of claim data wants {ZONE} in (b), which no node has",
        f"add a node like n1 with {ZONE}=b -> n1-new",
    ),
    "volume with a zone in its labels": (
        [claim(volume="pv"), volume(labels={ZONE: "b"})],
        f"volume pv wants {ZONE} in (b)",
        f"add a node like n1 with {ZONE}=b -> n1-new",
    ),
    "volume that is gone": ([claim(volume="pv")], "claim data is bound to volume pv, which does not exist", None),
    "claim in exclusive use": (
        [claim(volume="pv", mode="ReadWriteOncePod"), volume(**CSI), pod("first", on="n1", claims=["data"])],
        "claim data (ReadWriteOncePod) is used by pod default/first on n1",
        "delete pod default/first on n1 -> n1 (evicts 1 pod of default)",
    ),
    "claim that a provisioner must bind first": (
        [storage_class(mode="Immediate"), DISK],
        "claim data must be bound first: it waits for provisioner disk.acme.io of class disk",
        None,
    ),
    "too little capacity": (
        [storage_class(), storage_class("other", provisioner="x.io"), *CAPACITY, DISK],
        "claim data (5Gi of class disk): 1Gi is free for n1",
        "give the persistentvolumeclaim data the storage class other -> n1",
    ),
    "class of another zone": (
        [storage_class(allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["b"]}]}]), DISK],
        f"claim data (5Gi of class disk): the class provisions volumes only where {ZONE} in (b)",
        f"add a node like n1 with {ZONE}=b -> n1-new",
    ),
    "no local volume": (
        [LOCAL, DISK],
        NO_VOLUME,
        "create a persistent volume of 5Gi for the persistentvolumeclaim data -> n1",
    ),
    "only a smaller local volume": (
        [LOCAL, DISK, local_volume("1Gi", zone="a")],
        f"{NO_VOLUME}; volume pv has 1Gi",
        "create a persistent volume of 5Gi for the persistentvolumeclaim data -> n1",
    ),
    "only a local volume elsewhere": (
        [LOCAL, DISK, local_volume("5Gi", zone="b")],
        f"{NO_VOLUME}; volume pv has 5Gi and wants {ZONE} in (b), which no node has",
        f"add a node like n1 with {ZONE}=b -> n1-new",
    ),
    "all slots of the driver are taken": (
        [
            *LIMITED,
            claim(volume="pv"),
            volume(csi={"driver": "disk.acme.io", "volumeHandle": "h1"}),
            claim("other", volume="pv-2"),
            volume("pv-2", "other", csi={"driver": "disk.acme.io", "volumeHandle": "h2"}),
            pod("first", on="n1", claims=["other"]),
        ],
        "driver disk.acme.io attaches at most 1 volumes to n1: 1 attached, by default/first, and the pod needs 1 more",
        "delete pod default/first on n1 -> n1 (evicts 1 pod of default)",
    ),
}
OTHERS = {
    "no capacity where the node is": (
        [node("n1", zone="b"), storage_class(), *CAPACITY, DISK, pod("new", claims=["data"])],
        "claim data (5Gi of class disk): driver disk.acme.io has published no capacity for n1",
        None,
    ),
    "a tainted node counts as an empty domain": (
        [
            node("n1"),
            {**node("cp"), "spec": {"taints": [{"key": "control-plane", "effect": "NoSchedule"}]}},
            pod("web-0", on="n1", labels=WEB),
            pod("new", labels=WEB, topologySpreadConstraints=[spread(HOSTNAME)]),
        ],
        f"{SPREAD} {HOSTNAME} with maxSkew 1: matching pods: n1 has 1, cp has 0; the minimum is 0; {CLOSED}",
        f"set nodeTaintsPolicy to Honor in the pod's spread over {HOSTNAME} -> n1",
    ),
    "too few domains": (
        [
            node("n-a"),
            node("n-b", zone="b"),
            *(pod(f"web-{zone}", on=f"n-{zone}", labels=WEB) for zone in "ab"),
            pod("new", labels=WEB, topologySpreadConstraints=[spread(ZONE, minDomains=3)]),
        ],
        f"{SPREAD} {ZONE} with maxSkew 1: matching pods: a has 1, b has 1; {FEW}",
        f"set minDomains to 2 in the pod's spread over {ZONE} -> n-",
    ),
    "pods of an earlier ReplicaSet are counted": (
        [
            node("n-a"),
            node("n-b", zone="b", cpu="0"),
            pod("web-0", on="n-a", labels={**WEB, "pod-template-hash": "1"}),
            pod("new", labels={**WEB, "pod-template-hash": "2"}, topologySpreadConstraints=[spread(ZONE)], **CPU),
        ],
        f"{SPREAD} {ZONE} with maxSkew 1: matching pods: a has 1, b has 0; the minimum is 0",
        f"set matchLabelKeys to [pod-template-hash] in the pod's spread over {ZONE} -> n-a",
    ),
    "a full zone": (
        [
            node("n-a"),
            node("n-b", zone="b", cpu="0"),
            pod("web-0", on="n-a", labels=WEB),
            pod("new", labels=WEB, topologySpreadConstraints=[spread(ZONE)], **CPU),
        ],
        f"{SPREAD} {ZONE} with maxSkew 1: matching pods: a has 1, b has 0; the minimum is 0",
        f"add a node like n-a with {ZONE}=b -> n-a-new",
    ),
    "node without the topology key": (
        [node("n1"), pod("new", labels=WEB, topologySpreadConstraints=[spread("rack")])],
        "the node lacks the label rack, over which the pod's constraint spreads",
        "set whenUnsatisfiable to ScheduleAnyway in the pod's spread over rack -> n1",
    ),
    "affinity to a pod elsewhere": (
        [
            node("n-a"),
            node("n-b", zone="b", cpu="0"),
            pod("db", on="n-b", labels=WEB),
            pod("new", affinity=rule("podAffinity", ZONE), **CPU),
        ],
        f"the pod's affinity misses a pod with app=web in {ZONE}=a; default/db is in {ZONE}=b",
        f"add a node like n-a with {ZONE}=b -> n-a-new",
    ),
    "affinity to no pod": (
        [node("n-a"), pod("new", affinity=rule("podAffinity", ZONE))],
        f"the pod's affinity misses a pod with app=web in {ZONE}=a; no pod of default matches",
        "make the required pod affinity of the pod preferred -> n-a",
    ),
    "anti-affinity of the pod": (
        [
            node("n-a"),
            node("n-a2", cpu="0"),
            pod("web-0", on="n-a2", labels=WEB),
            pod("new", affinity=rule("podAntiAffinity", ZONE), **CPU),
        ],
        f"the pod's anti-affinity keeps it from default/web-0 in {ZONE}=a",
        "delete pod default/web-0 -> n-a (evicts 1 pod of default)",
    ),
    "anti-affinity of a pod there": (
        [node("n-a"), pod("alone", on="n-a", affinity=rule("podAntiAffinity", ZONE)), pod("new", labels=WEB)],
        f"the anti-affinity of pods there keeps it from default/alone in {ZONE}=a",
        "delete pod default/alone on n-a -> n-a (evicts 1 pod of default)",
    ),
    "host name of no node": (
        [node("n1"), pod("new", nodeSelector={HOSTNAME: "old"})],
        f"{NO_MATCH}{HOSTNAME}=old (no node is named old)",
        f"remove {HOSTNAME}=old from the pod's nodeSelector -> n1",
    ),
    "room for a nominated pod": (
        [
            node("n1"),
            with_status(pod("x", priority=5, **asking(cpu="4")), nominatedNodeName="n1"),
            pod("new", **asking(cpu="500m")),
        ],
        "Insufficient cpu: lacks 500m (4 cpu is held for nominated pod default/x)",
        None,
    ),
    "as many pods as are allowed, with a nominated one": (
        [node("n1", pods="2"), pod("old", on="n1"), with_status(pod("x"), nominatedNodeName="n1"), pod("new")],
        "Too many pods: 2 of 2, 1 of which is nominated (default/x)",
        None,
    ),
    "a pod that terminates": (
        [node("n1"), ending(pod("y", on="n1", **asking(cpu="3500m"))), pod("new", **asking(cpu="1"))],
        "Insufficient cpu: lacks 500m (pod default/y, which terminates, holds 3500m)",
        None,
    ),
    "a nominated pod, and one that terminates": (
        [
            node("n1"),
            ending(pod("y", on="n1", **asking(cpu="2"))),
            with_status(pod("x", **asking(cpu="2")), nominatedNodeName="n1"),
            pod("new", **asking(cpu="500m")),
        ],
        (
            "Insufficient cpu: lacks 500m (2 cpu is held for nominated pod default/x; "
            "pod default/y, which terminates, holds 2)"
        ),
        None,
    ),
    "a deferred resize": (
        [
            node("n1"),
            resizing(pod("y", on="n1", **asking(cpu="3500m")), "1", "PodResizePending", "Deferred"),
            pod("new", **asking(cpu="1")),
        ],
        "Insufficient cpu: lacks 500m (pod default/y holds 2500m more for its deferred resize)",
        "delete pod default/y on n1 -> n1",
    ),
    "a resize in progress to less": (
        [
            node("n1"),
            resizing(pod("y", on="n1", **asking(cpu="1")), "3500m", "PodResizeInProgress"),
            pod("new", **asking(cpu="1")),
        ],
        "Insufficient cpu: lacks 500m (pod default/y holds 2500m until its resize in progress is done)",
        None,
    ),
    "a resize that is infeasible holds nothing": (
        [
            node("n1"),
            resizing(pod("y", on="n1", **asking(cpu="9")), "3500m", "PodResizePending", "Infeasible"),
            pod("new", **asking(cpu="1")),
        ],
        "Insufficient cpu: lacks 500m",
        None,
    ),
    "resource with a typing error": (
        [
            node("n1", room={"nvidia.com/gpu": "2"}),
            node("n2", room={"nvidia.com/gpu": "2"}),
            pod("new", **asking(**{"nvidia.com/gpus": "1"})),
        ],
        (
            "Insufficient nvidia.com/gpus: the pod requests 1, the whole node has 0 "
            "(did you mean nvidia.com/gpu, which 2 nodes have?)"
        ),
        "let the pod request nvidia.com/gpu instead of nvidia.com/gpus -> n",
    ),
    "label value with a typing error": (
        [node("n1", disktype="ssd"), pod("new", nodeSelector={"disktype": "sdd"})],
        f"{NO_MATCH}disktype=sdd (no node has it; did you mean disktype=ssd, which 1 node has?)",
        None,
    ),
    "label key with a typing error": (
        [node("n1", disktype="ssd"), pod("new", nodeSelector={"disk-type": "ssd"})],
        f"{NO_MATCH}disk-type=ssd (no node has the label; did you mean disktype, which 1 node has?)",
        None,
    ),
}
CASES = OTHERS | {
    name: ([node("n1"), *objects, pod("new", claims=["data"])], *expected)
    for name, (objects, *expected) in OF_A_CLAIM.items()
}


@cases("objects, blocker, help_", CASES)
def test_blockers_name_the_objects(objects, blocker, help_):
    answer = Insight(Snapshot.of(objects)).explain("default/new")

    assert blocker in [each for miss in answer.nearest for each in miss.blockers]
    assert help_ is None or any(each.text.startswith(help_) for each in answer.help)
    assert not any(HOSTNAME in each.text and each.text.startswith(("label", "add")) for each in answer.help)
