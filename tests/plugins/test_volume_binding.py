"""VolumeBinding: feasible nodes, and the messages for the others."""

import pytest
from tests.support.tables import cases
from volumes import (
    ZONE,
    claim,
    csi_capacity,
    csi_driver,
    csi_node,
    feasible,
    filtered_by,
    on_nodes,
    owned_by,
    plugin_of,
    storage_class,
    using,
    volume,
)

from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import SKIP, Code
from bayplan.testing.builders import make_cluster, make_node

NODE_CONFLICT = "node(s) didn't match PersistentVolume's node affinity"
BIND_CONFLICT = "node(s) didn't find available persistent volumes to bind"
NO_SPACE = "node(s) did not have enough free storage"
MISSING = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"

UNBOUND = "pod has unbound immediate PersistentVolumeClaims"
NO_MODE = 'VolumeBindingMode not set for StorageClass "late"'
NOT_OWNED = "PVC default/p-e was not created for pod default/p (pod is not owner)"

NODES = [make_node("a", labels={ZONE: "z-a"}), make_node("b", labels={ZONE: "z-b"}), make_node("c")]
MADE = storage_class("made", provisioner="disk.example.com")
DISK = csi_driver("disk.example.com")
NEAR = {"matchExpressions": [{"key": "k", "operator": "Near"}]}
SELECTED = "volume.kubernetes.io/selected-node"


def statuses_of(pod, *objects):
    return filtered_by(make_cluster(*NODES, *objects), "VolumeBinding", pod)


def reasons(statuses):
    return {name: status.reasons for name, status in statuses.items() if status.code is not Code.SUCCESS}


@pytest.mark.feature("VolumeBinding: claims that reject the pod on all nodes")
@cases(
    "pod, objects, reason",
    {
        "missing": (using("c"), [], 'persistentvolumeclaim "c" not found'),
        "lost": (
            using("c"),
            [claim("c", volume="v", status={"phase": "Lost"})],
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
        ),
        "deleting": (
            using("c"),
            [claim("c", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})],
            'persistentvolumeclaim "c" is being deleted',
        ),
        "unbound": (using("c"), [claim("c"), storage_class(mode="Immediate")], UNBOUND),
        "missing class": (using("c"), [claim("c")], UNBOUND),
        "names its volume": (using("c"), [claim("c", volumeName="v"), storage_class(), volume("v")], UNBOUND),
        "class without a mode": (
            using("c"),
            [claim("c"), storage_class(mode=None)],
            NO_MODE,
        ),
        "ephemeral, missing": (
            using(ephemeral=["e"]),
            [],
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-e"',
        ),
        "ephemeral, without owner": (using(ephemeral=["e"]), [claim("p-e"), storage_class()], NOT_OWNED),
        "ephemeral, of an older pod": (
            using(ephemeral=["e"]),
            [claim("p-e", metadata=owned_by("p", uid="older")), storage_class()],
            NOT_OWNED,
        ),
    },
)
def test_pre_filter_rejection(pod, objects, reason):
    cluster = make_cluster(*NODES, *objects)
    plugin = next(each for each in cluster.profile.every() if each.name == "VolumeBinding")
    status = plugin.pre_filter(None, pod, cluster.state.nodes)
    assert status.reasons == (reason,)
    assert status.code is (Code.ERROR if reason == NO_MODE else Code.UNSCHEDULABLE_AND_UNRESOLVABLE)


@pytest.mark.feature("VolumeBinding: bound claims")
@cases(
    "volumes, names, reason",
    {
        "everywhere": ([volume("v")], "a b c", ""),
        "on some nodes": ([volume("v", nodes=["a", "c"])], "a c", NODE_CONFLICT),
        "in a zone": ([volume("v", nodeAffinity=on_nodes("z-b", key=ZONE))], "b", NODE_CONFLICT),
        "none": ([volume("v", nodeAffinity={"required": {"nodeSelectorTerms": []}})], "", NODE_CONFLICT),
        "gone": ([], "", MISSING),
        "unreadable": ([volume("v", nodeAffinity={"required": {"nodeSelectorTerms": [NEAR]}})], "", NODE_CONFLICT),
        "by name: field selectors are ignored": (
            [
                volume(
                    "v",
                    nodeAffinity={
                        "required": {
                            "nodeSelectorTerms": [
                                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
                            ]
                        }
                    },
                )
            ],
            "",
            NODE_CONFLICT,
        ),
    },
)
def test_bound_claims(volumes, names, reason):
    statuses = statuses_of(using("c"), claim("c", volume="v"), *volumes)
    assert feasible(statuses) == set(names.split())
    assert set(reasons(statuses).values()) == ({(reason,)} if reason else set())


