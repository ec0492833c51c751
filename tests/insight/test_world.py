import pytest
from real_runs import FirstChoice
from small_clusters import Maker

from bayplan.answers.simulation.evictions import evict
from bayplan.answers.simulation.results import Fate
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, RESOURCE_CLAIM
from bayplan.core.framework.interface import Plugin, Wait
from bayplan.insight import Snapshot


def node(name, labels=None, **allocatable):
    room = {"cpu": "4", "memory": "8Gi", "pods": "110", **allocatable}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels or {}}} | {
        "status": {"allocatable": room}
    }


def pod(name, cpu="1", **spec):
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]
    metadata = {"name": name, "namespace": "default", "uid": name}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def obj(api_version, kind, name, namespace=None, **fields):
    metadata = {"name": name, "uid": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **fields}


def world_of(*objects, **options):
    world = World(**options)
    world.rng = FirstChoice()
    world.move(Snapshot.of(objects).documents)
    assert world.contents.problems == []
    return world


def schedule(world):
    results = Simulation(world).schedule(world.in_queue_order(world.pending.values()))
    return {result.pod.name: (result.fate.value, result.node, result.message) for result in results.values()}


def contents(world):
    """All that decisions depend on."""
    nodes = world.state.nodes
    on_nodes = {
        nodes.name(row): (nodes.info(row).requested, sorted(other.key for other in nodes.pods(row)))
        for row in range(len(nodes))
        if nodes.live[row]
    }
    objects = {
        kind: {key: id(each) for key, each in world.state.objects[kind].items()}
        for kind in (NODE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, RESOURCE_CLAIM)
    }
    return on_nodes, objects, sorted(world.pending), dict(world.state.nominations.nodes), world.state.assumed_count


@pytest.mark.parametrize("seed", range(40))
def test_reset_undoes_all_decisions(seed):
    make = Maker(seed)
    world = world_of(*make.cluster(), *[each for unit in make.file() for each in unit])
    before = contents(world)

    first = schedule(world)
    world.reset()

    assert contents(world) == before
    assert schedule(world) == first


@pytest.mark.parametrize("seed", range(40))
def test_moved_world_decides_as_a_new_one(seed):
    make = Maker(seed)
    first = Snapshot.of([*make.cluster(), make.pod("one"), make.pod("two")])
    gone = [(kind, key) for kind in (NODE, POD) for key in list(first.of_kind(kind))[1::3]]
    second = first.but(remove=gone, add=[make.node("z9"), make.pod("three")])
    world = World()
    world.move(first.documents)
    schedule(world)

    world.move(second.documents)

    fresh = World()
    fresh.move(second.documents)
    names = {name: row for name, row in world.state.table.row_of.items() if name in second.of_kind(NODE)}
    assert names.keys() == second.of_kind(NODE).keys()
    assert {key: fate for key, (fate, _, _) in schedule(world).items()} == {
        key: fate for key, (fate, _, _) in schedule(fresh).items()
    }


def test_move_reads_only_what_has_changed():
    snapshot = Snapshot.of([node("a"), pod("x", nodeName="a"), pod("y", nodeName="a")])
    world = World()
    world.move(snapshot.documents)
    kept = world.pod("default/x")

    world.move(snapshot.but(change=[pod("y", cpu="2", nodeName="a")]).documents)

    assert world.pod("default/x") is kept
    assert world.state.nodes.info(0).requested["cpu"] == 3000


def test_unreadable_objects_are_left_out_and_reported():
    world = World()
    world.move(Snapshot.of([node("a", cpu="many"), node("b"), pod("x", cpu="some")]).documents)
    assert [line.partition(" is left out")[0] for line in world.contents.problems] == ["Node a", "Pod default/x"]
    assert world.state.nodes.name(0) == "b"


def test_terminated_pods_are_ignored():
    world = world_of(node("a"), pod("x", nodeName="a") | {"status": {"phase": "Succeeded"}})
    assert (world.pod("default/x"), world.state.pod_count) == (None, 0)


LATE = obj("storage.k8s.io/v1", "StorageClass", "late", provisioner="csi.example.com") | {
    "volumeBindingMode": "WaitForFirstConsumer"
}
CLAIM = obj("v1", "PersistentVolumeClaim", "data", "default") | {
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "late",
        "resources": {"requests": {"storage": "1Gi"}},
    }
}
DRIVER = {"name": "csi.example.com", "nodeID": "x", "topologyKeys": ["zone"]}
CSI_NODES = [obj("storage.k8s.io/v1", "CSINode", name, spec={"drivers": [DRIVER]}) for name in ("a", "b")]
VOLUMES = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]}


