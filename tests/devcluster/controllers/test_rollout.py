from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from lightkube.models.apps_v1 import Deployment, ReplicaSet
from lightkube.models.core_v1 import PodTemplateSpec

from bayplan.devcluster.controllers import rollout


def deployment(replicas: int = 10, surge: int | str = "25%", unavailable: int | str = "25%", **spec: Any) -> Deployment:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}}
    document = {
        "metadata": {"name": "web"},
        "spec": {"replicas": replicas, "strategy": strategy, "selector": {}, "template": template("v1"), **spec},
    }
    return msgspec.convert(document, Deployment)


def template(image: str, **labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": {"app": "web", **labels}}, "spec": {"containers": [{"name": "c", "image": image}]}}


def replica_set(name: str, size: int, available: int | None = None, *, age: int = 0, **annotations: str) -> ReplicaSet:
    created = datetime(2026, 1, 1, tzinfo=UTC) - timedelta(minutes=age)
    document = {
        "metadata": {"name": name, "creationTimestamp": created, "annotations": annotations},
        "spec": {"replicas": size, "selector": {}, "template": template(name)},
        "status": {"replicas": size, "availableReplicas": size if available is None else available},
    }
    return msgspec.convert(document, ReplicaSet)


@pytest.mark.parametrize("value", ["a/b", "x%", "", f"{'9' * 5000}%"], ids=["text", "percent", "empty", "long"])
def test_limit_that_is_neither_number_nor_percentage_counts_as_zero(value):
    assert rollout.max_surge(deployment(surge=value, unavailable=1)) == 0
    assert rollout.max_unavailable(deployment(surge=1, unavailable=value)) == 0


def names(plan: list[rollout.Scale]) -> dict[str, int]:
    return {step.replica_set.metadata.name: step.replicas for step in plan}


@pytest.mark.parametrize(
    ("new", "old", "expected"),
    [
        pytest.param((0, 0), [(10, 10)], {"new": 3}, id="surge first"),
        pytest.param((3, 0), [(10, 10)], {"old0": 8}, id="then down to the minimum available"),
        pytest.param((3, 0), [(8, 8)], {"new": 5}, id="the new one uses the freed capacity"),
        pytest.param((5, 0), [(8, 8)], {}, id="wait for the new ones"),
        pytest.param((5, 5), [(8, 8)], {"old0": 3}, id="available new ones let old ones go"),
        pytest.param((10, 10), [(3, 3)], {"old0": 0}, id="the rest"),
        pytest.param((10, 10), [(0, 0)], {}, id="done"),
        pytest.param((12, 12), [(0, 0)], {"new": 10}, id="a new one that is too large shrinks"),
        pytest.param((5, 0), [(8, 5)], {}, id="unhealthy old ones do not go beyond the budget"),
        pytest.param((3, 2), [(10, 6)], {"old0": 6}, id="unhealthy old ones go first"),
        pytest.param((10, 10), [(2, 2), (1, 1)], {"old0": 0, "old1": 0}, id="several old ones"),
    ],
)
def test_steps_of_a_rolling_update(new, old, expected):
    olds = [replica_set(f"old{index}", *sizes, age=10 - index) for index, sizes in enumerate(old)]
    assert names(rollout.plan_rolling_update(deployment(), replica_set("new", *new), olds)) == expected


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "expected"),
    [
        pytest.param(10, "25%", "25%", (3, 2), id="surge is rounded up, unavailable down"),
        pytest.param(1, 0, "1%", (0, 1), id="both zero"),
        pytest.param(3, 2, 5, (2, 3), id="no more unavailable than there are"),
        pytest.param(0, 1, 1, (1, 0), id="zero replicas"),
    ],
)
def test_limits_of_a_rolling_update(replicas, surge, unavailable, expected):
    one = deployment(replicas, surge, unavailable)
    assert (rollout.max_surge(one), rollout.max_unavailable(one)) == expected


def test_recreate_has_no_limits():
    one = deployment(strategy={"type": "Recreate"})
    assert (rollout.max_surge(one), rollout.max_unavailable(one)) == (0, 0)


@pytest.mark.parametrize(
    ("replicas", "sets", "expected"),
    [
        pytest.param(5, [("new", 3)], {"new": 5}, id="a single one gets all"),
        pytest.param(0, [("new", 3)], {"new": 0}, id="to zero"),
        pytest.param(5, [("new", 0), ("old", 0)], {"new": 5}, id="the newest, where none is active"),
        pytest.param(20, [("new", 5), ("old", 5)], {"new": 13, "old": 12}, id="in proportion up"),
        pytest.param(5, [("new", 5), ("old", 5)], {"new": 4, "old": 3}, id="in proportion down, the older one first"),
    ],
)
def test_scaling_keeps_proportions(replicas, sets, expected):
    made = {
        name: replica_set(name, size, 0, age=0 if name == "new" else 5, **{rollout.MAX_REPLICAS: "10"})
        for name, size in sets
    }
    plan = rollout.plan_scale(deployment(replicas), made["new"], [made["old"]] if "old" in made else [])
    assert names(plan) == expected


def test_annotation_detects_scaling():
    sets = [replica_set("new", 3, **{rollout.DESIRED_REPLICAS: "3"})]
    assert rollout.is_scaling_event(deployment(5), sets)
    assert not rollout.is_scaling_event(deployment(3), sets)


def test_template_determines_the_new_replica_set():
    older, newer = replica_set("v1", 1, age=5), replica_set("v1", 1)
    other = replica_set("v2", 1)
    assert rollout.find_new(deployment(), [newer, other, older]) is older
    assert rollout.find_new(deployment(template=template("v3")), [newer, other]) is None


def test_template_hashes_are_short_stable_and_different():
    def digest(document: dict[str, Any], collisions: int | None = None) -> str:
        return rollout.pod_template_hash(msgspec.convert(document, PodTemplateSpec), collisions)

    first = digest(template("v1"))
    assert set(first) <= set("bcdfghjklmnpqrstvwxz2456789")
    assert first == digest(template("v1", **{rollout.POD_TEMPLATE_HASH: "abc"}))
    assert len({first, digest(template("v2")), digest(template("v1"), 1)}) == 3
