"""DefaultPreemption: who may preempt, which pods would go, what it costs, and what is said when nothing helps."""

from __future__ import annotations

import random

import pytest
from lightkube.models.policy_v1 import PodDisruptionBudget

from bayplan import Plugin, Status
from bayplan.api.kinds import POD_DISRUPTION_BUDGET
from bayplan.api.objects import convert
from bayplan.config import build_profile
from bayplan.config.types import KubeSchedulerProfile, PluginConfig
from bayplan.framework.events import Hint
from bayplan.plugins.default_preemption.plugin import DefaultPreemption, after_pod_deletion
from bayplan.scheduling.cycle import decide
from bayplan.scheduling.decision import Outcome
from bayplan.testing.builders import make_cluster, make_node, make_pod
from bayplan.testing.offline import OfflineHandle

LOW, MIDDLE, HIGH = 0, 100, 1000


def running(name, node, priority=LOW, cpu="1", started=None, **others):
    """A pod on a node. `started`: seconds after noon; None for one that has not started."""
    status = {} if started is None else {"startTime": f"2026-01-01T12:00:{started:02}Z"}
    return make_pod(name, node=node, priority=priority, cpu=cpu, status=status | others.pop("status", {}), **others)


def budget(name, app, allowed=0, disrupted=(), namespace="default", selector=None):
    selector = {"matchLabels": {"app": app}} if selector is None else selector
    processed = dict.fromkeys(disrupted, "2026-01-01T00:00:00Z")
    document = {
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": selector},
        "status": {"disruptionsAllowed": allowed, "disruptedPods": processed},
    }
    return convert(PodDisruptionBudget, document)


def cluster_of(*objects, cpu="2", nodes="ab", budgets=(), plugins=()):
    cluster = make_cluster(*(make_node(name, cpu=cpu) for name in nodes), *objects, plugins=plugins)
    for each in budgets:
        cluster.state.objects[POD_DISRUPTION_BUDGET].set(f"{each.metadata.namespace}/{each.metadata.name}", each)
    return cluster


def preempted(cluster, pod):
    """Node and names of the victims, the most important first."""
    decision = cluster.decide(pod)
    assert decision.outcome is Outcome.UNSCHEDULABLE, decision
    return decision.nominated_node, [victim.name for victim in decision.victims]


def vip(cpu="2", priority=HIGH, **others):
    return make_pod("vip", cpu=cpu, priority=priority, **others)


def labelled(app):
    return {"labels": {"app": app}}


ANTI_AFFINITY = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}


@pytest.mark.feature("DefaultPreemption: dry runs and the order of reprieve")
@pytest.mark.parametrize(
    ("pods", "pod", "victims"),
    [
        pytest.param([running("low", "a"), running("high", "a", HIGH)], vip("1"), ["low"], id="lower priority only"),
        pytest.param(
            [running("small", "a", LOW, "100m"), running("large", "a", MIDDLE, "1900m")],
            vip("1500m"),
            ["large"],
            id="a small one of lower priority stays",
        ),
        pytest.param(
            [
                running("m1", "a", MIDDLE, "200m"),
                running("l", "a", LOW, "200m"),
                running("m2", "a", MIDDLE, "1"),
                running("h", "a", HIGH, "200m"),
            ],
            vip("1500m"),
            ["m2", "l"],
            id="of mixed priorities, some more than the lowest",
        ),
        pytest.param(
            [running("late", "a", LOW, "500m", started=9), running("early", "a", LOW, "500m", started=1)],
            vip("1500m"),
            ["late"],
            id="of equal priority the youngest",
        ),
        pytest.param(
            [running("started", "a", LOW, "500m", started=9), running("not-yet", "a", LOW, "500m")],
            vip("1500m"),
            ["not-yet"],
            id="one that has not started before one that has",
        ),
        pytest.param(
            [running("early", "a", LOW, started=1), running("late", "a", LOW, started=9)],
            vip("2"),
            ["early", "late"],
            id="all, the eldest first",
        ),
        pytest.param(
            [running("web", "a", LOW, "100m", affinity=ANTI_AFFINITY), running("other", "a", MIDDLE, "100m")],
            vip("100m", **labelled("web")),
            ["web"],
            id="one whose anti-affinity keeps the pod away",
        ),
        pytest.param(
            [running("web", "a", LOW, "100m", **labelled("web")), running("other", "a", LOW, "100m")],
            vip("100m", affinity=ANTI_AFFINITY),
            ["web"],
            id="one that the pod keeps away from",
        ),
        pytest.param(
            [running("web", "a", LOW, "100m", host_ports=[80]), running("other", "a", LOW, "100m", host_ports=[81])],
            vip("100m", host_ports=[80]),
            ["web"],
            id="one that has the port",
        ),
        pytest.param(
            [running("p", "a", -20, "2")], vip("2", priority=-10), ["p"], id="negative priorities are compared too"
        ),
    ],
)
def test_victims_on_a_node(pods, pod, victims):
    assert preempted(cluster_of(*pods, nodes="a"), pod) == ("a", victims)


