"""Attempts of pods whose resize is deferred: what DeferredPodScheduling, NodeName and NodeResourcesFit say of them.

The cases are those of upstream's plugin tests of 1.37, and some more.
"""

import pytest
from lightkube.models.core_v1 import NodePodPreemptionPolicy
from preempting import budget
from tests.support.tables import cases

from bayplan.core.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.core.cluster.resizes import RESIZES_PREEMPT, resize_deferred
from bayplan.core.framework import events
from bayplan.core.framework.events import Action, ClusterEvent, Hint
from bayplan.core.framework.interface import CycleState, NodeNames
from bayplan.core.framework.profile import Point
from bayplan.core.framework.status import SKIP
from bayplan.core.plugins.deferred_pod_scheduling import (
    FITS,
    FORBIDDEN,
    OTHER_NODE,
    DeferredPodScheduling,
    after_node_added,
    after_policy_change,
)
from bayplan.core.plugins.node_name import NodeName
from bayplan.core.plugins.node_resources.fit import NodeResourcesFit
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_cluster, make_node, make_pod, spread_over

GPU = "example.com/gpu"
OFF, ON = gates_of("1.37"), gates_of("1.37").but(RESIZES_PREEMPT)
PENDING = {"type": "PodResizePending", "status": "True"}
DEFERRED = {**PENDING, "reason": "Deferred"}


def resized(name="p", *, has=None, condition=DEFERRED, node="n1", **pod):
    """A pod on a node that has other requests than it wants."""
    sizes = {"resources": {"requests": has or {}}, "allocatedResources": has or {}}
    container = {"name": "main", "image": "i", "imageID": "", "ready": True, "restartCount": 0, **sizes}
    status = {"conditions": [condition] if condition else [], "containerStatuses": [container] if has else []}
    return make_pod(name, node=node, status=status, **pod)


def forbidding(name, *owners, **node):
    made = make_node(name, **node)
    made.spec.podPreemptionPolicy = NodePodPreemptionPolicy(disableResizePreemption=list(owners))
    return made


@cases(
    "condition, expected",
    {
        "deferred": (DEFERRED, True),
        "infeasible": ({**PENDING, "reason": "Infeasible"}, False),
        "in progress": ({"type": "PodResizeInProgress", "status": "True", "reason": "Deferred"}, False),
        "no reason": (PENDING, False),
        "none": (None, False),
    },
)
def test_which_resizes_are_deferred(condition, expected):
    assert resize_deferred(resized(condition=condition)) is expected


@pytest.mark.feature("DeferredPodScheduling: PreFilter")
def test_other_pods_are_skipped():
    plugin, nodes = DeferredPodScheduling(), make_cluster().state.nodes
    assert plugin.pre_filter(CycleState(), resized(), nodes) is None
    assert plugin.pre_filter(CycleState(), resized(condition=None), nodes) is SKIP


@pytest.mark.feature("DeferredPodScheduling: Filter")
@cases(
    "node, status",
    {
        "its own": (make_node("n1"), None),
        "its own, with an empty policy": (forbidding("n1"), None),
        "its own, which forbids it": (forbidding("n1", "policy1"), FORBIDDEN),
        "another": (make_node("n2"), OTHER_NODE),
        "another, which forbids it": (forbidding("n2", "policy1"), OTHER_NODE),
    },
)
def test_only_the_own_node_passes(node, status):
    cluster = make_cluster(node)
    assert DeferredPodScheduling().filter(CycleState(), resized(), cluster.state.nodes.info(0)) == status


@pytest.mark.feature("DeferredPodScheduling: Permit")
def test_permit_leaves_the_resize_to_the_kubelet():
    plugin = DeferredPodScheduling()
    assert plugin.permit(CycleState(), resized(), "n1") is FITS
    assert plugin.permit(CycleState(), make_pod("p"), "n1") is None


N1, CLOSED = make_node("n1"), forbidding("n1", "a")


@pytest.mark.feature("DeferredPodScheduling: queueing hints")
@cases(
    "old, new, hint",
    {
        "allowed now": (CLOSED, N1, Hint.QUEUE),
        "allowed now, with an empty policy": (CLOSED, forbidding("n1"), Hint.QUEUE),
        "forbidden now": (N1, CLOSED, Hint.SKIP),
        "still forbidden": (CLOSED, forbidding("n1", "b"), Hint.SKIP),
        "still allowed": (N1, forbidding("n1"), Hint.SKIP),
        "another node": (forbidding("n2", "a"), make_node("n2"), Hint.SKIP),
    },
)
def test_hint_after_a_change_of_the_policy(old, new, hint):
    assert after_policy_change(resized(), old, new) is hint
    assert after_policy_change(resized(condition=None), old, new) is Hint.SKIP


