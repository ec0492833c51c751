from __future__ import annotations

import numpy as np
import pytest

from bayplan.api.quantity import InvalidQuantity
from bayplan.cluster.columns import CodedColumn
from bayplan.cluster.node_table import NO_PRIORITY, NodeTable
from bayplan.cluster.nodes import Nodes, PodChanges
from bayplan.cluster.pod_info import HostPort
from bayplan.testing.builders import make_node, make_pod

GPU = "example.com/gpu"


@pytest.fixture
def table():
    table = NodeTable(capacity=2)
    for name in ("a", "b", "c"):
        table.set_node(make_node(name, labels={"zone": name}))
    return table


def test_growing_keeps_the_values_of_rows(table):
    nodes = Nodes(table)
    assert [nodes.name(row) for row in range(len(nodes))] == ["a", "b", "c"]
    assert nodes.allocatable("cpu").tolist() == [4000] * 3
    assert table.capacity == 4


def test_new_resource_has_a_column_for_all_nodes(table):
    assert Nodes(table).allocatable(GPU).tolist() == [0, 0, 0]
    table.set_node(make_node("b", resources={GPU: "2"}))
    table.add_pod(make_pod("p", node="c", resources={"example.com/other": "1"}))
    assert Nodes(table).allocatable(GPU).tolist() == [0, 2, 0]
    assert Nodes(table).requested("example.com/other").tolist() == [0, 0, 1]


def test_deleted_node_keeps_its_pods_and_its_row(table):
    pod = make_pod("p", cpu="1", node="b")
    table.add_pod(pod)
    table.remove_node("b")
    assert (table.live_count, Nodes(table).live.tolist()) == (2, [True, False, True])
    assert Nodes(table).position("b") is None
    table.set_node(make_node("b"))
    assert Nodes(table).requested("cpu")[1] == 1000


def test_row_without_node_and_pods_is_reused(table):
    pod = make_pod("p", node="b")
    table.add_pod(pod)
    table.remove_node("b")
    table.remove_pod(pod.uid)
    assert table.set_node(make_node("d", labels={"zone": "d"})) == 1
    assert Nodes(table).label_in("zone", {"b"}).tolist() == [False, False, False]
    assert table.size == 3


def test_pod_may_be_added_before_its_node():
    table = NodeTable()
    table.add_pod(make_pod("p", cpu="1", node="late"))
    assert not Nodes(table).live[0]
    table.set_node(make_node("late"))
    assert Nodes(table).pods(0)[0].name == "p"


def test_invalid_node_leaves_the_table_unchanged(table):
    before = table.version
    broken = make_node("a")
    broken.status.allocatable["cpu"] = "lots"
    with pytest.raises(InvalidQuantity):
        table.set_node(broken)
    assert table.version == before
    assert Nodes(table).allocatable("cpu")[0] == 4000


def test_changed_since_returns_the_changed_rows(table):
    version = table.version
    assert table.changed_since(version).tolist() == []
    table.add_pod(make_pod("p", node="c"))
    table.set_node(make_node("a"))
    table.set_node(make_node("c"))
    assert table.changed_since(version).tolist() == [0, 2]
    for _ in range(100):
        table.set_node(make_node("a"))
    assert table.changed_since(version) is None
    assert table.changed_since(table.version - 1).tolist() == [0]


def test_allocatable_range_follows_the_nodes(table):
    assert table.allocatable_range("cpu") == (4000, 4000)
    table.set_node(make_node("a", cpu="1"))
    assert table.allocatable_range("cpu") == (1000, 4000)
    table.remove_node("b")
    assert table.allocatable_range("cpu") == (0, 4000)
    assert table.allocatable_range("example.com/never") == (0, 0)


def test_image_column_counts_its_nodes(table):
    table.set_node(make_node("a", images={"i:1": 5}))
    table.set_node(make_node("b", images={"i:1": 7}))
    assert (table.images["i:1"].size, table.images["i:1"].nodes) == (5, 2)
    table.set_node(make_node("a"))
    assert table.images["i:1"].nodes == 1
    table.remove_node("b")
    assert "i:1" not in table.images


