"""NodeVolumeLimits."""

from __future__ import annotations

import pytest
from volumes import asked, attachment, claim, csi_node, owned_by, plugin_of, storage_class, using, volume

from bayplan.api.kinds import CSI_NODE, PERSISTENT_VOLUME_CLAIM, VOLUME_ATTACHMENT
from bayplan.api.objects import convert
from bayplan.framework.events import Hint
from bayplan.framework.status import Code
from bayplan.testing.builders import make_cluster, make_node, make_pod

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


def said_of(pod, *objects):
    status = asked(make_cluster(make_node("a"), *objects), "NodeVolumeLimits", pod)["a"]
    return str(status.code), *status.reasons


SUCCESS = ("Success",)
FULL = ("Unschedulable", TOO_MANY)


@pytest.mark.feature("NodeVolumeLimits: counting volumes of CSI drivers")
@pytest.mark.parametrize(
    ("limits", "there", "said"),
    [
        pytest.param(None, ["x"], SUCCESS, id="no CSINode"),
        pytest.param({}, ["x"], SUCCESS, id="no driver there"),
        pytest.param({"disk_example_com": None}, ["x"], SUCCESS, id="no limit"),
        pytest.param({"other_example_com": 0}, ["x"], SUCCESS, id="a limit of another driver"),
        pytest.param({"disk_example_com": 2}, ["x"], SUCCESS, id="room"),
        pytest.param({"disk_example_com": 1}, ["x"], FULL, id="full"),
        pytest.param({"disk_example_com": 0}, [], FULL, id="no room at all"),
        pytest.param({"disk_example_com": 1}, ["c"], SUCCESS, id="the same claim does not count twice"),
        pytest.param({"disk_example_com": 1}, ["gone"], SUCCESS, id="claims that are gone do not count"),
    ],
)
def test_limits(limits, there, said):
    node = [] if limits is None else [csi_node("a", **limits)]
    others = [using(name, name=f"other-{name}", node="a") for name in there]
    assert said_of(using("c"), *bound("c", "x"), *node, *others) == said


@pytest.mark.feature("NodeVolumeLimits: counting unique volumes")
@pytest.mark.parametrize(
    ("limit", "said"), [pytest.param(2, FULL, id="two fit"), pytest.param(3, SUCCESS, id="three fit")]
)
def test_a_volume_counts_once(limit, said):
    others = [using("x", "y", name=f"other-{number}", node="a") for number in range(3)]
    objects = [*bound("c", "x", "y"), *others, csi_node("a", disk_example_com=limit)]
    assert said_of(using("c", "c", "x"), *objects) == said


@pytest.mark.feature("NodeVolumeLimits: volumes still attached")
@pytest.mark.parametrize(
    ("attached", "said"),
    [
        pytest.param(attachment("t", "a", "v-x"), FULL, id="of no pod"),
        pytest.param(attachment("t", "b", "v-x"), SUCCESS, id="to another node"),
        pytest.param(attachment("t", "a", "none"), SUCCESS, id="of a volume that is gone"),
        pytest.param(attachment("t", "a", "v-x", "other.example.com"), SUCCESS, id="by another driver"),
        pytest.param(attachment("t", "a", "v-y"), FULL, id="of a pod that is there: counted once"),
    ],
)
def test_attachments(attached, said):
    limit = 2 if attached["spec"]["source"]["persistentVolumeName"] == "v-y" else 1
    others = [using("y", "x", name="other", node="a")] if limit == 2 else []
    objects = [*bound("c", "x", "y"), csi_node("a", disk_example_com=limit), make_node("b"), attached, *others]
    assert said_of(using("c"), *objects) == said


@pytest.mark.feature("NodeVolumeLimits: claims that are not bound yet")
@pytest.mark.parametrize(
    ("objects", "said"),
    [
        pytest.param([claim("c"), storage_class(provisioner=DRIVER)], FULL, id="counted by their class"),
        pytest.param([claim("c"), storage_class(provisioner="other.example.com")], SUCCESS, id="of another driver"),
        pytest.param([claim("c")], SUCCESS, id="a class that is not there"),
        pytest.param([claim("c", storage_class=None)], SUCCESS, id="no class"),
        pytest.param(
            [claim("c", volume="gone"), storage_class(provisioner=DRIVER)], FULL, id="bound to a volume that is gone"
        ),
        pytest.param(
            [claim("c"), storage_class(provisioner="kubernetes.io/aws-ebs")], FULL, id="of a former plugin's class"
        ),
        pytest.param(
            [claim("c"), storage_class(provisioner="kubernetes.io/azure-file")],
            SUCCESS,
            id="of one that is not counted",
        ),
    ],
)
def test_claims_without_volumes(objects, said):
    limits = {"disk_example_com": 1, EBS: 1, "file_csi_azure_com": 0}
    there = [*bound("x", "y"), using("x", name="other", node="a")]
    there += [claim("z", volume="v-z"), volume("v-z", awsElasticBlockStore={"volumeID": "vol-z"})]
    there += [using("z", name="another", node="a")]
    assert said_of(using("c"), *objects, *there, csi_node("a", **limits)) == said


