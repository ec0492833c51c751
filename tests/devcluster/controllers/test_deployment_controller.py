from typing import Any

import pytest

from bayplan.core.api.kinds import CORE_EVENT, DEPLOYMENT, POD, REPLICA_SET
from bayplan.core.expansion import pods, rollout


def web(replicas: int = 3, image: str = "nginx:1", **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": image}], "terminationGracePeriodSeconds": 1},
            },
            **spec,
        },
    }


async def patch(world, spec: dict[str, Any]) -> None:
    await world.patch(DEPLOYMENT, "web", {"spec": spec})


def image(name: str) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "c", "image": name}]}}}


def rolled_out(world, replicas: int) -> bool:
    """The condition that `kubectl rollout status` waits for."""
    one = world.one(DEPLOYMENT, "web")
    status = one and one.status
    return bool(
        status
        and status.observedGeneration == one.metadata.generation
        and (status.updatedReplicas or 0) == (status.replicas or 0) == (status.availableReplicas or 0) == replicas
    )


async def roll_out(world, document: dict[str, Any]) -> None:
    await world.create(DEPLOYMENT, document)
    await world.until(lambda: rolled_out(world, document["spec"]["replicas"]), step=0.5)


def conditions(world) -> dict[str, tuple[str, str]]:
    status = world.one(DEPLOYMENT, "web").status
    return {one.type: (one.status, one.reason) for one in status.conditions or ()}


async def test_deployment_creates_a_replica_set_and_pods(world):
    await roll_out(world, web())
    [replica_set] = world.all(REPLICA_SET)
    digest = replica_set.metadata.labels[rollout.POD_TEMPLATE_HASH]
    assert replica_set.metadata.name == f"web-{digest}"
    assert replica_set.spec.selector.matchLabels == {"app": "web", rollout.POD_TEMPLATE_HASH: digest}
    assert [(one.kind, one.name, one.controller) for one in replica_set.metadata.ownerReferences] == [
        ("Deployment", "web", True)
    ]
    assert replica_set.metadata.annotations == {
        rollout.REVISION: "1",
        rollout.DESIRED_REPLICAS: "3",
        rollout.MAX_REPLICAS: "4",
    }
    for pod in world.all(POD):
        assert pod.metadata.name.startswith(f"web-{digest}-")
        assert {"app": "web", rollout.POD_TEMPLATE_HASH: digest}.items() <= pod.metadata.labels.items()
        assert [(one.kind, one.name) for one in pod.metadata.ownerReferences] == [
            ("ReplicaSet", replica_set.metadata.name)
        ]
    assert world.one(DEPLOYMENT, "web").metadata.annotations[rollout.REVISION] == "1"
    assert conditions(world) == {
        "Available": ("True", "MinimumReplicasAvailable"),
        "Progressing": ("True", "NewReplicaSetAvailable"),
    }


async def test_rolling_update_respects_its_limits(world):
    await roll_out(world, web(4))
    await patch(world, image("nginx:2"))
    seen = []

    def done() -> bool:
        active = [pod for pod in world.all(POD) if pods.is_active(pod)]
        seen.append((sum(map(pods.is_ready, active)), len(active)))
        return rolled_out(world, 4) and len(active) == 4

    await world.until(done, step=0.2)
    assert min(ready for ready, _ in seen) >= 3
    assert max(total for _, total in seen) <= 5
    assert {pod.spec.containers[0].image for pod in world.all(POD) if pods.is_active(pod)} == {"nginx:2"}
    assert sorted((rollout.revision(one), one.spec.replicas) for one in world.all(REPLICA_SET)) == [(1, 0), (2, 4)]


async def test_rollback_reuses_the_replica_set(world):
    await roll_out(world, web(2))
    for name in ("nginx:2", "nginx:1"):
        await patch(world, image(name))
        await world.until(lambda: rolled_out(world, 2), step=0.5)
    sets = {one.spec.template.spec.containers[0].image: one for one in world.all(REPLICA_SET)}
    assert rollout.revision(sets["nginx:1"]) == 3
    assert sets["nginx:1"].metadata.annotations[rollout.REVISION_HISTORY] == "1"
    assert len(sets) == 2


