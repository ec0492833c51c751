import numpy as np

from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.state import ClusterState
from bayplan.testing.builders import make_node, make_pod


def using(name, claim, **fields):
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}, {"name": "scratch", "emptyDir": {}}]
    return make_pod(name, spec={"volumes": volumes}, **fields)


def test_claim_is_in_use_while_its_pods_are_on_existing_nodes():
    state = ClusterState()
    state.set_node(make_node("a"))
    table = state.table
    pods = [using("one", "c", node="a"), using("two", "c", node="a"), using("late", "d", node="later")]
    for pod in pods:
        state.set_pod(pod)

    def claimed(name):
        return table.volumes.claimed(f"default/{name}", table.live)

    assert (claimed("c"), claimed("d"), claimed("none")) == (True, False, False)
    state.set_node(make_node("later"))
    assert claimed("d")
    state.remove_pod(pods[0].uid)
    assert claimed("c")
    state.remove_pod(pods[1].uid)
    assert not claimed("c")
    assert list(table.volumes.pods) == [table.row_of["later"]]


def test_pods_with_volumes_includes_what_ifs():
    state = ClusterState()
    for name in ("a", "b", "c"):
        state.set_node(make_node(name))
    there, plain = using("there", "c", node="a"), make_pod("plain", node="b")
    state.set_pod(there)
    state.set_pod(plain)

    def seen(nodes):
        return {nodes.name(position): [pod.name for pod in pods] for position, pods in nodes.pods_with_volumes()}

    assert seen(state.nodes) == {"a": ["there"]}
    assert seen(state.nodes.at(np.array([1, 0]))) == {"a": ["there"]}
    coming = using("coming", "d")
    changed = state.nodes.changed({0: PodChanges((), (there,)), 2: PodChanges((coming, make_pod("other")), ())})
    assert seen(changed) == {"a": [], "c": ["coming"]}


def test_replace_keeps_the_newer_version_of_a_pod():
    state = ClusterState()
    state.set_node(make_node("a"))
    state.set_pod(using("one", "c", node="a"))
    newer = using("one", "c", node="a", status={"phase": "Running"})
    state.set_pod(newer)
    ((_, pods),) = state.nodes.pods_with_volumes()
    assert pods[0] is newer
