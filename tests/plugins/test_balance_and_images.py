"""NodeResourcesBalancedAllocation and ImageLocality."""

import pytest
from tests.support.tables import cases

from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import Code
from bayplan.core.plugins.arguments import NodeResourcesBalancedAllocationArgs, ResourceSpec
from bayplan.core.plugins.image_locality import ImageLocality
from bayplan.core.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_cluster, make_node, make_pod

MB = 1024 * 1024


def balance(pod, *objects, resources=("cpu", "memory")):
    args = NodeResourcesBalancedAllocationArgs(resources=[ResourceSpec(name) for name in resources])
    plugin, cluster = NodeResourcesBalancedAllocation(args), make_cluster(*objects)
    assert plugin.pre_score(CycleState(), pod, cluster.state.nodes) is None
    return plugin.score_nodes(CycleState(), pod, cluster.state.nodes).tolist()


def test_score_is_75_if_the_balance_does_not_change():
    nodes = [make_node(name, cpu="4", memory="4Gi") for name in ("even", "evens", "tilts")]
    there = [make_pod("b", cpu="2", node="evens"), make_pod("c", memory="2Gi", node="tilts")]
    assert balance(make_pod("p", cpu="1", memory="1Gi"), *nodes, *there) == [75, 75, 75]
    assert balance(make_pod("p", memory="2Gi"), *nodes, *there) == [62, 87, 62]


@cases(
    "resources, score",
    {
        "single resource": (("cpu",), 75),
        "three: shares 1, 0, 0 deviate by 0.47": (("cpu", "memory", "ephemeral-storage"), 51),
        "two of three, the third is not requested": (("cpu", "memory", "example.com/gpu"), 50),
    },
)
def test_score_with_other_numbers_of_resources(resources, score):
    node = make_node("n", cpu="4", memory="4Gi", resources={"ephemeral-storage": "4Gi"})
    assert balance(make_pod("p", cpu="4"), node, resources=resources) == [score]


def test_pod_without_scored_requests_is_skipped():
    plugin, cluster = NodeResourcesBalancedAllocation(), make_cluster(make_node("n"))
    assert plugin.pre_score(CycleState(), make_pod("p"), cluster.state.nodes).code is Code.SKIP
    assert plugin.score_nodes(CycleState(), make_pod("p"), cluster.state.nodes).tolist() == [0]
    assert plugin.score(CycleState(), make_pod("p"), cluster.state.nodes.info(0)) == 0


def images(pod, *nodes):
    return ImageLocality().score_nodes(CycleState(), pod, make_cluster(*nodes).state.nodes).tolist()


@cases(
    "image, scores",
    {
        "big, on half of the nodes": ("big:v1", [48, 0]),
        "too small to count": ("small:v1", [0, 0]),
        "no tag means latest": ("everywhere", [48, 48]),
        "on no node": ("none:v1", [0, 0]),
        "a port is no tag": ("host:5000/tool", [0, 23]),
    },
)
def test_score_by_image_size_and_spread(image, scores):
    first = make_node("a", images={"big:v1": 1000 * MB, "small:v1": 20 * MB, "everywhere:latest": 500 * MB})
    second = make_node("b", images={"everywhere:latest": 500 * MB, "host:5000/tool:latest": 500 * MB})
    assert images(make_pod("p", image=image), first, second) == scores


def test_image_volumes_and_init_containers_count():
    spec = {
        "containers": [{"name": "c", "image": "a:1"}],
        "initContainers": [{"name": "i", "image": "a:1"}],
        "volumes": [{"name": "v", "image": {"reference": "data:1"}}],
    }
    node = make_node("n", images={"a:1": 300 * MB, "data:1": 400 * MB})
    assert images(make_pod("p", spec=spec), node) == [100 * (1000 - 23) // (2000 - 23)]


@pytest.mark.parametrize(("version", "counted"), [("1.36", 1), ("1.37", 2)])
def test_image_volumes_raise_the_limit_since_1_37(version, counted):
    """#138951. Case of TestImageLocalityPriority (image_locality_test): a container and a volume of one image each."""
    spec = {
        "containers": [{"name": "c", "image": "a:1"}],
        "volumes": [{"name": "v", "image": {"reference": "data:1"}}, {"name": "w", "emptyDir": {}}],
    }
    nodes = make_cluster(make_node("n", images={"a:1": 300 * MB, "data:1": 400 * MB})).state.nodes
    plugin, pod = ImageLocality(gates_of(version)), make_pod("p", spec=spec)
    score = plugin.score_nodes(CycleState(), pod, nodes).tolist()
    assert score == [100 * (700 - 23) // (1000 * counted - 23)]


def test_rests_on_changes_with_the_images_of_any_node():
    cluster = make_cluster(make_node("a", images={"a:1": 300 * MB}))
    plugin, pod = ImageLocality(), make_pod("p", image="a:1")
    before = plugin.rests_on(pod, cluster.state.nodes)
    cluster.state.set_node(make_node("a", images={"a:1": 300 * MB}))
    assert plugin.rests_on(pod, cluster.state.nodes) == before
    cluster.state.set_node(make_node("b"))
    assert plugin.rests_on(pod, cluster.state.nodes) != before
