"""Gangs that preempt get the same nodes and victims where only the nodes matter that they have found, as where all do.

Without pods that members look at on other nodes, the search leaves the other pods alone (`GangSearch.apart`).
"""

import random
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, POD, POD_DISRUPTION_BUDGET, custom_kind
from bayplan.core.api.objects import encode
from bayplan.core.api.pod_groups import POD_GROUPS
from bayplan.core.scheduling.gang_search import GangSearch
from bayplan.core.versions import gates_of

GATES = gates_of("1.37").but("GenericWorkload", "TopologyAwareWorkloadScheduling")
GROUP = custom_kind(POD_GROUPS)
ZONE = "topology.kubernetes.io/zone"


def cluster(rng, *, related):
    """Documents by kind: full nodes, groups, budgets, and a gang `us`. `related`: pods look at pods on other nodes."""
    nodes = {f"n{number}": node(rng, number) for number in range(rng.randint(2, 7))}
    groups = {f"default/g{number}": group(rng, f"g{number}") for number in range(3)}
    size = rng.randint(1, 5)
    groups["default/us"] = group(rng, "us", priority=6, size=size, zone=rng.random() < 0.4)
    pods = {}
    for number in range(rng.randint(3, 25)):
        of = rng.choice(["", "", "", *(name.rpartition("/")[2] for name in list(groups)[:3])])
        document = pod(rng, f"p{number}", of, node=rng.choice(list(nodes)), priority=rng.randint(0, 8), related=related)
        pods[f"default/p{number}"] = document
    if rng.random() < 0.3:
        pods["default/other"] = pod(rng, "other", "", priority=7, nominated=rng.choice(list(nodes)))
    kind = rng.random()
    for number in range(size):
        name = f"us-{number}"
        pods[f"default/{name}"] = pod(rng if kind < 0.5 else random.Random(kind), name, "us", priority=6)
    budgets = {f"default/b{number}": budget(rng, f"b{number}") for number in range(rng.choice([0, 0, 1, 2]))}
    found = {NODE: nodes, GROUP: groups, POD: pods, POD_DISRUPTION_BUDGET: budgets}
    return {kind: {key: encode(each) for key, each in documents.items()} for kind, documents in found.items()}


def node(rng, number):
    room = {"cpu": str(rng.randint(2, 8)), "memory": "8Gi", "pods": "12"}
    labels = {ZONE: rng.choice("abc"), "kubernetes.io/hostname": f"n{number}"}
    return {"metadata": {"name": f"n{number}", "labels": labels}, "status": {"allocatable": room}}


def group(rng, name, *, priority=None, size=0, zone=False):
    spec = {"schedulingPolicy": {"gang": {"minCount": size}} if size else {"basic": {}}}
    spec["priority"] = rng.randint(0, 8) if priority is None else priority
    if zone:
        spec["schedulingConstraints"] = {"topology": [{"key": ZONE}]}
    if rng.random() < 0.5:
        spec["disruptionMode"] = {"all": {}}
    return {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}


def pod(rng, name, of, *, node="", priority=0, related=False, nominated=""):
    requests = {"cpu": str(rng.randint(1, 3)), "memory": rng.choice(["64Mi", "2Gi"])}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    if rng.random() < 0.1:
        container["ports"] = [{"containerPort": 80, "hostPort": 80}]
    spec = {"containers": [container], "priority": priority, "schedulerName": "default-scheduler"}
    if node:
        spec["nodeName"] = node
    if of:
        spec["schedulingGroup"] = {"podGroupName": of}
    if related and rng.random() < 0.3:
        term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": rng.choice("ab")}}}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    started = f"2026-01-01T00:00:{rng.randrange(60):02}Z"
    status = {"phase": "Running", "startTime": started} if node else {"phase": "Pending"}
    if nominated:
        status["nominatedNodeName"] = nominated
    labels = {"app": rng.choice("abc")}
    metadata = {"name": name, "namespace": "default", "uid": name, "labels": labels, "creationTimestamp": started}
    return {"metadata": metadata, "spec": spec, "status": status}


def budget(rng, name):
    spec = {"selector": {"matchLabels": {"app": rng.choice("abc")}}}
    status = {"disruptionsAllowed": rng.randint(0, 2)}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec, "status": status}


def attempted(documents):
    """What an attempt of the gang comes to, and the random number after it."""
    world = World(gates=GATES)
    world.move(documents)
    plan = world.attempt(world.unit_of(world.pod("default/us-0")))
    return (
        [(each.pod.name, each.node, each.message) for each in plan.decisions],
        [(each.pod.name, each.node, [victim.name for victim in each.victims]) for each in plan.preemptions],
        [(each.pod.name, each.message, each.nominated_node, each.plugins) for each in plan.refused],
        world.rng.random(),
    )


@pytest.mark.parametrize("related", [False, True])
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_the_nodes_and_the_victims_are_the_same(seed, related):
    documents = cluster(random.Random(seed), related=related)
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(GangSearch, "apart", False)
        expected = attempted(documents)
    assert attempted(documents) == expected


def test_most_of_these_gangs_preempt_apart():
    """The property is about something."""
    apart = preempting = 0
    for seed in range(60):
        world = World(gates=GATES)
        world.move(cluster(random.Random(seed), related=False))
        search = GangSearch.with_pods_gone
        with patch.object(GangSearch, "with_pods_gone", autospec=True, side_effect=search) as asked:
            plan = world.attempt(world.unit_of(world.pod("default/us-0")))
        apart += asked.called
        preempting += bool(asked.called and plan.preemptions)
    assert apart > 20
    assert preempting > 10