@pytest.mark.feature("DeferredPodScheduling: queueing hints")
@cases(
    "node, hint",
    {"its own": (N1, Hint.QUEUE), "it forbids it": (CLOSED, Hint.SKIP), "another": (make_node("n2"), Hint.SKIP)},
)
def test_hint_after_a_node_was_added(node, hint):
    assert after_node_added(resized(), None, node) is hint
    assert after_node_added(resized(condition=None), None, node) is Hint.SKIP


@pytest.mark.feature("NodeName: the own node of a deferred resize")
def test_only_the_own_node_is_filtered():
    plugin = NodeName().for_resizes()
    assert plugin.pre_filter(CycleState(), resized(), make_cluster().state.nodes) == NodeNames(frozenset({"n1"}))
    assert not hasattr(NodeName(), "pre_filter")


def room(**amounts):
    return {"resources": {GPU: "2"}, **amounts}


CPU_NOW = {"cpu": "1"}
TO_TWO, LACKS_CPU = resized(cpu="2", has=CPU_NOW), (True, "Insufficient cpu")
FIT = {
    "the node has room": ([TO_TWO], {}, None),
    "others are too large": ([TO_TWO, make_pod("o", node="n1", cpu="3")], {}, LACKS_CPU),
    "more than the node has": ([resized(cpu="5", has=CPU_NOW)], {}, (False, "Insufficient cpu")),
    "another resource is overcommitted": (
        [resized(cpu="2", memory="1Gi", has=CPU_NOW), make_pod("o", node="n1", memory="16Gi")],
        {},
        (True, "Insufficient memory"),
    ),
    "what it doesn't request is overcommitted": ([TO_TWO, make_pod("o", node="n1", memory="17Gi")], {}, None),
    "less than it has": ([resized(cpu="1", has={"cpu": "2"}), make_pod("o", node="n1", cpu="2")], {}, None),
    "devices are not counted twice": ([resized(cpu="2", resources={GPU: "2"}, has={**CPU_NOW, GPU: "2"})], {}, None),
    "the node allows no other pod": ([TO_TWO], {"pods": 1}, (True, "Too many pods")),
}


@pytest.mark.feature("NodeResourcesFit: deferred resizes")
@cases("pods, node, expected", FIT)
def test_what_a_resize_adds_must_fit(pods, node, expected):
    cluster = make_cluster(make_node("n1", **room(**node)), *pods)
    plugin, cycle = NodeResourcesFit(gates=ON).for_resizes(), CycleState()
    plugin.pre_filter(cycle, pods[0], cluster.state.nodes)
    status = plugin.filter(cycle, pods[0], cluster.state.nodes.info(0))
    assert expected == (status and (status.code.name == "UNSCHEDULABLE", *status.reasons))


def on(node, cpu, name="o"):
    return make_pod(name, node=node, cpu=cpu)


def grown(cpu):
    return make_node("n1", cpu=cpu)


WAITS = resized(cpu="3", has=CPU_NOW)
SCALE_DOWN, SCALE_UP = Action.UPDATE_POD_SCALE_DOWN, Action.UPDATE_POD_SCALE_UP
HINTS = {
    "deleted there": (events.POD, Action.DELETE, on("n1", "1"), None, Hint.QUEUE),
    "deleted elsewhere": (events.POD, Action.DELETE, on("n2", "1"), None, Hint.SKIP),
    "scaled down there": (events.POD, SCALE_DOWN, on("n1", "2"), on("n1", "1"), Hint.QUEUE),
    "scaled down elsewhere": (events.POD, SCALE_DOWN, on("n2", "2"), on("n2", "1"), Hint.SKIP),
    "scaled up there": (events.POD, SCALE_UP, on("n1", "1"), on("n1", "2"), Hint.QUEUE),
    "scaled up elsewhere": (events.POD, SCALE_UP, on("n2", "1"), on("n2", "2"), Hint.SKIP),
    "own scale-down": (events.POD, SCALE_DOWN, WAITS, resized(cpu="2", has=CPU_NOW), Hint.QUEUE),
    "own scale-up": (events.POD, SCALE_UP, WAITS, resized(cpu="4", has=CPU_NOW), Hint.QUEUE),
    "its node grew": (events.NODE, Action.UPDATE_NODE_ALLOCATABLE, grown("3"), grown("4"), Hint.QUEUE),
    "its node shrank": (events.NODE, Action.UPDATE_NODE_ALLOCATABLE, grown("4"), grown("3"), Hint.SKIP),
    "another node grew": (
        events.NODE,
        Action.UPDATE_NODE_ALLOCATABLE,
        make_node("n2", cpu="3"),
        make_node("n2"),
        Hint.SKIP,
    ),
    "another node is new": (events.NODE, Action.ADD, None, make_node("n2"), Hint.SKIP),
}