@pytest.mark.feature("VolumeBinding: bound claims")
def test_first_infeasible_bound_claim_is_reported():
    objects = [claim("c", volume="v"), volume("v", nodes=["a"]), claim("d", volume="gone")]
    assert reasons(statuses_of(using("c", "d"), *objects)) == {
        "a": (MISSING,),
        "b": (NODE_CONFLICT,),
        "c": (NODE_CONFLICT,),
    }
    assert reasons(statuses_of(using("d", "c"), *objects)) == dict.fromkeys("abc", (MISSING,))


CINDER = ("kubernetes.io/cinder",)
CINDER_IN_A = volume("v", cinder={"volumeID": "d"}, nodeAffinity=on_nodes("z-a", key=ZONE))


@pytest.mark.feature("VolumeBinding: volumes of former plugins on nodes whose driver took over")
@cases(
    "volumes, migrated, names",
    {
        "not migrated": (CINDER_IN_A, (), "a x"),
        "migrated: driver's topology label": (CINDER_IN_A, CINDER, "a y"),
        "migrated: zone from the label": (
            volume("v", cinder={"volumeID": "d"}, labels={ZONE: "z-a"}),
            CINDER,
            "a b c y",
        ),
        "a driver without zones": (
            volume("v", portworxVolume={"volumeID": "d"}, nodeAffinity=on_nodes("z-a", key=ZONE)),
            ("kubernetes.io/portworx-volume",),
            "a x",
        ),
    },
)
def test_translated_topology(volumes, migrated, names):
    key = "topology.cinder.csi.openstack.org/zone"
    more = [make_node("x", labels={ZONE: "z-a"}), make_node("y", labels={key: "z-a"})]
    objects = [claim("c", volume="v"), volumes, *more, csi_node("x", *migrated), csi_node("y", *migrated)]
    statuses = feasible(statuses_of(using("c"), *objects))
    assert statuses == set(names.split())


@pytest.mark.feature("VolumeBinding: volumes of former plugins on nodes whose driver took over")
def test_untranslatable_volume_is_an_error_on_nodes_with_migrated_plugin():
    odd = volume("v", awsElasticBlockStore={"volumeID": "aws://z/odd"})
    statuses = statuses_of(using("c"), claim("c", volume="v"), odd, csi_node("b", "kubernetes.io/aws-ebs"))
    problem = "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws://z/odd)"
    assert reasons(statuses) == {"b": (f"could not translate pv: {problem}",)}
    assert statuses["b"].code is Code.ERROR


LOCAL = [volume(f"on-{name}", nodes=[name]) for name in "ab"]


