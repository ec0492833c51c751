import pytest
from tests.support.tables import cases

from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.testing.builders import make_node, make_pod


@pytest.fixture
def state():
    state = ClusterState()
    state.set_node(make_node("a"))
    state.set_node(make_node("b"))
    return state


def requested(state):
    return state.nodes.requested("cpu").tolist()


def test_assumed_pod_counts_until_it_is_confirmed(state):
    assumed = state.assume(make_pod("p", cpu="1"), "a")
    assert (assumed.node_name, assumed.spec.nodeName, PodInfo.from_raw(assumed.raw).node_name) == ("a", "a", "a")
    assert (requested(state), state.assumed_count) == ([1000, 0], 1)
    state.set_pod(make_pod("p", cpu="1", node="a"))
    assert (requested(state), state.assumed_count, state.pod_count) == ([1000, 0], 0, 1)
    state.forget(assumed.uid)
    assert requested(state) == [1000, 0]


def test_forget_releases_resources(state):
    pod = state.assume(make_pod("p", cpu="1"), "a")
    state.forget(pod.uid)
    assert (requested(state), state.pod(pod.uid)) == ([0, 0], None)


def test_server_overrides_an_assumed_pod(state):
    state.assume(make_pod("p", cpu="1"), "a")
    state.set_pod(make_pod("p", cpu="2", node="b"))
    assert (requested(state), state.assumed_count) == ([0, 2000], 0)


def test_assume_rejects_a_pod_that_is_assumed_already(state):
    state.assume(make_pod("p"), "a")
    with pytest.raises(ValueError, match="default/p is on node a already"):
        state.assume(make_pod("p"), "b")


def test_update_replaces_a_pod_and_termination_removes_it(state):
    state.set_pod(make_pod("p", cpu="1", node="a"))
    version = state.table.version
    state.set_pod(make_pod("p", cpu="1", node="a", labels={"new": "label"}))
    assert state.table.changed_since(version) == [0]
    assert state.pod("default-p").labels == {"new": "label"}
    assert state.nodes.pods(0)[0].labels == {"new": "label"}
    state.set_pod(make_pod("p", cpu="1", node="a", status={"phase": "Succeeded"}))
    assert (requested(state), state.pod_count) == ([0, 0], 0)
    state.remove_pod("default-p")


def nominee(name, node=""):
    return make_pod(name, status={"nominatedNodeName": node} if node else {})


def test_pod_is_nominated_to_one_node_at_most():
    nominations = Nominations()
    nominations.add(nominee("p", "a"))
    nominations.add(nominee("p", "b"))
    assert (nominations.on("a"), [pod.name for pod in nominations.on("b")]) == ([], ["p"])
    nominations.remove("default-p")
    assert not nominations.nodes


@cases(
    "old, new, node",
    {
        "kept while it is not written yet": ("", "", "a"),
        "cleared on the server": ("a", "", None),
        "changed on the server": ("a", "b", "b"),
    },
)
def test_update_of_a_nominated_pod(old, new, node):
    nominations = Nominations()
    nominations.add(nominee("p", old), "a")
    nominations.update(nominee("p", old), nominee("p", new))
    assert nominations.node_of("default-p") == node


def versioned(version):
    node = make_node("s")
    node.metadata.resourceVersion = str(version)
    return node


def test_assumed_object_is_visible_until_the_server_has_a_newer_version():
    store = ObjectStore()
    store.set("s", versioned(3))
    store.assume("s", versioned(5))
    store.set("s", versioned(4))
    assert store["s"].metadata.resourceVersion == "5"
    store.set("s", versioned(5))
    store.restore("s")
    assert (store["s"].metadata.resourceVersion, list(store), len(store)) == ("5", ["s"], 1)
    with pytest.raises(KeyError):
        store.assume("other", versioned(1))


def test_assumed_object_survives_a_repeated_event():
    store = ObjectStore()
    store.set("s", versioned(3))
    mine = versioned(3)
    store.assume("s", mine)
    store.set("s", versioned(3))
    assert store["s"] is mine
    assert store.known("s") is not mine
    store.set("s", versioned(4))
    assert store["s"].metadata.resourceVersion == "4"
    assert store.known("none") is None


def test_every_change_wakes_waiters():
    store, woken = ObjectStore(), []
    with store.waking(lambda: woken.append(store.version)):
        store.set("s", versioned(1))
        store.assume("s", versioned(1))
        store.restore("s")
        store.restore("s")
        store.remove("s")
    store.set("s", versioned(2))
    assert woken == [1, 2, 3, 4]
