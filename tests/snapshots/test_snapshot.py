import pytest

from bayplan.core.api.kinds import NODE, POD, custom_kind
from bayplan.insight import Snapshot, SnapshotError


def document(kind, name, api_version="v1", namespace=None, **fields):
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


NODE_A = document("Node", "a", status={"allocatable": {"cpu": "4"}})
POD_WEB = document("Pod", "web", namespace="shop", spec={"containers": []})


def test_snapshot_keys_objects_by_namespace_and_name():
    snapshot = Snapshot.of([NODE_A, POD_WEB, document("Pod", "job")])

    assert {kind: list(known) for kind, known in snapshot.documents.items()} == {
        NODE: ["a"],
        POD: ["shop/web", "default/job"],
    }
    assert len(snapshot) == 3


def test_snapshot_returns_objects_as_they_were_given():
    snapshot = Snapshot.of([NODE_A, POD_WEB])

    assert snapshot.document(NODE, "a") == NODE_A
    assert list(snapshot.objects()) == [NODE_A, POD_WEB]
    assert snapshot.document(POD, "shop/none") is None


def test_snapshot_drops_managed_fields():
    pod = document("Pod", "web")
    pod["metadata"]["managedFields"] = [{"manager": "kubectl"}]

    assert b"managedFields" not in Snapshot.of([pod]).documents[POD]["default/web"]


def test_snapshot_takes_the_items_of_lists():
    objects = {"apiVersion": "v1", "kind": "List", "items": [NODE_A, {"kind": "PodList", "items": [POD_WEB]}]}

    assert list(Snapshot.of([objects]).objects()) == [NODE_A, POD_WEB]


@pytest.mark.parametrize(
    ("api_version", "kind", "reference"),
    [
        ("scheduling.k8s.io/v1beta1", "PodGroup", "podgroups.v1beta1.scheduling.k8s.io"),
        ("scheduling.k8s.io/v1alpha2", "PodGroup", "podgroups.v1beta1.scheduling.k8s.io"),
        ("scheduling.x-k8s.io/v1alpha1", "PodGroup", "podgroups.v1alpha1.scheduling.x-k8s.io"),
        ("example.com/v1", "Policy", "policies.v1.example.com"),
        ("example.com/v1", "Class", "classes.v1.example.com"),
    ],
)
def test_custom_objects_have_the_kind_that_plugins_read(api_version, kind, reference):
    obj = document(kind, "one", api_version, "team")
    snapshot = Snapshot.of([obj])

    assert list(snapshot.of_kind(custom_kind(reference))) == ["team/one"]
    assert list(snapshot.objects()) == [obj]


def test_custom_object_of_a_server_without_a_namespace_keeps_none():
    obj = document("Zone", "one", "example.com/v1")
    obj["metadata"]["uid"] = "1234"

    assert list(Snapshot.of([obj]).of_kind(custom_kind("zones.v1.example.com"))) == ["one"]


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"kind": "Pod"}, "object 2: apiVersion is missing"),
        ({"apiVersion": "v1"}, "object 2: kind is missing"),
        (document("Pood", "a"), "object 2: there is no kind Pood in v1: did you mean 'Pod'?"),
        (document("Deployment", "a"), "object 2: there is no kind Deployment in v1; Deployment is in apps/v1"),
        ({"apiVersion": "v1", "kind": "Pod"}, "object 2: Pod: metadata is missing"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": {}}, "object 2: Pod: metadata.name is missing"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": []}, "object 2: Pod: Expected `object`, got `array`"),
        (document("Pod", 3), "object 2: Pod: Expected `str | null`, got `int` - at `$.name`"),
        (document("Thing", "a", "example.com/V_1"), "object 2: example.com/V_1 Thing is not a kind"),
    ],
)
def test_snapshot_names_what_is_wrong_with_an_object(obj, message):
    with pytest.raises(SnapshotError) as raised:
        Snapshot.of([NODE_A, obj])

    assert str(raised.value) == message


def test_changed_snapshot_leaves_the_original_alone():
    before = Snapshot.of([NODE_A, document("Node", "b"), POD_WEB])
    changed = document("Node", "a", spec={"unschedulable": True})
    after = before.but(add=[document("Node", "c")], remove=[(NODE, "b")], change=[changed])

    assert list(after.documents[NODE]) == ["a", "c"]
    assert after.document(NODE, "a") == changed
    assert list(before.documents[NODE]) == ["a", "b"]
    assert before.document(NODE, "a") == NODE_A


def test_changed_snapshot_shares_the_other_kinds():
    before = Snapshot.of([NODE_A, POD_WEB])

    assert before.but(remove=[(NODE, "a")]).documents[POD] is before.documents[POD]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"remove": [(NODE, "z")]}, "there is no Node z to remove"),
        ({"change": [document("Node", "z")]}, "there is no Node z to change"),
        ({"add": [NODE_A]}, "Node a exists already"),
    ],
)
def test_snapshot_rejects_impossible_changes(changes, message):
    with pytest.raises(SnapshotError, match=message):
        Snapshot.of([NODE_A]).but(**changes)


def test_object_can_be_replaced_by_removing_and_adding_it():
    other = document("Node", "a", spec={"unschedulable": True})

    assert Snapshot.of([NODE_A]).but(remove=[(NODE, "a")], add=[other]).document(NODE, "a") == other


def test_snapshot_is_immutable():
    snapshot = Snapshot.of([NODE_A])

    with pytest.raises(TypeError):
        snapshot.documents[NODE]["b"] = b"{}"
    with pytest.raises(TypeError):
        snapshot.documents[POD] = {}
