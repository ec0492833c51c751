"""NodeDeclaredFeatures: required and declared features."""

import pytest

from bayplan.core.framework.events import Hint
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import SKIP
from bayplan.core.plugins.node_declared_features import (
    UNSATISFIED,
    NodeDeclaredFeatures,
    after_node_change,
    after_pod_update,
    required_features,
)
from bayplan.testing.builders import make_cluster, make_node, make_pod

RESTARTS, NAMESPACES = "RestartAllContainersOnContainerExits", "UserNamespacesHostNetworkSupport"
RULE = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}
CONTAINER = {"name": "c", "image": "i", "restartPolicy": "Never"}


def declaring(name, *features):
    node = make_node(name)
    node.status.declaredFeatures = list(features)
    return node


@pytest.mark.feature("NodeDeclaredFeatures: required features")
@pytest.mark.parametrize(
    ("spec", "needed"),
    [
        ({}, set()),
        ({"hostNetwork": True, "hostUsers": False}, {NAMESPACES}),
        ({"hostNetwork": True, "hostUsers": True}, set()),
        ({"hostNetwork": True}, set()),
        ({"hostUsers": False}, set()),
        ({"containers": [{**CONTAINER, "restartPolicyRules": [RULE]}]}, {RESTARTS}),
        ({"initContainers": [{**CONTAINER, "restartPolicyRules": [RULE]}]}, {RESTARTS}),
        ({"containers": [{**CONTAINER, "restartPolicyRules": [{**RULE, "action": "Restart"}]}]}, set()),
    ],
)
def test_required_features(spec, needed):
    pod = make_pod("p", spec=spec)
    assert required_features(pod) == needed
    assert NodeDeclaredFeatures().sign(pod) == needed
    answer = NodeDeclaredFeatures().pre_filter(CycleState(), pod, make_cluster().state.nodes)
    assert answer is (None if needed else SKIP)


@pytest.mark.feature("NodeDeclaredFeatures: declared features")
def test_nodes_without_a_required_feature_are_rejected():
    nodes = [declaring("has", RESTARTS, NAMESPACES), declaring("other", RESTARTS), make_node("none")]
    cluster = make_cluster(*nodes).state.nodes
    plugin, cycle = NodeDeclaredFeatures(), CycleState()
    pod = make_pod("p", spec={"hostNetwork": True, "hostUsers": False})
    plugin.pre_filter(cycle, pod, cluster)
    rejections = plugin.filter_nodes(cycle, pod, cluster)
    assert rejections.index.tolist() == [0, 1, 1]
    assert UNSATISFIED.reasons == ("node(s) didn't match Pod's required features",)
    assert [plugin.filter(cycle, pod, cluster.info(row)) for row in range(3)] == [None, UNSATISFIED, UNSATISFIED]


@pytest.mark.feature("NodeDeclaredFeatures: queueing hints")
def test_hints():
    pod = make_pod("p", spec={"hostNetwork": True, "hostUsers": False})
    assert after_node_change(pod, None, make_node("n")) is Hint.QUEUE
    assert after_node_change(pod, make_node("n"), make_node("n")) is Hint.SKIP
    assert after_node_change(pod, make_node("n"), declaring("n", NAMESPACES)) is Hint.QUEUE
    assert after_pod_update(pod, pod, make_pod("p")) is Hint.QUEUE
    assert after_pod_update(pod, pod, pod) is Hint.SKIP
    assert after_pod_update(pod, make_pod("q"), make_pod("q")) is Hint.SKIP
    assert len(list(NodeDeclaredFeatures().events())) == 2
