import asyncio
from typing import Any

from tests.support.tables import cases

from bayplan.client import PatchType
from bayplan.core.api.kinds import LEASE, NODE, POD
from bayplan.core.expansion import pods
from bayplan.foundations.clock import ManualClock
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.cluster import DevCluster
from bayplan_devcluster.kubelet import EXIT_CODE, RUN_SECONDS, STOP_SECONDS, Kubelets, NodeShape, make_node, make_nodes


def pod(
    name: str = "p", node: str = "node-0", annotations: dict[str, str] | None = None, **spec: Any
) -> dict[str, Any]:
    basis = {"nodeName": node, "containers": [{"name": "c", "image": "i"}]}
    metadata = {"name": name, "namespace": "default", "annotations": annotations or {}}
    return {"metadata": metadata, "spec": {**basis, **spec}}


def phase(world, name: str = "p") -> str:
    return pods.phase(world.one(POD, name))


async def run(world, document: dict[str, Any]) -> None:
    await world.create(POD, document)
    await world.until(lambda: phase(world, document["metadata"]["name"]) == "Running", step=0.5)


async def terminate(world) -> None:
    await world.client.delete(POD, "p", "default")
    await world.until(lambda: pods.is_terminating(world.one(POD, "p")))


def statuses(world, name: str = "p") -> dict[str, str]:
    return {one.type: one.status for one in world.one(POD, name).status.conditions or ()}


async def test_bound_pod_runs_after_the_start_delay(world):
    await world.create(POD, pod(initContainers=[{"name": "i", "image": "i"}]))
    await world.settle(0.5, step=0.1)
    assert phase(world) == "Pending"
    await world.until(lambda: phase(world) == "Running", step=0.5)
    status = world.one(POD, "p").status
    assert set(statuses(world).values()) == {"True"}
    assert set(statuses(world)) >= {
        "PodReadyToStartContainers",
        "Initialized",
        "ContainersReady",
        "Ready",
        "PodScheduled",
    }
    [container], [init] = status.containerStatuses, status.initContainerStatuses
    assert (container.ready, container.started, container.restartCount) == (True, True, 0)
    assert container.state.running.startedAt == status.startTime
    assert init.state.terminated.exitCode == 0
    assert status.podIP.startswith("10.128.")
    assert status.hostIP == world.one(NODE, "node-0").status.addresses[0].address


async def test_every_pod_has_its_own_address(world):
    for number in range(3):
        await world.create(POD, pod(f"p{number}"))
    await world.create(POD, pod("host", hostNetwork=True))
    await world.until(lambda: all(pods.phase(one) == "Running" for one in world.all(POD)), step=0.5)
    addresses = {one.metadata.name: one.status.podIP for one in world.all(POD)}
    assert len(set(addresses.values())) == 4
    assert addresses["host"] == world.one(POD, "host").status.hostIP


async def test_containers_run_for_the_annotated_time(world):
    await world.create(POD, pod("good", annotations={RUN_SECONDS: "30"}, restartPolicy="Never"))
    await world.create(POD, pod("bad", annotations={RUN_SECONDS: "30", EXIT_CODE: "7"}, restartPolicy="Never"))
    await world.create(POD, pod("service", annotations={RUN_SECONDS: "30"}))
    await world.settle(25)
    assert {phase(world, name) for name in ("good", "bad", "service")} == {"Running"}
    await world.until(lambda: phase(world, "good") == "Succeeded" and phase(world, "bad") == "Failed", step=1)
    assert world.one(POD, "bad").status.containerStatuses[0].state.terminated.exitCode == 7
    assert statuses(world, "good")["Ready"] == "False"
    assert phase(world, "service") == "Running"


async def test_failed_containers_restart_by_the_restart_policy(world):
    await world.create(POD, pod(annotations={RUN_SECONDS: "5", EXIT_CODE: "1"}, restartPolicy="OnFailure"))
    await world.until(lambda: (world.one(POD, "p").status.containerStatuses or [None])[0], step=0.5)
    await world.until(lambda: world.one(POD, "p").status.containerStatuses[0].restartCount == 2, step=1)
    [container] = world.one(POD, "p").status.containerStatuses
    assert phase(world) == "Running"
    assert container.lastState.terminated.exitCode == 1


