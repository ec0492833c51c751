"""What the answers foretell is what a scheduler then does on an API server.

BAYPLAN_TRUTH_CLUSTERS=330 runs each test on so many clusters.
"""

from __future__ import annotations

import os

import pytest
from small_clusters import FirstChoice, Maker, members_of_larger_gangs, really

from bayplan.insight import Insight, Snapshot


def asked(objects):
    insight = Insight(Snapshot.of(objects))
    insight.world.rng = FirstChoice()
    return insight


def name_of(key):
    return key.partition("/")[2]


def identity(document):
    return document["kind"], document["metadata"]["name"]


def seeds(count):
    return range(int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", count)))


@pytest.mark.parametrize("seed", seeds(60))
def test_fit_foretells_what_the_scheduler_does(seed):
    make = Maker(seed)
    cluster, units = make.cluster(), make.file()

    answer = asked(cluster).fit([document for unit in units for document in unit])

    nodes, notes = really(cluster, units)
    foretold = {name_of(each.pod): each.node for each in answer.pods}
    assert foretold == {name: nodes.get(name) for name in foretold}
    gone = {name for kind, name in map(identity, cluster) if kind == "Pod"} - nodes.keys()
    assert {name_of(victim) for each in answer.pods for victim in each.victims} >= gone
    in_parts = set(members_of_larger_gangs(units))
    for each in answer.pods:
        name = name_of(each.pod)
        assert name in in_parts or each.message in notes.get(name, {each.message})


@pytest.mark.parametrize("seed", seeds(40))
def test_changes_that_would_help_do_help(seed):
    make = Maker(seed)
    cluster = make.cluster()
    pod = make.pod("new")

    answer = asked([*cluster, pod]).explain("default/new")

    blockers = {each for miss in answer.nearest for each in miss.blockers}
    assert answer.help or answer.outcome != "pending" or any("pod " in each for each in blockers)
    for each in answer.help:
        gone = {("Pod", name_of(key)) for key in each.change.delete}
        changed = {identity(document): document for document in each.change.apply}
        objects = {identity(document): document for document in [*cluster, pod]} | changed
        nodes, _ = really([document for key, document in objects.items() if key not in gone])
        assert nodes["new"] == each.node, each.change.text


@pytest.mark.parametrize("seed", seeds(20))
def test_explain_foretells_the_outcome_and_the_event(seed):
    make = Maker(seed)
    cluster, pod = make.cluster(), make.pod("new")

    answer = asked([*cluster, pod]).explain("default/new")

    nodes, notes = really([*cluster, pod])
    assert answer.node == nodes["new"]
    assert answer.message in notes.get("new", {answer.message})
