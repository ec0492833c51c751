"""InterPodAffinity: queueing hints and signatures."""

import pytest
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import NAMESPACE
from bayplan.core.framework.events import NODE, POD, Action, Hint
from bayplan.core.framework.interface import CycleState, OnlyNow
from bayplan.core.plugins.inter_pod_affinity.plugin import (
    InterPodAffinity,
    after_node_change,
    after_pod_change,
    after_pod_change_in_1_36,
)
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_cluster, make_namespace, make_node, make_pod, pod_affinity, pod_term

WEB, DB = {"app": "web"}, {"app": "db"}
NEAR_WEB, AWAY_FROM_WEB = pod_affinity(pod_term("zone", WEB)), pod_affinity(pod_term("zone", WEB), anti=True)
HOSTNAME = "kubernetes.io/hostname"
FRONT = {"app": "web", "tier": "front"}


def waiting(affinity, labels=None):
    return make_pod("pending", affinity=affinity, labels=labels)


def there(labels=WEB, name="there", node="n", **more):
    return make_pod(name, labels=labels, node=node, **more)


NOMINATED = {"nominatedNodeName": "n"}
BOTH_TERMS = pod_affinity(pod_term("zone", WEB), pod_term("zone", {"tier": "front"}))
BOTH_ANTI_TERMS = pod_affinity(pod_term("zone", WEB), pod_term("zone", {"tier": "front"}), anti=True)
OF_RED = {"namespaceSelector": {"matchLabels": {"team": "red"}}}


AFTER_POD_CHANGE = {
    "added, matches affinity": (waiting(NEAR_WEB), None, there(), Hint.QUEUE),
    "added, no match": (waiting(NEAR_WEB), None, there(DB), Hint.SKIP),
    "added, without a node": (waiting(NEAR_WEB), None, there(node=""), Hint.SKIP),
    "added, nominated": (waiting(NEAR_WEB), None, there(node="", status=NOMINATED), Hint.QUEUE),
    "added, matches anti-affinity": (waiting(AWAY_FROM_WEB), None, there(), Hint.SKIP),
    "added, matches one of two terms": (waiting(BOTH_TERMS), None, there(WEB), Hint.SKIP),
    "added, matches both terms": (waiting(BOTH_TERMS), None, there(FRONT), Hint.QUEUE),
    "starts matching affinity": (waiting(NEAR_WEB), there(DB), there(WEB), Hint.QUEUE),
    "still matches affinity": (waiting(NEAR_WEB), there(WEB), there(FRONT), Hint.SKIP),
    "stops matching affinity": (waiting(NEAR_WEB), there(WEB), there(DB), Hint.SKIP),
    "changes without a node": (waiting(NEAR_WEB), there(DB, node=""), there(WEB, node=""), Hint.SKIP),
    "starts matching both terms": (waiting(BOTH_TERMS), there(WEB), there(FRONT), Hint.QUEUE),
    "stops matching one of two terms": (waiting(BOTH_TERMS), there(FRONT), there(WEB), Hint.SKIP),
    "stops matching anti-affinity": (waiting(AWAY_FROM_WEB), there(WEB), there(DB), Hint.QUEUE),
    "starts matching anti-affinity": (waiting(AWAY_FROM_WEB), there(DB), there(WEB), Hint.SKIP),
    "own update": (waiting(NEAR_WEB), waiting(NEAR_WEB), waiting(NEAR_WEB, WEB), Hint.QUEUE),
    "deleted, no match": (waiting(AWAY_FROM_WEB), there(DB), None, Hint.SKIP),
    "deleted, matched anti-affinity": (waiting(AWAY_FROM_WEB), there(WEB), None, Hint.QUEUE),
    "deleted, had no node": (waiting(AWAY_FROM_WEB), there(WEB, node=""), None, Hint.SKIP),
    "deleted, was nominated": (waiting(AWAY_FROM_WEB), there(WEB, node="", status=NOMINATED), None, Hint.QUEUE),
    "deleted, matched affinity": (waiting(NEAR_WEB), there(WEB), None, Hint.SKIP),
    "deleted, matched one of two terms": (waiting(BOTH_ANTI_TERMS), there(WEB), None, Hint.SKIP),
    "deleted, matched both terms": (waiting(BOTH_ANTI_TERMS), there(FRONT), None, Hint.QUEUE),
    "deleted, had anti-affinity to the pod": (waiting(None, WEB), there(DB, affinity=AWAY_FROM_WEB), None, Hint.QUEUE),
    "deleted, had anti-affinity to others": (waiting(None, DB), there(DB, affinity=AWAY_FROM_WEB), None, Hint.SKIP),
    "namespace selectors are not resolved": (
        waiting(pod_affinity(pod_term("zone", WEB, **OF_RED))),
        None,
        there(namespace="red"),
        Hint.SKIP,
    ),
    "empty namespace selector": (
        waiting(pod_affinity(pod_term("zone", WEB, namespaceSelector={}))),
        None,
        there(namespace="red"),
        Hint.QUEUE,
    ),
}
SINCE_1_37 = {"deleted, matched one of two terms": Hint.QUEUE}
"""The hints that differ in 1.37, where any anti-affinity term keeps pods apart."""
IN_1_37 = {name: (*case[:3], SINCE_1_37.get(name, case[3])) for name, case in AFTER_POD_CHANGE.items()}


