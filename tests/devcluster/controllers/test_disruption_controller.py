from typing import Any

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError
from bayplan.core.api.kinds import CONFIG_MAP, DEPLOYMENT, POD, POD_DISRUPTION_BUDGET
from bayplan.core.expansion import pods


def budget(**spec: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": "web"}}
    return {"metadata": {"name": "pdb", "namespace": "default"}, "spec": {"selector": selector, **spec}}


def web(replicas: int) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 30},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"metadata": {"name": "web", "namespace": "default"}, "spec": spec}


def status(world) -> tuple[int, int, int, int]:
    """Allowed, healthy, desired, expected."""
    found = world.one(POD_DISRUPTION_BUDGET, "pdb").status
    return (found.disruptionsAllowed, found.currentHealthy, found.desiredHealthy, found.expectedPods)


@cases(
    "spec, expected",
    {
        "minAvailable": ({"minAvailable": 3}, (1, 4, 3, 4)),
        "minAvailable in percent, rounded up": ({"minAvailable": "60%"}, (1, 4, 3, 4)),
        "maxUnavailable": ({"maxUnavailable": 1}, (1, 4, 3, 4)),
        "maxUnavailable in percent, rounded up": ({"maxUnavailable": "30%"}, (2, 4, 2, 4)),
        "more than there are": ({"minAvailable": 9}, (0, 4, 9, 4)),
    },
)
async def test_allowed_disruptions_of_a_budget(world, spec, expected):
    await world.create(DEPLOYMENT, web(4))
    await world.create(POD_DISRUPTION_BUDGET, budget(**spec))
    await world.until(lambda: status(world) == expected, step=0.5)
    found = world.one(POD_DISRUPTION_BUDGET, "pdb")
    assert found.status.observedGeneration == found.metadata.generation
    [condition] = found.status.conditions
    allowed = expected[0] > 0
    assert (condition.type, condition.status) == ("DisruptionAllowed", str(allowed))
    assert condition.reason == ("SufficientPods" if allowed else "InsufficientPods")


async def test_budget_without_pods_allows_no_disruptions(world):
    await world.create(POD_DISRUPTION_BUDGET, budget(minAvailable=0))
    await world.until(lambda: world.one(POD_DISRUPTION_BUDGET, "pdb").status.conditions)
    assert status(world) == (0, 0, 0, 0)


async def test_eviction_uses_up_the_budget_until_the_pod_is_replaced(world):
    await world.create(DEPLOYMENT, web(2))
    await world.create(POD_DISRUPTION_BUDGET, budget(minAvailable=1))
    await world.until(lambda: status(world) == (1, 2, 1, 2), step=0.5)
    world.binding = False
    first, second = (one.metadata.name for one in world.all(POD))
    await world.client.evict("default", first)
    with pytest.raises(ApiError) as refusal:
        await world.client.evict("default", second)
    assert refusal.value.status == 429
    await world.until(lambda: status(world)[:2] == (0, 1), step=0.5)
    world.binding = True
    await world.until(lambda: status(world)[:2] == (1, 2), step=0.5)
    await world.client.evict("default", second)


async def test_percentage_of_pods_without_a_controller_is_zero(world):
    template = web(1)["spec"]["template"]
    await world.create(POD, {**template, "metadata": {"name": "loose", "labels": {"app": "web"}}})
    await world.until(lambda: pods.is_ready(world.one(POD, "loose")), step=0.5)
    await world.create(POD_DISRUPTION_BUDGET, budget(minAvailable="50%"))
    await world.until(lambda: status(world) == (0, 1, 0, 0), step=0.5)


async def test_unknown_controller_allows_no_disruptions_and_is_reported(world):
    fleet = await world.client.create(CONFIG_MAP, {"metadata": {"name": "fleet"}}, "default")
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "fleet", "uid": fleet.metadata.uid, "controller": True}
    template = web(1)["spec"]["template"]
    metadata = {"name": "odd", "labels": {"app": "web"}, "ownerReferences": [owner]}
    await world.create(POD, {**template, "metadata": metadata})
    await world.create(POD_DISRUPTION_BUDGET, budget(maxUnavailable=1))
    await world.until(lambda: world.one(POD_DISRUPTION_BUDGET, "pdb").status.conditions, step=0.5)
    [condition] = world.one(POD_DISRUPTION_BUDGET, "pdb").status.conditions
    assert (condition.status, condition.reason, condition.message) == (
        "False",
        "SyncFailed",
        'found no controllers for pod "odd"',
    )
