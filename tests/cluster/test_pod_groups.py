from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_groups import PodsByGroup
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


def test_existing_pods_are_indexed():
    _, by_group = groups(in_group("a"), in_group("b", "blue"), in_group("plain", ""))
    assert names(by_group["red"].remaining) == ["a"]
    assert names(by_group["blue"].remaining) == ["b"]
    assert by_group["none"].pods == {}


def test_index_follows_added_moved_and_removed_pods():
    store, by_group = groups(in_group("a"))
    store.set("default/b", in_group("b"))
    assert names(by_group["red"].remaining) == ["a", "b"]
    store.set("default/b", in_group("b", "blue"))
    assert names(by_group["red"].remaining) == ["a"]
    assert names(by_group["blue"].remaining) == ["b"]
    store.set("default/b", in_group("b", ""))
    store.remove("default/a")
    assert not by_group["red"].pods
    assert not by_group["blue"].pods


def test_members_by_state():
    gated = in_group("gated", spec={"schedulingGates": [{"name": "g"}]})
    leaving = in_group("leaving", terminating=True)
    members = groups(
        in_group("z"), in_group("a"), in_group("top", priority=3), in_group("on", node="n"), gated, leaving
    )
    red = members[1]["red"]
    assert names(red.pending) == ["top", "a", "z"]
    assert red.bound == {"default-on"}
    assert red.gated == [gated]
    assert len(red.remaining) == 5
    assert len(red.pods) == 6


def test_permitted_pod_counts_until_it_is_forgotten():
    store, by_group = groups(in_group("a"), in_group("b"), in_group("c"))
    for name in "abc":
        by_group.permit("red", f"default-{name}", f"node-{name}")
    assert len(by_group.assigned("red")) == 3
    assert by_group.nodes("red") == ("node-a", "node-b", "node-c")
    by_group.forget("red", "default-a")
    assert by_group.assigned("red") == {"default-b", "default-c"}
    store.set("default/b", in_group("b", node="n"))
    store.remove("default/c")
    assert by_group.assigned("red") == {"default-b"}
    assert by_group.nodes("red") == ("n",)
    store.remove("default/b")
    assert by_group.assigned("red") == frozenset()


def test_listeners_are_called_for_groups_whose_pods_change():
    store, by_group = groups(in_group("a"))
    calls = []
    by_group.listen(calls.append)
    store.set("default/plain", in_group("plain", ""))
    assert calls == []
    store.set("default/a", in_group("a", "blue"))
    assert sorted(calls) == ["blue", "red"]


def test_store_passes_the_visible_versions_to_listeners():
    store = ObjectStore()
    store.set("default/a", old := in_group("a"))
    calls = []
    store.listen(lambda before, after: calls.append((before, after)))
    assumed, new = in_group("a", "blue"), in_group("a", "green")
    store.assume("default/a", assumed)
    store.restore("default/a")
    store.restore("default/a")
    store.set("default/a", new)
    store.remove("default/a")
    assert calls == [(None, old), (old, assumed), (assumed, old), (old, new), (new, None)]