@pytest.mark.feature("DefaultPreemption: dry runs and the order of reprieve")
def test_spreading_is_repaired_on_the_node_that_it_is_tried_on():
    zones = {"a": "1", "b": "1", "x": "2"}
    nodes = [make_node(name, labels={"zone": zone}) for name, zone in zones.items()]
    spread = [
        {"maxSkew": 1, "topologyKey": key, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": SELECTS_WEB}
        for key in ("zone", "kubernetes.io/hostname")
    ]
    pods = [
        running("a1", "a", MIDDLE, **labelled("web")),
        running("a2", "a", LOW, **labelled("web")),
        running("b1", "b", LOW, **labelled("web")),
        running("x1", "x", HIGH, **labelled("web")),
        running("x2", "x", HIGH, **labelled("web")),
    ]
    pod = vip("100m", spec={"topologySpreadConstraints": spread}, **labelled("web"))
    node, victims = preempted(make_cluster(*nodes, *pods), pod)
    assert (node, victims) in [("a", ["a2"]), ("b", ["b1"])]


SELECTS_WEB = {"matchLabels": {"app": "web"}}
UNREADABLE = {"matchExpressions": [{"key": "app", "operator": "Near"}]}


@pytest.mark.feature("DefaultPreemption: disruption budgets")
@pytest.mark.parametrize(
    ("allowed", "options", "victim"),
    [
        pytest.param(2, {}, "young", id="both may go"),
        pytest.param(1, {}, "old", id="one may go, so that the other comes back first"),
        pytest.param(0, {}, "plain", id="none may go"),
        pytest.param(0, {"namespace": "other"}, "young", id="a budget of another namespace"),
        pytest.param(0, {"selector": {}}, "young", id="an empty selector protects nobody"),
        pytest.param(0, {"selector": UNREADABLE}, "young", id="so does one that cannot be read"),
        pytest.param(0, {"disrupted": ["old", "young"]}, "young", id="pods that are being disrupted do not count"),
    ],
)
def test_protected_pods_are_brought_back_first(allowed, options, victim):
    """One of three has to go, the least important of which are protected."""
    pods = [
        running("old", "a", LOW, "500m", started=1, **labelled("db")),
        running("young", "a", LOW, "500m", started=2, **labelled("db")),
        running("plain", "a", MIDDLE, "1", started=3),
    ]
    cluster = cluster_of(*pods, nodes="a", budgets=[budget("db", "db", allowed, **options)])
    assert preempted(cluster, vip("500m")) == ("a", [victim])


@pytest.mark.feature("DefaultPreemption: disruption budgets")
def test_a_selector_for_all_labels_protects_no_pod_without_labels():
    everything = {"matchExpressions": [{"key": "none", "operator": "DoesNotExist"}]}
    pods = [running("bare", "a", LOW), running("labelled", "a", LOW, started=1, **labelled("db"))]
    cluster = cluster_of(*pods, nodes="a", budgets=[budget("all", "", selector=everything)])
    assert preempted(cluster, vip("1")) == ("a", ["bare"])


@pytest.mark.feature("DefaultPreemption: choice among candidates")
@pytest.mark.parametrize(
    ("pods", "best"),
    [
        pytest.param(
            [running("a1", "a", LOW, "2", **labelled("db")), running("b1", "b", MIDDLE, "2")], "b", id="broken budgets"
        ),
        pytest.param([running("a1", "a", MIDDLE, "2"), running("b1", "b", LOW, "2")], "b", id="highest priority"),
        pytest.param(
            [running(f"{node}1", node, MIDDLE, "1") for node in "ab"]
            + [running("a2", "a", 50), running("b2", "b", LOW)],
            "b",
            id="sum of priorities",
        ),
        pytest.param(
            [running("a1", "a", -5), running("a2", "a", -5), running("b1", "b", -5, "2")],
            "b",
            id="fewer victims of negative priority, though their sum is higher",
        ),
        pytest.param(
            [
                running("a1", "a", MIDDLE, started=1),
                running("a2", "a", MIDDLE, started=9),
                running("b1", "b", MIDDLE, started=3),
                running("b2", "b", MIDDLE, started=4),
            ],
            "b",
            id="latest start of the eldest",
        ),
        pytest.param(
            [
                running("a1", "a", MIDDLE, started=5),
                running("a2", "a", LOW, started=9),
                running("b1", "b", MIDDLE, started=6),
                running("b2", "b", LOW, started=1),
            ],
            "b",
            id="start of the most important only",
        ),
        pytest.param(
            [running("a1", "a", LOW, "2", started=59), running("b1", "b", LOW, "2")], "b", id="one that has not started"
        ),
    ],
)
@pytest.mark.parametrize("seed", range(3))
def test_the_cheapest_candidate_is_taken(pods, best, seed):
    cluster = cluster_of(*pods, budgets=[budget("db", "db")])
    assert cluster.decide(vip("2"), seed).nominated_node == best


class Picky(Plugin):
    """Reads no pods of the node itself, but remembers what it is told; dislikes nodes with more than one pod."""

    name = "Picky"

    def pre_filter(self, cycle, pod, nodes):
        cycle.data["Picky"] = Counted({nodes.name(row): len(nodes.pods(row)) for row in range(len(nodes))})

    def add_pod(self, cycle, pod, added, node):
        cycle.data["Picky"].pods[node.name] += 1

    def remove_pod(self, cycle, pod, removed, node):
        if removed.name == "sticky":
            return Status.error("it sticks")
        cycle.data["Picky"].pods[node.name] -= 1
        return None

    def filter(self, cycle, pod, node):
        return "too many" if cycle.data["Picky"].pods[node.name] > 1 else None


class Counted:
    def __init__(self, pods):
        self.pods = pods

    def clone(self):
        return Counted(dict(self.pods))


@pytest.mark.feature("DefaultPreemption: plugins with PreFilter extensions")
def test_plugins_that_remember_are_told_who_goes():
    pods = [running(f"{node}{n}", node, LOW, "100m", started=n) for node in "ab" for n in range(3)]
    cluster = cluster_of(*pods, running("b3", "b", LOW, "100m", started=5), plugins=[Picky])
    assert preempted(cluster, vip("100m")) == ("a", ["a1", "a2"])


@pytest.mark.feature("DefaultPreemption: plugins with PreFilter extensions")
def test_a_plugin_that_fails_on_a_node_leaves_the_others():
    crowd = [running("a0", "a", LOW, "100m"), running("sticky", "a", LOW, "100m")]
    other = [running(f"b{n}", "b", LOW, "100m", started=n) for n in range(3)]
    assert preempted(cluster_of(*crowd, *other, plugins=[Picky]), vip("100m")) == ("b", ["b1", "b2"])
    decision = cluster_of(*crowd, nodes="a", plugins=[Picky]).decide(vip("100m"))
    assert decision.message.endswith('preemption: running RemovePod on PreFilter plugin "Picky": it sticks')
    assert (decision.outcome, decision.nominated_node) == (Outcome.UNSCHEDULABLE, None)


@pytest.mark.feature("DefaultPreemption: PostFilter's messages")
@pytest.mark.parametrize(
    ("objects", "pod", "message"),
    [
        pytest.param([running("p", "a", HIGH, "2")], vip(), "1 No preemption victims found for incoming pod", id="tie"),
        pytest.param([], vip("3"), "1 Preemption is not helpful for scheduling", id="beyond help"),
        pytest.param(
            [running("low", "a", LOW), running("high", "a", HIGH)], vip(), "1 Insufficient cpu", id="not enough goes"
        ),
    ],
)
def test_what_is_said_when_nothing_helps(objects, pod, message):
    decision = cluster_of(*objects, nodes="a").decide(pod)
    assert decision.diagnosis.post_filter_message == f"preemption: 0/1 nodes are available: {message}."
    assert (decision.nominated_node, decision.victims) == ("", ())


@pytest.mark.feature("DefaultPreemption: PostFilter's messages")
def test_reasons_of_many_nodes_add_up():
    objects = [running("b", "b", LOW, "100m"), running("high", "b", HIGH, "1900m"), running("c", "c", HIGH, "2")]
    cluster = cluster_of(*objects, make_node("d", cpu="1"), make_node("e", cpu="4", unschedulable=True), nodes="bc")
    assert cluster.decide(vip()).diagnosis.post_filter_message == (
        "preemption: 0/4 nodes are available: 1 Insufficient cpu, 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )


def terminating(priority=LOW, reason="PreemptionByScheduler", status="True"):
    condition = {"type": "DisruptionTarget", "status": status, "reason": reason}
    pod = running("victim", "a", priority, "2", status={"conditions": [condition]})
    pod.deletion_timestamp = pod.creation_timestamp
    return pod


@pytest.mark.feature("DefaultPreemption: eligibility, preemptionPolicy, terminating victims")
@pytest.mark.parametrize(
    ("victim", "spec", "nominated", "why"),
    [
        pytest.param(running("p", "a", LOW, "2"), {"preemptionPolicy": "Never"}, "", "Never", id="Never"),
        pytest.param(running("p", "a", LOW, "2"), {"preemptionPolicy": "PreemptLowerPriority"}, "", "", id="lower"),
        pytest.param(running("p", "a", LOW, "2"), {}, "", "", id="no policy"),
        pytest.param(terminating(), {}, "a", "terminating", id="its victim is on its way out"),
        pytest.param(terminating(), {}, "", "", id="not nominated"),
        pytest.param(terminating(reason="DeletionByTaintManager"), {}, "a", "", id="not preempted"),
        pytest.param(terminating(status="False"), {}, "a", "", id="condition is false"),
        pytest.param(terminating(), {"nodeSelector": {"none": "here"}}, "a", "helpful", id="node is beyond help"),
        pytest.param(terminating(), {}, "gone", "", id="the node is gone"),
    ],
)
def test_who_may_preempt(victim, spec, nominated, why):
    pod = vip(spec=spec, status={"nominatedNodeName": nominated})
    decision = cluster_of(victim, nodes="a").decide(pod)
    said = {
        "": "",
        "Never": "preemption: not eligible due to preemptionPolicy=Never.",
        "terminating": "preemption: not eligible due to a terminating pod on the nominated node.",
        "helpful": "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    }
    assert decision.diagnosis.post_filter_message == said[why]
    cleared = {"": "a", "helpful": ""}
    assert decision.nominated_node == cleared.get(why), "what keeps a pod waiting leaves its nomination"


@pytest.mark.feature("DefaultPreemption: nominated pods")
def test_room_is_not_made_where_a_nominated_pod_of_the_same_priority_is_to_go():
    cluster = cluster_of(running("a1", "a", LOW, "2"), running("b1", "b", MIDDLE, "2"))
    cluster.state.nominations.add(make_pod("first", cpu="2", priority=HIGH), "a")
    assert preempted(cluster, vip()) == ("b", ["b1"])
    assert preempted(cluster, vip(priority=HIGH + 1)) == ("a", ["a1"])


class Rolls(random.Random):
    """Says where to begin."""

    def __init__(self, offset):
        super().__init__(0)
        self.offset = offset

    def randrange(self, *_):
        return self.offset


@pytest.mark.feature("DefaultPreemption: number of candidates")
@pytest.mark.parametrize(
    ("args", "offset", "protected", "expected"),
    [
        pytest.param({}, 4, "", "3", id="all of few nodes"),
        pytest.param({"minCandidateNodesPercentage": 40, "minCandidateNodesAbsolute": 1}, 4, "", "1", id="40 %"),
        pytest.param({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 2}, 2, "", "3", id="two"),
        pytest.param({"minCandidateNodesPercentage": 40, "minCandidateNodesAbsolute": 3}, 0, "", "3", id="the greater"),
        pytest.param(
            {"minCandidateNodesPercentage": 39, "minCandidateNodesAbsolute": 1}, 4, "", "5", id="rounded down"
        ),
        pytest.param(
            {"minCandidateNodesPercentage": 40, "minCandidateNodesAbsolute": 1},
            0,
            "1235",
            "4",
            id="past broken budgets",
        ),
    ],
)
def test_how_many_candidates_are_looked_for(args, offset, protected, expected):
    """Five nodes; the third is the best, the first better than the last."""
    priorities = {"1": 20, "2": 30, "3": 10, "4": 40, "5": 25}
    pods = [
        running(f"p{name}", name, priority, "2", **labelled("db" if name in protected else ""))
        for name, priority in priorities.items()
    ]
    cluster = cluster_of(*pods, nodes="12345", budgets=[budget("db", "db")])
    profile = KubeSchedulerProfile(pluginConfig=[PluginConfig("DefaultPreemption", args)])
    decision = decide(build_profile(profile, OfflineHandle(cluster.state)), cluster.state, vip(), Rolls(offset))
    assert decision.nominated_node == expected


@pytest.mark.feature("DefaultPreemption: holding a preemptor back")
def test_a_pod_is_held_back_while_its_victims_are_evicted():
    cluster = cluster_of(victim := running("victim", "a"), nodes="a")
    plugin, pod, state = DefaultPreemption(OfflineHandle(cluster.state)), vip(), cluster.state
    assert plugin.pre_enqueue(pod) is None
    state.preemptions.begin(pod.uid)
    held_back = plugin.pre_enqueue(pod)
    assert held_back == Status.unresolvable("waiting for the preemption for this pod to be finished")
    assert plugin.pre_enqueue(make_pod("other")) is None
    state.preemptions.only_left(pod.uid, victim.uid)
    assert plugin.pre_enqueue(pod) == held_back
    state.remove_pod(victim.uid)
    assert plugin.pre_enqueue(pod) is None, "the last victim is gone, though nobody has said that it is over"


@pytest.mark.feature("DefaultPreemption: holding a preemptor back")
def test_a_last_victim_that_terminates_is_enough():
    cluster = cluster_of(victim := terminating(), nodes="a")
    cluster.state.preemptions.begin("vip")
    cluster.state.preemptions.only_left("vip", victim.uid)
    assert not cluster.state.preemptions.going_on("vip")
    cluster.state.preemptions.end("vip")
    assert len(cluster.state.preemptions) == 0


def test_the_going_of_a_pod_is_for_other_plugins_to_judge():
    assert after_pod_deletion(vip(), running("p", "a"), None) is Hint.SKIP
