from typing import Any

import pytest
from tests.support.tables import cases

from bayplan.client import PatchType
from bayplan.core.api.kinds import CONTROLLER_REVISION, PERSISTENT_VOLUME_CLAIM, POD, STATEFUL_SET
from bayplan.core.expansion import pods
from bayplan.core.expansion.stateful_pods import POD_NAME
from bayplan_devcluster.kubelet import STOP_SECONDS

CLAIM = {
    "metadata": {"name": "data", "labels": {"tier": "disk"}},
    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
}


def stateful_set(replicas: int = 3, image: str = "one", **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "db"}, "annotations": spec.pop("annotations", {})},
        "spec": {"containers": [{"name": "c", "image": image}]},
    }
    return {
        "metadata": {"name": "db", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "serviceName": "db",
            "selector": {"matchLabels": {"app": "db"}},
            "template": template,
            **spec,
        },
    }


def template(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}


def names(world) -> list[str]:
    return sorted(pod.metadata.name for pod in world.all(POD, app="db"))


def images(world) -> dict[str, str]:
    return {pod.metadata.name: pod.spec.containers[0].image for pod in world.all(POD, app="db")}


def status(world) -> Any:
    return world.one(STATEFUL_SET, "db").status


def rolled_out(world) -> bool:
    """What `kubectl rollout status` waits for, and that no revision but the latest is in use."""
    found = world.one(STATEFUL_SET, "db")
    current, wanted = found.status, found.spec.replicas
    if current is None or current.observedGeneration != found.metadata.generation:
        return False
    counts = {current.replicas, current.readyReplicas or 0, current.updatedReplicas or 0, current.availableReplicas}
    return counts == {wanted} and current.currentRevision == current.updateRevision


async def ready(world, document: dict[str, Any]) -> None:
    await world.create(STATEFUL_SET, document)
    await world.until(lambda: rolled_out(world), step=0.5)


async def test_pods_are_created_one_after_the_other_with_their_identity(world):
    world.binding = False
    await world.create(STATEFUL_SET, stateful_set(volumeClaimTemplates=[CLAIM]))
    await world.until(lambda: names(world) == ["db-0"])
    await world.settle(3)
    assert names(world) == ["db-0"]
    assert (status(world).replicas, status(world).readyReplicas) == (1, None)
    world.binding = True
    await world.until(lambda: rolled_out(world), step=0.5)
    assert names(world) == ["db-0", "db-1", "db-2"]
    pod = world.one(POD, "db-1")
    assert (pod.spec.hostname, pod.spec.subdomain) == ("db-1", "db")
    [revision] = world.all(CONTROLLER_REVISION)
    assert pod.metadata.labels.items() >= {
        ("app", "db"),
        ("statefulset.kubernetes.io/pod-name", "db-1"),
        ("apps.kubernetes.io/pod-index", "1"),
        ("controller-revision-hash", revision.metadata.name),
    }
    assert [(one.name, one.persistentVolumeClaim.claimName) for one in pod.spec.volumes] == [("data", "data-db-1")]
    claim = world.one(PERSISTENT_VOLUME_CLAIM, "data-db-1")
    assert claim.metadata.labels == {"app": "db", "tier": "disk"}
    assert claim.metadata.ownerReferences is None


async def test_parallel_pods_are_created_and_deleted_at_once(world):
    world.binding = False
    await world.create(STATEFUL_SET, stateful_set(5, podManagementPolicy="Parallel"))
    await world.until(lambda: len(names(world)) == 5)
    world.binding = True
    await world.until(lambda: rolled_out(world), step=0.5)
    await world.patch(STATEFUL_SET, "db", {"spec": {"replicas": 1}})
    await world.until(lambda: sum(map(pods.is_terminating, world.all(POD))) == 4)
    await world.until(lambda: names(world) == ["db-0"], step=0.5)


async def test_scaling_down_deletes_the_highest_ordinal_first(world):
    await ready(world, stateful_set(3, annotations={STOP_SECONDS: "10"}))
    await world.patch(STATEFUL_SET, "db", {"spec": {"replicas": 0}})
    for left in (2, 1, 0):
        await world.until(lambda: any(map(pods.is_terminating, world.all(POD))))
        await world.settle(3)
        assert [one.metadata.name for one in world.all(POD) if pods.is_terminating(one)] == [f"db-{left}"]
        await world.until(lambda n=left: len(names(world)) == n, step=0.5)
    await world.until(lambda: rolled_out(world))


async def test_ordinals_begin_where_the_spec_says(world):
    await ready(world, stateful_set(2, ordinals={"start": 5}))
    assert names(world) == ["db-5", "db-6"]
    await world.patch(STATEFUL_SET, "db", {"spec": {"ordinals": {"start": 6}}})
    await world.until(lambda: names(world) == ["db-6", "db-7"] and rolled_out(world), step=0.5)


