"""Questions about a cluster with quotas: explain, why-not, fit and what-if know them, and undo what they have tried."""

import pytest
from quota_clusters import CONFIGURATION, GPU

from bayplan.core.config import read_configuration
from bayplan.insight import Changes, Insight, Snapshot


def quota(namespace, least, most):
    bounds = {"min": {"cpu": str(least)}, "max": {"cpu": str(most)}}
    metadata = {"name": "quota", "namespace": namespace, "creationTimestamp": "2026-01-01T00:00:00Z", "uid": namespace}
    return {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota", "metadata": metadata, "spec": bounds}


def pod(name, namespace, cpu="1", node=""):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **({"nodeName": node} if node else {})}
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n"},
    "status": {"allocatable": {"cpu": "8", "memory": "16Gi", "pods": "110", GPU: "2"}},
}
OBJECTS = [
    NODE,
    quota("a", 2, 3),
    quota("b", 2, 4),
    *(pod(f"used{number}", "a", node="n") for number in range(3)),
    pod("waits", "a"),
]


@pytest.fixture
def insight(tmp_path):
    path = tmp_path / "scheduler.yaml"
    path.write_text(CONFIGURATION, encoding="utf-8")
    return Insight(Snapshot.of(OBJECTS), read_configuration(path).configuration)


def test_explain_shows_the_amounts(insight):
    text = insight.explain("a/waits").text()
    assert "Pod a/waits is rejected in PreFilter because ElasticQuota a is more than Max" in text
    assert "cpu: 4 of at most 3 in namespace a" in text


def test_why_not_names_the_plugin(insight):
    found = insight.why_not("a/waits", "n")
    assert not found.feasible
    assert "CapacityScheduling" in found.text()


def test_fit_counts_the_pods_that_it_places_and_forgets_them(insight):
    """Of 4 cpus that are shared out, 3 are used, one more than namespace a is guaranteed."""
    new = [pod(f"new{number}", "b") for number in range(2)]
    for _ in range(2):
        found = insight.fit(new).pods
        assert [(each.outcome, len(each.victims)) for each in found] == [("placed", 0), ("preempts", 1)]


def test_what_if_a_pod_goes(insight):
    found = insight.what_if(Changes(delete_pods=["a/used0"]))
    assert "a/waits" in found.text()


def test_redacted_objects_decide_alike(insight, tmp_path):
    insight.snapshot.save(tmp_path / "redacted", redact=True)
    other = Insight(Snapshot.open(tmp_path / "redacted"), read_configuration(tmp_path / "scheduler.yaml").configuration)
    (found,), (hidden,) = (each.explain_all().causes for each in (insight, other))
    assert found.plugins == hidden.plugins == ("CapacityScheduling",)
