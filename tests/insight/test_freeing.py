"""The single changes that free the most pending pods, on small clusters."""

import pytest

from bayplan.insight import Insight, Snapshot, Stopped

MAINTENANCE = {"key": "maintenance", "value": "true", "effect": "NoSchedule"}


def node(name, cpu="4", *, taints=(), **labels):
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **labels}},
        "spec": {"taints": list(taints)},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "110"}},
    }


def pod(name, cpu="1", on="", **spec):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}],
            **({"nodeName": on} if on else {}),
            **spec,
        },
    }


def lines(*objects, **options):
    found = Insight(Snapshot.of(objects)).explain_all(**options)
    return list(found.freeing.lines())


def test_a_change_is_made_on_all_nodes_of_its_kind():
    nodes = [node(f"n-{i}", taints=[MAINTENANCE] if i > 1 else []) for i in range(12)]
    full = [pod(f"old-{i}", "4", on=f"n-{i}") for i in range(2)]
    insight = Insight(Snapshot.of([*nodes, *full, *(pod(f"web-{i}") for i in range(45))]))

    found = insight.explain_all().freeing

    assert found.pending == 45
    assert found.best[0].change.text == "remove the taint maintenance=true:NoSchedule from 10 nodes"
    assert len(found.best[0].pods) == 40
    assert found.best[0].nodes == tuple(sorted(f"n-{i}" for i in range(2, 12)))
    assert found.to_dict()["changes"][0]["nodes"] == list(found.best[0].nodes)


def test_the_cluster_is_as_it_was_and_the_text_ends_with_the_changes():
    insight = Insight(Snapshot.of([node("a", taints=[MAINTENANCE]), *(pod(f"web-{i}") for i in range(3))]))

    text = insight.explain_all().text()

    assert text.endswith("  3 of 3 pods: remove the taint maintenance=true:NoSchedule from a\n")
    assert insight.explain_all().text() == text
    assert insight.explain("default/web-0").outcome == "pending"


def test_an_eviction_must_free_more_than_it_evicts():
    one_for_one = [node("a"), pod("old", "4", on="a"), pod("web-0", "4")]
    one_for_four = [node("a"), pod("old", "4", on="a"), *(pod(f"web-{i}") for i in range(4))]

    assert not [line for line in lines(*one_for_one) if "delete" in line]
    assert "4 of 4 pods: delete pod default/old on a (evicts 1 pod of default)" in lines(*one_for_four)


def test_labels_with_another_value_are_not_overwritten_on_all_nodes():
    nodes = [node("a", disk="hdd"), node("b", disk="hdd")]

    assert lines(*nodes, *(pod(f"web-{i}", nodeSelector={"disk": "ssd"}) for i in range(3))) == []


def test_only_the_pods_that_were_asked_about_count():
    objects = [node("a", taints=[MAINTENANCE]), pod("web-0"), pod("web-1"), pod("db-0")]

    assert lines(*objects, matches=lambda each: each.name == "db-0") == [
        "1 of 1 pod: remove the taint maintenance=true:NoSchedule from a"
    ]


def test_what_is_known_is_kept_when_it_is_interrupted():
    def progress(text):
        if text.startswith("2 changes tried that may"):
            raise Stopped

    objects = [node("a", taints=[MAINTENANCE]), *(pod(f"web-{i}") for i in range(5))]
    found = Insight(Snapshot.of(objects)).explain_all(progress=progress)

    assert found.interrupted == found.freeing.interrupted
    assert found.freeing.best[0].change.text.startswith("remove the taint")


def test_it_can_be_left_out():
    assert Insight(Snapshot.of([node("a"), pod("web-0", "8")])).explain_all(free=False).freeing is None


@pytest.mark.parametrize("name", ["n-1", "n.1"])
def test_the_name_of_a_node_in_a_longer_one_stays(name):
    nodes = [node(name, taints=[{**MAINTENANCE, "value": f"{name}0"}]), node("z", "1m")]

    assert f"1 of 1 pod: remove the taint maintenance={name}0:NoSchedule from {name}" in lines(*nodes, pod("web-0"))


def test_room_that_is_held_for_a_nominated_pod_is_not_given_away():
    old = pod("old", "4", on="n-1", priority=0)
    old["metadata"] |= {"deletionTimestamp": "2026-11-28T21:00:00Z", "deletionGracePeriodSeconds": 7200}
    big = {**pod("big", "7", priority=100), "status": {"phase": "Pending", "nominatedNodeName": "n-1"}}
    nodes = [node("n-1", "8"), node("n-2", "16", taints=[MAINTENANCE])]

    found = lines(*nodes, old, big, pod("small", "3", priority=0))

    assert found[0] == "2 of 2 pods: remove the taint maintenance=true:NoSchedule from n-2"


def test_changes_of_several_kinds_are_shown():
    tainted = [node(f"t-{i}", taints=[{**MAINTENANCE, "value": f"v{i}"}]) for i in range(6)]
    cordoned = node("c", "2")
    cordoned["spec"]["unschedulable"] = True

    found = lines(*tainted, cordoned, *(pod(f"web-{i}") for i in range(30)))

    assert "  ".join(found).count("remove the taint") == 3
    assert any("uncordon c" in line for line in found)
    assert any("add a node" in line for line in found)