@pytest.mark.feature("InterPodAffinity: queueing hints, pods")
@cases("pod, old, new, hint", AFTER_POD_CHANGE)
def test_hint_after_pod_change(pod, old, new, hint):
    assert after_pod_change_in_1_36(pod, old, new) is hint


@cases("pod, old, new, hint", IN_1_37)
def test_hint_of_several_anti_affinity_terms(pod, old, new, hint):
    """#139161"""
    assert after_pod_change(pod, old, new) is hint


@cases("version, hints", {"1.36": ("1.36", (after_pod_change_in_1_36, 2)), "1.37": ("1.37", (after_pod_change, 3))})
def test_the_hint_and_the_topics_of_a_version(version, hints):
    plugin = InterPodAffinity(OfflineHandle(make_cluster().state), gates=gates_of(version))
    hint = next(iter(plugin.events()))
    assert (hint.hint, len(hint.topics.of_pod(waiting(BOTH_ANTI_TERMS)))) == hints


def labelled(**labels):
    return make_node("n", labels=labels)


@pytest.mark.feature("InterPodAffinity: queueing hints, nodes")
@cases(
    "affinity, old, new, hint",
    {
        "near: new, with the topology": (NEAR_WEB, None, labelled(zone="a"), Hint.QUEUE),
        "near: new, without it": (NEAR_WEB, None, labelled(rack="1"), Hint.SKIP),
        "near: another label": (NEAR_WEB, labelled(zone="a"), labelled(zone="a", rack="1"), Hint.SKIP),
        "near: moved": (NEAR_WEB, labelled(zone="a"), labelled(zone="b"), Hint.QUEUE),
        "near: joined": (NEAR_WEB, labelled(), labelled(zone="a"), Hint.QUEUE),
        "near: joined the empty value": (NEAR_WEB, labelled(), labelled(zone=""), Hint.QUEUE),
        "near: left": (NEAR_WEB, labelled(zone="a"), labelled(), Hint.SKIP),
        "away: new, with the topology": (AWAY_FROM_WEB, None, labelled(zone="a"), Hint.QUEUE),
        "away: new, without it": (AWAY_FROM_WEB, None, labelled(), Hint.QUEUE),
        "away: another": (AWAY_FROM_WEB, labelled(zone="a"), labelled(zone="a", rack="1"), Hint.SKIP),
        "away: moved": (AWAY_FROM_WEB, labelled(zone="a"), labelled(zone="b"), Hint.QUEUE),
        "away: joined": (AWAY_FROM_WEB, labelled(), labelled(zone="a"), Hint.SKIP),
        "away: left": (AWAY_FROM_WEB, labelled(zone="a"), labelled(), Hint.QUEUE),
        "anti-affinity of others: new": (None, None, labelled(zone="a"), Hint.SKIP),
    },
)
def test_hint_after_node_change(affinity, old, new, hint):
    assert after_node_change(waiting(affinity), old, new) is hint


def plugin_in(*objects):
    return InterPodAffinity(OfflineHandle(make_cluster(*objects).state))


def test_registered_events():
    events = {hint.event.resource: hint.event.action for hint in plugin_in().events()}
    assert events == {
        POD: Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL,
        NODE: Action.ADD | Action.UPDATE_NODE_LABEL,
    }


