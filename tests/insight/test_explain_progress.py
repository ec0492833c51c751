"""`explain` says where a pending pod is on its way: never seen, tried, chosen, or left to another scheduler."""

from datetime import UTC, datetime

import pytest
from bayplan_documents import document
from tests.support.tables import cases

from bayplan import Plugin
from bayplan.core.api.kinds import POD
from bayplan.core.framework.interface import Wait
from bayplan.insight import Insight, QuestionError, Snapshot

CREATED = "2026-01-01T12:00:00Z"


def node(name="n1"):
    room = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    made = document("Node", name, namespace="", status={"allocatable": room, "capacity": room})
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name}
    return made


def pod(name="new", condition=None, status=None, created=CREATED, **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    made = document("Pod", name, spec={"containers": [container], **spec})
    made["metadata"] |= {"uid": name, **({"creationTimestamp": created} if created else {})}
    conditions = [{"type": "PodScheduled", "status": "False", **condition}] if condition else []
    made["status"] = {"phase": "Pending", "conditions": conditions, **(status or {})}
    return made


def rejected(message="0/1 nodes are available: 1 Insufficient cpu.", since="2026-01-01T12:00:00Z"):
    return {"reason": "Unschedulable", "message": message, "lastTransitionTime": since}


def ask(*objects, now="2026-01-01T12:00:05"):
    taken = datetime.fromisoformat(now).replace(tzinfo=UTC)
    return Insight(Snapshot.of(objects, taken=taken)).explain("default/new")


NOTES = {
    "no scheduler has seen it": (pod(), "no scheduler has tried the pod yet: it has no PodScheduled condition"),
    "in backoff": (
        pod(condition=rejected()),
        "it is tried again when its backoff ends, by 2026-01-01T12:00:10Z at the latest",
    ),
    "in backoff, or missed by the hints": (
        pod(condition=rejected()),
        "without one, the scheduler has no reason to try it again; it does so after 5 minutes at the latest, at 2026",
    ),
    "no reason to try it again": (
        pod(condition=rejected(since="2026-01-01T11:59:00Z")),
        "no reason to try it again; it does so after 5 minutes at the latest, at 2026-01-01T12:04:00Z",
    ),
    "the condition of another scheduler": (
        pod(condition=rejected("0/1 nodes are available: insufficient quota of team red")),
        'says: "0/1 nodes are available: insufficient quota of team red"; none of these plugins rejects the pod now',
    ),
}


@cases("pending, note", NOTES)
def test_notes_say_what_the_scheduler_did(pending, note):
    answer = ask(node(), pending)

    assert any(note in each for each in answer.notes), answer.notes
    assert (answer.outcome, answer.message) == ("placed", "")


def lease(name, renewed="2026-01-01T11:00:00.000000Z"):
    spec = {"holderIdentity": "host_1", "leaseDurationSeconds": 15, "renewTime": renewed}
    made = document("Lease", name, "coordination.k8s.io/v1", spec=spec)
    made["metadata"]["namespace"] = "kube-system"
    return made


LEASES = {
    "of the default scheduler": (lease("kube-scheduler"), {}, True),
    "of a second scheduler": (lease("bayplan-scheduler"), {"schedulerName": "bayplan-scheduler"}, True),
    "of another one": (lease("kube-controller-manager"), {}, False),
    "renewed in time": (lease("kube-scheduler", "2026-01-01T11:59:55.000000Z"), {}, False),
    "on a clock that is late": (lease("kube-scheduler", "2026-01-01T11:59:10.000000Z"), {}, False),
}


LOST = "its lease kube-system/{} was last renewed at 2026-01-01T11:00:00Z by "


@cases("found, spec, lost", LEASES)
def test_a_lease_that_is_not_renewed_is_said(found, spec, lost):
    answer = ask(node(), pod("new", rejected(), **spec), found)
    said = LOST.format(found["metadata"]["name"]) + "host_1"
    assert any(said in note for note in answer.notes) is lost, answer.notes


def test_a_redacted_snapshot_still_says_that_the_scheduler_lost_its_lease(tmp_path):
    taken = datetime(2026, 1, 1, 12, 0, 5, tzinfo=UTC)
    Snapshot.of([node(), pod(), lease("kube-scheduler")], taken=taken).save(tmp_path / "saved", redact=True)
    redacted = Snapshot.open(tmp_path / "saved")
    (name,) = redacted.of_kind(POD)
    assert LOST.format("kube-scheduler") + "holder-1" in "".join(Insight(redacted).explain(name).notes)


PLACED = "it would be placed now"
CAUSES = {
    "no scheduler has seen it": (pod(), f"{PLACED}, but no scheduler has tried it: check that one named default-sch"),
    "something has changed": (pod(condition=rejected()), f"{PLACED}: the scheduler has not tried it since something"),
    "it is nominated": (
        pod(condition=rejected(), status={"nominatedNodeName": "n1"}),
        f"{PLACED}: it is nominated to a node, and is tried again soon if it preempted pods, else a plugin lets it",
    ),
    "it waits": (pod(status={"nominatedNodeName": "n1"}), "n1 was chosen already; the pod waits for a plugin in Perm"),
}


@cases("pending, cause", CAUSES)
def test_all_pending_says_the_same_of_each_pod(pending, cause):
    answer = Insight(Snapshot.of([node(), pending])).explain_all()

    assert answer.causes[0].message.startswith(cause)


def test_equal_pods_of_which_one_was_never_seen_have_two_causes():
    answer = Insight(Snapshot.of([node(), pod("old", condition=rejected()), pod()])).explain_all()

    assert [cause.pods for cause in answer.causes] == [("default/new",), ("default/old",)]


def test_a_pod_that_waits_in_permit_says_how_that_may_end():
    class Slow(Plugin):
        name = "Slow"

        def permit(self, cycle, pod, node_name):
            return Wait(30)

    answer = Insight(Snapshot.of([node(), pod(status={"nominatedNodeName": "n1"})]), plugins=[Slow]).explain(
        "default/new"
    )

    assert answer.message == "n1 was chosen already; the pod waits for a plugin in Permit or PreBind"
    assert answer.notes[-1].startswith("unless the plugin allows it, its attempt ends with: 0/1 nodes are available: ")


def test_a_manifest_has_not_been_seen_by_any_scheduler():
    assert ask(node(), pod(created=None)).notes == ()


def test_condition_that_says_the_same_is_not_repeated():
    full = pod("full", nodeName="n1")
    full["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "4"
    message = "0/7 nodes are available: 7 Insufficient cpu. preemption: 0/7 nodes are available: 7 No victims."

    answer = ask(node(), full, pod(condition=rejected(message)))

    assert answer.outcome == "pending"
    assert not any("condition" in each for each in answer.notes), answer.notes


def test_pod_that_waits_for_a_provisioner_is_not_placed():
    metadata = {"volume.kubernetes.io/selected-node": "n1"}
    claim = document(
        "PersistentVolumeClaim", "data", spec={"storageClassName": "disk", "accessModes": ["ReadWriteOnce"]}
    )
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    claim["metadata"] |= {"uid": "data", "annotations": metadata}
    disk = document(
        "StorageClass",
        "disk",
        "storage.k8s.io/v1",
        namespace="",
        provisioner="disk.acme.io",
        volumeBindingMode="WaitForFirstConsumer",
    )
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]

    answer = ask(node(), disk, claim, pod(volumes=volumes))

    assert answer.outcome == "pending"
    assert (
        answer.message
        == "n1 was chosen already; the pod waits for provisioner disk.acme.io to provision the claim data"
    )


def test_near_scheduler_name_is_offered():
    answer = ask(node(), pod(schedulerName="default-scheduler // a comment"))

    assert "did you mean default-scheduler?" in answer.notes[0]
    assert answer.message == ""


def test_change_that_fails_in_a_plugin_is_not_logged(caplog):
    selector = {"cel": {"expression": 'device.attributes["d.io"].kind == "w"'}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "selectors": [selector]}}
    claim = document("ResourceClaim", "mine", "resource.k8s.io/v1", spec={"devices": {"requests": [request]}})
    claim["metadata"]["uid"] = "mine"

    def devices(name, attributes):
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "d.io", "nodeName": name, "pool": pool, "devices": [{"name": "g", **attributes}]}
        return document("ResourceSlice", name, "resource.k8s.io/v1", namespace="", spec=spec)

    labeled = node("n1")
    labeled["metadata"]["labels"]["pool"] = "a"
    objects = [
        labeled,
        node("n2"),
        document("DeviceClass", "gpu", "resource.k8s.io/v1", namespace="", spec={}),
        devices("n1", {"attributes": {"kind": {"string": "s"}}}),
        devices("n2", {}),
        claim,
        pod(nodeSelector={"pool": "a"}, resourceClaims=[{"name": "c", "resourceClaimName": "mine"}]),
    ]

    assert ask(*objects).outcome == "pending"
    assert not caplog.records


def preempted(**fields):
    about = {"kind": "Pod", "namespace": "default", "name": "old"}
    made = document("Event", "old.1", involvedObject=about, reason="Preempted", **fields)
    return {**made, "message": "Preempted by pod uid-of-high on node n1", "lastTimestamp": CREATED}


@pytest.mark.parametrize(
    ("name", "uid", "fields"),
    [
        ("high", "uid-of-high", {}),
        ("again", "other", {"related": {"kind": "Pod", "namespace": "default", "name": "again"}}),
    ],
)
def test_preemptor_of_a_pod_that_is_gone_is_named(name, uid, fields):
    preemptor = pod(name, priority=7)
    preemptor["metadata"]["uid"] = uid

    with pytest.raises(QuestionError) as raised:
        Insight(Snapshot.of([node(), preemptor, preempted(**fields)])).explain("default/old")

    assert str(raised.value) == (
        "pod default/old is gone: Preempted by pod uid-of-high on node n1: that is pod default/"
        f"{name} with priority 7, at {CREATED}"
    )
