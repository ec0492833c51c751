"""InterPodAffinity: queueing hints and signatures."""

from __future__ import annotations

import pytest

from bayplan.api.kinds import NAMESPACE
from bayplan.framework.events import NODE, POD, Action, Hint
from bayplan.framework.interface import CycleState, OnlyNow
from bayplan.plugins.inter_pod_affinity.plugin import InterPodAffinity, after_node_change, after_pod_change
from bayplan.simulation.handle import OfflineHandle
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


@pytest.mark.feature("InterPodAffinity: queueing hints, pods")
@pytest.mark.parametrize(
    ("pod", "old", "new", "hint"),
    [
        pytest.param(waiting(NEAR_WEB), None, there(), Hint.QUEUE, id="added, matches affinity"),
        pytest.param(waiting(NEAR_WEB), None, there(DB), Hint.SKIP, id="added, no match"),
        pytest.param(waiting(NEAR_WEB), None, there(node=""), Hint.SKIP, id="added, without a node"),
        pytest.param(waiting(NEAR_WEB), None, there(node="", status=NOMINATED), Hint.QUEUE, id="added, nominated"),
        pytest.param(waiting(AWAY_FROM_WEB), None, there(), Hint.SKIP, id="added, matches anti-affinity"),
        pytest.param(waiting(BOTH_TERMS), None, there(WEB), Hint.SKIP, id="added, matches one of two terms"),
        pytest.param(waiting(BOTH_TERMS), None, there(FRONT), Hint.QUEUE, id="added, matches both terms"),
        pytest.param(waiting(NEAR_WEB), there(DB), there(WEB), Hint.QUEUE, id="starts matching affinity"),
        pytest.param(waiting(NEAR_WEB), there(WEB), there(FRONT), Hint.SKIP, id="still matches affinity"),
        pytest.param(waiting(NEAR_WEB), there(WEB), there(DB), Hint.SKIP, id="stops matching affinity"),
        pytest.param(
            waiting(NEAR_WEB), there(DB, node=""), there(WEB, node=""), Hint.SKIP, id="changes without a node"
        ),
        pytest.param(waiting(BOTH_TERMS), there(WEB), there(FRONT), Hint.QUEUE, id="starts matching both terms"),
        pytest.param(waiting(BOTH_TERMS), there(FRONT), there(WEB), Hint.SKIP, id="stops matching one of two terms"),
        pytest.param(waiting(AWAY_FROM_WEB), there(WEB), there(DB), Hint.QUEUE, id="stops matching anti-affinity"),
        pytest.param(waiting(AWAY_FROM_WEB), there(DB), there(WEB), Hint.SKIP, id="starts matching anti-affinity"),
        pytest.param(waiting(NEAR_WEB), waiting(NEAR_WEB), waiting(NEAR_WEB, WEB), Hint.QUEUE, id="own update"),
        pytest.param(waiting(AWAY_FROM_WEB), there(DB), None, Hint.SKIP, id="deleted, no match"),
        pytest.param(waiting(AWAY_FROM_WEB), there(WEB), None, Hint.QUEUE, id="deleted, matched anti-affinity"),
        pytest.param(waiting(AWAY_FROM_WEB), there(WEB, node=""), None, Hint.SKIP, id="deleted, had no node"),
        pytest.param(
            waiting(AWAY_FROM_WEB), there(WEB, node="", status=NOMINATED), None, Hint.QUEUE, id="deleted, was nominated"
        ),
        pytest.param(waiting(NEAR_WEB), there(WEB), None, Hint.SKIP, id="deleted, matched affinity"),
        pytest.param(waiting(BOTH_ANTI_TERMS), there(WEB), None, Hint.SKIP, id="deleted, matched one of two terms"),
        pytest.param(waiting(BOTH_ANTI_TERMS), there(FRONT), None, Hint.QUEUE, id="deleted, matched both terms"),
        pytest.param(
            waiting(None, WEB),
            there(DB, affinity=AWAY_FROM_WEB),
            None,
            Hint.QUEUE,
            id="deleted, had anti-affinity to the pod",
        ),
        pytest.param(
            waiting(None, DB),
            there(DB, affinity=AWAY_FROM_WEB),
            None,
            Hint.SKIP,
            id="deleted, had anti-affinity to others",
        ),
        pytest.param(
            waiting(pod_affinity(pod_term("zone", WEB, **OF_RED))),
            None,
            there(namespace="red"),
            Hint.SKIP,
            id="namespace selectors are not resolved",
        ),
        pytest.param(
            waiting(pod_affinity(pod_term("zone", WEB, namespaceSelector={}))),
            None,
            there(namespace="red"),
            Hint.QUEUE,
            id="empty namespace selector",
        ),
    ],
)
def test_hint_after_pod_change(pod, old, new, hint):
    assert after_pod_change(pod, old, new) is hint