def test_label_column_is_created_at_first_use_and_kept_up_to_date(table):
    assert Nodes(table).label_in("zone", {"a", "c", "x"}).tolist() == [True, False, True]
    table.set_node(make_node("b", labels={"zone": "x"}))
    assert Nodes(table).label_in("zone", {"a", "c", "x"}).tolist() == [True, True, True]
    assert Nodes(table).has_label("rack").tolist() == [False, False, False]
    assert Nodes(table).label_where("zone", lambda value: value is not None and value > "b").tolist() == [
        False,
        True,
        True,
    ]


def test_selection_keeps_order_and_what_ifs(table):
    chosen = Nodes(table).changed({0: PodChanges(added=(make_pod("p", cpu="1"),))}).at(np.array([2, 0]))
    assert [chosen.name(position) for position in range(len(chosen))] == ["c", "a"]
    assert chosen.requested("cpu").tolist() == [0, 1000]
    assert (chosen.position("a"), chosen.position("b")) == (1, None)
    assert chosen.at(np.array([1])).pod_count.tolist() == [1]


def test_what_ifs_change_the_view_only(table):
    there = make_pod("there", cpu="2", node="a", host_ports=[80])
    table.add_pod(there)
    wanted = HostPort("0.0.0.0", "TCP", 80)
    what_if = Nodes(table).changed(
        {0: PodChanges(removed=(there,)), 1: PodChanges(added=(make_pod("p", cpu="1", host_ports=[80]),))}
    )
    assert what_if.requested("cpu").tolist() == [0, 1000, 0]
    assert what_if.nonzero_requested("memory").tolist() == [0, 200 * 2**20, 0]
    assert what_if.port_conflicts(wanted).tolist() == [False, True, False]
    assert what_if.info(0).requested["cpu"] == 0
    assert Nodes(table).requested("cpu").tolist() == [2000, 0, 0]
    assert Nodes(table).port_conflicts(wanted).tolist() == [True, False, False]


def test_codes_are_never_reused():
    column = CodedColumn(2, None)
    column.set(0, "a")
    column.set(0, "b")
    assert (column.code("a"), column.code("b"), column.code("c")) == (1, 2, -1)
    assert column.isin(["a"], slice(0, 2)).tolist() == [False, False]


def test_removed_pods_are_restored_one_by_one(table):
    pods = [make_pod(f"p{number}", cpu=str(number + 1), node="a") for number in range(3)]
    for pod in pods:
        table.add_pod(pod)
    added = make_pod("new", cpu="5", memory="1Gi")
    changes = PodChanges((added,), pods)
    what_if = Nodes(table).changed({0: changes})

    def seen():
        return what_if.pods(0), what_if.requested("cpu")[0], what_if.info(0).requested_of("cpu"), what_if.pod_count[0]

    assert seen() == ([added], 5000, 5000, 1)
    changes.restore(pods[1])
    assert seen() == ([pods[1], added], 7000, 7000, 2)
    changes.restore(pods[2])
    changes.remove(pods[1])
    assert seen() == ([pods[2], added], 8000, 8000, 2)
    assert what_if.requested("memory").tolist() == [2**30, 0, 0]


def test_lowest_priority_follows_the_pods(table):
    assert set(table.lowest_priority[:3].tolist()) == {NO_PRIORITY}
    pods = [make_pod(f"p{priority}", priority=priority, node="a") for priority in (5, -3, 7)]
    lowest = []
    for pod in pods:
        table.add_pod(pod)
        lowest.append(int(table.lowest_priority[0]))
    for pod in (pods[2], pods[1], pods[0]):
        table.remove_pod(pod.uid)
        lowest.append(int(table.lowest_priority[0]))
    assert lowest == [5, -3, -3, -3, 5, NO_PRIORITY]
    for number in range(100):  # the columns grow
        table.add_pod(make_pod(f"q{number}", priority=number, node=f"n{number}"))
    assert table.lowest_priority[table.row_of["n99"]] == 99
    assert table.lowest_priority[table.size :].min() == NO_PRIORITY
