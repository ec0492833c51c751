"""Default constraints of PodTopologySpread, for pods with a service or a controller."""

import pytest
from lightkube.models.core_v1 import TopologySpreadConstraint
from tests.support.tables import cases

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api import kinds
from bayplan.core.api.objects import convert
from bayplan.core.plugins.arguments import PodTopologySpreadArgs
from bayplan.core.plugins.pod_topology_spread.plugin import PodTopologySpread
from bayplan.testing.asking import ask_filter, ask_scores
from bayplan.testing.builders import make_cluster, make_node, make_pod, make_service, spread_over

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
UNEVEN = "node(s) didn't match pod topology spread constraints"
WEB = {"app": "web"}
A, B = make_node("a", labels={ZONE: "a"}), make_node("b", labels={ZONE: "b"})
THERE = make_pod("there", node="a", labels=WEB)
SERVICE = make_service("s", WEB)
ALIKE = {"a": 100, "b": 100}
DB = {"app": "db"}
SERVED = [THERE, SERVICE]
OF_SET, OF_RC = ("apps/v1", "ReplicaSet", "w"), ("v1", "ReplicationController", "w")
ONLY_B = {"a": UNEVEN, "b": ""}


def workload(kind, selector, name="w", namespace="default"):
    """A controller of a kind that is a source of selectors."""
    written = (
        {"matchLabels": selector} if kind is not kinds.REPLICATION_CONTROLLER and selector is not None else selector
    )
    metadata = {"name": name, "namespace": namespace}
    return convert(kind.type, {"metadata": metadata, "spec": {"selector": written, "template": {}, "serviceName": ""}})


def listed(*constraints):
    return PodTopologySpreadArgs(
        defaultConstraints=[convert(TopologySpreadConstraint, each) for each in constraints], defaultingType="List"
    )


SYSTEM = PodTopologySpreadArgs()
SOFT_ZONES = listed(spread_over(ZONE, hard=False))
HARD_ZONES = listed(spread_over(ZONE))


def score(pod, *objects, args=SYSTEM, nodes=(A, B)):
    state = make_cluster(*nodes, *objects).state
    return ask_scores(PodTopologySpread(OfflineHandle(state), args), pod, state)


def filtered(pod, *objects, args, nodes=(A, B)):
    state = make_cluster(*nodes, *objects).state
    return ask_filter(PodTopologySpread(OfflineHandle(state), args), pod, state)


def web(labels=WEB, owner=None, **more):
    return make_pod("pending", labels=labels, owner=owner, **more)


@pytest.mark.feature("PodTopologySpread: system defaulting")
@cases(
    "pod, objects, expected",
    {
        "no source": (web(), [THERE], None),
        "service": (web(), SERVED, {"a": 66, "b": 100}),
        "service of other pods": (web(DB), SERVED, None),
        "service in another namespace": (web(namespace="other"), SERVED, None),
        "no pods": (web(), [SERVICE], ALIKE),
        "own constraints": (web(spread=[spread_over(ZONE, DB, hard=False)]), SERVED, ALIKE),
        "own hard constraints": (web(spread=[spread_over("rack", WEB)]), SERVED, None),
        "terminating pods are not counted": (
            web(),
            [make_pod("there", node="a", labels=WEB, terminating=True), SERVICE],
            ALIKE,
        ),
    },
)
def test_system_defaults(pod, objects, expected):
    assert score(pod, *objects) == expected
    assert filtered(pod, *objects, args=SYSTEM) in (None, {"a": NO_RACK, "b": NO_RACK})


NO_RACK = f"{UNEVEN} (missing required label)"


@pytest.mark.feature("PodTopologySpread: system defaulting")
def test_nodes_without_a_zone_are_spread_by_hostname():
    nodes = make_node("one"), make_node("two")
    assert score(web(), make_pod("there", node="one", labels=WEB), SERVICE, nodes=nodes) == {"one": 66, "two": 100}


@pytest.mark.feature("PodTopologySpread: system defaulting")
def test_missing_zone_is_treated_as_the_empty_zone():
    nodes = A, make_node("empty", labels={ZONE: ""}), make_node("nowhere")
    there = [make_pod(f"there-{index}", node="nowhere", labels=WEB) for index in range(3)]
    # Zones a and "", the latter with three pods: a 2 + 4, empty 2 + 4 + 3 * log(4), nowhere 2 + 3 * log(5).
    assert score(web(), *there, SERVICE, nodes=nodes) == {"a": 100, "empty": 60, "nowhere": 90}


