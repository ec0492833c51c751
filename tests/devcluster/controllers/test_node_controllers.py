"""Node lifecycle, taint eviction, and deletion of the pods of deleted nodes."""

from typing import Any

from lightkube.models.core_v1 import Taint, Toleration
from tests.support.tables import cases

from bayplan.client import PatchType
from bayplan.core.api.kinds import NODE, POD
from bayplan.core.api.tolerations import tolerated_seconds
from bayplan.core.expansion import pods


def taints(world, node: str = "node-0") -> set[tuple[str, str]]:
    return {(one.key, one.effect) for one in world.one(NODE, node).spec.taints or ()}


def ready(world, node: str = "node-0") -> tuple[str, str]:
    [condition] = [one for one in world.one(NODE, node).status.conditions if one.type == "Ready"]
    return (condition.status, condition.reason)


def pod(name: str, node: str = "node-0", **spec: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    basis = {"nodeName": node, "containers": [container], "terminationGracePeriodSeconds": 1}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {**basis, **spec}}


async def test_new_node_loses_its_taint_when_it_is_ready(world):
    assert [taints(world, f"node-{number}") for number in range(3)] == [set()] * 3
    assert ready(world) == ("True", "KubeletReady")


async def test_cordoned_node_is_tainted_until_it_is_uncordoned(world):
    await world.patch(NODE, "node-0", {"spec": {"unschedulable": True}})
    await world.until(lambda: taints(world) == {("node.kubernetes.io/unschedulable", "NoSchedule")})
    await world.patch(NODE, "node-0", {"spec": {"unschedulable": None}})
    await world.until(lambda: not taints(world))


async def test_other_taints_are_kept(world):
    own = {"key": "team", "value": "a", "effect": "NoSchedule"}
    await world.patch(NODE, "node-0", {"spec": {"taints": [own], "unschedulable": True}})
    await world.until(lambda: len(taints(world)) == 2)
    await world.patch(NODE, "node-0", {"spec": {"unschedulable": None}})
    await world.until(lambda: taints(world) == {("team", "NoSchedule")})


async def test_condition_adds_its_taint(world):
    condition = {"type": "MemoryPressure", "status": "True"}
    world.cluster.kubelets.silence("node-0")
    await world.client.patch(
        NODE, "node-0", {"status": {"conditions": [condition]}}, type=PatchType.STRATEGIC, subresource="status"
    )
    await world.until(lambda: taints(world) == {("node.kubernetes.io/memory-pressure", "NoSchedule")})


async def test_silent_node_becomes_unreachable_until_its_next_heartbeat(world):
    await world.create(POD, pod("a"))
    await world.until(lambda: pods.is_ready(world.one(POD, "a")), step=0.5)
    world.cluster.kubelets.silence("node-0")
    await world.until(lambda: ready(world) == ("Unknown", "NodeStatusUnknown"), step=5)
    unreachable = "node.kubernetes.io/unreachable"
    await world.until(lambda: taints(world) == {(unreachable, "NoSchedule"), (unreachable, "NoExecute")})
    await world.until(lambda: not pods.is_ready(world.one(POD, "a")))
    assert ready(world, "node-1")[0] == "True"
    world.cluster.kubelets.revive("node-0")
    await world.until(lambda: ready(world)[0] == "True" and not taints(world), step=0.5)


async def test_pods_of_a_lost_node_are_evicted_after_their_toleration(world):
    lost = {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"}
    await world.create(POD, pod("patient", tolerations=[lost]))
    await world.create(POD, pod("impatient", tolerations=[{**lost, "tolerationSeconds": 100}]))
    await world.until(lambda: all(map(pods.is_ready, world.all(POD))), step=0.5)
    world.cluster.kubelets.silence("node-0")
    await world.until(lambda: taints(world), step=5)
    await world.settle(90, step=5)
    assert not pods.is_terminating(world.one(POD, "impatient"))
    await world.until(lambda: pods.is_terminating(world.one(POD, "impatient")), step=5)
    assert pods.condition(world.one(POD, "impatient"), "DisruptionTarget").reason == "DeletionByTaintManager"
    await world.settle(1000, step=50)
    assert not pods.is_terminating(world.one(POD, "patient"))


async def test_untolerated_taint_evicts_at_once(world):
    await world.create(POD, pod("a"))
    await world.until(lambda: pods.is_ready(world.one(POD, "a")), step=0.5)
    await world.patch(NODE, "node-0", {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}})
    await world.until(lambda: not world.all(POD), step=0.5)


async def test_pods_of_a_deleted_node_are_deleted_later(world):
    await world.create(POD, pod("a"))
    await world.create(POD, pod("b", node="node-1"))
    await world.until(lambda: all(map(pods.is_ready, world.all(POD))), step=0.5)
    await world.client.delete(NODE, "node-0")
    await world.until(lambda: world.one(NODE, "node-0") is None)
    await world.settle(30, step=5)
    assert world.one(POD, "a") is not None
    await world.until(lambda: world.one(POD, "a") is None, step=5)
    assert world.one(POD, "b") is not None


K, J = Taint(key="k", value="v", effect="NoExecute"), Taint(key="j", effect="NoExecute")
FOREVER = float("inf")


@cases(
    "tolerations, seconds",
    {
        "none": ([], 0),
        "one of two": ([Toleration(key="k", operator="Exists")], 0),
        "all": ([Toleration(operator="Exists")], FOREVER),
        "all for a time": ([Toleration(operator="Exists", tolerationSeconds=5)], 5),
        "the shorter of two": (
            [
                Toleration(key="k", value="v", tolerationSeconds=30),
                Toleration(key="j", operator="Exists", tolerationSeconds=9),
            ],
            9,
        ),
        "negative": ([Toleration(operator="Exists", tolerationSeconds=-1)], 0),
        "another effect": ([Toleration(operator="Exists", effect="NoSchedule")], 0),
    },
)
def test_duration_of_tolerations(tolerations, seconds):
    assert tolerated_seconds([K, J], tolerations) == seconds
