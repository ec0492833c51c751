"""Objects of all other kinds that the scheduler watches, before they are changed, and pods that depend on them."""

from typing import Any

from device_objects import DRIVER, RESOURCE, claiming, device_class, resource_slice
from device_objects import claim as device_claim
from tests.support import storage_documents as storage
from workloads import pod

Document = dict[str, Any]
_SELECTOR = {"matchLabels": {"app": "odd"}, "matchExpressions": [{"key": "app", "operator": "In", "values": ["odd"]}]}
_DRIVER_OF_NODE = {"name": storage.DRIVER, "nodeID": "x", "topologyKeys": [], "allocatable": {"count": 1}}


def odd_things() -> dict[tuple[str, str], Document]:
    """The documents by plural and key."""
    things = {
        ("deviceclasses", "gpu"): device_class(extendedResourceName=RESOURCE),
        ("resourceslices", "slice-odd-0"): _slice(),
        ("resourceclaims", "default/c"): device_claim("c", f"device.attributes['{DRIVER}'].model == 'a100'"),
        ("resourceclaims", "default/d"): _allocated(device_claim("d")),
        ("storageclasses", "late"): storage.storage_class("late", late=True, **storage.allowed(storage.ZONE, "a")),
        ("persistentvolumeclaims", "default/p"): storage.claim("p", "late"),
        ("persistentvolumeclaims", "default/r"): _bound(storage.claim("r", "late", volumeName="v")),
        ("persistentvolumes", "v"): storage.volume(
            "v",
            "late",
            csi={"driver": storage.DRIVER, "volumeHandle": "h", "volumeAttributes": {"a": "b"}},
            claimRef={"namespace": "default", "name": "r"},
        ),
        ("csinodes", "odd-0"): {
            "spec": {
                "drivers": [{"name": storage.DRIVER, "nodeID": "x", "topologyKeys": [], "allocatable": {"count": 1}}]
            }
        },
        ("csidrivers", storage.DRIVER): {"spec": {"storageCapacity": True, "attachRequired": True}},
        ("csistoragecapacities", "default/k"): {
            "storageClassName": "late",
            "capacity": "10Gi",
            "maximumVolumeSize": "5Gi",
            "nodeTopology": {"matchLabels": {"zone": "a"}},
        },
        ("poddisruptionbudgets", "default/b"): {
            "spec": {"selector": _SELECTOR, "minAvailable": 1},
            "status": {"disruptionsAllowed": 0, "disruptedPods": {"a": "2026-01-01T00:00:00Z"}},
        },
        ("namespaces", "default"): {"metadata": {"labels": {"a": "b"}}},
        ("services", "default/s"): {"spec": {"selector": {"app": "odd"}}},
        ("replicasets", "default/w"): {"spec": {"selector": _SELECTOR}},
        ("statefulsets", "default/w"): {"spec": {"selector": _SELECTOR, "serviceName": "s"}},
        ("replicationcontrollers", "default/w"): {"spec": {"selector": {"app": "odd"}}},
        ("volumeattachments", "a"): {
            "spec": {"attacher": storage.DRIVER, "nodeName": "odd-0", "source": {"persistentVolumeName": "v"}},
            "status": {"attached": True},
        },
    }
    for (plural, key), document in things.items():
        namespace, _, name = key.rpartition("/")
        metadata = {"name": name, "uid": f"uid-{plural}-{name}", **({"namespace": namespace} if namespace else {})}
        document["metadata"] = {**document.get("metadata", {}), **metadata}
    return things


def odd_users() -> list[Document]:
    """Pods that look at these objects."""
    wide = {"labelSelector": _SELECTOR, "topologyKey": "zone", "namespaceSelector": _SELECTOR}
    weighted = [{"weight": 3, "podAffinityTerm": wide}]
    apart = {
        "requiredDuringSchedulingIgnoredDuringExecution": [wide],
        "preferredDuringSchedulingIgnoredDuringExecution": weighted,
    }
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _SELECTOR}
    users = [
        claiming("odd-c", "c"),
        claiming("odd-d", "d"),
        pod("odd-p", "100m", **storage.using("p")),
        pod("odd-r", "100m", **storage.using("r")),
        pod("odd-preemptor", "2000", priority=10),
        pod("odd-apart", "100m", affinity={"podAntiAffinity": apart, "podAffinity": {"preferred" + _DURING: weighted}}),
        pod("odd-spread", "100m", topologySpreadConstraints=[spread]),
        pod("odd-extended", "100m"),
        pod("odd-owned", "100m"),
    ]
    amounts = {RESOURCE: "1"}
    users[-2]["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "w", "uid": "uid-replicasets-w", "controller": True}
    users[-1]["metadata"]["ownerReferences"] = [owner]
    for user in users:
        user["metadata"].update(namespace="default", uid=f"uid-{user['metadata']['name']}", labels={"app": "odd"})
        user["spec"].setdefault("priority", 0)
        user["spec"]["nodeSelector"] = {"zone": "a"}  # not on the nodes of good pods
    return users


_DURING = "DuringSchedulingIgnoredDuringExecution"


def _slice() -> Document:
    made = resource_slice("odd-0", "d0", "d1")
    made["spec"]["sharedCounters"] = [{"name": "c", "counters": {"x": {"value": "2"}}}]
    made["spec"]["devices"][0].update(
        capacity={"mem": {"value": "8Gi", "requestPolicy": {"default": "1Gi", "validRange": {"min": "1Gi"}}}},
        taints=[{"key": "k", "value": "v", "effect": "NoSchedule"}],
        consumesCounters=[{"counterSet": "c", "counters": {"x": {"value": "1"}}}],
        allowMultipleAllocations=True,
    )
    return made


def _allocated(claim: Document) -> Document:
    result = {"request": "r", "driver": DRIVER, "pool": "odd-0", "device": "d0", "consumedCapacity": {"mem": "1Gi"}}
    field = {"key": "metadata.name", "operator": "In", "values": ["odd-0"]}
    claim["spec"]["devices"]["constraints"] = [{"requests": ["r"], "matchAttribute": f"{DRIVER}/model"}]
    claim["status"] = {
        "allocation": {
            "devices": {"results": [result]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [field]}]},
        },
        "reservedFor": [{"resource": "pods", "name": "x", "uid": "x"}],
    }
    return claim


def _bound(claim: Document) -> Document:
    claim["metadata"]["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    return claim