@pytest.mark.feature("PodTopologySpread: list defaulting")
@cases(
    "args, pod, objects, scores, verdicts",
    {
        "soft": (SOFT_ZONES, web(), SERVED, {"a": 0, "b": 100}, None),
        "hard": (HARD_ZONES, web(), SERVED, None, ONLY_B),
        "no source": (HARD_ZONES, web(), [THERE], None, None),
        "empty list disables defaults": (listed(), web(), SERVED, None, None),
        "both": (listed(spread_over(ZONE), spread_over(HOST, hard=False)), web(), SERVED, {"a": 0, "b": 100}, ONLY_B),
        "own constraints": (HARD_ZONES, web(spread=[spread_over(HOST, DB)]), SERVED, None, {"a": "", "b": ""}),
        "matchLabelKeys of a default add nothing": (
            listed(spread_over(ZONE, matchLabelKeys=["app"])),
            web(),
            SERVED,
            None,
            ONLY_B,
        ),
    },
)
def test_list_defaults(args, pod, objects, scores, verdicts):
    assert score(pod, *objects, args=args) == scores
    assert filtered(pod, *objects, args=args) == verdicts


@pytest.mark.feature("PodTopologySpread: list defaulting")
def test_list_defaults_require_all_topology_keys():
    args = listed(spread_over(ZONE, hard=False), spread_over(HOST, hard=False))
    assert score(web(), THERE, SERVICE, args=args, nodes=(A, B, make_node("nowhere")))["nowhere"] == 0


RC, RS, SS = kinds.REPLICATION_CONTROLLER, kinds.REPLICA_SET, kinds.STATEFUL_SET
BOTH = {"app": "web", "tier": "front"}
FRONT = make_pod("there", node="a", labels=BOTH)


@pytest.mark.feature("PodTopologySpread: sources of the default selector")
@cases(
    "pod, objects, counted",
    {
        "ReplicationController": (web(owner=OF_RC), [workload(RC, WEB)], True),
        "ReplicaSet": (web(owner=OF_SET), [workload(RS, WEB)], True),
        "StatefulSet": (web(owner=("apps/v1", "StatefulSet", "w")), [workload(SS, WEB)], True),
        "another kind": (web(owner=("apps/v1", "DaemonSet", "w")), [workload(RS, WEB)], None),
        "another version": (web(owner=("apps/v1beta1", "ReplicaSet", "w")), [workload(RS, WEB)], None),
        "unknown controller": (web(owner=("apps/v1", "ReplicaSet", "x")), [workload(RS, WEB)], None),
        "not the controller": (web(), [workload(RS, WEB)], None),
        "controller in another namespace": (web(owner=OF_SET), [workload(RS, WEB, namespace="other")], None),
        "service without selector": (web(), [make_service("s", None)], None),
        "service with empty selector": (web(), [make_service("s", {})], None),
        "two services: both labels": (web(BOTH), [SERVICE, make_service("t", {"tier": "front"})], False),
        "a service and a ReplicationController: both labels": (
            web(BOTH, owner=OF_RC),
            [SERVICE, workload(RC, {"tier": "front"})],
            False,
        ),
        "a service and a ReplicaSet: both labels": (
            web(BOTH, owner=OF_SET),
            [SERVICE, workload(RS, {"tier": "front"})],
            False,
        ),
        "controller with empty selector": (web(owner=OF_SET), [workload(RS, {})], None),
        "pod does not match its controller": (web(DB, owner=OF_SET), [workload(RS, WEB)], True),
    },
)
def test_selector_sources(pod, objects, counted):
    """`counted`: whether a pod with the label app=web is counted; None if there are no default constraints."""
    found = score(pod, THERE, *objects, args=SOFT_ZONES)
    assert found == (None if counted is None else {"a": 0 if counted else 100, "b": 100})
    if counted is False:
        assert score(pod, FRONT, *objects, args=SOFT_ZONES) == {"a": 0, "b": 100}


@pytest.mark.feature("PodTopologySpread: sources of the default selector")
def test_only_the_controller_owner_is_a_source():
    pod = web(owner=OF_SET)
    pod.metadata.ownerReferences[0].controller = None
    assert score(pod, THERE, workload(RS, WEB)) is None


@pytest.mark.feature("PodTopologySpread: sources of the default selector")
def test_changes_of_sources_take_effect():
    state = make_cluster(A, B, THERE).state
    plugin, pod = PodTopologySpread(OfflineHandle(state), HARD_ZONES), web()
    services = state.objects[kinds.SERVICE]
    assert ask_filter(plugin, pod, state) is None
    services.set("default/s", SERVICE)
    assert ask_filter(plugin, pod, state) == ONLY_B
    services.set("default/s", make_service("s", DB))
    assert ask_filter(plugin, pod, state) is None
    services.set("default/s", SERVICE)
    services.remove("default/s")
    assert ask_filter(plugin, pod, state) is None
