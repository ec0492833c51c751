"""Random small clusters, and gangs whose members need devices and volumes, as documents."""

import random

from tests.support.documents import of_kind

HOSTNAME = "kubernetes.io/hostname"
GPU = "example.com/gpu"
DRIVER = "gpu.example.com"
CSI = "disk.example.com"
KUBERNETES, IN_ONE_ZONE, AS_A_WHOLE, LABELS = "PodGroup", "PodGroup in a zone", "PodGroup that preempts", "labels"
PLUGINS = {
    KUBERNETES: ["GangScheduling"],
    IN_ONE_ZONE: ["GangScheduling", "TopologyPlacementGenerator", "PodGroupPodsCount"],
    AS_A_WHOLE: ["GangScheduling", "WorkloadAwarePreemption"],
    LABELS: ["Coscheduling"],
}
"""The forms of gangs, and the plugins that place them."""
ZONE = "topology.kubernetes.io/zone"
PRIORITY = 10
"""Of members that may preempt."""
DEVICES = ("none", "none", "shared", "own", "template", "extended", "capacity", "counters")
VOLUMES = ("none", "none", "local", "local", "shared local", "one pod", "new", "new", "shared new")


class GangMaker:
    """`capacities`: whether the CSI driver publishes its storage capacity."""

    def __init__(self, seed, form=KUBERNETES, *, capacities=True):
        self.rng = random.Random(seed)
        self.form = form
        self.capacities = capacities
        self.names = [f"n{number}" for number in range(self.rng.choice([1, 2, 2, 3, 3, 4]))]

    def once_in(self, number):
        return self.rng.random() < 1 / number

    # The cluster

    def cluster(self, *, occupied=False):
        """Nodes with devices and volumes. `occupied`: with pods that members may preempt."""
        nodes = [self.node(name) for name in self.names]
        fixed = [*nodes, *device_classes(), *storage_classes(), priority_class()]
        places = [each for name in self.names for each in self.place(name)]
        return [*fixed, *places, *(self.old_pods() if occupied else ())]

    def node(self, name):
        room = {"cpu": self.rng.choice("3468"), "memory": "64Gi", "pods": self.rng.choice(["2", "3", "110"])}
        labels = {HOSTNAME: name, f"{CSI}/node": name, ZONE: self.rng.choice("ab")}
        status = {"allocatable": room, "capacity": dict(room)}
        return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "status": status}

    def place(self, node):
        """The devices and volumes of a node."""
        rng = self.rng
        if not self.once_in(4):
            whole = [{"name": f"g{number}"} for number in range(rng.randint(1, 3))]
            yield resource_slice(node, "whole", whole)
        if not self.once_in(4):
            shared = {"memory": {"value": f"{rng.choice([4, 8])}Gi"}}
            yield resource_slice(node, "shared", [{"name": "s", "allowMultipleAllocations": True, "capacity": shared}])
        if not self.once_in(4):
            parts = [{"name": f"p{number}", "consumesCounters": [consumed(rng.choice("122"))]} for number in range(3)]
            total = {"name": "card", "counters": {"slots": {"value": rng.choice("234")}}}
            yield resource_slice(node, "parts", parts, count=2)
            yield resource_slice(node, "parts", [], name=f"{node}-card", count=2, sharedCounters=[total])
        yield from (local_volume(f"{node}-{number}", node) for number in range(rng.randint(0, 2)))
        limit = {"allocatable": {"count": rng.randint(1, 3)}} if self.once_in(2) else {}
        driver = {"name": CSI, "nodeID": node, "topologyKeys": [f"{CSI}/node"], **limit}
        yield of_kind("CSINode", node, spec={"drivers": [driver]})
        if self.capacities and not self.once_in(4):
            yield {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSIStorageCapacity",
                "metadata": {"name": node, "namespace": "default"},
                "storageClassName": "new",
                "capacity": f"{rng.choice([3, 5, 8])}Gi",
                "nodeTopology": {"matchLabels": {f"{CSI}/node": node}},
            }

    def old_pods(self):
        for number in range(self.rng.randint(1, 5)):
            yield pod(f"old-{number}", "1", nodeName=self.rng.choice(self.names), priority=0)

    # Gangs

    def gang(self, *, least=None, priority=0):
        """The claims, the members and the group, which comes last: without it, the members are gated."""
        rng = self.rng
        size = rng.randint(2, 4)
        devices, volumes = rng.choice(DEVICES), rng.choice(VOLUMES)
        mixed = self.once_in(4)
        objects = {}
        for number in range(size):
            if mixed:
                devices, volumes = rng.choice(DEVICES), rng.choice(VOLUMES)
            made = self.member(number, least or size, priority, devices, volumes)
            objects |= {(each["kind"], each["metadata"]["name"]): each for each in made}
        members = [each for each in objects.values() if each["kind"] == "Pod"]
        others = [each for each in objects.values() if each["kind"] != "Pod"]
        return [*others, *members, *([] if self.form == LABELS else [self.group(least or size, priority)])]

    def group(self, least, priority):
        spec = {"schedulingPolicy": {"gang": {"minCount": least}}}
        if self.form == IN_ONE_ZONE:
            spec["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
        if priority:
            spec |= {"priority": priority, "priorityClassName": "high"}
        return {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "crew", "namespace": "default"},
            "spec": spec,
        }

    def member(self, number, least, priority, devices, volumes):
        """A member with the objects that it refers to, some of which members share."""
        spec, requests = {}, {"cpu": self.rng.choice(["500m", "1", "2"])}
        if devices == "extended":
            requests[GPU] = "1"
        elif devices == "template":
            yield claim_template("each", "gpu")
            spec["resourceClaims"] = [{"name": "d", "resourceClaimTemplateName": "each"}]
        elif devices != "none":
            name = "crew" if devices == "shared" else f"{devices}-{number}"
            yield resource_claim(name, {"capacity": "share", "counters": "part"}.get(devices, "gpu"))
            spec["resourceClaims"] = [{"name": "d", "resourceClaimName": name}]
        if volumes != "none":
            shared = volumes not in {"local", "new"}
            name = volumes.replace(" ", "-") + ("" if shared else f"-{number}")
            mode = {"one pod": "ReadWriteOncePod", "local": "ReadWriteOnce", "new": "ReadWriteOnce"}
            yield volume_claim(name, "new" if "new" in volumes else "local", mode.get(volumes, "ReadWriteMany"))
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
        labels = {}
        if self.form != LABELS:
            spec["schedulingGroup"] = {"podGroupName": "crew"}
        else:
            labels = gang_labels(least)
        if priority:
            spec |= {"priority": priority, "priorityClassName": "high"}
        yield pod(f"crew-{number}", requests, labels, **spec)


