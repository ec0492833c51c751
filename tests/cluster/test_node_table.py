from itertools import chain

import numpy as np
import pytest
from tests.support.tables import cases

from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.cluster import node_table
from bayplan.core.cluster.columns import CodedColumn
from bayplan.core.cluster.host_ports import conflicts_with
from bayplan.core.cluster.node_table import NO_PRIORITY, NodeTable
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_changes import PodChanges, Removals
from bayplan.core.cluster.pod_info import HostPort
from bayplan.testing.builders import make_node, make_pod

GPU = "example.com/gpu"


@pytest.fixture
def table(monkeypatch):
    monkeypatch.setattr(node_table, "INITIAL_CAPACITY", 2)
    table = NodeTable()
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
    assert table.changed_since(version) == []
    table.add_pod(make_pod("p", node="c"))
    table.set_node(make_node("a"))
    table.set_node(make_node("c"))
    assert table.changed_since(version) == [0, 2]
    for _ in range(100):
        table.set_node(make_node("a"))
    assert table.changed_since(version) is None
    assert table.changed_since(table.version - 1) == [0]


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


def test_scores_assume_defaults_for_a_container_without_amounts_whose_resize_is_infeasible():
    pending = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    main = {"name": "main", "image": "", "imageID": "", "ready": True, "restartCount": 0, "resources": {}}
    pod = make_pod("p", cpu="1", memory="8Gi", status={"conditions": [pending], "containerStatuses": [main]})
    assert (pod.requested, pod.nonzero_cpu, pod.nonzero_memory) == ({}, 100, 200 * 2**20)


def test_a_victim_of_a_dry_run_frees_its_ports_even_if_another_pod_uses_them(table):
    low, high = (make_pod(name, node="a", host_ports=[80]) for name in ("low", "high"))
    table.add_pod(low)
    table.add_pod(high)
    wanted = HostPort("0.0.0.0", "TCP", 80)
    assert Nodes(table).changed({0: PodChanges(removed=(low,))}).port_conflicts(wanted).tolist() == [True, False, False]
    assert not Nodes(table).changed(Removals([[low], [], []])).port_conflicts(wanted).any()
    added = Removals([[low]])[0].adding([make_pod("nominated", host_ports=[80])])
    assert Nodes(table).changed({0: added}).port_conflicts(wanted).tolist() == [True, False, False]


HOST, OTHER = "10.0.0.1", "10.0.0.2"


@cases(
    "wanted, used, conflict",
    {
        "the same address": ((HOST, "TCP", 80), (HOST, "TCP", 80), True),
        "another address": ((HOST, "TCP", 80), (OTHER, "TCP", 80), False),
        "all addresses are used": ((HOST, "TCP", 80), ("0.0.0.0", "TCP", 80), True),
        "all addresses are wanted": (("0.0.0.0", "TCP", 80), (HOST, "TCP", 80), True),
        "another port": (("0.0.0.0", "TCP", 81), (HOST, "TCP", 80), False),
        "another protocol": (("0.0.0.0", "UDP", 80), (HOST, "TCP", 80), False),
    },
)
def test_host_ports_conflict_on_the_node_and_in_what_ifs_alike(table, wanted, used, conflict):
    wanted = HostPort(*wanted)
    ip, protocol, port = used
    ports = [{"hostIP": ip, "hostPort": port, "containerPort": port, "protocol": protocol}] * 2
    users = [
        make_pod(name, node=node, spec={"containers": [{"name": "c", "image": "i", "ports": ports}]})
        for name, node in (("a", "a"), ("b", "b"), ("also-b", "b"))
    ]
    for user in users:
        table.add_pod(user)
    nodes = Nodes(table)
    assert (nodes.port_conflicts(wanted) is not None and nodes.port_conflicts(wanted).tolist()) == (
        conflict and [True, True, False]
    )
    changes = {0: PodChanges(removed=users[:1]), 1: PodChanges(removed=users[2:]), 2: PodChanges(added=users[:1])}
    for what_if, expected in ((changes, [False, True, True]), (Removals([users[:1], users[1:], []]), [False] * 3)):
        assert nodes.changed(what_if).port_conflicts(wanted).tolist() == [conflict and each for each in expected]
    assert bool(conflicts_with(wanted, users[0].host_ports)) is conflict


