"""Subclasses of in-tree plugins: what their base promises about another method doesn't hold for theirs."""

from collections import Counter

import numpy as np
import pytest
from test_capacity import node, pod

from bayplan.answers.simulation.replicas import Replicas
from bayplan.core.config import parse_configuration
from bayplan.core.config.catalog import in_tree_names, in_tree_plugin
from bayplan.core.framework.interface import NodeNames, Permit, Reserve, Sign
from bayplan.core.framework.profile import FORMS, Point
from bayplan.core.framework.verdicts import Rejections
from bayplan.insight import Insight, Snapshot

VERSION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
TURN = 2
REJECTED = "another node's turn"
NODES = [node(name, "8", **{"kubernetes.io/arch": "amd64"}) for name in ("n1", "n2", "n3")]
SPREAD = {
    "topologySpreadConstraints": [
        {
            "maxSkew": 1,
            "topologyKey": "kubernetes.io/hostname",
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": {"matchLabels": {"app": "web"}},
        }
    ]
}


def turn(nodes):
    """The row whose turn it is: the next one after every two pods in the cluster, which no promise covers."""
    return len(NODES) - 1 - int(nodes.table.pod_count.sum()) // TURN % len(NODES)


def rows(nodes):
    return np.arange(len(nodes.table.live))[nodes.rows]


def score_nodes(self, cycle, pod, nodes):
    return np.where(rows(nodes) == turn(nodes), 100, 0).astype(np.int64)


def score(self, cycle, pod, node):
    return 100 if node.name == f"n{turn(node.among) + 1}" else 0


def normalize_scores(self, cycle, pod, scores, nodes):
    return score_nodes(self, cycle, pod, nodes)


def filter_nodes(self, cycle, pod, nodes):
    return Rejections.where(rows(nodes) != turn(nodes), REJECTED)


def filter_one(self, cycle, pod, node):
    return None if node.name == f"n{turn(node.among) + 1}" else REJECTED


def pre_filter(self, cycle, pod, nodes):
    return NodeNames(frozenset({f"n{turn(nodes) + 1}"}))


OVERRIDES = {
    "score_nodes": {"score_nodes": score_nodes},
    "score": {"score": score},
    "normalize_scores": {"normalize_scores": normalize_scores},
    "filter_nodes": {"filter_nodes": filter_nodes},
    "filter": {"filter": filter_one},
    "pre_filter": {"pre_filter": pre_filter, "filter_nodes": lambda *_: None, "filter": lambda *_: None},
}
POINTS = {
    "score_nodes": Point.SCORE,
    "score": Point.SCORE,
    "normalize_scores": Point.SCORE,
    "filter_nodes": Point.FILTER,
    "filter": Point.FILTER,
    "pre_filter": Point.PRE_FILTER,
}
CASES = [
    (name, method)
    for name in in_tree_names()
    for method, point in POINTS.items()
    if any(issubclass(in_tree_plugin(name), form) for form in FORMS[point])
    and issubclass(in_tree_plugin(name), Sign)
    and not (method == "pre_filter" and issubclass(in_tree_plugin(name), (Reserve, Permit)))
]


def weighted(name, cls):
    """The default profile with a subclass in place of its base, whose scores decide."""
    points = {"enabled": [{"name": "Derived", "weight": 1000}], "disabled": [{"name": name}]}
    return parse_configuration({**VERSION, "profiles": [{"plugins": {"multiPoint": points}}]}), [cls]


def nodes_of(answer):
    return {each.node: sum(each.fits.values()) for each in answer.nodes}


@pytest.mark.parametrize(("name", "method"), CASES)
def test_capacity_places_pods_as_fit_does(name, method):
    base = in_tree_plugin(name)
    configuration, plugins = weighted(name, type("Derived", (base,), {"name": "Derived", **OVERRIDES[method]}))
    template = pod(cpu="100m", **SPREAD)
    asked = Insight(Snapshot.of(NODES), configuration, plugins)
    found = nodes_of(asked.capacity([template], most=8))
    pods = [{**template, "metadata": {**template["metadata"], "name": f"web-{number}"}} for number in range(8)]
    fitted = asked.fit(pods)
    assert found == Counter(each.node for each in fitted.pods)


@pytest.mark.parametrize("name", ["PodTopologySpread", "InterPodAffinity", "NodeAffinity", "ImageLocality"])
def test_subclass_that_changes_nothing_is_as_quick(name, monkeypatch):
    """It inherits all promises: replicas are placed without attempts."""
    configuration, plugins = weighted(name, type("Derived", (in_tree_plugin(name),), {"name": "Derived"}))
    asked, made = Insight(Snapshot.of(NODES), configuration, plugins), []
    original = Replicas.place
    monkeypatch.setattr(Replicas, "place", lambda *arguments: made.append(1) or original(*arguments))
    assert sum(nodes_of(asked.capacity([pod(cpu="100m", **SPREAD)], most=8)).values()) == 8
    assert len(made) >= 6