def labelled(**labels):
    return make_node("n", labels=labels)


@pytest.mark.feature("InterPodAffinity: queueing hints, nodes")
@pytest.mark.parametrize(
    ("affinity", "old", "new", "hint"),
    [
        pytest.param(NEAR_WEB, None, labelled(zone="a"), Hint.QUEUE, id="near: new, with the topology"),
        pytest.param(NEAR_WEB, None, labelled(rack="1"), Hint.SKIP, id="near: new, without it"),
        pytest.param(NEAR_WEB, labelled(zone="a"), labelled(zone="a", rack="1"), Hint.SKIP, id="near: another label"),
        pytest.param(NEAR_WEB, labelled(zone="a"), labelled(zone="b"), Hint.QUEUE, id="near: moved"),
        pytest.param(NEAR_WEB, labelled(), labelled(zone="a"), Hint.QUEUE, id="near: joined"),
        pytest.param(NEAR_WEB, labelled(), labelled(zone=""), Hint.QUEUE, id="near: joined the empty value"),
        pytest.param(NEAR_WEB, labelled(zone="a"), labelled(), Hint.SKIP, id="near: left"),
        pytest.param(AWAY_FROM_WEB, None, labelled(zone="a"), Hint.QUEUE, id="away: new, with the topology"),
        pytest.param(AWAY_FROM_WEB, None, labelled(), Hint.QUEUE, id="away: new, without it"),
        pytest.param(AWAY_FROM_WEB, labelled(zone="a"), labelled(zone="a", rack="1"), Hint.SKIP, id="away: another"),
        pytest.param(AWAY_FROM_WEB, labelled(zone="a"), labelled(zone="b"), Hint.QUEUE, id="away: moved"),
        pytest.param(AWAY_FROM_WEB, labelled(), labelled(zone="a"), Hint.SKIP, id="away: joined"),
        pytest.param(AWAY_FROM_WEB, labelled(zone="a"), labelled(), Hint.QUEUE, id="away: left"),
        pytest.param(None, None, labelled(zone="a"), Hint.SKIP, id="anti-affinity of others: new"),
    ],
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
@pytest.mark.parametrize(
    ("affinity", "objects", "shared"),
    [
        pytest.param(ONE_EACH, [], True, id="nothing matches"),
        pytest.param(ONE_EACH, [there(WEB, node="a", affinity=ONE_EACH)], True, id="of its own kind"),
        pytest.param(ONE_EACH, [host("c", "a")], False, id="two nodes of one name"),
        pytest.param(ONE_EACH, [there(DB, node="a", affinity=AWAY_FROM_WEB)], False, id="kept away from a zone"),
        pytest.param(ONE_EACH, [there(DB, node="a", affinity=NEAR_WEB)], False, id="another wants to be near"),
        pytest.param(AWAY_FROM_WEB, [], False, id="away from a zone"),
        pytest.param(NEAR_WEB | ONE_EACH, [], False, id="near others"),
    ],
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
