from typing import Any

import msgspec
import pytest
from lightkube.models.core_v1 import Node, Pod
from tests.support.tables import cases

from bayplan_devcluster.kubelet_admission import Accounting, Rejection


def node(taints: list[dict[str, str]] | None = None, **allocatable: str) -> Node:
    resources = {"cpu": "4", "memory": "1Gi", "pods": "3", **allocatable}
    document = {
        "metadata": {"name": "n", "labels": {"disk": "ssd"}},
        "spec": {"taints": taints or []},
        "status": {"allocatable": resources},
    }
    return msgspec.convert(document, Node)


def pod(
    name: str = "p", *, port: int = 0, address: str = "", requests: dict[str, str] | None = None, **spec: Any
) -> Pod:
    ports = [{"containerPort": port, "hostPort": port, "hostIP": address, "protocol": "TCP"}] if port else []
    container = {"name": "c", "ports": ports, "resources": {"requests": requests or {}}}
    return msgspec.convert({"metadata": {"name": name, "uid": name}, "spec": {"containers": [container], **spec}}, Pod)


def accounting(*there: Pod) -> Accounting:
    kept = Accounting()
    for one in there:
        kept.add(one)
    return kept


def lacking(name: str, requested: int, used: int, capacity: int) -> Rejection:
    message = f"Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", message)


@cases(
    "there, wanted, rejection",
    {
        "fits exactly": ([], pod(requests={"cpu": "4", "memory": "1Gi"}), None),
        "cpu": ([pod("a", requests={"cpu": "3"})], pod(requests={"cpu": "1500m"}), lacking("cpu", 1500, 3000, 4000)),
        "memory": ([], pod(requests={"memory": "2Gi"}), lacking("memory", 2 << 30, 0, 1 << 30)),
        "storage": ([], pod(requests={"ephemeral-storage": "1Gi"}), lacking("ephemeral-storage", 1 << 30, 0, 0)),
        "pods": ([pod("a"), pod("b"), pod("c")], pod(), lacking("pods", 1, 3, 3)),
        "an extended resource of the cluster's": ([], pod(requests={"example.com/gpu": "1"}), None),
        "selected": ([], pod(nodeSelector={"disk": "ssd"}), None),
        "not selected": (
            [],
            pod(nodeSelector={"disk": "hdd"}),
            Rejection(
                "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
            ),
        ),
        "other address": ([pod("a", port=80, address="1.1.1.1")], pod(port=80, address="2.2.2.2"), None),
        "port": (
            [pod("a", port=80, address="1.1.1.1")],
            pod(port=80),
            Rejection(
                "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
            ),
        ),
    },
)
def test_admission_of_pods(there, wanted, rejection):
    assert accounting(*there).check(node(), wanted) == rejection


def test_extended_resource_of_the_node_is_counted():
    has = node(**{"example.com/gpu": "2"})
    wanted = pod(requests={"example.com/gpu": "2"})
    assert accounting(pod("a", requests={"example.com/gpu": "1"})).check(has, wanted) == lacking(
        "example.com/gpu", 2, 1, 2
    )


@pytest.mark.parametrize(("effect", "taken"), [("NoExecute", False), ("NoSchedule", True)])
def test_only_no_execute_taints_reject_a_bound_pod(effect, taken):
    verdict = accounting().check(node([{"key": "k", "effect": effect}]), pod())
    assert (verdict is None) == taken
    assert taken or verdict.reason == "TaintToleration"


def test_removed_pod_frees_its_resources():
    kept = accounting(pod("a", requests={"cpu": "4"}))
    kept.remove("a")
    kept.remove("a")
    assert kept.check(node(), pod(requests={"cpu": "4"})) is None


def test_pod_that_is_added_twice_counts_once():
    kept = accounting(pod("a", requests={"cpu": "1"}), pod("a", requests={"cpu": "2"}))
    assert kept.used == {"cpu": 2000}


def test_invalid_quantity_is_rejected():
    assert accounting().check(node(), pod(requests={"cpu": "much"})).reason == "UnexpectedAdmissionError"
