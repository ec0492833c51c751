"""How a profile's plugins name placements, and choose among them."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pytest

from bayplan.framework.interface import Gang, Placement, Plugin
from bayplan.framework.placements import best_placement, generate_placements
from bayplan.framework.profile import Point, Profile
from bayplan.framework.status import PluginError, Status
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


def test_placements_are_named_by_the_first_plugin():
    assert generated() is None
    assert generated(None) is None
    assert generated([ONE, TWO], [ONE]) == [ONE, TWO]


REFUSED = {
    "none": ([], "no feasible placements found"),
    "for a reason": (Status.unschedulable("not today"), "not today"),
}


@pytest.mark.parametrize(("answer", "why"), REFUSED.values(), ids=REFUSED)
def test_a_gang_may_be_nowhere(answer, why):
    status = generated(answer)
    assert (status.message, status.plugin, status.rejected) == (why, "Generator", True)


BROKEN = {
    "an error": (Status.error("oh"), "plugin Generator failed in PlacementGenerate: oh"),
    "what is no placement": (["a"], "answered ['a'], expected Placements"),
}


@pytest.mark.parametrize(("answer", "why"), BROKEN.values(), ids=BROKEN)
def test_a_plugin_that_cannot_say(answer, why):
    with pytest.raises(PluginError) as error:
        generated(answer)
    assert why in str(error.value)


def best(*scorers, seed=0, **weights):
    profile = Profile("test", {Point.PLACEMENT_SCORE: list(scorers)}, placement_weights=weights)
    found = [(placement, [GANG.members[0]]) for placement in (ONE, TWO)]
    return best_placement(profile, GANG, found, random.Random(seed))


CHOICES = {
    "the highest score": ([Scorer(10, 20)], {}, 1),
    "the highest sum": ([Scorer(10, 20), Halving(100, 0)], {}, 0),
    "after normalisation": ([Halving(0, 199), Scorer(50, 50)], {}, 1),
    "by weight": ([Scorer(10, 20), Halving(10, 0)], {"Halving": 3}, 0),
}


@pytest.mark.parametrize(("scorers", "weights", "chosen"), CHOICES.values(), ids=CHOICES)
def test_the_best_placement(scorers, weights, chosen):
    assert best(*scorers, **weights) == chosen


def test_among_equal_ones_any():
    assert Counter(best(Scorer(7, 7), seed=seed) for seed in range(40)).keys() == {0, 1}
    assert Counter(best(seed=seed) for seed in range(40)).keys() == {0, 1}


WRONG = {
    "above 100": (Scorer(0, 101), "scores must be 0 to 100"),
    "no number": (Scorer(0, "much"), "expected an integer, got 'much'"),
    "an error": (Scorer(0, Status.error("oh")), "plugin Scorer failed in PlacementScore: oh"),
}


@pytest.mark.parametrize(("scorer", "why"), WRONG.values(), ids=WRONG)
def test_a_score_that_is_none(scorer, why):
    with pytest.raises(PluginError) as error:
        best(scorer)
    assert why in str(error.value)
