"""Placing everything anew: which pods move, and which nodes become empty."""

import pytest
from bayplan_documents import node, pod, workload
from small_clusters import Maker
from test_devices_that_go import devices, holder
from tests.support.tables import cases

from bayplan.answers.insight.questions.outcomes import after_scheduling
from bayplan.core.config import read_configuration
from bayplan.insight import Changes, Insight, Snapshot

DAEMON = {"owner": ("DaemonSet", "agent"), "cpu": "100m", "tolerations": [{"operator": "Exists"}]}


def mirror(name, node_name):
    found = pod(name, node_name)
    found["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    return found


def after(answer):
    return {each.pod.partition("/")[2]: each.after.node or each.after.state for each in answer.pods}


def packing(folder):
    path = folder / "packing.yaml"
    path.write_text(
        """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
    plugins: {score: {disabled: [{name: NodeResourcesBalancedAllocation}]}}
"""
    )
    return read_configuration(path).configuration


SPREAD_OUT = (
    *(node(name, cpu="8") for name in ("a", "b", "c")),
    *(pod(f"web-{name}", name, owner=("ReplicaSet", "web")) for name in "abc"),
    *(pod(f"agent-{name}", name, **DAEMON) for name in "abc"),
    mirror("static", "c"),
    workload("ReplicaSet", "web", 3),
)


def test_another_configuration_packs_the_pods_and_nodes_become_empty(tmp_path):
    answer = Insight(Snapshot.of(SPREAD_OUT)).what_if(Changes(replace_all=True), packing(tmp_path))

    assert set(after(answer).values()) == {"c"}, "the static pod makes it the fullest node"
    assert answer.emptied == ("a", "b")
    assert answer.steps == ("place all pods anew", "use the other configuration")
    assert "2 nodes would be empty: a, b" in answer.text()
    assert answer.to_dict()["emptied"] == ["a", "b"]


def test_the_present_configuration_is_no_other_one(tmp_path):
    insight = Insight(Snapshot.of(SPREAD_OUT), packing(tmp_path))
    same = insight.what_if(Changes(replace_all=True), packing(tmp_path))

    assert same.steps == ("place all pods anew",)
    assert same.to_dict() == insight.what_if(Changes(replace_all=True)).to_dict()


def test_a_fragmented_cluster_takes_a_large_pod_if_all_are_placed_anew():
    small = [pod(f"s-{name}", name, cpu="2", owner=("ReplicaSet", "s")) for name in "ab"]
    large = pod("large", cpu="4", priority=10, preemptionPolicy="Never")

    answer = Insight(Snapshot.of([node("a"), node("b"), *small, large])).what_if(Changes(replace_all=True))

    assert after(answer)["large"] in {"a", "b"}
    assert answer.pending == 0


@cases(
    "staying",
    {
        "daemon": pod("agent-a", "a", **DAEMON),
        "static": mirror("static", "a"),
        "of another scheduler": pod("other", "a", schedulerName="somebody-else"),
    },
)
def test_pods_that_the_scheduler_does_not_place_stay(staying):
    answer = Insight(Snapshot.of([node("a", cpu="1"), node("b"), staying])).what_if(Changes(replace_all=True))

    assert answer.pods == ()


def test_devices_are_allocated_anew():
    objects = [node("n1"), *devices(), *holder(), pod("second", requests={"acme.io/gpu": "1"}, priority=9)]

    answer = Insight(Snapshot.of(objects)).what_if(Changes(replace_all=True))

    assert after(answer) == {"second": "n1", "first": "pending"}


@pytest.mark.parametrize("seed", range(30))
def test_it_is_what_becomes_of_a_cluster_whose_pods_have_no_node_yet(seed):
    objects = Maker(seed).cluster()
    nodes = {f"default/{each['metadata']['name']}": each["spec"].get("nodeName") for each in objects if is_pod(each)}

    answer = Insight(Snapshot.of(objects)).what_if(Changes(replace_all=True))

    moved = {each.pod: each.after.node for each in answer.pods if each.after.node != each.before.node}
    expected, _ = after_scheduling(Insight(Snapshot.of(map(without_node, objects))).world)
    assert moved == {key: expected[key].node for key, node in nodes.items() if expected[key].node != node}


def is_pod(obj):
    return obj["kind"] == "Pod"


def without_node(obj):
    if not is_pod(obj):
        return obj
    spec = {name: value for name, value in obj["spec"].items() if name != "nodeName"}
    return {**obj, "spec": spec, "status": {"phase": "Pending"}}
