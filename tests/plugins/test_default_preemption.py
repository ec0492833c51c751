"""DefaultPreemption: eligibility, number of candidates, messages, and gating."""

import random

import pytest
from preempting import HIGH, LOW, MIDDLE, Rolls, budget, cluster_of, labelled, preempted, running, vip
from tests.support.tables import cases

from bayplan import Plugin, Status
from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.config import build_profile
from bayplan.core.config.types import KubeSchedulerProfile, PluginConfig
from bayplan.core.framework.events import Hint
from bayplan.core.framework.profile import Point, Profile
from bayplan.core.plugins.default_preemption.plugin import DefaultPreemption, after_pod_deletion
from bayplan.core.plugins.dynamic_resources.deallocation import NO_CLAIMS
from bayplan.core.scheduling import decide
from bayplan.core.scheduling.decision import Outcome
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_node, make_pod


class Picky(Plugin):
    """Counts pods in PreFilterExtensions only, and rejects nodes with more than one."""

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
def test_pre_filter_extensions_are_called_for_victims():
    pods = [running(f"{node}{n}", node, LOW, "100m", started=n) for node in "ab" for n in range(3)]
    cluster = cluster_of(*pods, running("b3", "b", LOW, "100m", started=5), plugins=[Picky])
    assert preempted(cluster, vip("100m")) == ("a", ["a1", "a2"])


@pytest.mark.feature("DefaultPreemption: plugins with PreFilter extensions")
def test_plugin_error_on_a_node_does_not_affect_other_nodes():
    crowd = [running("a0", "a", LOW, "100m"), running("sticky", "a", LOW, "100m")]
    other = [running(f"b{n}", "b", LOW, "100m", started=n) for n in range(3)]
    assert preempted(cluster_of(*crowd, *other, plugins=[Picky]), vip("100m")) == ("b", ["b1", "b2"])
    decision = cluster_of(*crowd, nodes="a", plugins=[Picky]).decide(vip("100m"))
    assert decision.message.endswith('preemption: running RemovePod on PreFilter plugin "Picky": it sticks')
    assert (decision.outcome, decision.nominated_node) == (Outcome.UNSCHEDULABLE, None)


@pytest.mark.feature("DefaultPreemption: PostFilter's messages")
@cases(
    "objects, pod, message",
    {
        "tie": ([running("p", "a", HIGH, "2")], vip(), "1 No preemption victims found for incoming pod"),
        "unresolvable": ([], vip("3"), "1 Preemption is not helpful for scheduling"),
        "victims free too little": (
            [running("low", "a", LOW), running("high", "a", HIGH)],
            vip(),
            "1 Insufficient cpu",
        ),
    },
)
def test_message_if_preemption_does_not_help(objects, pod, message):
    decision = cluster_of(*objects, nodes="a").decide(pod)
    assert decision.diagnosis.post_filter_message == f"{NO_CLAIMS}, preemption: 0/1 nodes are available: {message}."
    assert (decision.nominated_node, decision.victims) == ("", ())


@pytest.mark.feature("DefaultPreemption: PostFilter's messages")
def test_reasons_of_many_nodes_are_counted():
    objects = [running("b", "b", LOW, "100m"), running("high", "b", HIGH, "1900m"), running("c", "c", HIGH, "2")]
    cluster = cluster_of(*objects, make_node("d", cpu="1"), make_node("e", cpu="4", unschedulable=True), nodes="bc")
    assert cluster.decide(vip()).diagnosis.post_filter_message == (
        f"{NO_CLAIMS}, preemption: 0/4 nodes are available: 1 Insufficient cpu, "
        "1 No preemption victims found for incoming pod, 2 Preemption is not helpful for scheduling."
    )


@pytest.mark.feature("DefaultPreemption: PostFilter's messages")
@cases(
    "version, said",
    {
        "1.36": ("1.36", ""),
        "1.37": ("1.37", " preemption: found a potential placement for pod on node b, preempting 2 victims"),
    },
)
def test_the_message_names_the_node_and_the_number_of_victims_since_1_37(version, said):
    pods = [running("high", "a", HIGH), running("low-1", "b"), running("low-2", "b")]
    decision = cluster_of(*pods, gates=gates_of(version)).decide(vip())
    assert decision.message == f"0/2 nodes are available: 2 Insufficient cpu.{said}"
    assert (decision.nominated_node, len(decision.victims)) == ("b", 2)


class NotNow(Plugin):
    """Rejects every pod in PreFilter as unschedulable."""

    name = "NotNow"

    def pre_filter(self, cycle, pod, nodes):
        return "not now"


