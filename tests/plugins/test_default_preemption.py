"""DefaultPreemption: who may preempt, how many nodes are tried, what is said, and who is held back."""

from __future__ import annotations

import pytest
from preempting import HIGH, LOW, MIDDLE, Rolls, budget, cluster_of, labelled, preempted, running, vip

from bayplan import Plugin, Status
from bayplan.config import build_profile
from bayplan.config.types import KubeSchedulerProfile, PluginConfig
from bayplan.framework.events import Hint
from bayplan.plugins.default_preemption.plugin import DefaultPreemption, after_pod_deletion
from bayplan.plugins.dynamic_resources.giving_up import NO_CLAIMS
from bayplan.scheduling import decide
from bayplan.scheduling.decision import Outcome
from bayplan.testing.builders import make_node, make_pod
from bayplan.testing.offline import OfflineHandle


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
    assert decision.diagnosis.post_filter_message == f"{NO_CLAIMS}, preemption: 0/1 nodes are available: {message}."
    assert (decision.nominated_node, decision.victims) == ("", ())


@pytest.mark.feature("DefaultPreemption: PostFilter's messages")
def test_reasons_of_many_nodes_add_up():
    objects = [running("b", "b", LOW, "100m"), running("high", "b", HIGH, "1900m"), running("c", "c", HIGH, "2")]
    cluster = cluster_of(*objects, make_node("d", cpu="1"), make_node("e", cpu="4", unschedulable=True), nodes="bc")
    assert cluster.decide(vip()).diagnosis.post_filter_message == (
        f"{NO_CLAIMS}, preemption: 0/4 nodes are available: 1 Insufficient cpu, "
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )


class NotNow(Plugin):
    """Turns every pod down before any node, though perhaps not for ever."""

    name = "NotNow"

    def pre_filter(self, cycle, pod, nodes):
        return "not now"


@pytest.mark.feature("DefaultPreemption: PostFilter's messages")
@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        pytest.param("a", 'expected at least one victim pod on node "a"', id="one node"),
        pytest.param(
            "ab",
            '[expected at least one victim pod on node "a", expected at least one victim pod on node "b"]',
            id="two nodes",
        ),
    ],
)
def test_after_a_refusal_before_any_node_all_are_tried_and_nobody_has_to_go(nodes, message):
    pods = [running(f"low-{node}", node) for node in nodes]
    cluster = cluster_of(*pods, nodes=nodes, plugins=[NotNow])
    decision = decide(cluster.profile, cluster.state, vip("1"), Rolls(0))
    assert decision.message == f"0/{len(nodes)} nodes are available: not now. preemption: {message}"
    assert (decision.outcome, decision.nominated_node) == (Outcome.UNSCHEDULABLE, None)


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
        "Never": "not eligible due to preemptionPolicy=Never.",
        "terminating": "not eligible due to a terminating pod on the nominated node.",
        "helpful": "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    }
    message = f"{NO_CLAIMS}, preemption: {said[why]}" if said[why] else ""
    assert decision.diagnosis.post_filter_message == message
    cleared = {"": "a", "helpful": ""}
    assert decision.nominated_node == cleared.get(why), "what keeps a pod waiting leaves its nomination"


@pytest.mark.feature("DefaultPreemption: nominated pods")
def test_room_is_not_made_where_a_nominated_pod_of_the_same_priority_is_to_go():
    cluster = cluster_of(running("a1", "a", LOW, "2"), running("b1", "b", MIDDLE, "2"))
    cluster.state.nominations.add(make_pod("first", cpu="2", priority=HIGH), "a")
    assert preempted(cluster, vip()) == ("b", ["b1"])
    assert preempted(cluster, vip(priority=HIGH + 1)) == ("a", ["a1"])


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
