"""Generating placements with a profile's plugins, and selecting the best one."""

import random
from collections import Counter

import numpy as np
import pytest
from tests.support.tables import cases

from bayplan.core.framework.gangs import Gang, Placement
from bayplan.core.framework.interface import Plugin
from bayplan.core.framework.placements import best_placement, generate_placements
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.framework.status import PluginError, Status
from bayplan.testing.builders import make_cluster, make_node, make_pod

NODES = make_cluster(make_node("a"), make_node("b")).state.nodes
GANG = Gang("red", (make_pod("p"),), 1)
ONE, TWO = (Placement(name, NODES.at(np.array([at]))) for at, name in enumerate(("one", "two")))


class Generator(Plugin):
    name = "Generator"

    def __init__(self, answer):
        self.answer = answer

    def generate_placements(self, gang, nodes):
        assert (gang, nodes) == (GANG, NODES)
        return self.answer


class Scorer(Plugin):
    name = "Scorer"

    def __init__(self, *scores):
        self.scores = dict(zip(("one", "two"), scores, strict=True))

    def score_placement(self, gang, placement, placed):
        assert (gang, placed) == (GANG, [GANG.members[0]])
        return self.scores[placement.name]


class Halving(Scorer):
    name = "Halving"

    def normalize_placement_scores(self, gang, scores):
        return scores // 2


def generated(*answers):
    profile = Profile("test", {Point.PLACEMENT_GENERATE: [Generator(answer) for answer in answers]})
    return generate_placements(profile, GANG, NODES)


def test_first_plugin_generates_the_placements():
    assert generated() is None
    assert generated(None) is None
    assert generated([ONE, TWO], [ONE]) == [ONE, TWO]


REJECTED = {
    "no placements": ([], "no feasible placements found"),
    "status": (Status.unschedulable("not today"), "not today"),
}


@cases("answer, why", REJECTED)
def test_plugin_rejects_the_gang(answer, why):
    status = generated(answer)
    assert (status.message, status.plugin, status.rejected) == (why, "Generator", True)


BROKEN = {
    "error status": (Status.error("oh"), "plugin Generator failed in PlacementGenerate: oh"),
    "wrong type": (["a"], "returned ['a'], expected Placements"),
}


@cases("answer, why", BROKEN)
def test_invalid_placements_raise_plugin_error(answer, why):
    with pytest.raises(PluginError) as error:
        generated(answer)
    assert why in str(error.value)


def best(*scorers, seed=0, **weights):
    profile = Profile("test", {Point.PLACEMENT_SCORE: list(scorers)}, placement_weights=weights)
    found = [(placement, [GANG.members[0]]) for placement in (ONE, TWO)]
    return best_placement(profile, GANG, found, random.Random(seed))


CHOICES = {
    "highest score": ([Scorer(10, 20)], {}, 1),
    "highest sum": ([Scorer(10, 20), Halving(100, 0)], {}, 0),
    "normalized": ([Halving(0, 199), Scorer(50, 50)], {}, 1),
    "weighted": ([Scorer(10, 20), Halving(10, 0)], {"Halving": 3}, 0),
}


@cases("scorers, weights, chosen", CHOICES)
def test_best_placement_has_the_highest_score(scorers, weights, chosen):
    assert best(*scorers, **weights) == chosen


def test_best_placement_breaks_ties_at_random():
    assert Counter(best(Scorer(7, 7), seed=seed) for seed in range(40)).keys() == {0, 1}
    assert Counter(best(seed=seed) for seed in range(40)).keys() == {0, 1}


WRONG = {
    "above 100": (Scorer(0, 101), "it should in the range of [0, 100] after normalizing"),
    "no number": (Scorer(0, "much"), "expected an integer, got 'much'"),
    "error status": (Scorer(0, Status.error("oh")), 'running PlacementScore plugins: plugin "Scorer" failed with: oh'),
}


@cases("scorer, why", WRONG)
def test_invalid_score_raises_plugin_error(scorer, why):
    with pytest.raises(PluginError) as error:
        best(scorer)
    assert why in str(error.value)