async def test_pod_beyond_its_deadline_fails(world):
    await world.create(POD, pod(activeDeadlineSeconds=20))
    await world.until(lambda: phase(world) == "Failed", step=1)
    assert world.one(POD, "p").status.reason == "DeadlineExceeded"


async def test_pod_that_does_not_fit_is_rejected(world):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "5"}}}
    await run(world, pod("first", containers=[container]))
    await world.create(POD, pod("second", containers=[container]))
    await world.until(lambda: phase(world, "second") == "Failed")
    status = world.one(POD, "second").status
    assert status.reason == "OutOfcpu"
    assert status.message == (
        "Pod was rejected: Node didn't have enough resource: cpu, requested: 5000, used: 5000, capacity: 8000"
    )
    assert phase(world, "first") == "Running"


async def test_finished_pod_frees_its_resources(world):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "8"}}}
    short = pod("short", annotations={RUN_SECONDS: "1"}, containers=[container], restartPolicy="Never")
    await world.create(POD, short)
    await world.until(lambda: phase(world, "short") == "Succeeded", step=0.5)
    await run(world, pod("next", containers=[container]))


def sized(cpu: str) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}


async def resize(world, name: str, cpu: str) -> None:
    patch = {"spec": sized(cpu)}
    await world.client.patch(POD, name, patch, "default", type=PatchType.STRATEGIC, subresource="resize")


def granted(world, name: str) -> str:
    return world.one(POD, name).status.containerStatuses[0].allocatedResources["cpu"]


def pending(world, name: str) -> str | None:
    condition = pods.condition(world.one(POD, name), "PodResizePending")
    return condition.reason if condition is not None else None


async def test_running_pod_is_resized_when_resources_are_free(world):
    for name in ("a", "b"):
        await world.create(POD, pod(name, **sized("3")))
    await world.until(lambda: phase(world, "a") == phase(world, "b") == "Running", step=0.5)
    await resize(world, "a", "5")
    await world.until(lambda: granted(world, "a") == "5")
    await resize(world, "b", "4")
    await world.until(lambda: pending(world, "b") == "Deferred")
    assert granted(world, "b") == "3"
    await world.client.delete(POD, "a", "default", grace_period_seconds=0)
    await world.until(lambda: granted(world, "b") == "4" and pending(world, "b") is None)
    await resize(world, "b", "9")
    await world.until(lambda: pending(world, "b") == "Infeasible")


async def shrink_the_other_pod(world) -> None:
    await resize(world, "a", "1")


async def delete_the_other_pod(world) -> None:
    await world.client.delete(POD, "a", "default", grace_period_seconds=0)


async def grow_the_node(world) -> None:
    name = world.one(POD, "b").spec.nodeName
    status = {"status": {"allocatable": {"cpu": "16"}, "capacity": {"cpu": "16"}}}
    await world.client.patch(NODE, name, status, type=PatchType.STRATEGIC, subresource="status")


async def take_the_resize_back(world) -> None:
    await resize(world, "b", "3")


@cases(
    "change, then",
    {
        "another pod is deleted": (delete_the_other_pod, "6"),
        "another pod shrinks": (shrink_the_other_pod, "6"),
        "the node grows": (grow_the_node, "6"),
        "it is taken back": (take_the_resize_back, "3"),
    },
)
async def test_a_deferred_resize_is_tried_again(world, change, then):
    for name in ("a", "b"):
        await world.create(POD, pod(name, **sized("3")))
    await world.until(lambda: phase(world, "a") == phase(world, "b") == "Running", step=0.5)
    await resize(world, "b", "6")
    await world.until(lambda: pending(world, "b") == "Deferred")
    await change(world)
    await world.until(lambda: granted(world, "b") == then and pending(world, "b") is None)


