"""PodTopologySpread: queueing hints and signatures."""

from __future__ import annotations

import pytest

from bayplan.api.kinds import SERVICE
from bayplan.framework.events import NODE, POD, Action, Hint
from bayplan.framework.interface import OnlyNow
from bayplan.plugins.pod_topology_spread.plugin import PodTopologySpread
from bayplan.simulation.handle import OfflineHandle
from bayplan.testing.builders import make_cluster, make_node, make_pod, make_service, spread_over

WEB, DB = {"app": "web"}, {"app": "db"}
ZONES, HOSTS = spread_over("zone", WEB), spread_over("node", {"tier": "front"})
NOMINATED = {"nominatedNodeName": "n"}


def waiting(*constraints, labels=WEB, **more):
    return make_pod("pending", labels=labels, spread=constraints or (ZONES,), **more)


def there(labels=WEB, node="n", **more):
    return make_pod("there", labels=labels, node=node, **more)


def plugin_in(*objects):
    return PodTopologySpread(OfflineHandle(make_cluster(*objects).state))


HONOUR_TAINTS = spread_over("zone", WEB, nodeTaintsPolicy="Honor")
MORE = [{"key": "dedicated", "operator": "Exists"}]


@pytest.mark.feature("PodTopologySpread: queueing hints, pods")
@pytest.mark.parametrize(
    ("pod", "old", "new", "hint"),
    [
        pytest.param(waiting(), None, there(), Hint.QUEUE, id="added, matches"),
        pytest.param(waiting(), None, there(DB), Hint.SKIP, id="added, no match"),
        pytest.param(waiting(), None, there(node=""), Hint.SKIP, id="added, without a node"),
        pytest.param(waiting(), None, there(node="", status=NOMINATED), Hint.QUEUE, id="added, nominated"),
        pytest.param(waiting(), None, there(namespace="other"), Hint.SKIP, id="added, in another namespace"),
        pytest.param(waiting(ZONES, HOSTS), None, there({"tier": "front"}), Hint.QUEUE, id="added, matches one of two"),
        pytest.param(waiting(), there(), None, Hint.QUEUE, id="deleted, matched"),
        pytest.param(waiting(), there(DB), None, Hint.SKIP, id="deleted, no match"),
        pytest.param(waiting(), there(node=""), None, Hint.SKIP, id="deleted, had no node"),
        pytest.param(waiting(), there(node="", status=NOMINATED), None, Hint.QUEUE, id="deleted, was nominated"),
        pytest.param(
            waiting(), there(DB, node="", status=NOMINATED), None, Hint.SKIP, id="deleted, was nominated, no match"
        ),
        pytest.param(waiting(), there(node=""), there(DB, node=""), Hint.SKIP, id="changes, without a node"),
        pytest.param(waiting(), there(), there({**WEB, "x": "1"}), Hint.SKIP, id="another label"),
        pytest.param(waiting(), there(DB), there(WEB), Hint.QUEUE, id="starts matching"),
        pytest.param(waiting(), there(WEB), there({}), Hint.QUEUE, id="stops matching"),
        pytest.param(waiting(), there(DB), there({"app": "cache"}), Hint.SKIP, id="never matched"),
        pytest.param(
            waiting(ZONES, HOSTS), there(WEB), there({**WEB, "tier": "front"}), Hint.QUEUE, id="starts matching one"
        ),
        pytest.param(waiting(), waiting(labels=DB), waiting(), Hint.QUEUE, id="own update, starts matching"),
        pytest.param(waiting(), waiting(), waiting(labels={**WEB, "x": "1"}), Hint.SKIP, id="own update, no match"),
        pytest.param(
            waiting(HONOUR_TAINTS),
            waiting(HONOUR_TAINTS),
            waiting(HONOUR_TAINTS, tolerations=MORE),
            Hint.QUEUE,
            id="own tolerations, taints honored",
        ),
        pytest.param(waiting(), waiting(), waiting(tolerations=MORE), Hint.SKIP, id="own tolerations, taints ignored"),
        pytest.param(
            waiting(HONOUR_TAINTS), there(), there(tolerations=MORE), Hint.SKIP, id="tolerations of another pod"
        ),
        pytest.param(waiting(spread_over("zone", {})), None, there(DB), Hint.QUEUE, id="empty selector matches all"),
        pytest.param(waiting(spread_over("zone")), None, there(), Hint.SKIP, id="no selector matches none"),
        pytest.param(waiting(spread_over("zone", WEB, hard=False)), None, there(), Hint.SKIP, id="soft constraint"),
    ],
)
def test_hint_after_pod_change(pod, old, new, hint):
    assert plugin_in().after_pod_change(pod, old, new) is hint


