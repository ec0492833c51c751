"""The nodes that can go according to `shrink` can really be drained and deleted, and every pod still has a node."""

import os

import pytest
from real_runs import FirstChoice, really_drained
from small_clusters import Maker

from bayplan.insight import Insight, Snapshot

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "rs", "uid": "rs", "controller": True}


def seeds(start, count):
    return range(start, start + int(os.environ.get("BAYPLAN_TRUTH_CLUSTERS", count)))


def cluster_of(seed, nodes):
    """A cluster whose pods have a controller, with so few pods that some nodes can go."""
    make = Maker(seed)
    names = [f"n{number}" for number in range(nodes)]
    pods = [make.pod(f"old-{number}", node=make.rng.choice(names)) for number in range(make.rng.randint(0, 2 * nodes))]
    pods += [make.pod(f"waiting-{number}") for number in range(make.rng.randint(0, 2))]
    for pod in pods:
        pod["metadata"]["ownerReferences"] = [OWNER]
    others = [each for each in make.cluster() if each["kind"] not in {"Node", "Pod"}]
    return [*others, *(make.node(name) for name in names), *pods]


def asked(objects):
    insight = Insight(Snapshot.of(objects))
    insight.world.rng = FirstChoice()
    return insight


@pytest.mark.parametrize("seed", seeds(500, 20))
def test_removable_nodes_can_be_drained_and_deleted(seed):
    cluster = cluster_of(seed, nodes=seed % 6 + 1)

    answer = asked(cluster).shrink(force=True)

    _, moved, protected = really_drained(cluster, [[each.node] for each in answer.gone], remove=True)
    assert {f"default/{name}" for name in moved} == {pod for each in answer.gone for pod in each.pods}
    assert all(moved.values())
    assert not protected
