"""The placement of a gang is that of trying all placements, although the most promising one is tried first."""

import random

import pytest
from bayplan_documents import document

from bayplan.core.scheduling import gang_search
from bayplan.core.versions import gates_of, with_gangs
from bayplan.insight import Insight, Snapshot

GATES = with_gangs(gates_of("1.37"))


def cluster(rng):
    """Up to four zones with nodes of different sizes, on which pods run."""
    for number in range(rng.randint(2, 7)):
        room = {"cpu": str(rng.randint(1, 5)), "memory": "64Gi", "pods": str(rng.choice([2, 110]))}
        node = document("Node", f"n{number}", namespace="", status={"allocatable": room, "capacity": room})
        node["metadata"]["labels"] = {"zone": f"z{rng.randint(0, 3)}"}
        yield node
        for other in range(rng.randint(0, 1)):
            yield pod(f"old-{number}-{other}", nodeName=f"n{number}")


def pod(name, **spec):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    made = document("Pod", name, spec={"containers": [container], **spec})
    made["metadata"]["uid"] = name
    return made


def gang(rng):
    size = rng.randint(1, 5)
    policy = {"schedulingPolicy": {"gang": {"minCount": rng.randint(1, size)}}}
    constraints = {"schedulingConstraints": {"topology": [{"key": "zone"}]}}
    yield document("PodGroup", "crew", "scheduling.k8s.io/v1beta1", spec={**policy, **constraints})
    yield from (pod(f"crew-{number}", schedulingGroup={"podGroupName": "crew"}) for number in range(size))


def outcome(insight, nodes, manifests):
    """How many pods are placed, and the zone."""
    placed = [each.node for each in insight.fit(list(manifests)).pods if each.outcome == "placed"]
    return len(placed), {nodes[name] for name in placed}


@pytest.mark.parametrize("seed", range(15))
def test_the_best_placement_is_chosen(seed, monkeypatch):
    rng = random.Random(seed)
    objects, manifests = list(cluster(rng)), list(gang(rng))
    nodes = {each["metadata"]["name"]: each["metadata"]["labels"]["zone"] for each in objects if each["kind"] == "Node"}
    snapshot = Snapshot.of(objects)
    found = [outcome(Insight(snapshot, gates=GATES, seed=number), nodes, manifests) for number in range(2)]
    monkeypatch.setattr(gang_search, "most_promising_first", lambda *_: None)
    best = [outcome(Insight(snapshot, gates=GATES, seed=number), nodes, manifests) for number in range(6)]
    assert all(each in best for each in found)
