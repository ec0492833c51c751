"""NodeVolumeLimits."""

import pytest
from tests.support.tables import cases
from volumes import (
    attachment,
    claim,
    csi_driver,
    csi_node,
    filtered_by,
    owned_by,
    plugin_of,
    storage_class,
    using,
    volume,
)

from bayplan.core.api.kinds import CSI_DRIVER, CSI_NODE, PERSISTENT_VOLUME_CLAIM, VOLUME_ATTACHMENT
from bayplan.core.api.objects import convert
from bayplan.core.framework.events import Hint
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import SKIP, Code
from bayplan.core.versions import DEFAULT_GATES
from bayplan.testing.builders import make_cluster, make_node, make_pod

MADE = storage_class("made", provisioner="disk.example.com")
OTHER = [
    claim("other", volume="v-other"),
    volume("v-other", csi={"driver": "other.example.com", "volumeHandle": "other"}),
]
TOO_MANY = "node(s) exceed max volume count"
DRIVER = "disk.example.com"
UNTRANSLATED = "converting volume(d) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID"
EBS, PD, CINDER, PORTWORX, AZURE = (
    "ebs_csi_aws_com",
    "pd_csi_storage_gke_io",
    "cinder_csi_openstack_org",
    "pxd_portworx_com",
    "disk_csi_azure_com",
)


def bound(*names, **sources):
    """Claims bound to volumes of the same names."""
    for name in names:
        yield claim(name, volume=f"v-{name}")
        yield volume(f"v-{name}", **sources)


def status_of(pod, *objects):
    status = filtered_by(make_cluster(make_node("a"), *objects), "NodeVolumeLimits", pod)["a"]
    return str(status.code), *status.reasons


SUCCESS = ("Success",)
FULL = ("Unschedulable", TOO_MANY)


@pytest.mark.feature("NodeVolumeLimits: counting volumes of CSI drivers")
@cases(
    "limits, there, expected",
    {
        "no CSINode": (None, ["x"], SUCCESS),
        "no driver": ({}, ["x"], SUCCESS),
        "no limit": ({"disk_example_com": None}, ["x"], SUCCESS),
        "limit of another driver": ({"other_example_com": 0}, ["x"], SUCCESS),
        "below the limit": ({"disk_example_com": 2}, ["x"], SUCCESS),
        "at the limit": ({"disk_example_com": 1}, ["x"], FULL),
        "limit of zero": ({"disk_example_com": 0}, [], FULL),
        "the same claim counts once": ({"disk_example_com": 1}, ["c"], SUCCESS),
        "deleted claims don't count": ({"disk_example_com": 1}, ["gone"], SUCCESS),
    },
)
def test_limit_of_driver(limits, there, expected):
    node = [] if limits is None else [csi_node("a", **limits)]
    others = [using(name, name=f"other-{name}", node="a") for name in there]
    assert status_of(using("c"), *bound("c", "x"), *node, *others) == expected


@pytest.mark.feature("NodeVolumeLimits: counting unique volumes")
@cases("limit, expected", {"two fit": (2, FULL), "three fit": (3, SUCCESS)})
def test_volume_counts_once(limit, expected):
    others = [using("x", "y", name=f"other-{number}", node="a") for number in range(3)]
    objects = [*bound("c", "x", "y"), *others, csi_node("a", disk_example_com=limit)]
    assert status_of(using("c", "c", "x"), *objects) == expected


@pytest.mark.feature("NodeVolumeLimits: volumes still attached")
@cases(
    "attached, expected",
    {
        "without a pod": (attachment("t", "a", "v-x"), FULL),
        "to another node": (attachment("t", "b", "v-x"), SUCCESS),
        "of a deleted volume": (attachment("t", "a", "none"), SUCCESS),
        "by another driver": (attachment("t", "a", "v-x", "other.example.com"), SUCCESS),
        "of a bound pod: counts once": (attachment("t", "a", "v-y"), FULL),
    },
)
def test_attached_volumes_count(attached, expected):
    limit = 2 if attached["spec"]["source"]["persistentVolumeName"] == "v-y" else 1
    others = [using("y", "x", name="other", node="a")] if limit == 2 else []
    objects = [*bound("c", "x", "y"), csi_node("a", disk_example_com=limit), make_node("b"), attached, *others]
    assert status_of(using("c"), *objects) == expected


