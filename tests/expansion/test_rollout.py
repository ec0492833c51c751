from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
from lightkube.models.apps_v1 import Deployment, ReplicaSet
from lightkube.models.core_v1 import PodTemplateSpec
from tests.support.tables import cases

from bayplan.core.expansion import rollout


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


@cases("value", {"text": "a/b", "percent": "x%", "empty": "", "long": f"{'9' * 5000}%"})
def test_limit_that_is_neither_number_nor_percentage_counts_as_zero(value):
    assert rollout.max_surge(deployment(surge=value, unavailable=1)) == 0
    assert rollout.max_unavailable(deployment(surge=1, unavailable=value)) == 0


def names(plan: list[rollout.Scale]) -> dict[str, int]:
    return {step.replica_set.metadata.name: step.replicas for step in plan}


@cases(
    "new, old, expected",
    {
        "surge first": ((0, 0), [(10, 10)], {"new": 3}),
        "then down to the minimum available": ((3, 0), [(10, 10)], {"old0": 8}),
        "the new one uses the freed capacity": ((3, 0), [(8, 8)], {"new": 5}),
        "wait for the new ones": ((5, 0), [(8, 8)], {}),
        "available new ones let old ones go": ((5, 5), [(8, 8)], {"old0": 3}),
        "the rest": ((10, 10), [(3, 3)], {"old0": 0}),
        "done": ((10, 10), [(0, 0)], {}),
        "a new one that is too large shrinks": ((12, 12), [(0, 0)], {"new": 10}),
        "unhealthy old ones do not go beyond the budget": ((5, 0), [(8, 5)], {}),
        "unhealthy old ones go first": ((3, 2), [(10, 6)], {"old0": 6}),
        "several old ones": ((10, 10), [(2, 2), (1, 1)], {"old0": 0, "old1": 0}),
    },
)
def test_steps_of_a_rolling_update(new, old, expected):
    olds = [replica_set(f"old{index}", *sizes, age=10 - index) for index, sizes in enumerate(old)]
    assert names(rollout.plan_rolling_update(deployment(), replica_set("new", *new), olds)) == expected


@cases(
    "replicas, surge, unavailable, expected",
    {
        "surge is rounded up, unavailable down": (10, "25%", "25%", (3, 2)),
        "both zero": (1, 0, "1%", (0, 1)),
        "no more unavailable than there are": (3, 2, 5, (2, 3)),
        "zero replicas": (0, 1, 1, (1, 0)),
    },
)
def test_limits_of_a_rolling_update(replicas, surge, unavailable, expected):
    one = deployment(replicas, surge, unavailable)
    assert (rollout.max_surge(one), rollout.max_unavailable(one)) == expected


def test_recreate_has_no_limits():
    one = deployment(strategy={"type": "Recreate"})
    assert (rollout.max_surge(one), rollout.max_unavailable(one)) == (0, 0)


@cases(
    "replicas, sets, expected",
    {
        "a single one gets all": (5, [("new", 3)], {"new": 5}),
        "to zero": (0, [("new", 3)], {"new": 0}),
        "the newest, where none is active": (5, [("new", 0), ("old", 0)], {"new": 5}),
        "in proportion up": (20, [("new", 5), ("old", 5)], {"new": 13, "old": 12}),
        "in proportion down, the older one first": (5, [("new", 5), ("old", 5)], {"new": 4, "old": 3}),
    },
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
