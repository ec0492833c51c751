"""NodeMetadata: upstream's tables, Go's layouts of times, and the contract."""

from datetime import UTC, datetime, timedelta

import pytest
from tests.support.tables import cases
from tests.support.vectors import vectors

from bayplan.plugin import CycleState
from bayplan.testing import ask_scores, check_contract, make_cluster, make_node, make_pod
from bayplan_plugins.node_metadata.layouts import InvalidTime, parse
from bayplan_plugins.node_metadata.plugin import INVALID, NodeMetadata, NodeMetadataArgs

NOW = datetime(2026, 1, 9, tzinfo=UTC)
KEY = "example.com/value"


def written(value):
    """A value as metadata has it."""
    if value.endswith("h"):
        return (NOW + timedelta(hours=int(value[:-1]))).strftime("%Y-%m-%dT%H:%M:%SZ")
    return value


def plugin(args, key=KEY, layout=""):
    source, type_, strategy = args
    return NodeMetadata(
        NodeMetadataArgs(
            metadataKey=key, metadataSource=source, metadataType=type_, scoringStrategy=strategy, timestampFormat=layout
        )
    )


def node(name, value=None):
    """A node with a value in a label and an annotation."""
    made = make_node(name)
    if value is not None:
        made.metadata.labels[KEY] = value
        made.metadata.annotations = {KEY: value}
    return made


def raw_score(case):
    cluster = make_cluster(node("n", written(case["value"]) if "value" in case else None))
    return plugin(case["args"]).score(CycleState(), make_pod("p"), cluster.state.nodes.info(0))


@cases(
    "case", vectors("node_metadata", "TestCalculateScore") | vectors("node_metadata", "TestNewDefaultsTimestampFormat")
)
def test_raw_scores(case):
    found = raw_score(case)
    if "score" in case:
        assert found == case["score"]
    else:
        assert (found != INVALID) is case["valid"]


@cases("case", vectors("node_metadata", "TestValidateArgs"))
def test_arguments(case):
    source, type_, strategy = case["args"]
    args = NodeMetadataArgs(
        metadataKey=case.get("key", ""),
        metadataSource=source,
        metadataType=type_,
        scoringStrategy=strategy,
        timestampFormat=case.get("format", ""),
    )
    assert (not list(args.faults())) is case["valid"]


@cases("case", vectors("node_metadata", "TestNormalizeScore"))
def test_normalized_scores(case):
    values = case["values"]
    nodes = [node(f"n{each}", None if value == "-" else written(value)) for each, value in enumerate(values)]
    scores = list(ask_scores(plugin(case["args"]), make_pod("p"), make_cluster(*nodes).state).values())
    if "score" in case:
        assert set(scores) == {case["score"]}
    else:
        ranked = sorted(zip(scores, values, strict=True), key=lambda each: -each[0])
        assert [value for _, value in ranked] == case["order"]
        assert (max(scores), min(scores)) == (1 if values.count("-") == 2 else 100, 0 if "-" in values else 1)


def test_a_strategy_for_the_other_type_is_told():
    args = NodeMetadataArgs(metadataKey=KEY, metadataSource="Label", metadataType="Timestamp", scoringStrategy="Lowest")
    (fault,) = args.faults()
    assert fault.path == "scoringStrategy"
    assert fault.message.endswith('"Highest" and "Lowest" are only valid for metadataType "Number"')


@pytest.mark.parametrize("text", ["inf", "nan", "1e400", "9223372036854775808", "1_000", "", " 1"])
def test_odd_numbers_are_not_valid(text):
    assert raw_score({"args": ["Label", "Number", "Highest"], "value": text}) == INVALID


def at(hour, minute=0, second=0, microsecond=0):
    return datetime(2026, 2, 3, hour, minute, second, microsecond, tzinfo=UTC)


@pytest.mark.parametrize(
    ("layout", "text", "moment"),
    [
        ("2006-01-02T15:04:05Z07:00", "2026-02-03T04:05:06Z", at(4, 5, 6)),
        (
            "2006-01-02T15:04:05Z07:00",
            "2026-02-03T04:05:06.25+01:30",
            at(2, 35, 6, 250000),
        ),
        ("2006-01-02 15:04:05", "2026-02-03 04:05:06", at(4, 5, 6)),
        (
            "Mon, 02 Jan 2006 15:04:05 -0700",
            "Tue, 03 Feb 2026 04:05:06 -0100",
            at(5, 5, 6),
        ),
        ("Jan _2 3:04PM 06", "Feb  3 4:05PM 26", at(16, 5)),
        ("20060102", "20260203", at(0)),
        ("2006.01.02 15h04 05.000", "2026.02.03 04h05 06.500", at(4, 5, 6, 500000)),
    ],
)
def test_times_are_read_in_gos_layouts(layout, text, moment):
    assert parse(layout, text) == moment


@pytest.mark.parametrize(
    "text", ["", "2026-13-01 00:00:00", "2026-02-30 00:00:00", "2026-02-03", "٢٠٢٦-02-03 00:00:00"]
)
def test_other_texts_are_no_times(text):
    with pytest.raises(InvalidTime):
        parse("2006-01-02 15:04:05", text)


def test_the_contract_holds():
    nodes = [node("a", "1"), node("b", "2"), node("c")]
    check_contract(plugin(["Label", "Number", "Highest"]), objects=nodes, examples=30)