@pytest.mark.feature("DefaultPreemption: PostFilter's messages")
@cases(
    "nodes, message",
    {
        "one node": ("a", 'expected at least one victim pod on node "a"'),
        "two nodes": (
            "ab",
            '[expected at least one victim pod on node "a", expected at least one victim pod on node "b"]',
        ),
    },
)
def test_no_victims_are_needed_after_a_pre_filter_rejection(nodes, message):
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
@cases(
    "victim, spec, nominated, why",
    {
        "Never": (running("p", "a", LOW, "2"), {"preemptionPolicy": "Never"}, "", "Never"),
        "lower": (running("p", "a", LOW, "2"), {"preemptionPolicy": "PreemptLowerPriority"}, "", ""),
        "no policy": (running("p", "a", LOW, "2"), {}, "", ""),
        "victim terminating": (terminating(), {}, "a", "terminating"),
        "not nominated": (terminating(), {}, "", ""),
        "terminating, not preempted": (terminating(reason="DeletionByTaintManager"), {}, "a", ""),
        "condition is false": (terminating(status="False"), {}, "a", ""),
        "node unresolvable": (terminating(), {"nodeSelector": {"none": "here"}}, "a", "helpful"),
        "node deleted": (terminating(), {}, "gone", ""),
    },
)
def test_eligibility(victim, spec, nominated, why):
    pod = vip(spec=spec, status={"nominatedNodeName": nominated})
    decision = cluster_of(victim, nodes="a").decide(pod)
    messages = {
        "": "",
        "Never": "not eligible due to preemptionPolicy=Never.",
        "terminating": "not eligible due to a terminating pod on the nominated node.",
        "helpful": "0/1 nodes are available: 1 Preemption is not helpful for scheduling.",
    }
    message = f"{NO_CLAIMS}, preemption: {messages[why]}" if messages[why] else ""
    assert decision.diagnosis.post_filter_message == message
    cleared = {"": "a", "helpful": ""}
    assert decision.nominated_node == cleared.get(why), "a pod that is not eligible keeps its nomination"


@pytest.mark.feature("DefaultPreemption: nominated pods")
def test_room_of_a_nominated_pod_of_equal_priority_is_not_used():
    cluster = cluster_of(running("a1", "a", LOW, "2"), running("b1", "b", MIDDLE, "2"))
    cluster.state.nominations.add(make_pod("first", cpu="2", priority=HIGH), "a")
    assert preempted(cluster, vip()) == ("b", ["b1"])
    assert preempted(cluster, vip(priority=HIGH + 1)) == ("a", ["a1"])


