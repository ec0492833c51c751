"""Volume objects and helpers for the tests of the volume plugins."""

from tests.support.documents import of_kind

from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.profile import Point, Profile, takes_part
from bayplan.core.framework.runner import run_filter, run_pre_filter
from bayplan.core.framework.status import Code
from bayplan.testing.builders import make_pod

BOUND = {"pv.kubernetes.io/bind-completed": "yes"}
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


def on_nodes(*names, key=HOSTNAME):
    """The node affinity of a volume that only these nodes can access."""
    expression = {"key": key, "operator": "In", "values": list(names)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}}


def claim(name, storage_class="late", size="1Gi", *, volume="", namespace="default", annotations=None, **fields):
    """A claim, bound to `volume` if given. `fields` are those of the spec, except `metadata` and `status`."""
    metadata, status = fields.pop("metadata", {}), fields.pop("status", {})
    annotations = {**(BOUND if volume else {}), **(annotations or {})}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"claim-{name}",
            "resourceVersion": "1",
            "annotations": annotations,
            **metadata,
        },
        "spec": {
            **spec,
            **({"storageClassName": storage_class} if storage_class is not None else {}),
            **({"volumeName": volume} if volume else {}),
            **fields,
        },
        "status": {"phase": "Bound" if volume else "Pending", **status},
    }


def volume(
    name, storage_class="late", size="1Gi", *, nodes=None, for_claim=None, labels=None, phase="Available", **fields
):
    """A volume that `nodes` can access (None for all). `for_claim` is the namespace/name of a pre-bound claim."""
    metadata = fields.pop("metadata", {})
    source = {} if fields.keys() & SOURCES else {"csi": {"driver": "disk.example.com", "volumeHandle": name}}
    reference = {}
    if for_claim is not None:
        namespace, _, claim_name = for_claim.partition("/")
        reference = {"claimRef": {"namespace": namespace, "name": claim_name}}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "uid": f"volume-{name}", "resourceVersion": "1", "labels": labels or {}, **metadata},
        "spec": {
            "capacity": {"storage": size},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class,
            **({"nodeAffinity": on_nodes(*nodes)} if nodes is not None else {}),
            **reference,
            **source,
            **fields,
        },
        "status": {"phase": phase},
    }


SOURCES = {"csi", "awsElasticBlockStore", "gcePersistentDisk", "azureDisk", "cinder", "portworxVolume", "nfs"}


def storage_class(name="late", mode="WaitForFirstConsumer", provisioner="kubernetes.io/no-provisioner", **fields):
    return of_kind(
        "StorageClass", name, provisioner=provisioner, **{"volumeBindingMode": mode} if mode else {}, **fields
    )


def csi_node(name, *migrated, **limits):
    """A CSINode with its migrated plugins, and its limits by driver (with `_` for dots)."""
    drivers = [
        {
            "name": driver.replace("_", "."),
            "nodeID": name,
            "topologyKeys": [],
            **({"allocatable": {"count": limit}} if limit is not None else {}),
        }
        for driver, limit in limits.items()
    ]
    annotations = {"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)} if migrated else {}
    return of_kind("CSINode", name, metadata={"annotations": annotations}, spec={"drivers": drivers})


def csi_driver(name, *, publishes_capacity=True, required=False):
    spec = {"storageCapacity": publishes_capacity, "preventPodSchedulingIfMissing": required}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": name}, "spec": spec}


def csi_capacity(name, capacity, *nodes, storage_class="made", largest=None, selector=None):
    """A CSIStorageCapacity for some nodes."""
    expression = {"key": HOSTNAME, "operator": "In", "values": list(nodes)}
    return of_kind(
        "CSIStorageCapacity",
        name,
        metadata={"namespace": "default"},
        storageClassName=storage_class,
        **{"capacity": capacity} if capacity else {},
        **{"maximumVolumeSize": largest} if largest else {},
        **{"nodeTopology": selector if selector is not None else {"matchExpressions": [expression]}}
        if selector is not False
        else {},
    )


def attachment(name, node, volume_name, attacher="disk.example.com"):
    spec = {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume_name}}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name}, "spec": spec}


def using(*claims, name="p", volumes=(), ephemeral=(), **fields):
    """A pod with these claims, names of ephemeral volumes, and other volumes."""
    template = {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {}}}}
    named = [{"name": f"v{number}", "persistentVolumeClaim": {"claimName": each}} for number, each in enumerate(claims)]
    named += [{"name": each, "ephemeral": template} for each in ephemeral]
    return make_pod(name, spec={"volumes": [*named, *volumes]}, **fields)


def owned_by(pod, uid=None):
    """The metadata of a claim that a pod owns."""
    owner = {"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid or f"default-{pod}", "controller": True}
    return {"ownerReferences": [owner]}


def plugin_of(cluster, name):
    """A plugin of the cluster by name."""
    return next(plugin for plugin in cluster.profile.every() if plugin.name == name)


def filtered_by(cluster, name, pod):
    """The status of every node, by name, if only this plugin runs."""
    plugin, state, cycle = plugin_of(cluster, name), cluster.state, CycleState()
    profile = Profile("test", {point: [plugin] for point in Point if takes_part(plugin, point)})
    rejection = run_pre_filter(profile, cycle, pod, state.nodes).refusal
    nodes = state.nodes
    live = [position for position in range(len(nodes)) if nodes.live[position]]
    verdicts = run_filter(profile, cycle, pod, nodes) if rejection is None else None
    return {nodes.name(position): rejection or verdicts.of(position) for position in live}


def feasible(statuses):
    """The names of the feasible nodes in the result of `filtered_by`."""
    return {name for name, status in statuses.items() if status.code is Code.SUCCESS}
