"""The log lines about a decision at each level."""

import json
import logging

import pytest

from bayplan.core.executor import explanations
from bayplan.core.executor.explanations import explain, scores_wanted
from bayplan.core.scheduling import decide
from bayplan.faces.cli.run_logging import JsonLines
from bayplan.foundations.log_fields import SCORES
from bayplan.testing.builders import make_cluster, make_node, make_pod

LOGGER = "bayplan.core.executor.explanations"
CLUSTER = make_cluster(
    make_node("a", cpu="2"),
    make_node("b", cpu="8"),
    *(make_node(f"full-{number}", cpu="100m") for number in range(3)),
    make_node("closed", unschedulable=True),
)
TURNED_DOWN = [
    "pod default/p: NodeUnschedulable rejected node closed: node(s) were unschedulable",
    "pod default/p: NodeResourcesFit rejected 3 nodes (full-0, full-1, full-2): Insufficient cpu",
]


class AlwaysFirst:
    def choice(self, values):
        return values[0]


def explained(pod, caplog, level):
    """The lines about a decision in the cluster."""
    caplog.set_level(level, LOGGER)
    explain(decide(CLUSTER.profile, CLUSTER.state, pod, AlwaysFirst()), CLUSTER.state.table)
    return [record.getMessage() for record in caplog.records]


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG], ids=logging.getLevelName)
def test_nothing_is_logged_about_a_pod_that_fits(level, caplog):
    assert explained(make_pod("p", cpu="1"), caplog, level) == []
    assert not scores_wanted()


def test_nothing_is_logged_at_lower_levels(caplog):
    assert explained(make_pod("p", cpu="100"), caplog, logging.INFO) == []


def test_rejected_nodes_are_logged_by_plugin_and_reason(caplog):
    assert explained(make_pod("p", cpu="100"), caplog, logging.DEBUG) == [
        TURNED_DOWN[0],
        "pod default/p: NodeResourcesFit rejected 5 nodes (a, b, full-0, full-1, full-2): Insufficient cpu",
    ]


def test_only_some_of_many_nodes_are_named(caplog, monkeypatch):
    monkeypatch.setattr(explanations, "MOST_NODES", 2)
    assert explained(make_pod("p", cpu="100"), caplog, logging.DEBUG)[1:] == [
        "pod default/p: NodeResourcesFit rejected 5 nodes (a, b and 3 more): Insufficient cpu"
    ]


def test_scores_by_plugin_best_first(caplog):
    first, second, best, other = explained(make_pod("p", cpu="1"), caplog, SCORES)
    assert scores_wanted()
    assert [first, second] == TURNED_DOWN
    assert best.startswith("pod default/p: node b scores ")
    assert other.startswith("pod default/p: node a scores ")
    line = json.loads(JsonLines().format(caplog.records[2]))
    assert (line["pod"], line["node"]) == ({"name": "p", "namespace": "default"}, {"name": "b"})
    assert line["v"] == 10
    assert line["scores"]["TaintToleration"] == 300
    assert sum(line["scores"].values()) == line["score"]


def test_the_only_node_has_no_score(caplog):
    assert explained(make_pod("p", cpu="4"), caplog, SCORES)[2:] == ["pod default/p: only node b is feasible"]