def test_volumes_are_provisioned_where_the_first_pod_is_placed():
    zones = [node("a", {"zone": "1"}, cpu="1"), node("b", {"zone": "2"}, cpu="2")]
    world = world_of(*zones, LATE, CLAIM, *CSI_NODES, pod("first", **VOLUMES), pod("second", **VOLUMES))
    before = contents(world)
    results = schedule(world)
    volumes = list(world.state.objects[PERSISTENT_VOLUME].values())
    assert [fate for fate, _, _ in results.values()] == ["placed", "placed"]
    assert len(volumes) == 1
    assert {where for _, where, _ in results.values()} == {"b"}, "the volume is in the zone of the first pod"
    world.reset()
    assert contents(world) == before


def test_existing_volume_is_used_once():
    manual = obj("storage.k8s.io/v1", "StorageClass", "late", provisioner="kubernetes.io/no-provisioner") | {
        "volumeBindingMode": "WaitForFirstConsumer"
    }
    spec = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    available = {"phase": "Available"}
    volume = obj("v1", "PersistentVolume", "disk", spec={**spec, "hostPath": {"path": "/x"}}, status=available)
    other = CLAIM | {"metadata": CLAIM["metadata"] | {"name": "more", "uid": "more"}}
    more = {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "more"}}]}
    world = world_of(node("a"), manual, volume, CLAIM, other, pod("first", **VOLUMES), pod("second", **more))
    results = schedule(world)
    assert results["first"][:2] == ("placed", "a")
    assert "didn't find available persistent volumes to bind" in results["second"][2]


def devices():
    yield obj("resource.k8s.io/v1", "DeviceClass", "gpu", spec={})
    pool = {"name": "a", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "gpu.example.com", "nodeName": "a", "pool": pool, "devices": [{"name": "gpu-0"}]}
    yield obj("resource.k8s.io/v1", "ResourceSlice", "a", spec=spec)
    for name in ("one", "two"):
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}
        requests = [{"name": "gpu", "exactly": exactly}]
        yield obj("resource.k8s.io/v1", "ResourceClaim", name, "default", spec={"devices": {"requests": requests}})


def with_device(name, claim, **spec):
    return pod(name, resourceClaims=[{"name": "gpu", "resourceClaimName": claim}], **spec)


def test_devices_are_allocated_and_freed_by_eviction():
    world = world_of(node("a"), *devices(), with_device("first", "one"), with_device("second", "two"))
    before = contents(world)
    assert [fate for fate, _, _ in schedule(world).values()] == ["placed", "pending"]
    evict(world, world.pod("default/first"))
    assert schedule(world)["second"][:2] == ("placed", "a")
    world.reset()
    assert contents(world) == before


def test_evictions_count_against_budgets():
    budget = obj("policy/v1", "PodDisruptionBudget", "web", "default") | {
        "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 1},
        "status": {"disruptionsAllowed": 1, "currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2},
    }
    web = [pod(f"web-{number}", cpu="2", nodeName=name) for number, name in enumerate("ab")]
    for each in web:
        each["metadata"]["labels"] = {"app": "web"}
    filler = [pod("plain", cpu="2", nodeName="a", priority=5), pod("other", cpu="2", nodeName="b", priority=1)]
    urgent = [pod(f"urgent-{number}", cpu="2", priority=10) for number in range(2)]
    world = world_of(node("a"), node("b"), budget, *web, *filler, *urgent)
    results = Simulation(world).schedule(world.in_queue_order(world.pending.values()))
    victims = [victim.name for result in results.values() for victim in result.victims]
    assert all(result.fate is Fate.PREEMPTS for result in results.values())
    assert len([name for name in victims if name.startswith("web")]) == 1, "the budget allows one of them"


class Partners(Plugin):
    """Lets pods wait in Permit until their partner is there."""

    name = "Partners"

    def __init__(self, handle):
        self.handle = handle

    def permit(self, cycle, pod, node_name):
        for waiting in self.handle.waiting_pods:
            waiting.allow(self.name)
            return None
        return Wait(30)


def test_pods_that_wait_in_permit_are_bound_or_time_out():
    world = world_of(node("a"), pod("one"), pod("two"), pod("three"), plugins=[Partners])
    before = contents(world)
    results = schedule(world)
    assert sorted(fate for fate, _, _ in results.values()) == ["pending", "placed", "placed"]
    late = next(message for fate, _, message in results.values() if fate == "pending")
    assert late == "0/1 nodes are available: 1 rejected due to timeout after waiting 30s at plugin Partners."
    assert world.state.assumed_count == 0
    world.reset()
    assert contents(world) == before


def test_queue_order_is_that_of_the_profile():
    world = world_of(node("a"), pod("b"), pod("a"), pod("urgent", priority=5))
    assert [each.name for each in world.in_queue_order(world.pending.values())] == ["urgent", "a", "b"]


def test_gated_pods_are_not_attempted():
    world = world_of(node("a"), pod("x", schedulingGates=[{"name": "example.com/gate"}]))
    assert schedule(world) == {"x": ("pending", None, "waiting for scheduling gates: [example.com/gate]")}
