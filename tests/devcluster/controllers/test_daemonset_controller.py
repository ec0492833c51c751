from typing import Any

from tests.support.tables import cases

from bayplan.client import PatchType
from bayplan.core.api.kinds import CONTROLLER_REVISION, DAEMON_SET, NODE, POD
from bayplan.core.expansion import pods
from bayplan_devcluster.kubelet import STOP_SECONDS

NODES = {"node-0", "node-1", "node-2"}


def daemon_set(image: str = "one", pod: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    return {
        "metadata": {"name": "agent", "namespace": "default"},
        "spec": {
            "selector": {"matchLabels": {"app": "agent"}},
            "template": {
                "metadata": {"labels": {"app": "agent"}, "annotations": spec.pop("annotations", {})},
                "spec": {"containers": [{"name": "c", "image": image}], **(pod or {})},
            },
            **spec,
        },
    }


def template(image: str) -> dict[str, Any]:
    return {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": image}]}}}}


def agents(world) -> list[Any]:
    return [one for one in world.all(POD, app="agent") if pods.is_active(one)]


def nodes(world) -> set[str]:
    """The nodes with a pod; no node may have two."""
    found = [one.spec.nodeName for one in agents(world)]
    assert len(found) == len(set(found))
    return set(found)


def images(world) -> dict[str, str]:
    return {one.spec.nodeName: one.spec.containers[0].image for one in agents(world)}


def status(world) -> Any:
    return world.one(DAEMON_SET, "agent").status


def counts(world) -> tuple[int, ...]:
    """Desired, current, up to date, available, misscheduled."""
    found = status(world)
    return (
        found.desiredNumberScheduled,
        found.currentNumberScheduled,
        found.updatedNumberScheduled or 0,
        found.numberAvailable or 0,
        found.numberMisscheduled,
    )


def rolled_out(world, number: int = 3) -> bool:
    found = world.one(DAEMON_SET, "agent")
    if found.status is None or found.status.observedGeneration != found.metadata.generation:
        return False
    return counts(world)[:4] == (number,) * 4


async def ready(world, document: dict[str, Any], number: int = 3) -> None:
    await world.create(DAEMON_SET, document)
    await world.until(lambda: rolled_out(world, number), step=0.5)


async def test_each_node_gets_one_pod_that_only_this_node_may_run(world):
    world.binding = False
    await world.create(DAEMON_SET, daemon_set(pod={"hostNetwork": True}))
    await world.until(lambda: len(agents(world)) == 3)
    terms = [
        one.spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms
        for one in agents(world)
    ]
    fields = [(field.key, field.operator, *field.values) for [term] in terms for field in term.matchFields]
    assert sorted(fields) == [("metadata.name", "In", name) for name in sorted(NODES)]
    tolerated = {(one.key, one.operator, one.effect) for one in agents(world)[0].spec.tolerations}
    assert tolerated == {
        (f"node.kubernetes.io/{key}", "Exists", effect)
        for key, effect in (
            ("not-ready", "NoExecute"),
            ("unreachable", "NoExecute"),
            ("disk-pressure", "NoSchedule"),
            ("memory-pressure", "NoSchedule"),
            ("pid-pressure", "NoSchedule"),
            ("unschedulable", "NoSchedule"),
            ("network-unavailable", "NoSchedule"),
        )
    }
    [revision] = world.all(CONTROLLER_REVISION)
    digest = revision.metadata.labels["controller-revision-hash"]
    labels = {"app": "agent", "controller-revision-hash": digest, "pod-template-generation": "1"}
    assert agents(world)[0].metadata.labels == labels
    assert counts(world) == (3, 3, 3, 0, 0)
    assert status(world).numberUnavailable == 3
    world.binding = True
    await world.until(lambda: counts(world) == (3, 3, 3, 3, 0), step=0.5)
    assert nodes(world) == NODES


async def test_pods_follow_the_nodes_that_the_template_selects(world):
    await world.patch(NODE, "node-1", {"metadata": {"labels": {"disk": "ssd"}}})
    await ready(world, daemon_set(pod={"nodeSelector": {"disk": "ssd"}}), 1)
    assert nodes(world) == {"node-1"}
    await world.patch(NODE, "node-2", {"metadata": {"labels": {"disk": "ssd"}}})
    await world.until(lambda: nodes(world) == {"node-1", "node-2"}, step=0.5)
    await world.patch(NODE, "node-1", {"metadata": {"labels": {"disk": None}}})
    await world.until(lambda: nodes(world) == {"node-2"} and rolled_out(world, 1), step=0.5)


async def test_required_affinity_of_the_template_selects_nodes(world):
    expression = {"key": "topology.kubernetes.io/zone", "operator": "NotIn", "values": ["zone-b"]}
    required = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    await ready(world, daemon_set(pod={"affinity": affinity}), 2)
    assert nodes(world) == {"node-0", "node-2"}


async def test_new_node_gets_a_pod_and_a_deleted_one_no_longer_counts(world):
    await ready(world, daemon_set())
    await world.create(NODE, {"metadata": {"name": "extra"}})
    await world.until(lambda: nodes(world) == {*NODES, "extra"} and rolled_out(world, 4), step=0.5)
    await world.client.delete(NODE, "extra")
    await world.until(lambda: nodes(world) == NODES and rolled_out(world, 3), step=1)


async def test_pending_pod_of_a_deleted_node_is_deleted(world):
    world.binding = False
    await world.create(NODE, {"metadata": {"name": "extra"}})
    await world.create(DAEMON_SET, daemon_set())
    await world.until(lambda: len(agents(world)) == 4)
    await world.client.delete(NODE, "extra")
    await world.until(lambda: len(agents(world)) == 3, step=0.5)


@cases(
    "effect, left, misscheduled",
    {
        "preference": ("PreferNoSchedule", NODES, 0),
        "pods may stay": ("NoSchedule", NODES, 1),
        "pods have to go": ("NoExecute", NODES - {"node-0"}, 0),
    },
)
async def test_taints_keep_new_pods_away(world, effect, left, misscheduled):
    await ready(world, daemon_set())
    taints = [{"key": "dedicated", "value": "x", "effect": effect}]
    await world.patch(NODE, "node-0", {"spec": {"taints": taints}})
    desired = 3 if effect == "PreferNoSchedule" else 2
    await world.until(
        lambda: nodes(world) == left and (counts(world)[0], counts(world)[4]) == (desired, misscheduled), step=0.5
    )
    gone = next((one for one in agents(world) if one.spec.nodeName == "node-0"), None)
    if gone is not None:
        await world.client.delete(POD, gone.metadata.name, "default")
        await world.until(lambda: gone.metadata.uid not in {one.metadata.uid for one in agents(world)})
        await world.settle(3)
        assert ("node-0" in nodes(world)) is (effect == "PreferNoSchedule")


async def test_cordoned_node_keeps_getting_pods(world):
    await world.patch(NODE, "node-0", {"spec": {"unschedulable": True}})
    await world.until(lambda: world.one(NODE, "node-0").spec.taints)
    await ready(world, daemon_set())
    assert nodes(world) == NODES


async def test_rolling_update_replaces_as_many_pods_as_may_be_unavailable(world):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    await ready(world, daemon_set(updateStrategy=strategy, annotations={STOP_SECONDS: "5"}))
    await world.patch(DAEMON_SET, "agent", template("two"))
    down = []

    def watch() -> bool:
        down.append(sum(map(pods.is_terminating, world.all(POD))))
        return rolled_out(world)

    await world.until(watch, step=0.5)
    assert max(down) == 2
    assert set(images(world).values()) == {"two"}
    assert {one.metadata.labels["pod-template-generation"] for one in agents(world)} == {"2"}


async def test_rolling_update_with_surge_deletes_old_pods_when_new_ones_are_available(world):
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}}
    await ready(world, daemon_set(updateStrategy=strategy, minReadySeconds=5))
    await world.patch(DAEMON_SET, "agent", template("two"))
    most, least = [], []

    def watch() -> bool:
        there = agents(world)
        most.append(len(there))
        least.append(len({one.spec.nodeName for one in there if pods.is_ready(one)}))
        return rolled_out(world) and set(images(world).values()) == {"two"} and len(there) == 3

    await world.until(watch, step=0.5)
    assert (max(most), min(least)) == (4, 3)