def test_value_without_rows_keeps_its_code_until_there_are_many():
    column = CodedColumn(2, None)
    column.set(0, "a")
    column.set(0, "b")
    assert (column.code("a"), column.code("b"), column.code("c")) == (1, 2, -1)
    assert column.isin(["a"], slice(0, 2)).tolist() == [False, False]
    column.set(1, "a")
    for number in range(1000):
        column.set(0, f"v{number}")
        assert len(column.values) <= 2 * 2 + 65
        assert column.where(lambda value: value == "a", slice(0, 2)).tolist() == [False, True]
        assert column.isin([f"v{number}"], slice(0, 2)).tolist() == [True, False]
        assert column.isin([f"v{each}" for each in range(number + 1)], slice(0, 2)).tolist() == [True, False]
        assert column.values[column.frozen(2)[0]] == f"v{number}"


def test_removed_pods_are_restored_turn_by_turn(table):
    pods = {
        name: [make_pod(f"{name}{n}", cpu=str(n + 1), node=name) for n in range(size)]
        for name, size in (("a", 2), ("b", 2), ("c", 1))
    }
    for pod in chain.from_iterable(pods.values()):
        table.add_pod(pod)
    removals = Removals(list(pods.values()))
    what_if = Nodes(table).changed(removals)

    def ending_in_1(pods):
        return [pod.name.endswith("1") for pod in pods]

    def seen():
        columns = what_if.requested("cpu"), what_if.pod_count, what_if.counted(ending_in_1)
        alone = [what_if.info(position) for position in range(3)]
        assert [each.requested_of("cpu") for each in alone] == columns[0].tolist()
        assert [each.pod_count for each in alone] == columns[1].tolist()
        return [[pod.name for pod in what_if.pods(n)] for n in range(3)], *(column.tolist() for column in columns)

    assert seen() == ([[], [], []], [0, 0, 0], [0, 0, 0], [-1, -1, 0])
    removals.removed[[1, 3]] = False
    assert seen() == ([["a1"], ["b1"], []], [2000, 2000, 0], [1, 1, 0], [0, 0, 0])
    removals.removed[removals.starts] = False
    removals.removed[1] = True
    assert seen() == ([["a0"], ["b0", "b1"], ["c0"]], [1000, 3000, 1000], [1, 2, 1], [-1, 0, 0])
    other = what_if.changed(removals.ordered(np.array([1, 0, 3, 2, 4])))
    assert other.requested("cpu").tolist() == [0, 0, 0]
    other.changes.removed[removals.starts] = False
    assert [[pod.name for pod in other.pods(n)] for n in range(3)] == [["a1"], ["b1"], ["c0"]]
    assert other.requested("cpu").tolist() == [2000, 2000, 1000]
    last = what_if.at(np.array([2, 0]))
    removals.removed[removals.starts] = True  # the selection has a copy
    assert (last.requested("cpu").tolist(), last.pods(0), last.pods(1)) == ([1000, 1000], pods["c"], pods["a"][:1])


@pytest.mark.parametrize("chosen", [[0], [1], [2], [3, 1], [0, 2], [2, 3, 1, 0]], ids=str)
def test_what_ifs_of_some_nodes_are_independent_of_those_of_the_others(table, chosen):
    sizes = {"a": 5, "b": 0, "c": 2, "d": 1}
    pods = [[make_pod(f"{name}{n}", cpu=str(n + 1), node=name) for n in range(sizes[name])] for name in sizes]
    table.set_node(make_node("d"))
    for pod in chain.from_iterable(pods):
        table.add_pod(pod)
    rows = np.array([table.row_of[name] for name in sizes])
    every = Nodes(table, rows, Removals(pods))
    assert every.requested("cpu").tolist() == [0, 0, 0, 0]  # their amounts are known now
    some = every.at(np.array(chosen, dtype=np.intp))
    newest_first = [index for pods in some.changes.pods for index in range(len(pods))[::-1]]
    starts = np.repeat(some.changes.starts, some.changes.sizes)
    reversed_ = some.changed(some.changes.ordered(starts + np.array(newest_first, dtype=np.intp)))
    kept = reversed_.changes
    kept.removed[kept.starts[kept.sizes > 0]] = False
    assert reversed_.requested("cpu").tolist() == [len(pods[number]) * 1000 for number in chosen]
    assert reversed_.pod_count.tolist() == [min(len(pods[number]), 1) for number in chosen]


def test_what_ifs_beyond_64_bits_wrap_as_the_table_does(table):
    table.set_node(make_node("a", cpu="10E", memory="100Ei"))
    huge = [make_pod(name, cpu="10E", memory="100Ei", node="a") for name in ("one", "two", "three")]
    for pod in huge:
        table.add_pod(pod)
    for what_if in ({0: PodChanges(removed=huge)}, Removals([huge, [], []])):
        assert Nodes(table).changed(what_if).requested("memory").tolist() == [0, 0, 0]
    adding = Nodes(table).changed({1: PodChanges(added=huge)})
    assert adding.requested("memory")[1] == Nodes(table).requested("memory")[0]


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


