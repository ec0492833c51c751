"""Objects of tests in all their forms: typed, as documents, custom."""

import pytest

from bayplan import Plugin
from bayplan.core.api.kinds import CONFIG_MAP, NODE, kind_of
from bayplan.testing import LiveCluster, check_contract, make_cluster, make_namespace, make_node, make_pod
from bayplan.testing.documents import document_of, known

QUOTAS = "nodequotas.v1.example.com"
NONE_LEFT = (QUOTAS, {"metadata": {"name": "red", "namespace": "default"}, "spec": {"pods": 0}})
PLAIN = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "nodequotas.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "nodequotas", "singular": "nodequota", "kind": "NodeQuota"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}},
            }
        ],
    },
}


class Quotas(Plugin):
    name = "quotas"

    def __init__(self, handle):
        self._quotas = handle.objects(QUOTAS)

    def pre_filter(self, cycle, pod, nodes):
        quota = self._quotas.get(f"{pod.namespace}/{pod.labels.get('team')}")
        return "team has no quota left" if quota is not None and quota["spec"]["pods"] == 0 else None


RED = make_pod("p", labels={"team": "red"})


@pytest.mark.parametrize(
    ("obj", "kind", "key"),
    [
        (make_pod("p", namespace="other"), "Pod", "other/p"),
        (make_node("n"), "Node", "n"),
        (make_namespace("red"), "Namespace", "red"),
        (PLAIN, "ConfigMap", "default/c"),
        (NONE_LEFT, QUOTAS, "default/red"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_form_is_converted(obj, kind, key):
    found, at, typed = known(obj)
    assert (found.kind, at) == (kind, key)
    assert typed.metadata.name == key.rpartition("/")[2]
    assert document_of(obj)[1]["metadata"]["name"] == typed.metadata.name


def test_typed_objects_are_returned_as_is():
    for obj in (RED, make_node("n")):
        assert known(obj)[2] is obj


def test_invalid_reference_is_rejected():
    with pytest.raises(ValueError, match="'quotas' is not a kind"):
        document_of(("quotas", {}))


def test_a_cluster_in_memory_has_objects_of_any_kind():
    cluster = make_cluster(make_node("a"), PLAIN, NONE_LEFT, plugins=[Quotas])
    assert cluster.state.objects[CONFIG_MAP]["default/c"].data == {"a": "b"}
    assert list(cluster.state.objects[NODE]) == ["a"]
    assert cluster.decide(RED).message.startswith("0/1 nodes are available: team has no quota left.")
    assert cluster.decide(make_pod("p")).node == "a"


def test_the_contract_is_checked_with_custom_objects():
    check_contract(Quotas, objects=[NONE_LEFT], words=["team"], pods=[RED])


def test_a_live_cluster_has_custom_objects():
    with LiveCluster(Quotas, nodes=1) as cluster:
        cluster.create(DEFINITION)
        cluster.create(NONE_LEFT)
        cluster.until(lambda: cluster.scheduler.state.objects[kind_of(QUOTAS)])
        cluster.create(RED)
        assert "team has no quota left" in cluster.wait_until_rejected("p")
        cluster.delete(NONE_LEFT)
        assert cluster.wait_until_bound("p") == "node-0"