@pytest.mark.feature("VolumeBinding: static matching")
@cases(
    "wanted, volumes, names",
    {
        "one volume per node": (claim("c"), LOCAL, "a b"),
        "too small": (claim("c", size="2Gi"), LOCAL, ""),
        "large enough": (claim("c", size="1025Mi"), [volume("v", size="1.5Gi", nodes=["c"])], "c"),
        "another class": (claim("c"), [volume("v", storage_class="other")], ""),
        "not available": (claim("c"), [volume("v", phase="Bound")], ""),
        "released": (claim("c"), [volume("v", phase="Released")], ""),
        "another mode": (claim("c", volumeMode="Block"), [volume("v")], ""),
        "the same mode": (claim("c", volumeMode="Block"), [volume("v", volumeMode="Block")], "a b c"),
        "missing access mode": (claim("c", accessModes=["ReadWriteMany"]), [volume("v")], ""),
        "one of its access modes": (
            claim("c", accessModes=["ReadOnlyMany"]),
            [volume("v", accessModes=["ReadWriteOnce", "ReadOnlyMany"])],
            "a b c",
        ),
        "a selector": (
            claim("c", selector={"matchLabels": {"k": "1"}}),
            [volume("v", nodes=["a"], labels={"k": "1"}), volume("w", nodes=["b"], labels={"k": "2"})],
            "a",
        ),
        "another attributes class": (claim("c", volumeAttributesClassName="fast"), [volume("v")], ""),
        "the same attributes class": (
            claim("c", volumeAttributesClassName="fast"),
            [volume("v", volumeAttributesClassName="fast")],
            "a b c",
        ),
        "being deleted": (claim("c"), [volume("v", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"})], ""),
        "pre-bound to another claim": (claim("c"), [volume("v", for_claim="default/other")], ""),
        "pre-bound to a claim in another namespace": (claim("c"), [volume("v", for_claim="other/c")], ""),
        "pre-bound to the claim: no other volume is used": (
            claim("c"),
            [volume("v", nodes=["a"], for_claim="default/c", phase="Pending"), volume("w")],
            "a",
        ),
        "pre-bound to the claim: modes and labels are ignored": (
            claim("c", accessModes=["ReadWriteMany"], selector={"matchLabels": {"k": "1"}}),
            [volume("v", for_claim="default/c")],
            "a b c",
        ),
        "pre-bound to the claim, but too small": (
            claim("c", size="2Gi"),
            [volume("v", for_claim="default/c"), volume("w", size="3Gi", nodes=["b"])],
            "b",
        ),
    },
)
def test_static_matching(wanted, volumes, names):
    statuses = statuses_of(using("c"), wanted, storage_class(), *volumes)
    assert feasible(statuses) == set(names.split())
    assert set(reasons(statuses).values()) <= {(BIND_CONFLICT,)}


@pytest.mark.feature("VolumeBinding: static matching")
def test_claims_of_one_pod_get_different_volumes():
    objects = [claim("small"), claim("large", size="2Gi"), storage_class()]
    volumes = [
        volume("s-a", nodes=["a"]),
        volume("l-a", size="2Gi", nodes=["a"]),
        volume("l-b", size="2Gi", nodes=["b"]),
    ]
    assert feasible(statuses_of(using("large", "small"), *objects, *volumes)) == {"a"}


@pytest.mark.feature("VolumeBinding: static matching")
def test_invalid_selector_is_an_error():
    odd = claim("c", selector=NEAR)
    statuses = statuses_of(using("c"), odd, storage_class(), volume("v"))
    problem = '"Near" is not a valid label selector operator'
    assert {status.code for status in statuses.values()} == {Code.ERROR}
    assert statuses["a"].reasons == (f"error creating internal label selector for claim: default/c: {problem}",)


def in_zones(*zones):
    return {"matchLabelExpressions": [{"key": ZONE, "values": list(zones)}]}


TERM = in_zones("z-a", "z-b")


@pytest.mark.feature("VolumeBinding: dynamic provisioning and allowed topologies")
@cases(
    "made, names",
    {
        "everywhere": (MADE, "a b c"),
        "no provisioner": (storage_class("made"), ""),
        "some zones": ({**MADE, "allowedTopologies": [TERM]}, "a b"),
        "no term: all nodes": ({**MADE, "allowedTopologies": []}, "a b c"),
        "empty term: no node": ({**MADE, "allowedTopologies": [{}]}, ""),
        "one of the terms": ({**MADE, "allowedTopologies": [in_zones("z-c"), TERM]}, "a b"),
    },
)
def test_allowed_topologies(made, names):
    statuses = statuses_of(using("c"), claim("c", "made"), made)
    assert feasible(statuses) == set(names.split())
    assert set(reasons(statuses).values()) <= {(BIND_CONFLICT,)}


@pytest.mark.feature("VolumeBinding: dynamic provisioning and allowed topologies")
def test_existing_volume_is_preferred_to_provisioning():
    local = {**MADE, "allowedTopologies": [in_zones("z-b")]}
    statuses = statuses_of(using("c"), claim("c", "made"), local, volume("v", "made", nodes=["a"]))
    assert feasible(statuses) == {"a", "b"}


@pytest.mark.feature("VolumeBinding: claims with a selected node")
@cases("node, names", {"a node": ("b", "b"), "deleted node": ("gone", ""), "none": ("", "")})
def test_selected_nodes(node, names):
    statuses = statuses_of(using("c"), claim("c", "made", annotations={SELECTED: node}), MADE)
    assert feasible(statuses) == set(names.split())
    assert set(reasons(statuses).values()) == {(BIND_CONFLICT,)}


@pytest.mark.feature("VolumeBinding: claims with a selected node")
def test_deleted_class_is_an_error_or_unbound():
    statuses = statuses_of(using("c"), claim("c", "gone", annotations={SELECTED: "a"}))
    assert set(reasons(statuses).values()) == {(UNBOUND,)}


@pytest.mark.feature("VolumeBinding: storage capacity")
@cases(
    "capacities, names",
    {
        "no capacity": ([], ""),
        "enough": ([csi_capacity("r", "10Gi", "a")], "a"),
        "too little": ([csi_capacity("r", "9Gi", "a")], ""),
        "on another node": ([csi_capacity("r", "9Gi", "a"), csi_capacity("s", "10Gi", "b")], "b"),
        "maximum volume size is too small": ([csi_capacity("r", "100Gi", "a", largest="9Gi")], ""),
        "maximum volume size takes precedence over capacity": ([csi_capacity("r", "1Gi", "a", largest="10Gi")], "a"),
        "unspecified capacity": ([csi_capacity("r", None, "a")], ""),
        "another class": ([csi_capacity("r", "10Gi", storage_class="other", selector={})], ""),
        "on all nodes": ([csi_capacity("r", "10Gi", selector={})], "a b c"),
        "on no node": ([csi_capacity("r", "10Gi", selector=False)], ""),
        "unreadable": ([csi_capacity("r", "10Gi", selector=NEAR)], ""),
    },
)
def test_capacity(capacities, names):
    objects = [claim("c", "made", "10Gi"), MADE, DISK, *capacities]
    statuses = statuses_of(using("c"), *objects)
    assert feasible(statuses) == set(names.split())
    assert set(reasons(statuses).values()) <= {(NO_SPACE,)}


@pytest.mark.feature("VolumeBinding: storage capacity")
@cases(
    "objects, size",
    {
        "no driver object": ([], "10Gi"),
        "driver that doesn't publish its capacity": (
            [csi_driver("disk.example.com", publishes_capacity=False)],
            "10Gi",
        ),
        "another driver": ([csi_driver("other.example.com")], "10Gi"),
        "claim without a size": ([DISK], None),
    },
)
def test_capacity_is_not_checked(objects, size):
    wanted = claim("c", "made", size or "1Gi", **({"resources": {}} if size is None else {}))
    assert feasible(statuses_of(using("c"), wanted, MADE, *objects)) == {"a", "b", "c"}


@pytest.mark.feature("VolumeBinding: several reasons")
def test_reasons_are_combined_in_order():
    objects = [
        claim("bound", volume="v"),
        volume("v", nodes=["a"]),
        claim("late"),
        storage_class(),
        volume("w", nodes=["a", "c"]),
        claim("made", "made", "10Gi"),
        MADE,
        DISK,
    ]
    statuses = statuses_of(using("bound", "late", "made"), *objects)
    assert reasons(statuses) == {"a": (NO_SPACE,), "b": (NODE_CONFLICT, BIND_CONFLICT), "c": (NODE_CONFLICT, NO_SPACE)}


@pytest.mark.feature("VolumeBinding: generic ephemeral volumes")
def test_ephemeral_volume_is_placed_like_its_claim():
    objects = [claim("p-e", metadata=owned_by("p")), storage_class(), volume("v", nodes=["b"])]
    assert feasible(statuses_of(using(ephemeral=["e"]), *objects)) == {"b"}


@pytest.mark.feature("VolumeBinding: malformed objects")
@cases(
    "objects, names",
    {
        "a claim's size": ([claim("c", size="much"), storage_class(), volume("v")], "a b c"),
        "a volume's size": ([claim("c"), storage_class(), volume("v", size="much")], ""),
        "a capacity": ([claim("c", "made"), MADE, DISK, csi_capacity("r", "much", selector={})], ""),
    },
)
def test_malformed_quantity_counts_as_zero(objects, names):
    assert feasible(statuses_of(using("c"), *objects)) == set(names.split())


@pytest.mark.feature("VolumeBinding: node affinity of bound volumes")
@cases(
    "objects, skips",
    {
        "no node affinity": ([claim("c", volume="v"), volume("v")], True),
        "node affinity": ([claim("c", volume="v"), volume("v", nodes=["a", "b", "c"])], False),
        "missing volume": ([claim("c", volume="v")], False),
        "a claim that isn't bound": ([claim("c"), storage_class(), volume("v")], False),
    },
)
def test_pods_whose_volumes_can_be_used_on_every_node_are_skipped(objects, skips):
    cluster = make_cluster(*NODES, *objects)
    status = plugin_of(cluster, "VolumeBinding").pre_filter(CycleState(), using("c"), cluster.state.nodes)
    assert (status is SKIP) is skips