def pod(name, requests, labels=None, **spec):
    requests = {"cpu": requests} if isinstance(requests, str) else requests
    limits = {"limits": {GPU: requests[GPU]}} if GPU in requests else {}
    container = {"name": "c", "image": "i", "resources": {"requests": requests, **limits}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels or {}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0, **spec},
        "status": {"phase": "Running" if "nodeName" in spec else "Pending"},
    }


def gang_labels(least):
    prefix = "pod-group.scheduling.sigs.k8s.io"
    return {f"{prefix}/name": "crew", f"{prefix}/min-available": str(least)}


def priority_class():
    return of_kind("PriorityClass", "high", value=PRIORITY)


# Devices

_API = {"apiVersion": "resource.k8s.io/v1"}


def device_classes():
    for name, kind in (("gpu", "whole"), ("share", "shared"), ("part", "parts")):
        spec = {"selectors": [{"cel": {"expression": f'device.driver == "{kind}.{DRIVER}"'}}]}
        if name == "gpu":
            spec["extendedResourceName"] = GPU
        yield {**_API, "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def resource_slice(node, kind, devices, name=None, count=1, **more):
    pool = {"name": f"{node}-{kind}", "generation": 1, "resourceSliceCount": count}
    spec = {"nodeName": node, "driver": f"{kind}.{DRIVER}", "pool": pool, **more}
    if devices:
        spec["devices"] = devices
    return {**_API, "kind": "ResourceSlice", "metadata": {"name": name or f"{node}-{kind}"}, "spec": spec}


def consumed(amount):
    return {"counterSet": "card", "counters": {"slots": {"value": amount}}}


def _claim_spec(class_name):
    exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": 1}
    if class_name == "share":
        exactly["capacity"] = {"requests": {"memory": "3Gi"}}
    return {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}


def resource_claim(name, class_name):
    metadata = {"name": name, "namespace": "default", "uid": f"claim-{name}"}
    return {**_API, "kind": "ResourceClaim", "metadata": metadata, "spec": _claim_spec(class_name)}


def claim_template(name, class_name):
    metadata = {"name": name, "namespace": "default", "uid": f"template-{name}"}
    return {**_API, "kind": "ResourceClaimTemplate", "metadata": metadata, "spec": {"spec": _claim_spec(class_name)}}


# Volumes


def storage_classes():
    for name, provisioner in (("local", "kubernetes.io/no-provisioner"), ("new", CSI)):
        yield of_kind("StorageClass", name, provisioner=provisioner, volumeBindingMode="WaitForFirstConsumer")
    yield of_kind("CSIDriver", CSI, spec={"storageCapacity": True, "attachRequired": True})


def local_volume(name, node):
    rule = {"key": HOSTNAME, "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"volume-{name}"},
        "spec": {
            "capacity": {"storage": "5Gi"},
            "accessModes": ["ReadWriteOnce", "ReadWriteMany", "ReadWriteOncePod"],
            "storageClassName": "local",
            "persistentVolumeReclaimPolicy": "Retain",
            "local": {"path": "/data"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}},
        },
        "status": {"phase": "Available"},
    }


def volume_claim(name, class_name, mode):
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"pvc-{name}"},
        "spec": {"accessModes": [mode], "storageClassName": class_name, "resources": {"requests": {"storage": "2Gi"}}},
        "status": {"phase": "Pending"},
    }
