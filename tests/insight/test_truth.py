"""What the answers foretell is what a scheduler then does on an API server."""

from __future__ import annotations

import pytest
from small_clusters import FirstChoice, Maker, really

from bayplan.insight import Insight, Snapshot


def asked(objects):
    insight = Insight(Snapshot.of(objects))
    insight.world.rng = FirstChoice()
    return insight


def name_of(key):
    return key.partition("/")[2]


def identity(document):
    return document["kind"], document["metadata"]["name"]


@pytest.mark.parametrize("seed", range(60))
def test_fit_foretells_what_the_scheduler_does(seed):
    make = Maker(seed)
    cluster, units = make.cluster(), make.file()

    answer = asked(cluster).fit([document for unit in units for document in unit])

    nodes, notes = really(cluster, units)
    foretold = {name_of(each.pod): each.node for each in answer.pods}
    assert foretold == {name: nodes.get(name) for name in foretold}
    gone = {name for kind, name in map(identity, cluster) if kind == "Pod"} - nodes.keys()
    assert {name_of(victim) for each in answer.pods for victim in each.victims} >= gone
    for each in answer.pods:
        written = notes.get(name_of(each.pod))
        if written and "crew" not in each.pod:  # the members of a gang arrive one by one, and are decided in between
            assert each.message in written


@pytest.mark.parametrize("seed", range(100, 140))
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


@pytest.mark.parametrize("seed", range(200, 220))
def test_explain_foretells_the_outcome_and_the_event(seed):
    make = Maker(seed)
    cluster, pod = make.cluster(), make.pod("new")

    answer = asked([*cluster, pod]).explain("default/new")

    nodes, notes = really([*cluster, pod])
    assert answer.node == nodes["new"]
    assert answer.message in notes.get("new", {answer.message})
