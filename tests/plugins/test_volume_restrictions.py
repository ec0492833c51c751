import pytest
from tests.support.tables import cases
from volumes import claim, filtered_by, plugin_of, using, volume

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM
from bayplan.core.api.objects import convert
from bayplan.core.framework.events import Hint
from bayplan.core.framework.hints import after_claim_change
from bayplan.core.framework.own_volumes import own_volumes
from bayplan.core.framework.status import Code
from bayplan.core.scheduling import Outcome
from bayplan.testing.builders import make_cluster, make_node, make_pod

EXCLUSIVE = ["ReadWriteOncePod"]
DISK = "node(s) had no available disk"
CLAIM = (
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)


def disk(kind, **fields):
    return {"name": "d", kind: fields}


def gce(name, read_only=False):
    return disk("gcePersistentDisk", pdName=name, readOnly=read_only)


def aws(name, read_only=False):
    return disk("awsElasticBlockStore", volumeID=name, readOnly=read_only)


def iscsi(iqn, lun=0, read_only=False):
    return disk("iscsi", iqn=iqn, lun=lun, targetPortal="10.0.0.1:3260", readOnly=read_only)


def rbd(image, *monitors, pool="rbd", read_only=False):
    return disk("rbd", image=image, monitors=list(monitors or ("m1",)), pool=pool, readOnly=read_only)


@pytest.mark.feature("VolumeRestrictions: disks")
@cases(
    "wanted, there, conflict",
    {
        "one disk of GCE": (gce("a"), gce("a"), True),
        "two disks of GCE": (gce("a"), gce("b"), False),
        "GCE, both read-only": (gce("a", read_only=True), gce("a", read_only=True), False),
        "GCE, the other pod writes": (gce("a", read_only=True), gce("a"), True),
        "GCE, this pod writes": (gce("a"), gce("a", read_only=True), True),
        "one disk of AWS": (aws("a"), aws("a"), True),
        "AWS, both read-only": (aws("a", read_only=True), aws("a", read_only=True), True),
        "two disks of AWS": (aws("a"), aws("b"), False),
        "different types": (aws("a"), gce("a"), False),
        "one target, whatever the unit": (iscsi("a"), iscsi("a", lun=1), True),
        "iSCSI, both read-only": (iscsi("a", read_only=True), iscsi("a", read_only=True), False),
        "two targets": (iscsi("a"), iscsi("b"), False),
        "one image": (rbd("a"), rbd("a"), True),
        "one image, a common monitor": (rbd("a", "m1", "m2"), rbd("a", "m2", "m3"), True),
        "images of two clusters": (rbd("a", "m1"), rbd("a", "m2"), False),
        "images of two pools": (rbd("a"), rbd("a", pool="other"), False),
        "RBD, both read-only": (rbd("a", read_only=True), rbd("a", read_only=True), False),
        "emptyDir": ({"name": "d", "emptyDir": {}}, gce("a"), False),
    },
)
def test_disk_conflict(wanted, there, conflict):
    cluster = make_cluster(
        make_node("busy"), make_node("idle"), using(name="other", node="busy", volumes=[there], namespace="elsewhere")
    )
    statuses = filtered_by(cluster, "VolumeRestrictions", using(volumes=[wanted]))
    assert statuses["idle"].code is Code.SUCCESS
    assert statuses["busy"].code is (Code.UNSCHEDULABLE if conflict else Code.SUCCESS)
    assert statuses["busy"].reasons == ((DISK,) if conflict else ())


@pytest.mark.feature("VolumeRestrictions: ReadWriteOncePod")
@cases(
    "objects, reason",
    {
        "unused": ([], ""),
        "used": ([using("mine", name="other", node="a")], CLAIM),
        "used on a deleted node": ([using("mine", name="other", node="gone")], ""),
        "of another namespace": ([using("mine", name="other", node="a", namespace="b")], ""),
        "another claim": ([using("theirs", name="other", node="a")], ""),
        "shareable claim": ([using("shared", name="other", node="a")], ""),
    },
)
def test_read_write_once_pod_claim(objects, reason):
    cluster = make_cluster(
        make_node("a"),
        make_node("b"),
        claim("mine", volume="v1", accessModes=EXCLUSIVE),
        claim("shared", volume="v2"),
        claim("theirs", volume="v3", accessModes=EXCLUSIVE),
        volume("v1"),
        volume("v2"),
        volume("v3"),
        *objects,
    )
    decision = cluster.decide(using("mine", "shared"))
    assert decision.outcome is (Outcome.UNSCHEDULABLE if reason else Outcome.SCHEDULED)
    if reason:
        assert decision.message.startswith(f"0/2 nodes are available: 2 {reason}.")