async def test_deleted_pod_stops_within_its_grace_period(world):
    await run(world, pod(terminationGracePeriodSeconds=60))
    await terminate(world)
    await world.until(lambda: world.one(POD, "p") is None, step=0.25)


def container(name: str, pre_stop_seconds: int | None = None) -> dict[str, Any]:
    hook = {"lifecycle": {"preStop": {"sleep": {"seconds": pre_stop_seconds}}}} if pre_stop_seconds else {}
    return {"name": name, "image": "i", **hook}


@cases(
    "spec, annotations, seconds",
    {
        "follows SIGTERM at once": ({"terminationGracePeriodSeconds": 60}, {}, 1),
        "stops slowly": ({"terminationGracePeriodSeconds": 60}, {STOP_SECONDS: "40"}, 40),
        "killed after its grace": ({"terminationGracePeriodSeconds": 20}, {STOP_SECONDS: "40"}, 20),
        "killed after the default grace": ({}, {STOP_SECONDS: "1000"}, 30),
        "no number": ({"terminationGracePeriodSeconds": 60}, {STOP_SECONDS: "soon"}, 1),
        "the longest preStop sleep": (
            {"terminationGracePeriodSeconds": 80, "containers": [container("a"), container("b", 50)]},
            {},
            51,
        ),
        "2 s left after the preStop hook": (
            {"terminationGracePeriodSeconds": 20, "containers": [container("a", 19)]},
            {STOP_SECONDS: "10"},
            21,
        ),
        "preStop of a sidecar": ({"initContainers": [{**container("s", 15), "restartPolicy": "Always"}]}, {}, 16),
    },
)
async def test_deleted_pod_stops_after_its_hooks_within_its_grace(world, spec, annotations, seconds):
    await run(world, pod(annotations=annotations, **spec))
    await terminate(world)
    await world.settle(seconds - 0.5, step=0.5)
    assert phase(world) == "Running"
    await world.settle(1, step=0.5)
    await world.until(lambda: world.one(POD, "p") is None)


async def test_second_delete_shortens_the_grace_period(world):
    await run(world, pod(annotations={STOP_SECONDS: "1000"}, terminationGracePeriodSeconds=600))
    await terminate(world)
    await world.settle(20)
    assert phase(world) == "Running"
    await world.client.delete(POD, "p", "default", grace_period_seconds=25)
    await world.settle(3)
    assert phase(world) == "Running"
    await world.settle(3)
    await world.until(lambda: world.one(POD, "p") is None)


async def test_deleted_pod_that_never_ran_is_removed_at_once(world):
    await world.create(POD, pod())
    await world.client.delete(POD, "p", "default")
    await world.until(lambda: world.one(POD, "p") is None)


