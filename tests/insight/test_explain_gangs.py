"""`explain` says which member of a gang is missing, gated, or finds no node, and what would help."""

import pytest
from bayplan_documents import document

from bayplan.insight import Insight, Snapshot


def node(name, cpu="4"):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    made = document("Node", name, namespace="", status={"allocatable": room, "capacity": room})
    made["metadata"]["labels"] = {"kubernetes.io/hostname": name}
    return made


def group(name="pair", count=2, version="v1alpha2"):
    policy = {"schedulingPolicy": {"gang": {"minCount": count}}}
    made = document("PodGroup", name, f"scheduling.k8s.io/{version}", spec=policy)
    made["metadata"]["uid"] = name
    return made


def member(name, group="pair", cpu="1", **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    fields = {"containers": [container], "schedulingGroup": {"podGroupName": group}, **spec}
    made = document("Pod", name, spec=fields)
    made["metadata"]["uid"] = name
    return made


def device(name, devices):
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.io", "nodeName": name, "pool": pool, "devices": [{"name": each} for each in devices]}
    return document("ResourceSlice", name, "resource.k8s.io/v1", namespace="", spec=spec)


def claim(name):
    requests = [{"name": "gpu", "exactly": {"deviceClassName": "gpu"}}]
    made = document("ResourceClaim", name, "resource.k8s.io/v1", spec={"devices": {"requests": requests}})
    made["metadata"]["uid"] = name
    return made


def explain(*objects, pod="default/w-0"):
    return Insight(Snapshot.of(objects)).explain(pod)


def test_gated_member_is_named_and_ungated():
    gated = member("w-1", schedulingGates=[{"name": "acme.io/quota"}])

    answer = explain(node("n1"), group(), member("w-0"), gated)

    assert answer.message == "gang pair: 1 of 2 members: w-1 waits for the scheduling gate acme.io/quota"
    assert answer.notes == ("gang pair: 0 pods placed, 2 more needed, 1 pending, 1 gated",)
    assert [each.text for each in answer.help] == ["remove the scheduling gate acme.io/quota from w-1 -> n1"]


@pytest.mark.parametrize("version", ["v1alpha2", "v1alpha3", "v1beta1"])
def test_groups_of_all_versions_are_read(version):
    answer = explain(node("n1", cpu="1"), group(version=version), member("w-0"), member("w-1"))

    assert answer.message.startswith("gang pair: 1 of 2 members fit; the next one: 0/1 nodes are available")


def test_missing_group_is_named():
    answer = explain(node("n1"), group("pairs"), member("w-0"))

    assert "PodGroup default/pair does not exist; did you mean default/pairs?" in answer.notes[0]


def test_missing_members_are_counted():
    answer = explain(node("n1"), group(count=3), member("w-0"))

    assert "1 of the 3 pods exist that PodGroup default/pair needs; 2 more must be created" in answer.notes[0]


def test_member_that_finds_no_device_is_explained_with_the_others_on_their_nodes():
    """Alone, each of the members would find a device."""
    claims = [claim(f"c-{number}") for number in range(4)]
    members = [member(f"w-{n}", resourceClaims=[{"name": "c", "resourceClaimName": f"c-{n}"}]) for n in range(4)]
    gpu = document("DeviceClass", "gpu", "resource.k8s.io/v1", namespace="", spec={})

    nodes = [node("a"), device("a", ["g0", "g1"]), node("b"), device("b", ["g0"])]
    answer = explain(*nodes, gpu, group(count=4), *claims, *members)
    insight = Insight(Snapshot.of([*nodes, gpu, group(count=4), *claims, *members]))
    for name in ("w-0", "w-3"):  # its node alone would accept each
        (blocker,) = insight.why_not(f"default/{name}", "a").blockers
        assert blocker.text.startswith("gang pair: 3 of 4 members fit; the next one: 0/2 nodes are available: ")

    assert answer.message.startswith("gang pair: 3 of 4 members fit; the next one: 0/2 nodes are available: ")
    assert "w-3 is the member that finds no node; what follows is about it" in answer.notes
    assert [(each.plugin, len(each.nodes)) for each in answer.groups] == [("DynamicResources", 2)]
    assert {name for miss in answer.nearest for name in miss.nodes} == {"a", "b"}
    assert [each.text for each in answer.help] == ["add a node like a -> a", "add a node like b -> b"]
    texts = [text for miss in answer.nearest for text in miss.blockers]
    assert all("of a pod that is placed first" in text and "no pod" not in text for text in texts), texts


def test_what_would_help_the_missing_member_is_tried_with_the_whole_gang():
    full = document("Pod", "full", spec={"containers": member("x", cpu="3")["spec"]["containers"], "nodeName": "b"})
    full["metadata"]["uid"] = "full"

    answer = explain(node("a", "2"), node("b", "3"), full, group(count=3), *(member(f"w-{n}") for n in range(3)))

    assert answer.outcome == "pending"
    assert any(each.text.startswith("delete pod default/full on b -> ") for each in answer.help), answer.help