@pytest.mark.feature("DefaultPreemption: number of candidates")
@cases(
    "args, offset, protected, expected",
    {
        "all of few nodes": ({}, 4, "", "3"),
        "40 %": ({"minCandidateNodesPercentage": 40, "minCandidateNodesAbsolute": 1}, 4, "", "1"),
        "two": ({"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 2}, 2, "", "3"),
        "greater of both": ({"minCandidateNodesPercentage": 40, "minCandidateNodesAbsolute": 3}, 0, "", "3"),
        "rounded down": ({"minCandidateNodesPercentage": 39, "minCandidateNodesAbsolute": 1}, 4, "", "5"),
        "beyond budget violations": (
            {"minCandidateNodesPercentage": 40, "minCandidateNodesAbsolute": 1},
            0,
            "1235",
            "4",
        ),
    },
)
def test_number_of_candidates(args, offset, protected, expected):
    """Of five nodes, the third is the best, and the first is better than the last."""
    priorities = {"1": 20, "2": 30, "3": 10, "4": 40, "5": 25}
    pods = [
        running(f"p{name}", name, priority, "2", **labelled("db" if name in protected else ""))
        for name, priority in priorities.items()
    ]
    cluster = cluster_of(*pods, nodes="12345", budgets=[budget("db", "db")])
    profile = KubeSchedulerProfile(pluginConfig=[PluginConfig("DefaultPreemption", args)])
    decision = decide(build_profile(profile, OfflineHandle(cluster.state)), cluster.state, vip(), Rolls(offset))
    assert decision.nominated_node == expected


@pytest.mark.feature("DefaultPreemption: gated preemptors")
def test_preemptor_is_gated_while_its_victims_are_evicted():
    cluster = cluster_of(victim := running("victim", "a"), nodes="a")
    plugin, pod, state = DefaultPreemption(OfflineHandle(cluster.state)), vip(), cluster.state
    assert plugin.pre_enqueue(pod) is None
    state.preemptions.begin(pod.uid)
    gated = plugin.pre_enqueue(pod)
    assert gated == Status.unresolvable("waiting for the preemption for this pod to be finished").by(plugin.name)
    assert plugin.pre_enqueue(make_pod("other")) is None
    assert still_gated(plugin) == {pod.uid}
    state.preemptions.only_left(pod.uid, victim.uid)
    assert plugin.pre_enqueue(pod) == gated
    assert still_gated(plugin) == {pod.uid}
    state.remove_pod(victim.uid)
    assert still_gated(plugin) == set()
    assert plugin.pre_enqueue(pod) is None, "the last victim was deleted, although `end` was not called"
    state.preemptions.end(pod.uid)
    assert len(state.preemptions) == 0


def still_gated(plugin):
    """The gated pods that PreEnqueue isn't asked about when a pod is deleted."""
    hint, *_ = plugin.events()
    return hint.still_gated()


@pytest.mark.feature("DefaultPreemption: gated preemptors")
@pytest.mark.parametrize("before", [True, False])
def test_preemptor_is_released_when_its_last_victim_terminates(before):
    victim = terminating()
    state = cluster_of(victim if before else running(victim.name, "a"), nodes="a").state
    preemptions = state.preemptions
    preemptions.begin("vip")
    preemptions.only_left("vip", victim.uid)
    assert preemptions.in_progress("vip") is not before
    assert preemptions.evicting == (set() if before else {"vip"})
    state.set_pod(victim)
    assert not preemptions.in_progress("vip")
    assert not preemptions.evicting


@pytest.mark.feature("DefaultPreemption: gated preemptors")
def test_preemptor_that_gave_up_is_not_held_back_by_a_victim_it_shares():
    victim = running("victim", "a")
    preemptions = cluster_of(victim, nodes="a").state.preemptions
    for uid in ("vip", "other"):
        preemptions.begin(uid)
        preemptions.only_left(uid, victim.uid)
    preemptions.end("vip")
    assert preemptions.evicting == {"other"}
    assert not preemptions.in_progress("vip")
    preemptions.end("other")
    assert not preemptions.evicting


@pytest.mark.feature("DefaultPreemption: gated preemptors")
def test_preemptor_waits_for_a_victim_that_was_only_hypothetically_gone():
    cluster = cluster_of(victim := running("victim", "a"), nodes="a")
    state = cluster.state
    state.preemptions.begin("vip")
    state.preemptions.only_left("vip", victim.uid)
    with state.what_if() as what_if:
        what_if.remove(victim.uid)
        assert not state.preemptions.in_progress("vip")
    assert state.preemptions.in_progress("vip")


def test_pod_deletion_does_not_requeue():
    assert after_pod_deletion(vip(), running("p", "a"), None) is Hint.SKIP


class NotOnA(Plugin):
    """Rejects node a, in a way that preemption might help for."""

    name = "NotOnA"
    reads_pods = False

    def __init__(self):
        self.seen = []

    def filter(self, cycle, pod, node):
        self.seen.append(node.name)
        return "not here" if node.name == "a" else None


class Refusing(Plugin):
    """Rejects the pod before any filter runs."""

    name = "Refusing"

    def pre_filter(self, cycle, pod, nodes):
        return Status.unschedulable("not now")


@pytest.mark.feature("DefaultPreemption: eligibility")
@cases(
    "more, seen",
    {
        "not in the dry run of a node that passed it": ([], ["a", "b"]),
        "in the dry run, if no filter has run": ([Refusing()], ["b"]),
    },
)
def test_filter_that_reads_no_pods_runs(more, seen):
    first = NotOnA()
    cluster = cluster_of(running("q", "b", cpu="2"))
    plugins = dict(cluster.profile.plugins)
    plugins[Point.FILTER] = [first, *plugins[Point.FILTER]]
    plugins[Point.PRE_FILTER] = [*plugins[Point.PRE_FILTER], *more]
    profile = Profile(cluster.profile.scheduler_name, plugins, cluster.profile.weights)
    decision = decide(profile, cluster.state, vip(), random.Random(0))
    assert (decision.nominated_node, [victim.name for victim in decision.victims]) == ("b", ["q"])
    assert sorted(first.seen) == seen


class Recording(Plugin):
    """Records which pods are on the nodes that it filters."""

    name = "Recording"

    def __init__(self):
        self.seen = []

    def filter(self, cycle, pod, node):
        self.seen.append((node.name, *(other.name for other in node.pods)))


@pytest.mark.feature("DefaultPreemption: nominated pods")
def test_dry_run_asks_once_where_nominated_pods_leave_no_room():
    recording = Recording()
    cluster = cluster_of(
        running("q", "a", cpu="2"), running("r", "b", cpu="2"), running("s", "c", cpu="2"), nodes="abc"
    )
    cluster.state.nominations.add(make_pod("first", cpu="2", priority=HIGH), "a")
    cluster.state.nominations.add(make_pod("small", cpu="0", priority=HIGH), "b")
    plugins = dict(cluster.profile.plugins)
    plugins[Point.FILTER] = [recording, *plugins[Point.FILTER]]
    profile = Profile(cluster.profile.scheduler_name, plugins, cluster.profile.weights)
    decision = decide(profile, cluster.state, vip(), random.Random(0))
    assert decision.nominated_node in {"b", "c"}
    hypothetical = [seen for seen in recording.seen if not {"q", "r", "s"} & set(seen)]
    assert sorted(hypothetical) == [("a", "first"), ("b",), ("b", "small"), ("c",)]
