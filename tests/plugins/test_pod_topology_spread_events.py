"""PodTopologySpread: queueing hints and signatures."""

import pytest
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.kinds import SERVICE
from bayplan.core.framework.events import NODE, POD, Action, Hint
from bayplan.core.framework.interface import OnlyNow
from bayplan.core.plugins.pod_topology_spread.plugin import PodTopologySpread
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
@cases(
    "pod, old, new, hint",
    {
        "added, matches": (waiting(), None, there(), Hint.QUEUE),
        "added, no match": (waiting(), None, there(DB), Hint.SKIP),
        "added, without a node": (waiting(), None, there(node=""), Hint.SKIP),
        "added, nominated": (waiting(), None, there(node="", status=NOMINATED), Hint.QUEUE),
        "added, in another namespace": (waiting(), None, there(namespace="other"), Hint.SKIP),
        "added, matches one of two": (waiting(ZONES, HOSTS), None, there({"tier": "front"}), Hint.QUEUE),
        "deleted, matched": (waiting(), there(), None, Hint.QUEUE),
        "deleted, no match": (waiting(), there(DB), None, Hint.SKIP),
        "deleted, had no node": (waiting(), there(node=""), None, Hint.SKIP),
        "deleted, was nominated": (waiting(), there(node="", status=NOMINATED), None, Hint.QUEUE),
        "deleted, was nominated, no match": (waiting(), there(DB, node="", status=NOMINATED), None, Hint.SKIP),
        "changes, without a node": (waiting(), there(node=""), there(DB, node=""), Hint.SKIP),
        "another label": (waiting(), there(), there({**WEB, "x": "1"}), Hint.SKIP),
        "starts matching": (waiting(), there(DB), there(WEB), Hint.QUEUE),
        "stops matching": (waiting(), there(WEB), there({}), Hint.QUEUE),
        "never matched": (waiting(), there(DB), there({"app": "cache"}), Hint.SKIP),
        "starts matching one": (waiting(ZONES, HOSTS), there(WEB), there({**WEB, "tier": "front"}), Hint.QUEUE),
        "own update, starts matching": (waiting(), waiting(labels=DB), waiting(), Hint.QUEUE),
        "own update, no match": (waiting(), waiting(), waiting(labels={**WEB, "x": "1"}), Hint.SKIP),
        "own tolerations, taints honored": (
            waiting(HONOUR_TAINTS),
            waiting(HONOUR_TAINTS),
            waiting(HONOUR_TAINTS, tolerations=MORE),
            Hint.QUEUE,
        ),
        "own tolerations, taints ignored": (waiting(), waiting(), waiting(tolerations=MORE), Hint.SKIP),
        "tolerations of another pod": (waiting(HONOUR_TAINTS), there(), there(tolerations=MORE), Hint.SKIP),
        "empty selector matches all": (waiting(spread_over("zone", {})), None, there(DB), Hint.QUEUE),
        "no selector matches none": (waiting(spread_over("zone")), None, there(), Hint.SKIP),
        "soft constraint": (waiting(spread_over("zone", WEB, hard=False)), None, there(), Hint.SKIP),
    },
)
def test_hint_after_pod_change(pod, old, new, hint):
    assert plugin_in().after_pod_change(pod, old, new) is hint


def labelled(taints=(), **labels):
    return make_node("n", labels=labels, taints=taints)


BOTH = (ZONES, HOSTS)
TAINT = ["dedicated=x:NoSchedule"]


@pytest.mark.feature("PodTopologySpread: queueing hints, nodes")
@cases(
    "constraints, old, new, hint",
    {
        "new, without the label": ([ZONES], None, labelled(rack="1"), Hint.SKIP),
        "new, with it": ([ZONES], None, labelled(zone="a"), Hint.QUEUE),
        "new, with an empty value": ([ZONES], None, labelled(zone=""), Hint.QUEUE),
        "deleted, without the label": ([ZONES], labelled(rack="1"), None, Hint.SKIP),
        "deleted, with it": ([ZONES], labelled(zone="a"), None, Hint.QUEUE),
        "moved": ([ZONES], labelled(zone="a"), labelled(zone="b"), Hint.QUEUE),
        "another label": ([ZONES], labelled(zone="a"), labelled(zone="a", rack="1"), Hint.SKIP),
        "another label, without this one": ([ZONES], labelled(rack="1"), labelled(rack="2"), Hint.SKIP),
        "joined": ([ZONES], labelled(), labelled(zone="a"), Hint.QUEUE),
        "left": ([ZONES], labelled(zone="a"), labelled(), Hint.QUEUE),
        "new, with one of two": (BOTH, None, labelled(zone="a"), Hint.SKIP),
        "new, with both": (BOTH, None, labelled(zone="a", node="n"), Hint.QUEUE),
        "joined one of two": (BOTH, labelled(), labelled(zone="a"), Hint.SKIP),
        "joined the second": (BOTH, labelled(node="n"), labelled(zone="a", node="n"), Hint.QUEUE),
        "tainted, with both": (BOTH, labelled(zone="a", node="n"), labelled(TAINT, zone="a", node="n"), Hint.QUEUE),
        "tainted, with one of two": (BOTH, labelled(zone="a"), labelled(TAINT, zone="a"), Hint.SKIP),
    },
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