@pytest.mark.feature("NodeVolumeLimits: claims that are missing or not the pod's")
@pytest.mark.parametrize(
    ("pod", "objects", "said"),
    [
        pytest.param(
            using("c"),
            [],
            ("UnschedulableAndUnresolvable", 'looking up PVC default/c: persistentvolumeclaim "c" not found'),
            id="missing",
        ),
        pytest.param(
            using(ephemeral=["e"]),
            [],
            ("UnschedulableAndUnresolvable", 'looking up PVC default/p-e: persistentvolumeclaim "p-e" not found'),
            id="of an ephemeral volume, missing",
        ),
        pytest.param(
            using(ephemeral=["e"]),
            [claim("p-e")],
            ("Error", "PVC default/p-e was not created for pod default/p (pod is not owner)"),
            id="of an ephemeral volume, not the pod's",
        ),
        pytest.param(using(ephemeral=["e"]), [claim("p-e", metadata=owned_by("p"))], SUCCESS, id="the pod's"),
        pytest.param(using(""), [], ("Error", "PersistentVolumeClaim had no name"), id="without a name"),
    ],
)
@pytest.mark.parametrize("with_csi_node", [False, True])
def test_claims_that_cannot_be_counted(pod, objects, said, with_csi_node):
    node = [csi_node("a", disk_example_com=1)] if with_csi_node else []
    assert said_of(pod, *objects, *node) == said


@pytest.mark.feature("NodeVolumeLimits: claims that are missing or not the pod's")
def test_a_pod_that_is_there_with_another_pods_claim_is_an_error_where_there_are_limits():
    other = using(name="other", ephemeral=["e"], node="a")
    objects = [*bound("c"), claim("other-e"), other]
    message = "PVC default/other-e was not created for pod default/other (pod is not owner)"
    assert said_of(using("c"), *objects, csi_node("a", disk_example_com=9)) == ("Error", message)
    assert said_of(using("c"), *objects, csi_node("a")) == SUCCESS


