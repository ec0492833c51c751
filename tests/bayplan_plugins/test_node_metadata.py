"""NodeMetadata: upstream's tables, formats of times, changes of nodes, and the contract."""

from datetime import UTC, datetime, timedelta

import pytest
from msgspec.structs import replace
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.plugin import CycleState
from bayplan.testing import ask_scores, check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.node_metadata import NodeMetadata, NodeMetadataArgs

NOW = datetime(2026, 8, 16, 12, tzinfo=UTC)
FIELDS = ("metadataKey", "metadataSource", "metadataType", "scoringStrategy", "timestampFormat")


def arguments(values):
    return NodeMetadataArgs(**dict(zip(FIELDS, values, strict=False)))


def annotated(name, annotations, labels=None):
    made = make_node(name, labels=labels)
    return replace(made, metadata=replace(made.metadata, annotations=annotations))


def node(name, args, value):
    there = {} if value is None else {args.metadataKey: value}
    return make_node(name, labels=there) if args.metadataSource == "Label" else annotated(name, there)


def scores(args, *values):
    nodes = [node(f"n{at}", args, value) for at, value in enumerate(values)]
    return list(ask_scores(NodeMetadata(args), make_pod("p"), make_cluster(*nodes, plugins=[]).state).values())


@cases("case", vectors("node_metadata", "TestCalculateScore"))
def test_upstreams_scores(case):
    plugin = NodeMetadata(arguments(case["args"]))
    made = annotated("node1", case.get("annotations", {}), case.get("labels"))
    nodes = make_cluster(made, plugins=[]).state.nodes
    raw = plugin.score_nodes(CycleState(), make_pod("p"), nodes).tolist()
    assert raw == [-(2**63) if case["score"] is None else case["score"]]


@cases("case", vectors("node_metadata", "TestValidateArgs"))
def test_upstreams_validation(case):
    assert (not list(arguments(case["args"]).faults())) is case["valid"]


@cases("case", vectors("node_metadata", "TestNormalizeScore"))
def test_upstreams_normalization(case):
    hours = [(NOW - timedelta(hours=each)).strftime("%Y-%m-%dT%H:%M:%SZ") for each in case.get("hours", ())]
    values = case.get("values", hours)
    found = scores(arguments(case["args"]), *values)
    if "all" in case:
        assert set(found) == {case["all"]}
        return
    assert sorted(range(len(values)), key=lambda at: -found[at]) == case["order"]
    valid = [score for score, value in zip(found, values, strict=True) if value is not None]
    assert [score for score, value in zip(found, values, strict=True) if value is None] == [0] * values.count(None)
    if len(valid) > 1:
        assert (min(valid), max(valid)) == (1, 100)


def test_each_wrong_argument_is_told():
    only = 'scoringStrategy "Newest" and "Oldest" are only valid for metadataType "Timestamp"'
    faults = [str(fault) for fault in arguments(["", "Taint", "Number", "Newest"]).faults()]
    assert faults == [
        'metadataKey: Invalid value: "": metadataKey cannot be empty',
        'metadataSource: Invalid value: "Taint": metadataSource must be either "Label" or "Annotation"',
        f'scoringStrategy: Invalid value: "Newest": {only}',
    ]


@pytest.mark.parametrize("value", ["nan", "inf", "1__0", " 1", "1e400", "0x", "0x10", "", "12,5", "-", "0x1p9999"])
def test_what_is_no_number_is_no_value(value):
    assert scores(arguments(["cost", "Annotation", "Number", "Lowest"]), value, "7") == [0, 1]


@pytest.mark.parametrize("value", ["1000", "1_000", "1e3", "+1000.9", "0x1.f4p9", "0X_3E8P0"])
def test_numbers_are_read_as_go_reads_them(value):
    assert scores(arguments(["cost", "Annotation", "Number", "Highest"]), value, "900", "1100") == [50, 1, 100]


def test_a_node_that_changes_is_read_again():
    args = arguments(["tier", "Label", "Number", "Highest"])
    cluster = make_cluster(node("a", args, "1"), node("b", args, "2"), node("c", args, "3"), plugins=[])
    plugin = NodeMetadata(args)
    assert list(ask_scores(plugin, make_pod("p"), cluster.state).values()) == [1, 50, 100]
    cluster.state.set_node(node("a", args, "4"))
    cluster.state.remove_node("c")
    cluster.state.set_node(node("d", args, None))
    assert ask_scores(plugin, make_pod("p"), cluster.state) == {"a": 100, "b": 1, "d": 0}


def test_the_contract_holds():
    objects = [annotated("a", {"tier": "1"}), annotated("b", {"tier": "2"}), make_node("c")]
    args = {
        "metadataKey": "tier",
        "metadataSource": "Annotation",
        "metadataType": "Number",
        "scoringStrategy": "Highest",
    }
    check_contract(NodeMetadata, arguments=args, objects=objects, pods=[make_pod("p")], examples=40)