@pytest.mark.feature("VolumeRestrictions: preempting the user of a claim")
@cases("priority, nominated", {"higher": (10, "a"), "equal": (0, "")})
def test_user_of_a_claim_is_preempted(priority, nominated):
    cluster = make_cluster(
        make_node("a"),
        make_node("b"),
        claim("mine", volume="v", accessModes=EXCLUSIVE),
        volume("v"),
        using("mine", name="user", node="a"),
        make_pod("bystander", node="b"),
    )
    decision = cluster.decide(using("mine", priority=priority))
    assert decision.nominated_node == nominated
    assert [victim.name for victim in decision.victims] == (["user"] if nominated else [])


@pytest.mark.feature("VolumeRestrictions: missing claims")
def test_missing_claim():
    cluster = make_cluster(make_node("a"))
    decision = cluster.decide(using("none"))
    assert decision.message.startswith('0/1 nodes are available: persistentvolumeclaim "none" not found.')
    assert decision.diagnosis.unschedulable_plugins == {"VolumeRestrictions"}


@pytest.mark.feature("VolumeRestrictions: queueing hints")
@cases(
    "waits, gone, hint",
    {
        "the same claim": (using("c"), using("c", name="o", node="a"), Hint.QUEUE),
        "another claim": (using("c"), using("d", name="o", node="a"), Hint.SKIP),
        "another namespace": (using("c"), using("c", name="o", namespace="b"), Hint.SKIP),
        "the same disk": (using(volumes=[gce("x")]), using(name="o", volumes=[gce("x")]), Hint.QUEUE),
        "another disk": (using(volumes=[gce("x")]), using(name="o", volumes=[gce("y")]), Hint.SKIP),
        "no volumes": (using("c"), make_pod("o", node="a"), Hint.SKIP),
    },
)
def test_hint_after_pod_deletion(waits, gone, hint):
    assert plugin_of(make_cluster(make_node("a")), "VolumeRestrictions").after_pod_delete(waits, gone, None) is hint


@pytest.mark.feature("VolumeRestrictions: queueing hints")
@cases(
    "new, hint",
    {
        "the pod's": (claim("c"), Hint.QUEUE),
        "another": (claim("d"), Hint.SKIP),
        "of another namespace": (claim("c", namespace="b"), Hint.SKIP),
    },
)
def test_hint_after_claim_creation(new, hint):
    assert after_claim_change(using("c"), None, convert(PERSISTENT_VOLUME_CLAIM.type, new)) is hint


def signed(*objects, plugin="VolumeRestrictions"):
    """What the rejection of a pod with the claim `c` rests on."""
    cluster = make_cluster(make_node("a"), *objects)
    return plugin_of(cluster, plugin).rests_on(using("c"), cluster.state.nodes)


@cases(
    "objects, shared",
    {
        "of a claim for many pods": ([claim("c", volume="v")], True),
        "of an unused exclusive claim": ([claim("c", volume="v", accessModes=EXCLUSIVE)], True),
        "of an exclusive claim in use": (
            [claim("c", volume="v", accessModes=EXCLUSIVE), using("c", name="user", node="a")],
            False,
        ),
        "of a missing claim": ([], False),
    },
)
def test_rejections_are_shared_by_pods_whose_claims_reject_no_node(objects, shared):
    assert (signed(*objects) is not None) is shared


@pytest.mark.parametrize("plugin", ["VolumeZone", "NodeVolumeLimits"])
@pytest.mark.parametrize("bound", [True, False])
def test_rejections_for_other_volume_plugins_are_shared_by_pods_with_bound_claims(plugin, bound):
    late = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "late"},
            "provisioner": "disk.example.com", "volumeBindingMode": "WaitForFirstConsumer"}  # fmt: skip
    objects = [late, claim("c", volume="v" if bound else ""), volume("v")]
    assert (signed(*objects, plugin=plugin) is not None) is bound


def test_pods_with_volumes_of_one_handle_concern_each_other():
    same = {"csi": {"driver": "disk.example.com", "volumeHandle": "h"}}
    claims = [claim(name, volume=f"v-{name}") for name in ("a", "b", "c")]
    volumes = [volume("v-a", **same), volume("v-b", **same), volume("v-c")]
    own = own_volumes(make_cluster(make_node("n"), *claims, *volumes).state.objects)
    pod, *others = (using(name, name=name) for name in ("a", "b", "c"))
    concerned = [bool({*own.of_pod(pod)} & {*own.of_event(None, other)}) for other in others]
    assert concerned == [True, False]
