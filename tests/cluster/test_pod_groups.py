from __future__ import annotations

from bayplan.cluster.objects import ObjectStore
from bayplan.cluster.pod_groups import PodsByGroup
from bayplan.testing.builders import make_pod


def in_group(name, group="red", **fields):
    return make_pod(name, labels={"group": group} if group else {}, **fields)


def groups(*pods):
    store = ObjectStore()
    for pod in pods:
        store.set(pod.key, pod)
    return store, PodsByGroup(store, lambda pod: pod.labels.get("group"))


def names(pods):
    return [pod.name for pod in pods]


def test_what_is_there_already_is_known():
    _, by_group = groups(in_group("a"), in_group("b", "blue"), in_group("plain", ""))
    assert names(by_group["red"].staying) == ["a"]
    assert names(by_group["blue"].staying) == ["b"]
    assert by_group["none"].pods == {}


def test_pods_come_change_groups_and_go():
    store, by_group = groups(in_group("a"))
    store.set("default/b", in_group("b"))
    assert names(by_group["red"].staying) == ["a", "b"]
    store.set("default/b", in_group("b", "blue"))
    assert names(by_group["red"].staying) == ["a"]
    assert names(by_group["blue"].staying) == ["b"]
    store.set("default/b", in_group("b", ""))
    store.remove("default/a")
    assert not by_group["red"].pods
    assert not by_group["blue"].pods


def test_who_is_what():
    gated = in_group("gated", spec={"schedulingGates": [{"name": "g"}]})
    leaving = in_group("leaving", terminating=True)
    members = groups(
        in_group("z"), in_group("a"), in_group("top", priority=3), in_group("on", node="n"), gated, leaving
    )
    red = members[1]["red"]
    assert names(red.pending) == ["top", "a", "z"]
    assert red.bound == {"default-on"}
    assert red.gated == 1
    assert len(red.staying) == 5
    assert len(red.pods) == 6


def test_a_permitted_pod_counts_until_it_is_settled():
    store, by_group = groups(in_group("a"), in_group("b"), in_group("c"))
    for name in "abc":
        by_group.permit("red", f"default-{name}", f"node-{name}")
    assert len(by_group.assigned("red")) == 3
    assert by_group.nodes("red") == ("node-a", "node-b", "node-c")
    by_group.settle("red", "default-a")
    assert by_group.assigned("red") == {"default-b", "default-c"}
    store.set("default/b", in_group("b", node="n"))
    store.remove("default/c")
    assert by_group.assigned("red") == {"default-b"}
    assert by_group.nodes("red") == ("n",)
    store.remove("default/b")
    assert by_group.assigned("red") == frozenset()


def test_listeners_hear_of_groups_whose_pods_change():
    store, by_group = groups(in_group("a"))
    heard = []
    by_group.listen(heard.append)
    store.set("default/plain", in_group("plain", ""))
    assert heard == []
    store.set("default/a", in_group("a", "blue"))
    assert sorted(heard) == ["blue", "red"]


def test_a_store_tells_listeners_what_readers_saw_and_see():
    store = ObjectStore()
    store.set("default/a", old := in_group("a"))
    heard = []
    store.listen(lambda before, after: heard.append((before, after)))
    assumed, new = in_group("a", "blue"), in_group("a", "green")
    store.assume("default/a", assumed)
    store.restore("default/a")
    store.restore("default/a")
    store.set("default/a", new)
    store.remove("default/a")
    assert heard == [(None, old), (old, assumed), (assumed, old), (old, new), (new, None)]
