from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from lightkube.models.core_v1 import Pod
from tests.support.tables import cases

from bayplan.core.api.kinds import POD, REPLICA_SET, REPLICATION_CONTROLLER
from bayplan.core.expansion import pods
from bayplan.core.expansion.scale_down import DELETION_COST, scale_down_order
from bayplan_devcluster.apiserver import Fault

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def replica_set(replicas: int, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "rs", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "a"}},
            "template": {
                "metadata": {"labels": {"app": "a"}},
                "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 1},
            },
            **spec,
        },
    }


def status(world) -> tuple[int, int, int]:
    found = world.one(REPLICA_SET, "rs").status
    return (found.replicas, found.readyReplicas or 0, found.availableReplicas or 0)


async def test_number_of_pods_follows_the_replicas(world):
    await world.create(REPLICA_SET, replica_set(3))
    await world.until(lambda: status(world) == (3, 3, 3), step=0.5)
    for replicas in (7, 2, 0):
        await world.patch(REPLICA_SET, "rs", {"spec": {"replicas": replicas}})
        await world.until(lambda n=replicas: status(world) == (n, n, n) and len(world.all(POD)) == n, step=0.5)
    found = world.one(REPLICA_SET, "rs")
    assert found.status.observedGeneration == found.metadata.generation


async def test_replication_controller_creates_adopts_and_deletes_pods(world):
    template = replica_set(0)["spec"]["template"]
    orphan = {"name": "orphan", "namespace": "default", **template["metadata"]}
    await world.create(POD, {"metadata": orphan, "spec": template["spec"]})
    controller = {"metadata": {"name": "rc", "namespace": "default"}, "spec": {"replicas": 3, "template": template}}
    await world.create(REPLICATION_CONTROLLER, controller)
    await world.until(
        lambda: (status := world.one(REPLICATION_CONTROLLER, "rc").status) and status.availableReplicas == 3, step=0.5
    )
    owners = [pod.metadata.ownerReferences for pod in world.all(POD)]
    assert [[(one.kind, one.name) for one in owner] for owner in owners] == [[("ReplicationController", "rc")]] * 3
    assert "orphan" in {pod.metadata.name for pod in world.all(POD)}

    await world.patch(REPLICATION_CONTROLLER, "rc", {"spec": {"replicas": 0}})
    await world.until(lambda: not world.all(POD), step=0.5)


async def test_deleted_pod_is_replaced(world):
    await world.create(REPLICA_SET, replica_set(2))
    await world.until(lambda: status(world) == (2, 2, 2), step=0.5)
    gone = world.all(POD)[0]
    await world.client.delete(POD, gone.metadata.name, "default")
    await world.until(
        lambda: status(world) == (2, 2, 2) and gone.metadata.uid not in {one.metadata.uid for one in world.all(POD)},
        step=0.5,
    )


async def test_exact_number_of_pods_is_created(world):
    await world.create(REPLICA_SET, replica_set(40))
    await world.until(lambda: status(world)[0] == 40, step=0.1)
    await world.settle(3, step=0.5)
    assert len(world.all(POD)) == 40


async def test_matching_orphan_is_adopted_and_mismatched_pod_is_released(world):
    pod = replica_set(1)["spec"]["template"] | {"metadata": {"name": "orphan", "labels": {"app": "a"}}}
    await world.create(POD, pod)
    await world.create(REPLICA_SET, replica_set(1))
    await world.until(lambda: status(world) == (1, 1, 1), step=0.5)
    assert [one.metadata.ownerReferences[0].name for one in world.all(POD)] == ["rs"]
    await world.patch(POD, "orphan", {"metadata": {"labels": {"app": "other"}}})
    await world.until(lambda: len(world.all(POD)) == 2 and status(world) == (1, 1, 1), step=0.5)
    assert not world.one(POD, "orphan").metadata.ownerReferences


async def test_pods_are_available_after_min_ready_seconds(world):
    await world.create(REPLICA_SET, replica_set(1, minReadySeconds=30))
    await world.until(lambda: status(world) == (1, 1, 0), step=0.5)
    await world.until(lambda: status(world) == (1, 1, 1), step=5)


async def test_failure_to_create_pods_is_in_the_status_until_it_ends(world):
    def failures() -> list[str]:
        conditions = world.one(REPLICA_SET, "rs").status.conditions or ()
        return [one.reason for one in conditions if one.type == "ReplicaFailure"]

    world.cluster.server.faults.add(Fault(verb="create", resource="pods", subresource="", answer=500))
    await world.create(REPLICA_SET, replica_set(1))
    await world.until(lambda: failures() == ["FailedCreate"])
    world.cluster.server.faults.clear()
    await world.until(lambda: status(world) == (1, 1, 1) and not failures(), step=0.5)


async def test_scaling_down_prefers_pods_with_a_low_deletion_cost(world):
    await world.create(REPLICA_SET, replica_set(3))
    await world.until(lambda: status(world) == (3, 3, 3), step=0.5)
    dear = [one.metadata.name for one in world.all(POD)][:2]
    for name in dear:
        await world.patch(POD, name, {"metadata": {"annotations": {DELETION_COST: "100"}}})
    await world.patch(REPLICA_SET, "rs", {"spec": {"replicas": 2}})
    await world.until(lambda: len([one for one in world.all(POD) if pods.is_active(one)]) == 2, step=0.5)
    assert sorted(one.metadata.name for one in world.all(POD) if pods.is_active(one)) == sorted(dear)


def pod(name: str, *, node: str = "n", phase: str = "Running", ready: int | None = 60, **more: Any) -> Pod:
    since = NOW - timedelta(minutes=ready or 0)
    conditions = [{"type": "Ready", "status": "True", "lastTransitionTime": since}] if ready is not None else []
    containers = [{"name": "c", "image": "i", "imageID": "", "ready": True, "restartCount": more.get("restarts", 0)}]
    document = {
        "metadata": {
            "name": name,
            "uid": name,
            "namespace": "default",
            "annotations": {DELETION_COST: str(more.get("cost", 0))},
            "creationTimestamp": NOW - timedelta(minutes=more.get("age", 100)),
        },
        "spec": {"nodeName": node, "containers": []},
        "status": {"phase": phase, "conditions": conditions, "containerStatuses": containers},
    }
    return msgspec.convert(document, Pod)


@cases(
    "first, then",
    {
        "without a node": (pod("a", node="", phase="Pending", ready=None), pod("b")),
        "pending": (pod("a", phase="Pending", ready=None), pod("b", ready=None)),
        "not ready": (pod("a", ready=None), pod("b")),
        "cheap": (pod("a", cost=-1), pod("b")),
        "ready for a shorter time": (pod("a", ready=5), pod("b")),
        "restarted more often": (pod("a", restarts=3), pod("b")),
        "younger": (pod("a", age=5), pod("b")),
    },
)
def test_deletion_order_of_pods(first, then):
    assert [one.metadata.name for one in scale_down_order([then, first], [])] == ["a", "b"]


def test_pods_on_crowded_nodes_are_deleted_first():
    crowd = [pod("a", node="full", ready=90), pod("b", node="full", ready=90), pod("c", node="free")]
    assert [one.metadata.name for one in scale_down_order(crowd, crowd)][-1] == "c"
