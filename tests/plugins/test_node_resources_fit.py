import pytest
from lightkube.models.resource_v1 import DeviceClass
from tests.support.tables import cases

from bayplan.core.api.objects import convert
from bayplan.core.framework.events import Hint
from bayplan.core.framework.interface import CycleState
from bayplan.core.framework.status import Code
from bayplan.core.plugins.arguments import (
    NodeResourcesFitArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from bayplan.core.plugins.node_resources import fit
from bayplan.core.plugins.node_resources.fit import NodeResourcesFit
from bayplan.testing.builders import make_cluster, make_node, make_pod

GPU = "example.com/gpu"


def statuses_of(cluster, pod, plugin=None):
    plugin = plugin or NodeResourcesFit()
    cycle = CycleState()
    plugin.pre_filter(cycle, pod, cluster.state.nodes)
    rejections = plugin.filter_nodes(cycle, pod, cluster.state.nodes)
    if rejections is None:
        return {}
    names = cluster.state.table.names
    statuses = {names[row]: rejections.statuses[index - 1] for row, index in enumerate(rejections.index) if index}
    return {name: (status.code is Code.UNSCHEDULABLE, *status.reasons) for name, status in statuses.items()}


@cases(
    "pod, statuses",
    {
        "fits": (make_pod("p", cpu="1"), {}),
        "fits exactly": (make_pod("p", cpu="2", memory="2Gi"), {}),
        "too little left": (make_pod("p", cpu="2001m"), {"n": (True, "Insufficient cpu")}),
        "more than the node has": (make_pod("p", cpu="5"), {"n": (False, "Insufficient cpu")}),
        "all reasons": (make_pod("p", cpu="3", memory="3Gi"), {"n": (True, "Insufficient cpu", "Insufficient memory")}),
        "one unresolvable": (
            make_pod("p", cpu="3", memory="30Gi"),
            {"n": (False, "Insufficient cpu", "Insufficient memory")},
        ),
        "extended": (make_pod("p", resources={GPU: "2"}), {"n": (True, f"Insufficient {GPU}")}),
        "extended, on no node": (
            make_pod("p", resources={"example.com/fpga": "1"}),
            {"n": (False, "Insufficient example.com/fpga")},
        ),
        "amount 0 of a missing resource": (make_pod("p", resources={"example.com/fpga": "0"}), {}),
        "unknown name": (make_pod("p", resources={"widgets": "7"}), {}),
        "storage": (
            make_pod("p", resources={"ephemeral-storage": "1Gi"}),
            {"n": (False, "Insufficient ephemeral-storage")},
        ),
    },
)
def test_filter(pod, statuses):
    cluster = make_cluster(
        make_node("n", cpu="4", memory="4Gi", resources={GPU: "2"}),
        make_pod("there", cpu="2", memory="2Gi", node="n", resources={GPU: "1"}),
    )
    assert statuses_of(cluster, pod) == statuses


def test_more_resources_than_an_integer_has_bits():
    names = [f"example.com/{number:03}" for number in range(150)]
    every, some, one = dict.fromkeys(names, "2"), dict.fromkeys(names[:70], "2"), dict.fromkeys(names[:149], "2")
    cluster = make_cluster(
        *(make_node(f"n{n}", resources=resources) for n, resources in enumerate((every, some, one, {}, every, some))),
        make_pod("running", node="n4", resources={names[63]: "2"}),
    )
    pod = make_pod("p", resources=dict.fromkeys(names, "1"))
    found = statuses_of(cluster, pod)
    missing = [f"Insufficient {name}" for name in names]
    assert found == {
        "n1": (False, *missing[70:]),
        "n2": (False, missing[149]),
        "n3": (False, *missing),
        "n4": (True, missing[63]),
        "n5": (False, *missing[70:]),
    }


def test_too_many_pods_is_the_first_reason():
    cluster = make_cluster(make_node("n", pods=1), make_pod("there", node="n"))
    assert statuses_of(cluster, make_pod("p", cpu="9")) == {"n": (False, "Too many pods", "Insufficient cpu")}
    assert statuses_of(cluster, make_pod("p")) == {"n": (True, "Too many pods")}


@pytest.mark.parametrize(
    ("args", "ignored"),
    [
        (NodeResourcesFitArgs(ignoredResources=[GPU]), True),
        (NodeResourcesFitArgs(ignoredResourceGroups=["example.com"]), True),
        (NodeResourcesFitArgs(ignoredResources=["cpu"], ignoredResourceGroups=["other.com"]), False),
    ],
)
def test_ignored_resources(args, ignored):
    cluster = make_cluster(make_node("n"))
    assert (statuses_of(cluster, make_pod("p", resources={GPU: "1"}), NodeResourcesFit(args)) == {}) is ignored
    assert statuses_of(cluster, make_pod("p", cpu="99"), NodeResourcesFit(args))


def test_status_of_a_pending_pod_is_ignored():
    statuses = [
        {
            "name": "main",
            "image": "",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "resources": {"requests": {"cpu": "9"}},
        }
    ]
    pod = make_pod("p", cpu="1", status={"containerStatuses": statuses})
    assert pod.requested["cpu"] == 9000
    assert fit.fit_request(pod)["cpu"] == 1000


def test_scoring_request_has_defaults_and_no_pod_level_resources():
    pod = make_pod("p", spec={"resources": {"requests": {"cpu": "3"}}})
    assert fit.fit_request(pod) == {"cpu": 3000}
    assert fit.scoring_request(pod) == {"cpu": 100, "memory": 200 * 2**20}


def strategy(kind, *resources, shape=()):
    points = [UtilizationShapePoint(*point) for point in shape]
    return NodeResourcesFitArgs(
        scoringStrategy=ScoringStrategy(
            kind, [ResourceSpec(*each) for each in resources], RequestedToCapacityRatioParam(points) if points else None
        )
    )


@cases(
    "args, scores",
    {
        "least: 50 of cpu and 99 of memory; nothing left": (strategy("LeastAllocated"), [74, 0]),
        "least, weighted": (strategy("LeastAllocated", ("cpu", 3), ("memory", 1)), [62, 0]),
        "most: overcommitted counts as full": (strategy("MostAllocated"), [25, 100]),
        "not requested": (strategy("LeastAllocated", (GPU, 1)), [0, 0]),
        "ratio rises": (strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(0, 0), (100, 10)]), [50, 100]),
        "ratio falls": (strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(0, 10), (100, 0)]), [50, 0]),
        "flat ends": (strategy("RequestedToCapacityRatio", ("cpu", 1), shape=[(60, 7), (90, 10)]), [70, 100]),
    },
)
def test_strategies(args, scores):
    cluster = make_cluster(
        make_node("half", cpu="4", memory="1Ti"),
        make_node("full", cpu="2", memory="201Mi"),
        make_pod("there", cpu="1", node="full"),
    )
    plugin, pod = NodeResourcesFit(args), make_pod("p", cpu="2", memory="1Mi")
    got = plugin.score_nodes(CycleState(), pod, cluster.state.nodes).tolist()
    assert got == scores