async def test_pods_are_replaced_when_they_are_deleted_with_on_delete(world):
    await ready(world, daemon_set(updateStrategy={"type": "OnDelete"}))
    await world.patch(DAEMON_SET, "agent", template("two"))
    await world.until(lambda: counts(world) == (3, 3, 0, 3, 0))
    await world.settle(5)
    assert set(images(world).values()) == {"one"}
    [old] = [one for one in agents(world) if one.spec.nodeName == "node-1"]
    await world.client.delete(POD, old.metadata.name, "default")
    await world.until(lambda: images(world) == {"node-0": "one", "node-1": "two", "node-2": "one"}, step=0.5)


async def test_going_back_to_a_former_template_renumbers_its_revision_and_history_is_limited(world):
    await ready(world, daemon_set(revisionHistoryLimit=1))
    for image in ("two", "three", "two"):
        await world.patch(DAEMON_SET, "agent", template(image))
        await world.until(lambda: rolled_out(world), step=0.5)
    await world.until(lambda: sorted(one.revision for one in world.all(CONTROLLER_REVISION)) == [3, 4])
    assert world.one(DAEMON_SET, "agent").metadata.annotations == {"deprecated.daemonset.template.generation": "4"}


async def fail(world, node: str) -> str:
    [pod] = [one for one in agents(world) if one.spec.nodeName == node]
    patch = {"status": {"phase": "Failed"}}
    await world.client.patch(POD, pod.metadata.name, patch, "default", type=PatchType.MERGE, subresource="status")
    return pod.metadata.name


async def test_failed_pods_are_replaced_less_and_less_often(world):
    await ready(world, daemon_set())
    waits = []
    for _ in range(4):
        name = await fail(world, "node-0")
        began = world.clock.now()
        await world.until(lambda n=name: world.one(POD, n) is None, step=0.25)
        waits.append((world.clock.now() - began).total_seconds())
        await world.until(lambda: nodes(world) == NODES and rolled_out(world), step=0.05)
    assert waits[0] < 1
    assert waits[-1] > 1


async def test_daemon_set_at_rest_is_not_written(world):
    await ready(world, daemon_set())
    before = world.one(DAEMON_SET, "agent").metadata.resourceVersion
    await world.patch(POD, agents(world)[0].metadata.name, {"metadata": {"annotations": {"a": "b"}}})
    await world.patch(NODE, "node-0", {"metadata": {"labels": {"a": "b"}}})
    await world.settle(5)
    assert world.one(DAEMON_SET, "agent").metadata.resourceVersion == before