def test_amounts_beyond_64_bits_saturate_and_pods_are_removed_again(table):
    table.set_node(make_node("a", cpu="10E", memory="100Ei", pods="99999999999999999999"))
    huge = [make_pod(name, cpu="10E", memory="100Ei", node="a") for name in ("one", "two", "three")]
    before = table.requested.copy()
    for pod in huge:
        table.add_pod(pod)
    assert table.allocatable[:2, table.row_of["a"]].tolist() == [2**63 - 1] * 2
    assert table.allowed_pods[table.row_of["a"]] == 2**63 - 1
    for pod in huge:
        table.remove_pod(pod.uid)
    assert (table.requested == before).all()


def test_unknown_label_makes_no_column(table):
    for number in range(100):
        assert not Nodes(table).has_label(f"key-{number}").any()
        assert not Nodes(table).label_in(f"key-{number}", {"a"}).any()
    assert not table._labels


def test_label_column_is_dropped_with_its_last_node(table):
    table.set_node(make_node("a", labels={"pool": "x"}))
    table.set_node(make_node("b", labels={"pool": "y"}))
    assert Nodes(table).label_in("pool", {"x"}).tolist() == [True, False, False]
    table.set_node(make_node("a"))
    assert Nodes(table).label_in("pool", {"x", "y"}).tolist() == [False, True, False]
    table.remove_node("b")
    assert not Nodes(table).has_label("pool").any()
    assert "pool" not in table._labels
    assert table._label_counts == {"kubernetes.io/hostname": 2, "zone": 1}


def test_deleted_nodes_leave_no_names():
    table = NodeTable()
    table.set_node(make_node("stays"))
    Nodes(table).label_in("kubernetes.io/hostname", {"stays"})
    for number in range(2000):
        table.set_node(make_node(f"n{number}", labels={f"key-{number}": "a"}, taints=[f"t{number}:NoSchedule"]))
        Nodes(table).has_label(f"key-{number}")
        table.remove_node(f"n{number}")
    assert (table.size, len(table.names), len(table._labels)) == (1, 1, 1)
    assert len(table.labels("kubernetes.io/hostname").values) <= 70
    assert len(table.taints.values) <= 70
    assert Nodes(table).label_in("kubernetes.io/hostname", {"stays"}).tolist() == [True]


def test_rows_are_released_when_a_node_changes(table):
    pod = make_pod("p", node="unknown")
    table.add_pod(pod)
    table.remove_pod(pod.uid)
    assert table.size == 4
    version = table.version
    table.set_node(make_node("a"))
    assert (table.size, table.changed_since(version - 2)) == (3, [0])
    for name in "cba":
        table.remove_node(name)
    assert (table.size, table.row_of, table.pods) == (0, {}, [])


def test_unused_resources_are_released(table):
    table.set_node(make_node("c", resources={GPU: "2"}))
    pods = [make_pod(f"p{n}", node="b", resources={f"example.com/r{n}": "3", GPU: "1"}) for n in range(40)]
    for pod in pods:
        table.add_pod(pod)
    assert Nodes(table).requested("example.com/r7").tolist() == [0, 3, 0]
    assert Nodes(table).requested(GPU).tolist() == [0, 40, 0]
    for pod in pods:
        table.remove_pod(pod.uid)
    assert list(table.resources) == ["cpu", "memory", "ephemeral-storage", GPU]
    assert len(table.allocatable) == len(table.requested) <= 16
    assert Nodes(table).allocatable(GPU).tolist() == [0, 0, 2]
    assert Nodes(table).requested(GPU).tolist() == [0, 0, 0]
    table.set_node(make_node("c"))
    assert len(table.resources) == 3
    table.add_pod(make_pod("zero", node="b", resources={"example.com/zero": "0"}))
    assert len(table.resources) == 3


def test_unused_host_ports_are_released(table):
    pods = [make_pod(f"p{port}", node="b", host_ports=[port]) for port in range(8000, 8100)]
    for pod in pods:
        table.add_pod(pod)
    wanted = HostPort("127.0.0.1", "TCP", 8042)
    assert Nodes(table).port_conflicts(wanted).tolist() == [False, True, False]
    for pod in pods:
        table.remove_pod(pod.uid)
    assert not table.ports
    assert Nodes(table).port_conflicts(wanted) is None
