"""What the answers foretell is what a scheduler then does on an API server.

BAYPLAN_TRUTH_CLUSTERS=330 runs each test on so many clusters.
"""

import copy
import os
from collections import Counter

import pytest
from real_runs import FirstChoice, really, really_drained
from small_clusters import Maker, members_of_larger_gangs

from bayplan.insight import Insight, Snapshot


def asked(objects):
    insight = Insight(Snapshot.of(objects))
    insight.world.rng = FirstChoice()
    return insight


def name_of(key):
    return key.partition("/")[2]


def priority_of(document):
    return document.get("spec", {}).get("priority", 0)


def identity(document):
    return document["kind"], document["metadata"]["name"]


def seeds(start, count):
    return range(start, start + int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", count)))


@pytest.mark.parametrize("seed", seeds(0, 60))
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


@pytest.mark.parametrize("seed", seeds(100, 40))
def test_changes_that_would_help_do_help(seed):
    make = Maker(seed)
    cluster = make.cluster()
    pod = make.pod("new")

    answer = asked([*cluster, pod]).explain("default/new")

    more_important = any(priority_of(each) > priority_of(pod) for each in cluster)
    # Nothing is proposed that deletes more important pods, makes devices, or moves volumes.
    bound = pod["spec"].get("resourceClaims") or pod["spec"].get("volumes")
    assert answer.help or answer.outcome != "pending" or more_important or bound
    for each in answer.help:
        gone = {("Pod", name_of(key)) for key in each.change.delete}
        changed = {identity(document): document for document in each.change.apply}
        objects = {identity(document): document for document in [*cluster, pod]} | changed
        nodes, _ = really([document for key, document in objects.items() if key not in gone])
        assert nodes["new"] == each.node, each.change.text


@pytest.mark.parametrize("seed", seeds(200, 20))
def test_explain_foretells_the_outcome_and_the_event(seed):
    make = Maker(seed)
    cluster, pod = make.cluster(), make.pod("new")

    answer = asked([*cluster, pod]).explain("default/new")

    nodes, notes = really([*cluster, pod])
    assert answer.node == nodes["new"]
    if answer.outcome == "placed":
        assert answer.message == ""  # the event would sound as if it had happened
    else:
        assert answer.message in notes.get("new", {answer.message})


OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}


@pytest.mark.parametrize("seed", seeds(300, 40))
def test_drain_foretells_where_the_pods_go(seed):
    make = Maker(seed)
    cluster = [*make.cluster(), *(make.pod(f"waiting-{number}") for number in range(make.rng.randint(0, 2)))]
    for document in cluster:
        if document["kind"] == "Pod" and "nodeName" in document["spec"]:
            document["metadata"]["ownerReferences"] = [OWNER]
    nodes = [document["metadata"]["name"] for document in cluster if document["kind"] == "Node"]
    drained, at_once = make.rng.sample(nodes, make.rng.randint(1, min(2, len(nodes)))), make.rng.random() < 0.5

    snapshot, moved, protected = really_drained(cluster, [drained] if at_once else [[name] for name in drained])

    insight = Insight(snapshot)
    insight.world.rng = FirstChoice()
    answer = insight.drain(drained, force=True, at_once=at_once)
    left = {"deleted", "blocked"}
    assert {name_of(each.pod): each.node for each in answer.pods if each.outcome not in left} == moved
    assert sorted(name_of(each.pod) for each in answer.pods if each.outcome == "blocked") == sorted(protected)


@pytest.mark.parametrize("seed", seeds(400, 30))
def test_capacity_is_what_the_scheduler_places(seed):
    make = Maker(seed)
    cluster = make.cluster()
    pod = make.pod("new")
    for name in ("priority", "priorityClassName"):  # so that it preempts no pod
        pod["spec"].pop(name, None)

    answer = asked(cluster).capacity([pod])

    copies = []
    for number in range(answer.sets + 2):
        document = copy.deepcopy(pod)
        document["metadata"] |= {"name": f"new-{number}", "uid": f"new-{number}"}
        copies.append([document])
    nodes, notes = really(cluster, copies)
    placed = Counter(node for name, node in nodes.items() if name.startswith("new-") and node)
    assert placed == {each.node: each.fits["pod new"] for each in answer.nodes}
    # A gated pod has no event.
    assert any(note.startswith(answer.message) for note in notes.get(f"new-{answer.sets}", [answer.message]))