async def test_recreate_waits_for_the_deletion_of_old_pods(world):
    await roll_out(world, web(2, strategy={"type": "Recreate"}))
    await patch(world, image("nginx:2"))
    images = []

    def done() -> bool:
        images.append({pod.spec.containers[0].image for pod in world.all(POD)})
        return rolled_out(world, 2)

    await world.until(done, step=0.5)
    assert all(len(one) <= 1 for one in images)


async def test_scaling_starts_no_rollout(world):
    await roll_out(world, web(1))
    for replicas in (5, 2, 0):
        await patch(world, {"replicas": replicas})
        await world.until(lambda count=replicas: rolled_out(world, count), step=0.5)
    assert len(world.all(REPLICA_SET)) == 1
    assert rollout.revision(world.all(REPLICA_SET)[0]) == 1


async def test_old_replica_sets_beyond_the_history_limit_are_deleted(world):
    await world.create(DEPLOYMENT, web(1, revisionHistoryLimit=1))
    for number in range(2, 5):
        await world.until(lambda: rolled_out(world, 1), step=0.5)
        await patch(world, image(f"nginx:{number}"))
    await world.until(lambda: rolled_out(world, 1) and len(world.all(REPLICA_SET)) == 2, step=0.5)
    assert sorted(map(rollout.revision, world.all(REPLICA_SET))) == [3, 4]


async def test_paused_deployment_scales_but_does_not_roll_out(world):
    await roll_out(world, web(1))
    await patch(world, {"paused": True})
    await world.until(lambda: conditions(world)["Progressing"] == ("Unknown", "DeploymentPaused"))
    await patch(world, {**image("nginx:2"), "replicas": 2})
    await world.until(lambda: sum(map(pods.is_ready, world.all(POD))) == 2, step=0.5)
    assert len(world.all(REPLICA_SET)) == 1
    await patch(world, {"paused": False})
    await world.until(lambda: rolled_out(world, 2), step=0.5)
    assert len(world.all(REPLICA_SET)) == 2


async def test_rollout_without_progress_times_out(world):
    world.binding = False
    await world.create(DEPLOYMENT, web(1, progressDeadlineSeconds=60))
    await world.until(lambda: world.all(POD))
    late = ("False", "ProgressDeadlineExceeded")
    await world.until(lambda: conditions(world).get("Progressing") == late, step=10)
    world.binding = True
    await world.until(lambda: conditions(world)["Progressing"] == ("True", "NewReplicaSetAvailable"), step=0.5)


async def test_matching_replica_set_is_adopted(world):
    document = web(2)
    template = document["spec"]["template"]
    orphan = {
        "metadata": {"name": "earlier", "namespace": "default", "labels": {"app": "web"}},
        "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }
    await world.create(REPLICA_SET, orphan)
    await roll_out(world, document)
    [replica_set] = world.all(REPLICA_SET)
    assert [one.name for one in replica_set.metadata.ownerReferences] == ["web"]


async def test_scaling_is_reported_in_events(world):
    await roll_out(world, web(2))
    [name] = [one.metadata.name for one in world.all(REPLICA_SET)]
    events = (await world.client.list(CORE_EVENT, "default")).items
    events = {(one.involvedObject.kind, one.reason, one.message, one.source.component) for one in events}
    message = f"Scaled up replica set {name} from 0 to 2"
    assert ("Deployment", "ScalingReplicaSet", message, "deployment-controller") in events


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_deleting_a_deployment_deletes_its_dependents(world, policy):
    await roll_out(world, web(2))
    await world.client.delete(DEPLOYMENT, "web", "default", propagation_policy=policy)
    await world.until(lambda: not world.all(DEPLOYMENT) + world.all(REPLICA_SET) + world.all(POD), step=0.5)
