"""NodeResourceTopologyMatch: what upstream's plugin said of random clusters.

Recorded from scheduler-plugins' master of August 2026 on Kubernetes 1.35.4: the reasons of Filter for each node, before
and after the evictions of victims, and the scores of all strategies; negative ones count as 0. A line is a cluster with
its topologies and the pods.
"""

import gzip
import json
from pathlib import Path

import pytest
from lightkube.models.core_v1 import Node
from tests.bayplan_plugins.numa_clusters import numa

from bayplan.core.api.objects import convert
from bayplan.testing import make_pod

RECORDING = Path(__file__).parent / "recordings" / "node_resource_topology.jsonl.gz"
KINDS = {
    "OverReserve": {"cacheResyncPeriodSeconds": 5},
    "DiscardReserved": {"discardReservedNodes": True},
    "Passthrough": {},
}


def recorded():
    with gzip.open(RECORDING, "rt", encoding="utf-8") as lines:
        return [pytest.param(case, id=case["name"]) for case in map(json.loads, lines)]


def of(document):
    metadata = document["metadata"]
    return make_pod(
        metadata["name"],
        node=document["spec"].get("nodeName", ""),
        spec=document["spec"],
        status=document.get("status"),
    )


def cluster_of(case, strategy="LeastAllocated"):
    weights = [{"name": name, "weight": weight} for name, weight in case["weights"].items()]
    cluster = numa(
        *case["topologies"],
        nodes=[convert(Node, node) for node in case["nodes"]],
        objects=map(of, case["running"]),
        preemptionMode=case["mode"],
        scoringStrategy={"type": strategy, "resources": weights},
        **KINDS[case["cache"]],
    )
    for node, pods in case["reserved"].items():
        for pod in pods:
            cluster.reserve(of(pod), node)
    return cluster


def said(case):
    """What the plugin says, in the form of the recording."""
    strategies = ("MostAllocated", "LeastAllocated", "BalancedAllocation", "LeastNUMANodes")
    clusters = {strategy: cluster_of(case, strategy) for strategy in strategies}
    running = {pod["metadata"]["name"]: of(pod) for pod in case["running"]}
    victims = {node: [running[name] for name in names] for node, names in case["victims"].items()}
    cluster = clusters["LeastAllocated"]
    answers = []
    for pod in map(of, case["pending"]):
        after = cluster.reasons(pod, victims)
        answers.append(
            {
                "name": pod.name,
                "filter": cluster.reasons(pod),
                "after": {node: after[node] for node in victims},
                "scores": {strategy: each.scores(pod) for strategy, each in clusters.items()},
            }
        )
    return answers


@pytest.mark.parametrize("case", recorded())
def test_upstreams_answers(case):
    assert said(case) == case["answers"]