@pytest.mark.feature("NodeVolumeLimits: claims that are not bound yet")
@cases(
    "objects, expected",
    {
        "counts by its class": ([claim("c"), storage_class(provisioner=DRIVER)], FULL),
        "of another driver": ([claim("c"), storage_class(provisioner="other.example.com")], SUCCESS),
        "missing class": ([claim("c")], SUCCESS),
        "no class": ([claim("c", storage_class=None)], SUCCESS),
        "bound to a deleted volume": ([claim("c", volume="gone"), storage_class(provisioner=DRIVER)], FULL),
        "of a former plugin's class": ([claim("c"), storage_class(provisioner="kubernetes.io/aws-ebs")], FULL),
        "of a former plugin that doesn't count": (
            [claim("c"), storage_class(provisioner="kubernetes.io/azure-file")],
            SUCCESS,
        ),
    },
)
def test_unbound_claims(objects, expected):
    limits = {"disk_example_com": 1, EBS: 1, "file_csi_azure_com": 0}
    there = [*bound("x", "y"), using("x", name="other", node="a")]
    there += [claim("z", volume="v-z"), volume("v-z", awsElasticBlockStore={"volumeID": "vol-z"})]
    there += [using("z", name="another", node="a")]
    assert status_of(using("c"), *objects, *there, csi_node("a", **limits)) == expected


@pytest.mark.feature("NodeVolumeLimits: claims that are missing or not the pod's")
@cases(
    "pod, objects, expected",
    {
        "missing": (
            using("c"),
            [],
            ("UnschedulableAndUnresolvable", 'looking up PVC default/c: persistentvolumeclaim "c" not found'),
        ),
        "of an ephemeral volume, missing": (
            using(ephemeral=["e"]),
            [],
            ("UnschedulableAndUnresolvable", 'looking up PVC default/p-e: persistentvolumeclaim "p-e" not found'),
        ),
        "of an ephemeral volume, not the pod's": (
            using(ephemeral=["e"]),
            [claim("p-e")],
            ("Error", "PVC default/p-e was not created for pod default/p (pod is not owner)"),
        ),
        "the pod's": (using(ephemeral=["e"]), [claim("p-e", metadata=owned_by("p"))], SUCCESS),
        "without a name": (using(""), [], ("Error", "PersistentVolumeClaim had no name")),
    },
)
@pytest.mark.parametrize("with_csi_node", [False, True])
def test_unusable_claims(pod, objects, expected, with_csi_node):
    node = [csi_node("a", disk_example_com=1)] if with_csi_node else []
    assert status_of(pod, *objects, *node) == expected


@pytest.mark.feature("NodeVolumeLimits: claims that are missing or not the pod's")
def test_bound_pod_with_a_claim_of_another_pod_is_an_error_if_there_are_limits():
    other = using(name="other", ephemeral=["e"], node="a")
    objects = [*bound("c"), claim("other-e"), other]
    message = "PVC default/other-e was not created for pod default/other (pod is not owner)"
    assert status_of(using("c"), *objects, csi_node("a", disk_example_com=9)) == ("Error", message)
    assert status_of(using("c"), *objects, csi_node("a")) == SUCCESS


