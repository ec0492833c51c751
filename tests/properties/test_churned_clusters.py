"""A cluster with deleted names makes the same decisions as a new one with the same objects, and is as small."""

import random

import pytest
from lightkube.models.core_v1 import Pod
from random_clusters import Maker

from bayplan.answers.simulation.handle import OfflineHandle
from bayplan.core.api.objects import convert
from bayplan.core.cluster import columns, selector_groups, tally
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.state import ClusterState
from bayplan.core.config import build_profile, parse_configuration
from bayplan.core.framework.pod_run import PodRun
from bayplan.core.scheduling import decide
from bayplan.core.sharing import Sharing
from bayplan.testing.builders import make_node, make_pod

CONFIGURATION = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def pod_of(manifest):
    return PodInfo(convert(Pod, manifest))


def profile_of(state):
    return build_profile(parse_configuration(CONFIGURATION).profiles[0], OfflineHandle(state))


def churn(rng, state, profile, sharing):
    """Add and remove nodes and pods with unique names, and decide pods that name them."""
    number = rng.randrange(10**6)
    labels = {f"key-{number}": str(number), "topology.kubernetes.io/zone": str(number)}
    state.set_node(make_node(f"gone-{number}", labels=labels, taints=[f"t{number}:NoSchedule"]))
    pod = make_pod(
        f"gone-{number}",
        node=f"gone-{number}",
        labels=labels,
        resources={f"example.com/{number}": "1"},
        host_ports=[number % 1000 + 1],
    )
    state.set_pod(pod)
    decide(profile, state, make_pod("asks", node_selector=labels), rng, start=sharing.start)
    state.remove_node(f"gone-{number}")
    state.remove_pod(pod.uid)


def outcome(profile, state, pod, start=PodRun.start):
    decision = decide(profile, state, pod, random.Random(0), explain=start == PodRun.start, start=start)
    feasible = {state.table.names[row] for row in decision.feasible}
    totals = {}
    if decision.scores is not None:
        totals = {
            state.table.names[row]: total
            for row, total in zip(decision.scores.rows, decision.scores.total.tolist(), strict=True)
        }
    return decision.message, feasible, totals


@pytest.mark.parametrize("seed", range(25))
def test_churned_cluster_makes_the_same_decisions_as_a_new_one(seed, monkeypatch):
    monkeypatch.setattr(columns, "_MAX_DEAD", 2)
    monkeypatch.setattr(tally, "_MIN_DENSE", 1)
    monkeypatch.setattr(selector_groups, "CAPACITY", 8)
    rng = random.Random(seed)
    maker = Maker(rng)
    state = ClusterState()
    profile = profile_of(state)
    sharing = Sharing(profile)
    nodes, pods = {}, {}
    for step in range(30):
        churn(rng, state, profile, sharing)
        name = f"n{rng.randrange(5)}"
        if rng.random() < 0.3 and name in nodes:
            del nodes[name]
            state.remove_node(name)
        else:
            nodes[name] = make_node(name, labels=maker.node(name)["metadata"]["labels"])
            state.set_node(nodes[name])
        bound = pod_of(maker.bound(f"p{rng.randrange(8)}", rng.choice(list(nodes) or ["n0"])))
        if bound.uid in pods:
            state.remove_pod(bound.uid)
        pods[bound.uid] = bound
        state.set_pod(bound)

        fresh = ClusterState()
        for node in nodes.values():
            fresh.set_node(node)
        for pod in pods.values():
            fresh.set_pod(pod)
        pending = maker.pod(f"pending-{step}")
        expected = outcome(profile_of(fresh), fresh, pod_of(pending))
        assert outcome(profile, state, pod_of(pending)) == expected
        if step % 5 == 0:
            plain = make_pod(f"plain-{step}", labels={"app": "web"})
            wanted = outcome(profile_of(fresh), fresh, plain)[1]
            for _ in range(3):
                assert (
                    outcome(profile, state, make_pod(f"plain-{step}", labels={"app": "web"}), sharing.start)[1]
                    == wanted
                )
    for uid in pods:
        state.remove_pod(uid)
    for name in nodes:
        state.remove_node(name)
    table = state.table
    assert (table.size, table.names, table.pods, table.ports, table.images) == (0, [], [], {}, {})
    assert not table._labels
    assert not table._label_counts
    assert not table._resource_users
    assert list(table.resources) == ["cpu", "memory", "ephemeral-storage"]
    assert len(table.taints.values) <= 2 + 1