def labelled(taints=(), **labels):
    return make_node("n", labels=labels, taints=taints)


BOTH = (ZONES, HOSTS)
TAINT = ["dedicated=x:NoSchedule"]


@pytest.mark.feature("PodTopologySpread: queueing hints, nodes")
@pytest.mark.parametrize(
    ("constraints", "old", "new", "hint"),
    [
        pytest.param([ZONES], None, labelled(rack="1"), Hint.SKIP, id="new, without the label"),
        pytest.param([ZONES], None, labelled(zone="a"), Hint.QUEUE, id="new, with it"),
        pytest.param([ZONES], None, labelled(zone=""), Hint.QUEUE, id="new, with an empty value"),
        pytest.param([ZONES], labelled(rack="1"), None, Hint.SKIP, id="deleted, without the label"),
        pytest.param([ZONES], labelled(zone="a"), None, Hint.QUEUE, id="deleted, with it"),
        pytest.param([ZONES], labelled(zone="a"), labelled(zone="b"), Hint.QUEUE, id="moved"),
        pytest.param([ZONES], labelled(zone="a"), labelled(zone="a", rack="1"), Hint.SKIP, id="another label"),
        pytest.param([ZONES], labelled(rack="1"), labelled(rack="2"), Hint.SKIP, id="another label, without this one"),
        pytest.param([ZONES], labelled(), labelled(zone="a"), Hint.QUEUE, id="joined"),
        pytest.param([ZONES], labelled(zone="a"), labelled(), Hint.QUEUE, id="left"),
        pytest.param(BOTH, None, labelled(zone="a"), Hint.SKIP, id="new, with one of two"),
        pytest.param(BOTH, None, labelled(zone="a", node="n"), Hint.QUEUE, id="new, with both"),
        pytest.param(BOTH, labelled(), labelled(zone="a"), Hint.SKIP, id="joined one of two"),
        pytest.param(BOTH, labelled(node="n"), labelled(zone="a", node="n"), Hint.QUEUE, id="joined the second"),
        pytest.param(
            BOTH, labelled(zone="a", node="n"), labelled(TAINT, zone="a", node="n"), Hint.QUEUE, id="tainted, with both"
        ),
        pytest.param(BOTH, labelled(zone="a"), labelled(TAINT, zone="a"), Hint.SKIP, id="tainted, with one of two"),
    ],
)
def test_hint_after_node_change(constraints, old, new, hint):
    assert plugin_in().after_node_change(waiting(*constraints), old, new) is hint


def test_registered_events():
    events = {hint.event.resource: hint.event.action for hint in plugin_in().events()}
    assert events == {
        POD: Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION,
        NODE: Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT,
    }


@pytest.mark.feature("PodTopologySpread: shared results")
def test_signatures_of_pods_without_constraints_are_equal():
    plugin, owner = plugin_in(), ("apps/v1", "ReplicaSet", "w")
    pods = [
        make_pod("one", labels=WEB),
        make_pod("two", labels=DB),
        make_pod("three", labels=WEB, namespace="other"),
        make_pod("four", labels=WEB, owner=owner),
    ]
    nodes = make_cluster(make_node("n")).state.nodes
    assert {(plugin.sign(pod), plugin.rests_on(pod, nodes)) for pod in pods} == {((), ())}
    assert isinstance(plugin.rests_on(waiting(), nodes), OnlyNow)


@pytest.mark.feature("PodTopologySpread: shared results")
def test_results_are_shared_unless_default_constraints_apply():
    state = make_cluster(make_node("n")).state
    plugin, pod = PodTopologySpread(OfflineHandle(state)), make_pod("one", labels=WEB)
    state.set_pod(there())
    state.objects[SERVICE].set("default/s", make_service("s", DB))
    assert plugin.rests_on(pod, state.nodes) == ()
    state.objects[SERVICE].set("default/t", make_service("t", WEB))
    assert isinstance(plugin.rests_on(pod, state.nodes), OnlyNow)