@pytest.mark.feature("InterPodAffinity: shared results")
def test_signatures():
    plugin = plugin_in()
    assert plugin.sign(waiting(NEAR_WEB)) != plugin.sign(waiting(AWAY_FROM_WEB))
    pods = [waiting(None, WEB), waiting(None, DB), make_pod("red", namespace="red"), waiting({"podAffinity": {}}, WEB)]
    assert {plugin.sign(pod) for pod in pods} == {()}
    apart = [waiting(AWAY_FROM_WEB, labels) for labels in (WEB, WEB, DB, DB)]
    assert len({plugin.sign(pod) for pod in apart}) == 1
    rest = [plugin.rests_on(pod, make_cluster(make_node("n")).state.nodes) for pod in apart]
    assert rest[0] == rest[1] != rest[2] == rest[3]


@pytest.mark.feature("InterPodAffinity: shared results")
def test_results_are_shared_unless_a_term_of_an_existing_pod_matches():
    state = make_cluster(make_node("n")).state
    plugin, web, db = InterPodAffinity(OfflineHandle(state)), waiting(None, WEB), waiting(None, DB)
    state.set_pod(there(DB))
    assert plugin.rests_on(web, state.nodes) == plugin.rests_on(db, state.nodes) == ()
    jealous = there(DB, name="jealous", affinity=AWAY_FROM_WEB)
    state.set_pod(jealous)
    assert isinstance(plugin.rests_on(web, state.nodes), OnlyNow)
    assert plugin.rests_on(db, state.nodes) == ()
    state.remove_pod(jealous.uid)
    assert plugin.rests_on(web, state.nodes) == ()


ONE_EACH = pod_affinity(pod_term(HOSTNAME, WEB), anti=True)


def host(name, hostname=None):
    return make_node(name, labels={HOSTNAME: hostname or name, "zone": "z"})


def second_answer(plugin, pod, state):
    """Return what the results of the second of two equal pods rest on: the first one's are never shared."""
    assert isinstance(plugin.rests_on(pod, state.nodes), OnlyNow)
    plugin.pre_filter(CycleState(), pod, state.nodes)
    return plugin.rests_on(pod, state.nodes)


@pytest.mark.feature("InterPodAffinity: shared results")
@cases(
    "affinity, objects, shared",
    {
        "nothing matches": (ONE_EACH, [], True),
        "of its own kind": (ONE_EACH, [there(WEB, node="a", affinity=ONE_EACH)], True),
        "two nodes of one name": (ONE_EACH, [host("c", "a")], False),
        "kept away from a zone": (ONE_EACH, [there(DB, node="a", affinity=AWAY_FROM_WEB)], False),
        "another wants to be near": (ONE_EACH, [there(DB, node="a", affinity=NEAR_WEB)], False),
        "away from a zone": (AWAY_FROM_WEB, [], False),
        "near others": (NEAR_WEB | ONE_EACH, [], False),
    },
)
def test_results_of_pods_that_are_apart_by_node_are_shared(affinity, objects, shared):
    state = make_cluster(host("a"), host("b"), *objects).state
    plugin = InterPodAffinity(OfflineHandle(state))
    assert isinstance(second_answer(plugin, waiting(affinity, WEB), state), OnlyNow) != shared


@pytest.mark.feature("InterPodAffinity: shared results")
def test_results_of_pods_of_many_kinds_in_turn_are_not_shared():
    state = make_cluster(host("a"), host("b")).state
    plugin = InterPodAffinity(OfflineHandle(state))
    for _ in range(2):
        for number in range(100):
            pod = waiting(ONE_EACH, {"app": "web", "number": str(number)})
            assert not isinstance(second_answer(plugin, pod, state), OnlyNow)


@pytest.mark.feature("InterPodAffinity: shared results")
def test_results_are_not_shared_after_a_namespace_changes():
    state = make_cluster(host("a"), host("b")).state
    plugin, pod = InterPodAffinity(OfflineHandle(state)), waiting(ONE_EACH, WEB)
    before = second_answer(plugin, pod, state)
    state.objects[NAMESPACE].set("red", make_namespace("red"))
    assert second_answer(plugin, pod, state) not in {None, before}