@pytest.mark.feature("NodeVolumeLimits: in-tree volumes migrated to CSI")
@pytest.mark.parametrize(
    ("source", "driver", "said"),
    [
        pytest.param({"awsElasticBlockStore": {"volumeID": "vol-1"}}, EBS, FULL, id="EBS"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://z/vol-1"}}, EBS, FULL, id="EBS with a zone"),
        pytest.param({"awsElasticBlockStore": {"volumeID": "aws://z/odd"}}, EBS, SUCCESS, id="EBS, unreadable"),
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, PD, FULL, id="GCE"),
        pytest.param({"cinder": {"volumeID": "d"}}, CINDER, FULL, id="Cinder"),
        pytest.param({"portworxVolume": {"volumeID": "d"}}, PORTWORX, FULL, id="Portworx"),
        pytest.param({"azureDisk": {"diskName": "d", "diskURI": "u"}}, AZURE, FULL, id="Azure"),
        pytest.param(
            {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Shared"}}, AZURE, SUCCESS, id="Azure, odd"
        ),
        pytest.param({"nfs": {"path": "/", "server": "s"}}, "nfs", SUCCESS, id="not a disk"),
    ],
)
def test_persistent_volumes_of_former_plugins(source, driver, said):
    objects = [claim("c", volume="v"), volume("v", **source)]
    assert said_of(using("c"), *objects, csi_node("a", **{driver: 0})) == said
    assert said_of(using("c"), *objects) == SUCCESS  # without a CSINode it is the plugin's


@pytest.mark.feature("NodeVolumeLimits: in-tree volumes migrated to CSI")
@pytest.mark.parametrize(
    ("source", "driver", "said"),
    [
        pytest.param({"awsElasticBlockStore": {"volumeID": "vol-1"}}, EBS, FULL, id="EBS"),
        pytest.param({"gcePersistentDisk": {"pdName": "d"}}, PD, FULL, id="GCE"),
        pytest.param({"cinder": {"volumeID": "d"}}, CINDER, FULL, id="Cinder"),
        pytest.param({"portworxVolume": {"volumeID": "d"}}, PORTWORX, FULL, id="Portworx"),
        pytest.param({"azureDisk": {"diskName": "d", "diskURI": "u"}}, AZURE, FULL, id="Azure"),
        pytest.param({"azureFile": {"shareName": "d", "secretName": "s"}}, "file_csi_azure_com", SUCCESS, id="a share"),
        pytest.param(
            {"awsElasticBlockStore": {"volumeID": "aws://z/odd"}},
            EBS,
            (
                "Error",
                f"{UNTRANSLATED} Invalid format for AWS volume (aws://z/odd)",
            ),
            id="EBS, unreadable",
        ),
    ],
)
def test_volumes_in_the_pod_itself(source, driver, said):
    pod = using(volumes=[{"name": "d", **source}])
    assert said_of(pod, csi_node("a", **{driver: 0})) == said
    assert said_of(pod) == SUCCESS


@pytest.mark.feature("NodeVolumeLimits: queueing hints")
@pytest.mark.parametrize(
    ("before", "after", "hint"),
    [
        pytest.param({"x": 1}, {"x": 2}, Hint.QUEUE, id="a limit rose"),
        pytest.param({"x": 2}, {"x": 1}, Hint.SKIP, id="a limit fell"),
        pytest.param({}, {"x": 1}, Hint.QUEUE, id="a driver came"),
        pytest.param({"x": 1}, {}, Hint.SKIP, id="a driver went"),
    ],
)
def test_after_a_csi_node_changed(before, after, hint):
    old, new = (convert(CSI_NODE.type, csi_node("a", **limits)) for limits in (before, after))
    assert plugin().after_csi_node_update(using("c"), old, new) is hint


@pytest.mark.feature("NodeVolumeLimits: queueing hints")
@pytest.mark.parametrize(
    ("gone", "hint"),
    [
        pytest.param(using("x", name="o", node="a"), Hint.QUEUE, id="with a claim"),
        pytest.param(using(name="o", node="a", ephemeral=["e"]), Hint.QUEUE, id="with an ephemeral volume"),
        pytest.param(using("x", name="o"), Hint.SKIP, id="that was on no node"),
        pytest.param(using("x", name="o", status={"nominatedNodeName": "a"}), Hint.QUEUE, id="that was nominated"),
        pytest.param(make_pod("o", node="a"), Hint.SKIP, id="without volumes"),
    ],
)
def test_after_a_pod_is_deleted(gone, hint):
    assert plugin().after_pod_delete(using("c"), gone, None) is hint


@pytest.mark.feature("NodeVolumeLimits: queueing hints")
@pytest.mark.parametrize(
    ("pod", "new", "hint"),
    [
        pytest.param(using("c"), claim("c"), Hint.QUEUE, id="the pod's"),
        pytest.param(using(ephemeral=["e"]), claim("p-e"), Hint.QUEUE, id="of its ephemeral volume"),
        pytest.param(using("c"), claim("d"), Hint.SKIP, id="another"),
        pytest.param(using("c"), claim("c", namespace="b"), Hint.SKIP, id="of another namespace"),
    ],
)
def test_after_a_claim_is_made(pod, new, hint):
    assert plugin().after_claim_add(pod, None, convert(PERSISTENT_VOLUME_CLAIM.type, new)) is hint


@pytest.mark.feature("NodeVolumeLimits: queueing hints")
@pytest.mark.parametrize(
    ("pod", "attacher", "hint"),
    [
        pytest.param(using("c"), "any.example.com", Hint.QUEUE, id="a pod with a claim"),
        pytest.param(
            using(volumes=[{"name": "d", "cinder": {"volumeID": "d"}}]),
            "cinder.csi.openstack.org",
            Hint.QUEUE,
            id="of the driver of the pod's disk",
        ),
        pytest.param(
            using(volumes=[{"name": "d", "cinder": {"volumeID": "d"}}]), "x.example.com", Hint.SKIP, id="of another"
        ),
        pytest.param(make_pod("p"), "x.example.com", Hint.SKIP, id="no volumes"),
    ],
)
def test_after_a_volume_is_detached(pod, attacher, hint):
    old = convert(VOLUME_ATTACHMENT.type, attachment("t", "a", "v", attacher))
    assert plugin().after_detach(pod, old, None) is hint


def plugin():
    return plugin_of(make_cluster(make_node("a")), "NodeVolumeLimits")


def test_pods_without_volumes_are_skipped():
    assert plugin().pre_filter(None, make_pod("p"), None).code is Code.SKIP