async def test_pod_with_a_finalizer_ends_before_it_is_deleted(world):
    document = pod()
    document["metadata"]["finalizers"] = ["example.com/hold"]
    await run(world, document)
    await world.client.delete(POD, "p", "default")
    await world.until(lambda: phase(world) == "Failed", step=0.5)
    await world.patch(POD, "p", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/hold"]}})
    await world.until(lambda: world.one(POD, "p") is None)


async def test_node_of_another_client_is_served(world):
    capacity = {"cpu": "2", "memory": "4Gi", "pods": "10"}
    await world.create(NODE, {"metadata": {"name": "extra"}, "status": {"capacity": capacity, "allocatable": capacity}})
    await world.until(lambda: not world.one(NODE, "extra").spec.taints, step=0.5)
    await run(world, pod(node="extra"))
    assert world.one(NODE, "extra").status.capacity == capacity


async def test_allocatable_extended_resources_follow_the_capacity(world):
    async def write(amount: str | None) -> None:
        patch = {"status": {"capacity": {"example.com/dongle": amount}}}
        await world.client.patch(NODE, "node-0", patch, type=PatchType.MERGE, subresource="status")

    def allocatable() -> str | None:
        return world.one(NODE, "node-0").status.allocatable.get("example.com/dongle")

    await write("4")
    await world.until(lambda: allocatable() == "4")
    await write(None)
    await world.until(lambda: allocatable() is None)


async def test_silent_kubelet_does_nothing_and_catches_up_after_its_restart(world):
    world.cluster.kubelets.silence("node-0")
    await world.create(POD, pod())
    await world.settle(5)
    assert phase(world) == "Pending"
    world.cluster.kubelets.revive("node-0")
    await world.until(lambda: phase(world) == "Running", step=0.5)


async def test_leases_are_renewed(world):
    leases = world.client

    async def renewed() -> Any:
        return (await leases.get(LEASE, "node-0", "kube-node-lease")).spec

    first = await renewed()
    assert first.holderIdentity == "node-0"
    assert first.leaseDurationSeconds == 40
    await world.settle(15)
    assert (await renewed()).renewTime > first.renewTime


async def test_node_object_stays_the_same_while_leases_are_renewed(world):
    before = world.one(NODE, "node-0").metadata.resourceVersion
    leases = set()
    for _ in range(24):
        await world.settle(10)
        leases.add((await world.client.get(LEASE, "node-0", "kube-node-lease")).spec.renewTime)
    assert len(leases) >= 20
    assert world.one(NODE, "node-0").metadata.resourceVersion == before


def test_node_object_stays_the_same_when_time_runs_fast():
    async def run() -> None:
        clock = ManualClock()
        async with DevCluster(clock=clock, kubelets=False, server=ApiServer(address=None, clock=clock)) as cluster:
            kubelets = Kubelets(cluster.client, clock, make_nodes(3), informers=cluster.informers, rate=600.0)
            running = asyncio.create_task(kubelets.run())

            async def settle(seconds: int) -> None:
                for _ in range(seconds // 10):
                    clock.advance(10)
                    await asyncio.sleep(0.01)

            async def renewed() -> Any:
                return (await cluster.client.get(LEASE, "node-0", "kube-node-lease")).spec.renewTime

            await settle(60)
            nodes = cluster.informers.of(NODE).objects
            before, lease = {name: node.metadata.resourceVersion for name, node in nodes.items()}, await renewed()
            await settle(3600)
            assert len(before) == 3
            assert {name: node.metadata.resourceVersion for name, node in nodes.items()} == before
            assert await renewed() > lease
            running.cancel()

    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        runner.run(run())


async def test_node_made_by_a_client_gets_the_labels_of_a_kubelet(world):
    await world.create(NODE, {"metadata": {"name": "extra", "labels": {"kubernetes.io/arch": "arm64", "a": "b"}}})
    await world.until(lambda: len(world.one(NODE, "extra").metadata.labels) > 2, step=0.5)
    assert world.one(NODE, "extra").metadata.labels == {
        "kubernetes.io/hostname": "extra",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "arm64",
        "a": "b",
    }


def test_make_nodes():
    made = make_nodes(4, NodeShape(cpu="2", extended={"example.com/gpu": "1"}), zones=3)
    assert [one.metadata.name for one in made] == ["node-0", "node-1", "node-2", "node-3"]
    zones = [one.metadata.labels["topology.kubernetes.io/zone"] for one in made]
    assert zones == ["zone-a", "zone-b", "zone-c", "zone-a"]
    assert made[0].status.allocatable["cpu"] == "2"
    assert made[0].status.allocatable["example.com/gpu"] == "1"


async def test_cluster_has_the_given_nodes():
    nodes = [make_node("control", labels={"tier": "control"}), make_node("off", unschedulable=True, zone="z")]
    async with DevCluster(nodes, clock=ManualClock()) as cluster:
        await cluster.nodes_ready()
        known = cluster.informers.of(NODE).objects
        assert known["control"].metadata.labels["tier"] == "control"
        assert known["off"].spec.unschedulable
        assert known["off"].metadata.labels["topology.kubernetes.io/zone"] == "z"