def hints_of(plugin, kind, action, pod, old, new):
    happened = ClusterEvent(kind, action)
    for each in plugin.events():
        if each.event.matches(happened):
            yield each.hint(pod, old, new)
            topics = each.topics and each.topics.of_event(old, new)
            if topics is not None and set(topics).isdisjoint(each.topics.of_pod(pod)):
                yield Hint.SKIP


@pytest.mark.feature("NodeResourcesFit: queueing hints of deferred resizes")
@cases("kind, action, old, new, hint", HINTS)
def test_hints_of_deferred_resizes(kind, action, old, new, hint):
    assert {*hints_of(NodeResourcesFit(gates=ON), kind, action, WAITS, old, new)} == {hint}


@pytest.mark.feature("NodeResourcesFit: queueing hints of deferred resizes")
@cases(
    "action, old, new, hint",
    {
        "deleted": (Action.DELETE, on("n2", "1"), None, Hint.QUEUE),
        "scaled down": (SCALE_DOWN, on("n2", "2"), on("n2", "1"), Hint.QUEUE),
        "scaled up": (SCALE_UP, on("n2", "1"), on("n2", "2"), Hint.SKIP),
    },
)
def test_pods_without_a_node_wait_for_all_nodes(action, old, new, hint):
    pod = make_pod("p", cpu="3")
    assert {*hints_of(NodeResourcesFit(gates=ON), events.POD, action, pod, old, new)} == {hint}
    without = {*hints_of(NodeResourcesFit(gates=OFF), events.POD, action, pod, old, new)}
    assert without == (set() if action is SCALE_UP else {hint})


def test_plugins_that_only_place_take_no_part():
    profile = make_cluster(gates=ON).profile.for_resizes()
    assert {plugin.name for plugin in profile.at(Point.FILTER)} == {
        "NodeName",
        "DeferredPodScheduling",
        "NodeResourcesFit",
    }
    assert [plugin.name for plugin in profile.at(Point.POST_FILTER)] == ["DefaultPreemption"]
    assert [plugin.name for plugin in profile.at(Point.PERMIT)] == ["DeferredPodScheduling"]
    assert not profile.at(Point.SCORE)
    assert not profile.at(Point.BIND)


def low(name, cpu, node="n1", **pod):
    return make_pod(name, node=node, cpu=cpu, **pod)


def grows(**pod):
    return resized("grows", cpu="4", has=CPU_NOW, priority=10, **pod)


TAINTED = make_node("n1", taints=["a=b:NoSchedule"], unschedulable=True)
BUDGET = budget("b", "web")
WHO = {
    "a pod of lower priority": ([make_node("n1"), grows(), low("o", "3")], (), ["o"]),
    "not more than needed": ([make_node("n1"), grows(), low("a", "1"), low("b", "3")], (), ["a", "b"]),
    "those that make room": ([make_node("n1", cpu="6"), grows(), low("a", "1"), low("b", "3", priority=5)], (), ["b"]),
    "nobody elsewhere": (
        [make_node("n1"), make_node("n2"), grows(), low("o", "3", "n2"), low("s", "3", priority=10)],
        (),
        [],
    ),
    "those whose budget allows it": (
        [make_node("n1", cpu="6"), grows(), low("a", "2", labels={"app": "web"}), low("b", "2")],
        (BUDGET,),
        ["b"],
    ),
    "where it could not be placed": (
        [TAINTED, grows(node_selector={"no": "node"}, spread=[spread_over("zone")], host_ports=[80]), low("o", "3")],
        (),
        ["o"],
    ),
}


@pytest.mark.feature("DefaultPreemption: deferred resizes")
@cases("objects, budgets, victims", WHO)
def test_who_is_evicted(objects, budgets, victims):
    cluster = make_cluster(*objects, gates=ON)
    for each in budgets:
        cluster.state.objects[POD_DISRUPTION_BUDGET].set(f"{each.metadata.namespace}/{each.metadata.name}", each)
    decision = cluster.decide(next(each for each in objects if getattr(each, "name", "") == "grows"))
    assert sorted(victim.name for victim in decision.victims) == victims
    assert decision.node is None
