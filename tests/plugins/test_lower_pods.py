"""The pods that a group may evict, kept up to date row by row: against pods that are collected anew."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.core.cluster.nodes import Nodes
from bayplan.core.plugins.default_preemption.lower_pods import LowerPods
from bayplan.testing.builders import make_cluster, make_node, make_pod

NODES = [f"n{number}" for number in range(6)]
AMOUNTS = {"cpu": lambda pods: [pod.requested.get("cpu", 0) for pod in pods], "pods": lambda pods: [1] * len(pods)}


def change(rng, state):
    """Change a random pod or node."""
    name, node = f"p{rng.randrange(12)}", rng.choice(NODES)
    what = rng.randrange(6)
    if what == 0:
        state.set_node(make_node(node, cpu=str(rng.randint(1, 9))))
    elif what == 1:
        state.remove_node(node)
    elif what == 2:
        state.remove_pod(make_pod(name).uid)
    else:
        spec = {"schedulingGroup": {"podGroupName": "g"}} if rng.random() < 0.3 else {}
        status = {"phase": rng.choice(["Pending", "Running"])}
        priority, cpu = rng.randrange(4), str(rng.randint(1, 3))
        state.set_pod(make_pod(name, cpu=cpu, node=node, priority=priority, spec=spec, status=status))


def told(kept, table):
    nodes = Nodes(table).changed(kept.lower)
    sums = {key: nodes.counted(amounts).tolist() for key, amounts in AMOUNTS.items()}
    pods = [[id(pod) for pod in each] for each in kept.lower.pods]
    return pods, {row: list(map(id, each)) for row, each in sorted(kept.grouped.items())}, sums


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32))
def test_kept_pods_are_those_that_there_are(seed):
    rng = random.Random(seed)
    state, kept = make_cluster(*map(make_node, NODES)).state, LowerPods()
    for _ in range(15):
        for _ in range(rng.choice([0, 1, 1, 2, 8])):
            change(rng, state)
        priority = rng.randint(1, 3)
        assert told(kept.than(priority, state.table), state.table) == told(
            LowerPods().than(priority, state.table), state.table
        )


def test_sums_of_some_nodes():
    state = make_cluster(*map(make_node, NODES), *(make_pod(f"p{n}", cpu="1", node=f"n{n}") for n in range(4))).state
    nodes = Nodes(state.table).changed(LowerPods().than(1, state.table).lower)
    some = nodes.at(nodes.live.nonzero()[0][::2]).at(nodes.live.nonzero()[0][:2])
    rows = [state.table.row_of[some.name(position)] for position in range(2)]
    assert some.requested("cpu").tolist() == [0, 0]
    assert [pod.name for position in range(2) for pod in some.changes[position].removed] == [
        pod.name for row in rows for pod in state.table.pods[row].values()
    ]
    assert some.pods(0) == []
    assert len(list(nodes.changes)) == len(NODES)
