"""In a large cluster, kube-scheduler scores only some of the feasible nodes: answers say how likely the best is."""

import pytest
from bayplan_documents import node, pod

from bayplan.insight import Insight, Snapshot

EXPRESSION = {"key": "gold", "operator": "Exists"}
PREFERS = {
    "nodeAffinity": {
        "preferredDuringSchedulingIgnoredDuringExecution": [
            {"weight": 100, "preference": {"matchExpressions": [EXPRESSION]}}
        ]
    }
}


def nodes(number, gold):
    for place in range(number):
        made = node(f"n-{place:03d}")
        if place in gold:
            made["metadata"]["labels"]["gold"] = "yes"
        yield made


@pytest.fixture(scope="module")
def insight():
    return Insight(Snapshot.of([*nodes(300, {299}), pod("p", "n-000", affinity=PREFERS)]))


def test_explain_says_how_likely_the_best_node_is(insight):
    answer = insight.explain("default/p")

    assert answer.now == "n-299"
    assert answer.sampling.to_dict() == {"feasible": 300, "scored": 144, "best": ["n-299"], "chance": 0.48}
    assert "n-299 is among them in about 48% of its attempts" in " ".join(answer.text().split())


def test_fit_says_how_likely_the_node_is(insight):
    answer = insight.fit([pod("q", affinity=PREFERS)])

    assert [(each.node, each.chance) for each in answer.pods] == [("n-299", 0.48)]
    assert "looks at the node above in about 48% of its attempts" in " ".join(answer.text().split())


def test_best_nodes_that_are_spread_out_are_certain():
    insight = Insight(Snapshot.of([*nodes(300, {0, 100, 200}), pod("p", affinity=PREFERS)]))

    assert insight.explain("default/p").sampling is None


def test_small_clusters_are_scored_whole():
    insight = Insight(Snapshot.of([*nodes(100, {99}), pod("p", affinity=PREFERS)]))

    assert insight.explain("default/p").sampling is None
    assert [each.chance for each in insight.fit([pod("q", affinity=PREFERS)]).pods] == [1.0]
