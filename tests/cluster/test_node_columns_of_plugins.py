"""Columns that plugins compute: they follow every change of the cluster, and what-ifs."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.core.cluster.node_columns import NodeColumn, pods_with, pods_with_at, pods_with_version
from bayplan.core.cluster.pod_changes import PodChanges
from bayplan.core.cluster.state import ClusterState
from bayplan.testing import make_node, make_pod

CPU = {"app": "web"}


def demand(node):
    """Something of the node and of its pods."""
    return node.allocatable_of("cpu") - sum(pod.requested.get("cpu", 0) for pod in node.pods)


def web(number, node=""):
    return make_pod(f"p{number}", cpu=f"{number + 1}m", node=node, labels=CPU if number % 2 else {})


numbers = st.integers(0, 5)
steps = st.lists(
    st.tuples(st.sampled_from(["set node", "remove node", "add pod", "remove pod", "what if"]), numbers, numbers),
    max_size=25,
)


@settings(max_examples=60, derandomize=True, deadline=None)
@given(steps)
def test_columns_agree_with_what_they_are_computed_of(steps):
    state, column = ClusterState(), NodeColumn(demand, np.int64)
    own = NodeColumn(lambda node: node.allocatable_of("cpu"), np.int64, reads_pods=False)
    for step, one, other in steps:
        nodes = state.nodes
        if step == "set node":
            state.set_node(make_node(f"n{one}", cpu=str(other + 1)))
        elif step == "remove node":
            state.remove_node(f"n{one}")
        elif step == "add pod":
            state.set_pod(web(one, f"n{other}"))
        elif step == "remove pod":
            state.remove_pod(f"default-p{one}")
        elif len(nodes) and nodes.live[one % len(nodes)]:
            nodes = nodes.changed({one % len(nodes): PodChanges(added=(web(other + 10),))})
            check(nodes, column, own)
            continue
        check(state.nodes, column, own)


def check(nodes, column, own):
    live = np.flatnonzero(nodes.live).tolist()
    found, kept, counts = column.of(nodes), own.of(nodes), pods_with(CPU, nodes)
    assert [found.item(at) for at in live] == [demand(nodes.info(at)) for at in live]
    assert [column.at(nodes.info(at)) for at in live] == [found.item(at) for at in live]
    assert [kept.item(at) for at in live] == [nodes.info(at).allocatable_of("cpu") for at in live]
    matching = [sum(pod.labels == CPU for pod in nodes.pods(at)) for at in live]
    assert [counts.item(at) for at in live] == matching
    assert [pods_with_at(CPU, nodes.info(at)) for at in live] == matching
    assert not found.flags.writeable
    assert not counts.flags.writeable


@settings(max_examples=60, derandomize=True, deadline=None)
@given(steps)
def test_an_equal_version_means_equal_counts(steps):
    state, seen = ClusterState(), {}
    for number in range(3):
        state.set_node(make_node(f"n{number}"))
    for step, one, other in steps:
        if step == "remove pod":
            state.remove_pod(f"default-p{one}")
        elif step != "what if":
            state.set_pod(web(one, f"n{other % 3}"))
        counts = pods_with(CPU, state.nodes).tolist()
        assert seen.setdefault(pods_with_version(CPU, state.nodes), counts) == counts


def test_pods_with_other_labels_make_no_other_version():
    state = ClusterState()
    state.set_node(make_node("n"))
    state.set_pod(web(1, "n"))
    for _ in range(2):
        before = pods_with_version(CPU, state.nodes)
        state.set_pod(web(2, "n"))
        state.remove_pod("default-p2")
    assert pods_with_version(CPU, state.nodes) == before
    state.set_pod(web(3, "n"))
    assert pods_with_version(CPU, state.nodes) != before


def test_a_column_is_computed_where_something_changed_only():
    seen = []
    column = NodeColumn(lambda node: seen.append(node.name) or len(seen), np.int64)
    state = ClusterState()
    for name in "abc":
        state.set_node(make_node(name))
    assert column.of(state.nodes).tolist() == [1, 2, 3]
    state.set_pod(web(1, "b"))
    assert column.of(state.nodes).tolist() == [1, 4, 3]
    column.again(lambda values: values > 2)
    assert column.of(state.nodes).tolist() == [1, 5, 6]
    column.again()
    assert column.of(state.nodes).tolist() == [7, 8, 9]
    assert column.of(state.nodes.at(np.array([2, 0]))).tolist() == [9, 7]
    assert seen == ["a", "b", "c", "b", "b", "c", "a", "b", "c"]