async def test_next_pod_waits_until_the_last_has_been_ready_for_min_ready_seconds(world):
    await world.create(STATEFUL_SET, stateful_set(2, minReadySeconds=30))
    await world.until(lambda: status(world) and status(world).readyReplicas == 1, step=0.5)
    await world.settle(25)
    assert names(world) == ["db-0"]
    assert status(world).availableReplicas == 0
    await world.until(lambda: names(world) == ["db-0", "db-1"], step=1)
    await world.until(lambda: status(world).availableReplicas == 2, step=1)


async def test_rolling_update_replaces_pods_above_the_partition_from_the_highest(world):
    await ready(world, stateful_set(4))
    former = status(world).currentRevision
    await world.patch(STATEFUL_SET, "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 2}}}})
    await world.patch(STATEFUL_SET, "db", template("two"))
    seen = []
    await world.until(
        lambda: seen.append(tuple(sorted(images(world).items()))) or status(world).updatedReplicas == 2, step=0.25
    )
    await world.until(lambda: status(world).readyReplicas == 4, step=0.5)
    await world.settle(3)
    assert images(world) == {"db-0": "one", "db-1": "one", "db-2": "two", "db-3": "two"}
    assert not any(("db-2", "two") in one and ("db-3", "one") in one for one in seen)
    assert (status(world).currentRevision, status(world).currentReplicas) == (former, 2)
    assert status(world).updateRevision != former
    # A pod below the partition comes back as it was.
    await world.client.delete(POD, "db-1", "default")
    await world.until(lambda: pods.is_terminating(world.one(POD, "db-1")))
    await world.until(lambda: len(names(world)) == 4 and status(world).readyReplicas == 4, step=0.5)
    assert images(world)["db-1"] == "one"
    await world.patch(STATEFUL_SET, "db", {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    await world.until(lambda: rolled_out(world), step=0.5)
    assert set(images(world).values()) == {"two"}


async def test_as_many_pods_are_replaced_at_once_as_may_be_unavailable(world):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%"}}
    await ready(world, stateful_set(5, updateStrategy=strategy, podManagementPolicy="Parallel"))
    await world.patch(STATEFUL_SET, "db", template("two"))
    down = []

    def watch() -> bool:
        down.append({one.metadata.name for one in world.all(POD) if pods.is_terminating(one)})
        return rolled_out(world)

    await world.until(watch, step=0.25)
    assert down[0] <= {"db-4", "db-3"}
    assert max(map(len, down)) == 2
    assert set(images(world).values()) == {"two"}


async def test_pods_are_replaced_when_they_are_deleted_with_on_delete(world):
    await ready(world, stateful_set(2, updateStrategy={"type": "OnDelete"}))
    await world.patch(STATEFUL_SET, "db", template("two"))
    await world.until(lambda: status(world).updateRevision != status(world).currentRevision)
    await world.settle(5)
    assert images(world) == {"db-0": "one", "db-1": "one"}
    await world.client.delete(POD, "db-0", "default")
    await world.until(lambda: images(world) == {"db-0": "two", "db-1": "one"}, step=0.5)


async def test_going_back_to_a_former_template_renumbers_its_revision(world):
    await ready(world, stateful_set(1))
    first = status(world).currentRevision
    for image in ("two", "one"):
        await world.patch(STATEFUL_SET, "db", template(image))
        await world.until(lambda: rolled_out(world), step=0.5)
    numbers = {one.metadata.name: one.revision for one in world.all(CONTROLLER_REVISION)}
    assert status(world).currentRevision == first
    assert numbers.pop(first) == 3
    assert list(numbers.values()) == [2]


async def test_revision_restores_the_template_as_a_patch(world):
    await ready(world, stateful_set(1))
    [first] = world.all(CONTROLLER_REVISION)
    await world.patch(STATEFUL_SET, "db", template("two"))
    await world.until(lambda: rolled_out(world), step=0.5)
    restored = await world.client.patch(STATEFUL_SET, "db", first.data, "default", type=PatchType.STRATEGIC)
    assert restored.spec.template.spec.containers[0].image == "one"
    assert first.metadata.ownerReferences[0].name == "db"


async def test_revision_gets_another_name_when_its_own_is_taken(world):
    await ready(world, stateful_set(1))
    [taken] = world.all(CONTROLLER_REVISION)
    await world.client.delete(STATEFUL_SET, "db", "default")
    await world.until(lambda: not world.all(CONTROLLER_REVISION) and not names(world), step=0.5)
    other = {"metadata": {"name": taken.metadata.name, "namespace": "default"}, "data": {"a": "b"}, "revision": 1}
    await world.create(CONTROLLER_REVISION, other)
    await ready(world, stateful_set(1))
    assert status(world).collisionCount == 1
    assert status(world).currentRevision != taken.metadata.name


async def test_history_is_limited(world):
    await ready(world, stateful_set(1, revisionHistoryLimit=1))
    for image in ("two", "three", "four"):
        await world.patch(STATEFUL_SET, "db", template(image))
        await world.until(lambda: rolled_out(world), step=0.5)
    await world.until(lambda: sorted(one.revision for one in world.all(CONTROLLER_REVISION)) == [3, 4])


@pytest.mark.parametrize("phase", ["Failed", "Succeeded"])
async def test_pod_that_has_ended_is_replaced(world, phase):
    await ready(world, stateful_set(1))
    former = world.one(POD, "db-0").metadata.uid
    patch = {"status": {"phase": phase}}
    await world.client.patch(POD, "db-0", patch, "default", type=PatchType.MERGE, subresource="status")
    await world.until(lambda: former not in {one.metadata.uid for one in world.all(POD)})
    await world.until(lambda: names(world) == ["db-0"] and rolled_out(world), step=0.5)


async def test_lost_identity_label_is_restored(world):
    await ready(world, stateful_set(1))
    await world.patch(POD, "db-0", {"metadata": {"labels": {POD_NAME: None}}})
    await world.until(lambda: world.one(POD, "db-0").metadata.labels.get(POD_NAME) == "db-0")


async def test_matching_orphan_is_adopted_only_if_its_name_is_of_the_set(world):
    for name in ("db-0", "db-x", "other-0"):
        spec = {"containers": [{"name": "c", "image": "one"}]}
        await world.create(POD, {"metadata": {"name": name, "labels": {"app": "db"}}, "spec": spec})
    await world.create(STATEFUL_SET, stateful_set(1))
    await world.until(lambda: world.one(POD, "db-0").metadata.ownerReferences, step=0.5)
    assert world.one(POD, "db-x").metadata.ownerReferences is None
    assert world.one(POD, "other-0").metadata.ownerReferences is None


def claims(world) -> dict[str, list[str]]:
    return {
        one.metadata.name: [owner.kind for owner in one.metadata.ownerReferences or ()]
        for one in world.all(PERSISTENT_VOLUME_CLAIM)
    }


@cases(
    "policy, owners, left_after_scaling, left_after_deletion",
    {
        "retained": ({}, [], ["data-db-0", "data-db-1"], ["data-db-0", "data-db-1"]),
        "deleted when scaled": ({"whenScaled": "Delete"}, [], ["data-db-0"], ["data-db-0"]),
        "deleted with the set": ({"whenDeleted": "Delete"}, ["StatefulSet"], ["data-db-0", "data-db-1"], []),
        "deleted in both": ({"whenDeleted": "Delete", "whenScaled": "Delete"}, ["StatefulSet"], ["data-db-0"], []),
    },
)
async def test_claims_are_kept_or_deleted_by_the_retention_policy(
    world, policy, owners, left_after_scaling, left_after_deletion
):
    retention = {"persistentVolumeClaimRetentionPolicy": policy}
    await ready(world, stateful_set(2, volumeClaimTemplates=[CLAIM], **retention))
    assert claims(world) == {"data-db-0": owners, "data-db-1": owners}
    await world.patch(STATEFUL_SET, "db", {"spec": {"replicas": 1}})
    await world.until(lambda: rolled_out(world) and sorted(claims(world)) == left_after_scaling, step=0.5)
    await world.client.delete(STATEFUL_SET, "db", "default")
    await world.until(lambda: not names(world) and sorted(claims(world)) == left_after_deletion, step=0.5)


async def test_claim_that_is_being_deleted_is_replaced_before_its_pod_comes_back(world):
    retention = {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"}}
    await ready(world, stateful_set(2, volumeClaimTemplates=[CLAIM], **retention))
    former = world.one(PERSISTENT_VOLUME_CLAIM, "data-db-1").metadata.uid
    await world.patch(STATEFUL_SET, "db", {"spec": {"replicas": 1}})
    await world.until(lambda: pods.is_terminating(world.one(POD, "db-1")))
    await world.patch(STATEFUL_SET, "db", {"spec": {"replicas": 2}})
    await world.until(lambda: rolled_out(world) and world.one(POD, "db-1"), step=0.5)
    assert world.one(PERSISTENT_VOLUME_CLAIM, "data-db-1").metadata.uid != former


async def test_set_at_rest_is_not_written(world):
    await ready(world, stateful_set(2, volumeClaimTemplates=[CLAIM]))
    before = world.one(STATEFUL_SET, "db").metadata.resourceVersion
    await world.patch(POD, "db-0", {"metadata": {"annotations": {"a": "b"}}})
    await world.settle(5)
    assert world.one(STATEFUL_SET, "db").metadata.resourceVersion == before
