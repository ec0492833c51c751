"""Shared runs score nodes only when a decision needs the scores, and the decision is that of a plain run."""

import random

import pytest

from bayplan.core.cluster.state import ClusterState
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.pod_run import PodRun
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.testing.builders import make_node, make_pod

pytestmark = pytest.mark.feature("Sharing: decisions with and without it")


class Room(Plugin):
    """Accepts nodes without the pod `full`."""

    name = "Room"

    def filter(self, cycle, pod, node):
        return "full" if any(other.name == "full" for other in node.pods) else None

    def sign(self, pod):
        return ()


class Label(Plugin):
    """Scores a node by its label, whatever its pods. Has only the per-node form. `scored`: the calls for each node."""

    name, reads_pods = "Label", False

    def __init__(self, broken=""):
        self.scored, self.broken = [], broken

    def score(self, cycle, pod, node):
        self.scored.append(node.name)
        if node.name == self.broken:
            raise ValueError("no score")
        return int(node.labels.get("score", 0))

    def sign(self, pod):
        return ()


class NotOn(Plugin):
    """Rejects the node in the pod's label; shares no results."""

    name = "NotOn"

    def filter(self, cycle, pod, node):
        return "not here" if pod.labels.get("not-on") == node.name else None

    def sign(self, pod):
        return None


class Cluster:
    def __init__(self, scorer, **scores):
        self.profile = Profile("test", {Point.FILTER: [Room(), NotOn()], Point.SCORE: [scorer]})
        self.state, self.sharing = ClusterState(), Sharing(self.profile)
        for name, score in scores.items():
            self.state.set_node(make_node(name, labels={"score": str(score)}))

    def decide(self, name, *, reuse=True, **labels):
        start = self.sharing.start if reuse else PodRun.start
        return decide(self.profile, self.state, make_pod(name, labels=labels), random.Random(0), start=start)


def test_nothing_is_scored_while_one_node_is_feasible():
    scorer = Label()
    cluster = Cluster(scorer, a=1, b=2)
    cluster.state.set_pod(make_pod("full", node="b"))
    assert [cluster.decide(f"p{number}").node for number in range(3)] == ["a"] * 3
    assert (cluster.sharing.used, scorer.scored) == (2, [])


def test_a_row_that_becomes_feasible_gets_its_whole_score():
    cluster = Cluster(Label(), a=1, b=2, c=90)
    cluster.state.set_pod(make_pod("full", node="c"))
    assert [cluster.decide(f"p{number}").node for number in range(3)] == ["b"] * 3
    cluster.state.remove_pod(make_pod("full").uid)
    assert cluster.decide("q").node == "c"


def test_a_row_is_scored_again_after_a_change_of_its_node():
    scorer = Label()
    cluster = Cluster(scorer, a=1, b=2, c=3, d=4)
    assert [cluster.decide(f"p{number}").node for number in range(3)] == ["d"] * 3
    cluster.state.set_node(make_node("a", labels={"score": "5"}))
    scorer.scored.clear()
    assert cluster.decide("q").node == "a"
    assert scorer.scored == ["a"]


def test_a_plugin_that_fails_on_a_node_of_other_pods_does_no_harm():
    cluster = Cluster(Label(broken="c"), a=1, b=2, c=3)
    for number in range(3):
        decision = cluster.decide(f"p{number}", **{"not-on": "c"})
        assert (decision.node, decision.message) == ("b", "")
    failed = [cluster.decide("q", reuse=reuse) for reuse in (True, False)]
    assert failed[0].message == failed[1].message != ""
    assert cluster.sharing.used > 0