@pytest.mark.feature("NodeVolumeLimits: in-tree volumes migrated to CSI")
@cases(
    "source, driver, expected",
    {
        "EBS": ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, EBS, FULL),
        "EBS with a zone": ({"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}, EBS, FULL),
        "EBS, invalid": ({"awsElasticBlockStore": {"volumeID": "aws://z/odd"}}, EBS, SUCCESS),
        "GCE": ({"gcePersistentDisk": {"pdName": "d"}}, PD, FULL),
        "Cinder": ({"cinder": {"volumeID": "d"}}, CINDER, FULL),
        "Portworx": ({"portworxVolume": {"volumeID": "d"}}, PORTWORX, FULL),
        "Azure": ({"azureDisk": {"diskName": "d", "diskURI": "u"}}, AZURE, FULL),
        "Azure, unsupported kind": ({"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}}, AZURE, SUCCESS),
        "not a disk": ({"nfs": {"path": "/", "server": "s"}}, "nfs", SUCCESS),
    },
)
def test_persistent_volumes_of_former_plugins(source, driver, expected):
    objects = [claim("c", volume="v"), volume("v", **source)]
    assert status_of(using("c"), *objects, csi_node("a", **{driver: 0})) == expected
    assert status_of(using("c"), *objects) == SUCCESS  # without a CSINode, the plugin isn't migrated


@pytest.mark.feature("NodeVolumeLimits: in-tree volumes migrated to CSI")
@cases(
    "source, driver, expected",
    {
        "EBS": ({"awsElasticBlockStore": {"volumeID": "vol-1"}}, EBS, FULL),
        "GCE": ({"gcePersistentDisk": {"pdName": "d"}}, PD, FULL),
        "Cinder": ({"cinder": {"volumeID": "d"}}, CINDER, FULL),
        "Portworx": ({"portworxVolume": {"volumeID": "d"}}, PORTWORX, FULL),
        "Azure": ({"azureDisk": {"diskName": "d", "diskURI": "u"}}, AZURE, FULL),
        "a share": ({"azureFile": {"shareName": "d", "secretName": "s"}}, "file_csi_azure_com", SUCCESS),
        "EBS, invalid": (
            {"awsElasticBlockStore": {"volumeID": "aws://z/odd"}},
            EBS,
            ("Error", f"{UNTRANSLATED} Invalid format for AWS volume (aws://z/odd)"),
        ),
    },
)
def test_inline_volumes_of_former_plugins(source, driver, expected):
    pod = using(volumes=[{"name": "d", **source}])
    assert status_of(pod, csi_node("a", **{driver: 0})) == expected
    assert status_of(pod) == SUCCESS


@pytest.mark.feature("NodeVolumeLimits: queueing hints")
@cases(
    "before, after, hint",
    {
        "limit increased": ({"x": 1}, {"x": 2}, Hint.QUEUE),
        "limit decreased": ({"x": 2}, {"x": 1}, Hint.SKIP),
        "driver added": ({}, {"x": 1}, Hint.QUEUE),
        "driver removed": ({"x": 1}, {}, Hint.SKIP),
    },
)
def test_hint_after_csi_node_change(before, after, hint):
    old, new = (convert(CSI_NODE.type, csi_node("a", **limits)) for limits in (before, after))
    assert plugin().after_csi_node_update(using("c"), old, new) is hint


@pytest.mark.feature("NodeVolumeLimits: queueing hints")
@cases(
    "gone, hint",
    {
        "with a claim": (using("x", name="o", node="a"), Hint.QUEUE),
        "with an ephemeral volume": (using(name="o", node="a", ephemeral=["e"]), Hint.QUEUE),
        "without a node": (using("x", name="o"), Hint.SKIP),
        "with a nominated node": (using("x", name="o", status={"nominatedNodeName": "a"}), Hint.QUEUE),
        "without volumes": (make_pod("o", node="a"), Hint.SKIP),
    },
)
def test_hint_after_pod_deletion(gone, hint):
    assert plugin().after_pod_delete(using("c"), gone, None) is hint


@pytest.mark.feature("NodeVolumeLimits: queueing hints")
@cases(
    "pod, new, hint",
    {
        "the pod's": (using("c"), claim("c"), Hint.QUEUE),
        "of its ephemeral volume": (using(ephemeral=["e"]), claim("p-e"), Hint.QUEUE),
        "another": (using("c"), claim("d"), Hint.SKIP),
        "of another namespace": (using("c"), claim("c", namespace="b"), Hint.SKIP),
    },
)
def test_hint_after_claim_creation(pod, new, hint):
    assert plugin().after_claim_add(pod, None, convert(PERSISTENT_VOLUME_CLAIM.type, new)) is hint


@pytest.mark.feature("NodeVolumeLimits: queueing hints")
@cases(
    "pod, attacher, hint",
    {
        "a pod with a claim": (using("c"), "any.example.com", Hint.QUEUE),
        "of the driver of the pod's disk": (
            using(volumes=[{"name": "d", "cinder": {"volumeID": "d"}}]),
            "cinder.csi.openstack.org",
            Hint.QUEUE,
        ),
        "of another": (using(volumes=[{"name": "d", "cinder": {"volumeID": "d"}}]), "x.example.com", Hint.SKIP),
        "no volumes": (make_pod("p"), "x.example.com", Hint.SKIP),
    },
)
def test_hint_after_detachment(pod, attacher, hint):
    old = convert(VOLUME_ATTACHMENT.type, attachment("t", "a", "v", attacher))
    assert plugin().after_detach(pod, old, None) is hint


def plugin():
    return plugin_of(make_cluster(make_node("a")), "NodeVolumeLimits")


def test_pods_without_volumes_are_skipped():
    assert plugin().pre_filter(None, make_pod("p"), None).code is Code.SKIP


@cases(
    "objects, skips",
    {
        "no CSINode": ([], True),
        "no limit": ([csi_node("a", disk_example_com=None)], True),
        "a limit of another driver": ([csi_node("a", other_example_com=1)], False),
        "a limit on a node that is gone": ([csi_node("gone", disk_example_com=1)], True),
    },
)
def test_pods_with_volumes_are_skipped_while_no_node_has_limits(objects, skips):
    cluster = make_cluster(make_node("a"), *bound("c"), *objects)
    status = plugin_of(cluster, "NodeVolumeLimits").pre_filter(None, using("c"), cluster.state.nodes)
    assert (status is SKIP) is skips


def test_pods_are_filtered_again_once_limits_appear_and_skipped_once_they_are_gone():
    cluster = make_cluster(make_node("a"), *bound("c"))
    limits = plugin_of(cluster, "NodeVolumeLimits")
    for number, objects in enumerate(([], [csi_node("a", disk_example_com=1)], [])):
        csi_nodes = cluster.state.objects[CSI_NODE]
        for each in objects:
            csi_nodes.set("a", convert(CSI_NODE.type, each))
        if not objects:
            csi_nodes.remove("a")
        assert (limits.pre_filter(None, using("c"), cluster.state.nodes) is SKIP) is (number != 1)


SCALING = DEFAULT_GATES.but("VolumeLimitScaling")
MISSING = ("Unschedulable", "disk.example.com CSI driver is not installed on the node")
EBS_MISSING = ("Unschedulable", "ebs.csi.aws.com CSI driver is not installed on the node")
REQUIRED = csi_driver(DRIVER, required=True)
EBS_REQUIRED = csi_driver("ebs.csi.aws.com", required=True)
INLINE_EBS = make_pod("p", spec={"volumes": [{"name": "d", "awsElasticBlockStore": {"volumeID": "vol-1"}}]})


@pytest.mark.feature("NodeVolumeLimits: missing drivers")
@cases(
    "pod, objects, expected",
    {
        "no CSINode": (using("c"), [REQUIRED], MISSING),
        "no driver": (using("c"), [REQUIRED, csi_node("a")], MISSING),
        "another driver": (using("c"), [REQUIRED, csi_node("a", other_example_com=3)], MISSING),
        "installed without a limit": (using("c"), [REQUIRED, csi_node("a", disk_example_com=None)], SUCCESS),
        "installed with room": (using("c"), [REQUIRED, csi_node("a", disk_example_com=1)], SUCCESS),
        "installed and full": (using("c"), [REQUIRED, csi_node("a", disk_example_com=0)], FULL),
        "not required": (using("c"), [csi_driver(DRIVER)], SUCCESS),
        "no CSIDriver": (using("c"), [], SUCCESS),
        "no volume": (make_pod("p"), [REQUIRED], SUCCESS),
        "an unbound claim": (using("late"), [REQUIRED, claim("late", "made"), MADE], MISSING),
        "missing before full": (using("c", "other"), [REQUIRED, csi_node("a", other_example_com=0), *OTHER], MISSING),
        "a disk in the pod, no CSINode": (INLINE_EBS, [EBS_REQUIRED], SUCCESS),
        "a disk in the pod": (INLINE_EBS, [EBS_REQUIRED, csi_node("a", "kubernetes.io/aws-ebs")], EBS_MISSING),
    },
)
def test_nodes_without_a_required_driver(pod, objects, expected):
    cluster = make_cluster(make_node("a"), *bound("c"), *objects, gates=SCALING)
    status = filtered_by(cluster, "NodeVolumeLimits", pod)["a"]
    assert (str(status.code), *status.reasons) == expected
    without = make_cluster(make_node("a"), *bound("c"), *objects)
    assert "installed" not in filtered_by(without, "NodeVolumeLimits", pod)["a"].message


@pytest.mark.feature("NodeVolumeLimits: missing drivers")
def test_the_verdict_changes_with_the_drivers():
    cluster = make_cluster(make_node("a"), *bound("c"), REQUIRED, gates=SCALING)
    verdicts = []
    for each in (csi_node("a", disk_example_com=None), csi_node("a"), csi_node("a", disk_example_com=2), None):
        if each is None:
            cluster.state.objects[CSI_NODE].remove("a")
        else:
            cluster.state.objects[CSI_NODE].set("a", convert(CSI_NODE.type, each))
        verdicts.append(filtered_by(cluster, "NodeVolumeLimits", using("c"))["a"].code is Code.SUCCESS)
    cluster.state.objects[CSI_DRIVER].remove(DRIVER)
    verdicts.append(filtered_by(cluster, "NodeVolumeLimits", using("c"))["a"].code is Code.SUCCESS)
    assert verdicts == [True, False, True, False, True]


@pytest.mark.feature("NodeVolumeLimits: missing drivers")
def test_missing_drivers_are_explained():
    cluster = make_cluster(make_node("a"), *bound("c"), REQUIRED, gates=SCALING)
    limits = plugin_of(cluster, "NodeVolumeLimits")
    details = limits.explain(CycleState(), using("c"), cluster.state.nodes.info(0))
    assert details.text == "a lacks the CSI driver disk.example.com, which the pod's volumes need"
