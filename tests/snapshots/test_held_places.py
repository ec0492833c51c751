"""Room that is held for provisioning requests counts in every answer about a cluster."""

import pytest

from bayplan.answers.snapshots.snapshot import Snapshot
from bayplan.core.api.kinds import POD
from bayplan.core.api.provisioning import CONSUMES
from bayplan.insight import Insight

CONTAINER = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}


def node(name, cpu="2"):
    room = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": room, "capacity": room},
    }


def pod(name):
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "team"},
        "spec": {"containers": [CONTAINER], "schedulerName": "default-scheduler"},
    }


def request(*, held='{"a":2}', ended=False, template="worker"):
    """A request that holds two places on node a, and the template of their pods."""
    conditions = [{"type": "Provisioned", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    if ended:
        conditions.append({"type": "BookingExpired", "status": "True"})
    return [
        {
            "apiVersion": "autoscaling.x-k8s.io/v1",
            "kind": "ProvisioningRequest",
            "metadata": {"name": "train", "namespace": "team", "uid": "u"},
            "spec": {
                "provisioningClassName": "check-capacity.bayplan.dev",
                "podSets": [{"count": 3, "podTemplateRef": {"name": template}}],
            },
            "status": {"conditions": conditions, "provisioningClassDetails": {"held-0": held, "note": "x"}},
        },
        {
            "apiVersion": "v1",
            "kind": "PodTemplate",
            "metadata": {"name": "worker", "namespace": "team"},
            "template": {"spec": {"containers": [CONTAINER]}},
        },
    ]


def test_held_places_count_as_pods_of_their_request():
    snapshot = Snapshot.of([node("a"), pod("web"), *request()])
    assert sorted(snapshot.of_kind(POD)) == ["team/train~0-0", "team/train~0-1", "team/web"]
    insight = Insight(snapshot)
    assert insight.explain("team/web").message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert "room for 2 pods is held for provisioningrequest team/train on 1 node" in insight.explain("team/web").notes
    workloads = {group.name: group.placed for group in insight.usage().groups["workload"]}
    assert workloads == {"provisioningrequest team/train": 2, "pod team/web": 0}


@pytest.mark.parametrize("nominated", [None, "a"])
def test_a_pending_pod_that_names_the_request_has_its_place(nominated):
    taking = pod("web")
    taking["metadata"]["annotations"] = {CONSUMES[0]: "train"}
    taking["status"] = {"nominatedNodeName": nominated} if nominated else {}
    snapshot = Snapshot.of([node("a"), taking, pod("other"), *request()])
    assert len(snapshot.of_kind(POD)) == 3
    insight = Insight(snapshot)
    assert insight.explain("team/web").node == "a"


def test_what_is_not_held_or_can_not_be_read_does_not_count():
    for objects in (
        request(ended=True),
        request(held="{"),
        request(held='{"a":-1}'),
        request(template="none"),
        request()[:1],
    ):
        snapshot = Snapshot.of([node("a"), pod("web"), *objects])
        assert list(snapshot.of_kind(POD)) == ["team/web"]


def test_a_saved_snapshot_has_the_same_places(tmp_path):
    snapshot = Snapshot.of([node("a"), pod("web"), *request()])
    for redact in (False, True):
        snapshot.save(tmp_path / "saved", redact=redact)
        assert len(Snapshot.load(tmp_path / "saved").of_kind(POD)) == 3