def test_node_without_a_resource_is_scored_by_the_others():
    cluster = make_cluster(make_node("with", resources={GPU: "4"}), make_node("without"))
    plugin = NodeResourcesFit(strategy("LeastAllocated", ("cpu", 1), (GPU, 3)))
    pod = make_pod("p", cpu="2", resources={GPU: "1"})
    assert plugin.score_nodes(CycleState(), pod, cluster.state.nodes).tolist() == [(50 + 75 * 3) // 4, 50]


NEEDS = make_pod("p", cpu="2")


@pytest.mark.feature("NodeResourcesFit: queueing hints")
@cases(
    "old, new, hint",
    {
        "deleted": (make_pod("o", cpu="1", node="n"), None, Hint.QUEUE),
        "deleted, had no node": (make_pod("o", cpu="1"), None, Hint.SKIP),
        "deleted, was nominated": (make_pod("o", status={"nominatedNodeName": "n"}), None, Hint.QUEUE),
        "scaled down": (make_pod("o", cpu="2", node="n"), make_pod("o", cpu="1", node="n"), Hint.QUEUE),
        "scaled down another resource": (
            make_pod("o", memory="2Gi", node="n"),
            make_pod("o", memory="1Gi", node="n"),
            Hint.SKIP,
        ),
        "scaled down, has no node": (make_pod("o", cpu="2"), make_pod("o", cpu="1"), Hint.SKIP),
        "own scale-down": (NEEDS, make_pod("p", cpu="1"), Hint.QUEUE),
    },
)
def test_hint_after_pod_event(old, new, hint):
    assert fit.after_pod_event(NEEDS, old, new) is hint


@pytest.mark.feature("NodeResourcesFit: queueing hints")
@cases(
    "old, new, hint",
    {
        "new": (None, make_node("n", cpu="2"), Hint.QUEUE),
        "new, too small": (None, make_node("n", cpu="1"), Hint.SKIP),
        "new, allows no pods": (None, make_node("n", pods=0), Hint.SKIP),
        "grew": (make_node("n", cpu="2"), make_node("n", cpu="3"), Hint.QUEUE),
        "another resource grew": (make_node("n", memory="1Gi"), make_node("n", memory="2Gi"), Hint.SKIP),
        "allows more pods": (make_node("n", pods=1), make_node("n", pods=2), Hint.QUEUE),
        "scaled down": (make_node("n", cpu="3"), make_node("n", cpu="2"), Hint.SKIP),
    },
)
def test_hint_after_node_change(old, new, hint):
    assert fit.after_node_change(NEEDS, old, new) is hint


def device_class(name, resource=None):
    return convert(
        DeviceClass, {"metadata": {"name": name}, "spec": {"extendedResourceName": resource} if resource else {}}
    )


@pytest.mark.feature("NodeResourcesFit: queueing hints")
@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, device_class("c", GPU), Hint.QUEUE),
        (None, device_class("c", "example.com/other"), Hint.SKIP),
        (device_class("c"), device_class("c", GPU), Hint.QUEUE),
        (device_class("c", GPU), device_class("c", GPU), Hint.SKIP),
        (None, device_class("gpu-class"), Hint.QUEUE),
        (device_class("gpu-class"), device_class("gpu-class"), Hint.SKIP),
    ],
)
def test_hint_after_device_class_change(old, new, hint):
    pod = make_pod("p", resources={GPU: "1", "deviceclass.resource.kubernetes.io/gpu-class": "1"})
    assert fit.after_device_class_change(pod, old, new) is hint


def test_the_explanation_names_pods_that_are_assumed_on_the_node():
    cluster = make_cluster(make_node("n", cpu="4"))
    cluster.state.assume(make_pod("y", cpu="3"), "n")
    plugin, cycle, pod, nodes = NodeResourcesFit(), CycleState(), make_pod("p", cpu="2"), cluster.state.nodes
    plugin.pre_filter(cycle, pod, nodes)

    details = plugin.explain(cycle, pod, nodes.info(0))

    assert details.text == "Insufficient cpu: lacks 1 (pod default/y, which is not bound yet, holds 3)"
