"""VolumeBinding: reserving volumes and claims, writing the reservations, and undoing them after failures."""

import asyncio
import copy
import random

import msgspec
import pytest
from lightkube.models.core_v1 import VolumeNodeAffinity
from tests.support.lossy_transport import REPLY_LOST, REQUEST_LOST, LossyTransport
from tests.support.tables import cases
from volumes import BOUND, claim, plugin_of, storage_class, using, volume

from bayplan.client import ApiError, TransportError
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from bayplan.core.api.objects import convert
from bayplan.core.config import KubeSchedulerConfiguration, build_profile
from bayplan.core.framework.binding_runner import run_pre_bind, run_pre_bind_pre_flight, run_reserve, run_unreserve
from bayplan.core.framework.gangs import PLACED_WITH, Gang
from bayplan.core.framework.status import Code, PluginError
from bayplan.core.scheduling import Options, Outcome, decide
from bayplan.core.scheduling import run as drive
from bayplan.core.scheduling.cycle import SchedulingCycle
from bayplan.running.service.handle import SchedulerHandle
from bayplan.running.service.services import Services
from bayplan.testing.builders import Cluster, make_cluster, make_node
from bayplan.testing.documents import known, put
from bayplan.testing.in_memory import load, make_client
from bayplan.testing.virtual_time import VirtualTime
from bayplan_devcluster.apiserver import Fault

SELECTED = "volume.kubernetes.io/selected-node"
CONTROLLED = "pv.kubernetes.io/bound-by-controller"
FAILED = 'running PreBind plugin "VolumeBinding": binding volumes: '
MADE = storage_class("made", provisioner="disk.example.com")
STATIC = [claim("c"), storage_class(), volume("v", nodes=["a"])]
DYNAMIC = [claim("d", "made"), MADE]


class World:
    """A cluster whose state follows its API server when `sync` or `control` is called."""

    def __init__(self, *objects, timeout=600):
        self.client = make_client(*objects)
        self.cluster = make_cluster()
        state = self.cluster.state
        self.handle = SchedulerHandle(Services.of(self.client, state=state), None)
        args = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": timeout}}
        document = {"profiles": [{"pluginConfig": [args]}]}
        (profile,) = convert_configuration(document).profiles
        self.cluster = Cluster(state, build_profile(profile, self.handle))
        put(state, *known(make_node("a")))
        put(state, *known(make_node("b")))
        for obj in objects:
            put(state, *known(obj))
        run(self.sync())

    @property
    def claims(self):
        return self.handle.objects(PERSISTENT_VOLUME_CLAIM)

    @property
    def volumes(self):
        return self.handle.objects(PERSISTENT_VOLUME)

    async def sync(self):
        """Update the scheduler's state from the server."""
        for kind in (PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM):
            for obj in (await self.client.list(kind)).items:
                put(self.cluster.state, *known(obj))

    async def control(self, kind, name, patch):
        """Write as a controller, and update the scheduler's state."""
        await self.client.patch(kind, name, patch, "default" if kind is PERSISTENT_VOLUME_CLAIM else None)
        await self.sync()

    async def bind(self, claim_name, volume_name):
        await self.control(
            PERSISTENT_VOLUME_CLAIM,
            claim_name,
            {"metadata": {"annotations": BOUND}, "spec": {"volumeName": volume_name}},
        )

    def place(self, pod):
        """Decide a pod, and reserve its volumes and claims."""
        put(self.cluster.state, *known(pod))
        decision = decide(self.cluster.profile, self.cluster.state, pod, random.Random(0))
        assert decision.outcome is Outcome.SCHEDULED, decision.message
        status = run_reserve(self.cluster.profile, decision.cycle, pod, decision.node)
        assert status.code is Code.SUCCESS, status
        return decision

    def unreserve(self, decision):
        assert run_unreserve(self.cluster.profile, decision.cycle, decision.pod, decision.node) == []

    def works(self, decision):
        return run_pre_bind_pre_flight(self.cluster.profile, decision.cycle, decision.pod, decision.node)

    async def pre_bind(self, decision):
        return await run_pre_bind(self.works(decision), decision.cycle, decision.pod, decision.node)


def convert_configuration(document):
    return msgspec.convert(document, KubeSchedulerConfiguration)


def run(story):
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(story)


def writes(world):
    return [
        (sent.info.resource, sent.info.name, sent.document)
        for sent in world.client.transport.requests
        if sent.info.verb == "patch"
    ]


# Reserve


@pytest.mark.feature("VolumeBinding: Reserve")
def test_volume_is_reserved():
    world = World(*STATIC)
    decision = world.place(using("c"))
    assert (decision.node, [plugin.name for plugin in world.works(decision)]) == ("a", ["VolumeBinding"])
    reserved = world.volumes["v"]
    assert (reserved.spec.claimRef.namespace, reserved.spec.claimRef.name) == ("default", "c")
    assert reserved.spec.claimRef.uid == "claim-c"
    assert reserved.metadata.annotations[CONTROLLED] == "yes"
    assert world.volumes.known("v").spec.claimRef is None
    world.unreserve(decision)
    world.unreserve(decision)
    assert world.volumes["v"].spec.claimRef is None
    assert writes(world) == []


@pytest.mark.feature("VolumeBinding: Reserve")
def test_claim_is_annotated_with_its_node():
    world = World(*DYNAMIC)
    decision = world.place(using("d"))
    assert world.claims["default/d"].metadata.annotations[SELECTED] == decision.node
    world.unreserve(decision)
    assert SELECTED not in (world.claims["default/d"].metadata.annotations or {})


@pytest.mark.feature("VolumeBinding: Reserve")
def test_bound_claim_needs_no_write():
    world = World(claim("c", volume="v"), volume("v"))
    decision = world.place(using("c"))
    assert not world.works(decision)
    assert run(world.pre_bind(decision)).code is Code.SUCCESS
    assert writes(world) == []


@pytest.mark.feature("VolumeBinding: Reserve")
def test_next_pod_sees_the_reservations():
    world = World(claim("c"), claim("other"), storage_class(), volume("v", nodes=["a"]), *DYNAMIC)
    first = world.place(using("c"))
    refused = world.cluster.decide(using("other", name="q"))
    assert refused.outcome is Outcome.UNSCHEDULABLE
    same = world.cluster.decide(using("c", name="q"))
    assert same.node == "a"
    with_made = world.place(using("d", name="r"))
    second = world.cluster.decide(using("d", name="s"))
    assert second.node == with_made.node
    world.unreserve(first)
    assert world.cluster.decide(using("other", name="q")).node == "a"


@pytest.mark.feature("VolumeBinding: Reserve")
def test_unreserve_keeps_a_later_reservation_of_another_pod():
    world = World(*DYNAMIC)
    first = world.place(using("d"))
    second = world.place(using("d", name="q"))
    world.unreserve(first)
    assert world.claims["default/d"].metadata.annotations[SELECTED] == second.node


# PreBind


@pytest.mark.feature("VolumeBinding: PreBind")
def test_pre_bind_waits_until_the_controller_binds_the_volume():
    world = World(*STATIC)

    async def story():
        decision = world.place(using("c"))
        binding = asyncio.create_task(world.pre_bind(decision))
        await asyncio.sleep(30)
        assert not binding.done()
        await world.sync()
        await asyncio.sleep(30)
        assert not binding.done()
        await world.bind("c", "v")
        return await binding

    assert run(story()).code is Code.SUCCESS
    ((kind, name, patch),) = writes(world)[:1]
    assert (kind, name) == ("persistentvolumes", "v")
    assert patch["spec"]["claimRef"]["name"] == "c"
    assert patch["metadata"]["resourceVersion"]
    assert world.volumes["v"].spec.claimRef.name == "c"


@pytest.mark.feature("VolumeBinding: PreBind")
def test_pre_bind_waits_until_the_provisioner_creates_the_volume():
    world = World(*DYNAMIC)

    async def story():
        decision = world.place(using("d"))
        binding = asyncio.create_task(world.pre_bind(decision))
        await asyncio.sleep(5)
        load(world.client.server, volume("new", "made", nodes=[decision.node]))
        await world.bind("d", "new")
        return decision, await binding

    decision, status = run(story())
    assert status.code is Code.SUCCESS
    assert writes(world)[0][:2] == ("persistentvolumeclaims", "d")
    assert writes(world)[0][2]["metadata"]["annotations"] == {SELECTED: decision.node}


@pytest.mark.feature("VolumeBinding: PreBind")
def test_pre_bind_times_out():
    world = World(*STATIC, timeout=20)

    async def story():
        decision = world.place(using("c"))
        status = await world.pre_bind(decision)
        return status, asyncio.get_running_loop().time()

    status, seconds = run(story())
    assert (status.code, status.message) == (Code.ERROR, f"{FAILED}context deadline exceeded")
    assert seconds == pytest.approx(20)


async def change_annotation(world):
    await world.control(PERSISTENT_VOLUME_CLAIM, "d", {"metadata": {"annotations": {SELECTED: "elsewhere"}}})


async def remove_all_annotations(world):
    await world.control(PERSISTENT_VOLUME_CLAIM, "d", {"metadata": {"annotations": None}})


async def remove_reference(world):
    await world.control(PERSISTENT_VOLUME, "v", {"spec": {"claimRef": None}})


async def delete_volume(world):
    world.volumes.remove("v")


async def delete_claim(world):
    world.claims.remove("default/c")
    world.claims.remove("default/d")


async def delete_pod(world):
    world.handle.objects(POD).remove("default/p")


async def delete_node(world):
    world.cluster.state.remove_node("a")
    world.cluster.state.remove_node("b")
    await world.sync()


async def move_volume(world):
    affinity = {"required": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}}
    volume = copy.deepcopy(world.volumes["v"])
    volume.spec.nodeAffinity = convert(VolumeNodeAffinity, affinity)
    world.volumes.set("v", volume)


@pytest.mark.feature("VolumeBinding: impossible bindings")
@cases(
    "objects, change, message",
    {
        "rejected by the provisioner": (DYNAMIC, change_annotation, 'provisioning failed for PVC "d"'),
        "no annotations left": (DYNAMIC, remove_all_annotations, 'selectedNode annotation reset for PVC "d"'),
        "the reference was reset": (STATIC, remove_reference, 'ClaimRef got reset for pv "v"'),
        "no volume": (STATIC, delete_volume, 'failed to check binding: persistentvolumes "v" not found'),
        "no claim": (STATIC, delete_claim, 'failed to check binding: persistentvolumeclaims "default/c" not found'),
        "no claim to provision for": (
            DYNAMIC,
            delete_claim,
            'failed to check provisioning pvc: persistentvolumeclaims "default/d" not found',
        ),
        "no pod": (STATIC, delete_pod, 'pod does not exist any more: pod "p" not found'),
        "no node": (STATIC, delete_node, 'failed to get node "a": node "a" not found'),
        "volume on another node": (
            STATIC,
            move_volume,
            'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
        ),
    },
)
def test_pre_bind_fails_when_the_binding_becomes_impossible(objects, change, message):
    world = World(*objects)

    async def story():
        decision = world.place(using(*[each["metadata"]["name"] for each in objects if each["kind"].endswith("Claim")]))
        binding = asyncio.create_task(world.pre_bind(decision))
        await asyncio.sleep(1)
        await world.sync()
        await change(world)
        return await binding

    status = run(story())
    assert (status.code, status.message) == (Code.ERROR, f"{FAILED}{message}")


@pytest.mark.feature("VolumeBinding: failed writes")
@cases(
    "kind, written",
    {"first write fails": (PERSISTENT_VOLUME, []), "second write fails": (PERSISTENT_VOLUME_CLAIM, ["v"])},
)
def test_unwritten_reservations_are_released(kind, written):
    world = World(*STATIC, *DYNAMIC)
    world.client.server.faults.add(Fault(verb="patch", resource=kind.plural, answer=409, reason="Conflict", times=1))

    async def story():
        decision = world.place(using("c", "d"))
        with pytest.raises(PluginError, match="409"):
            await world.pre_bind(decision)
        assert SELECTED not in (world.claims["default/d"].metadata.annotations or {})
        world.unreserve(decision)
        taken = world.volumes["v"].spec.claimRef
        assert (taken is not None) == bool(written)  # the written reservation is kept, as the pod needs it again
        await world.sync()
        again = world.place(using("c", "d"))
        binding = asyncio.create_task(world.pre_bind(again))
        await asyncio.sleep(1)
        await world.sync()
        await world.bind("c", "v")
        load(world.client.server, volume("new", "made"))
        await world.bind("d", "new")
        return await binding

    assert run(story()).code is Code.SUCCESS


@pytest.mark.feature("VolumeBinding: failed writes")
@cases("objects, kind", {"volume": (STATIC, PERSISTENT_VOLUME), "claim": (DYNAMIC, PERSISTENT_VOLUME_CLAIM)})
def test_write_whose_reply_is_lost_counts_if_the_server_has_it(objects, kind):
    world = World(*objects)
    faults = world.client.server.faults
    faults.add(Fault(verb="patch", resource=kind.plural, drop="after", times=1))
    faults.add(Fault(verb="get", resource=kind.plural, answer=503, times=1))
    name = objects[0]["metadata"]["name"]

    async def story():
        decision = world.place(using(name))
        binding = asyncio.create_task(world.pre_bind(decision))
        await asyncio.sleep(5)
        world.unreserve(decision)  # what is written stays
        assert not binding.done()
        other = world.volumes["v"].spec.claimRef if kind is PERSISTENT_VOLUME else world.claims[f"default/{name}"]
        await world.sync()
        load(world.client.server, volume("new", "made"))
        await world.bind(name, "v" if kind is PERSISTENT_VOLUME else "new")
        return other, await binding

    reserved, status = run(story())
    assert status.code is Code.SUCCESS
    assert reserved.uid == f"claim-{name}" if kind is PERSISTENT_VOLUME else SELECTED in reserved.metadata.annotations


@pytest.mark.feature("VolumeBinding: failed writes")
@cases(
    "faults",
    {
        "server error": [{"answer": 503}],
        "refused": [{"answer": 403}],
        "lost, then refused": [{"drop": "before"}, {"drop": "before"}, {"answer": 403}],
        "lost, then changed": [{"drop": "before"}, {"drop": "before"}, {"answer": 409}],
    },
)
@cases("objects", {"volume": STATIC, "claim": DYNAMIC})
def test_write_that_the_server_does_not_have_is_a_failure(objects, faults):
    world = World(*objects)
    for fault in faults:
        world.client.server.faults.add(Fault(verb="patch", times=1, **fault))

    async def story():
        decision = world.place(using(objects[0]["metadata"]["name"]))
        with pytest.raises(PluginError) as failed:
            await world.pre_bind(decision)
        assert isinstance(failed.value.__cause__, ApiError | TransportError)

    run(story())
    assert all(store.get(key) is store.known(key) for store in (world.claims, world.volumes) for key in store)


@pytest.mark.feature("VolumeBinding: failed writes")
@cases("script", {"lost": [REQUEST_LOST] * 5, "late": [20.0] * 3, "reply lost": [REPLY_LOST]})
@cases("objects, kind", {"volume": (STATIC, PERSISTENT_VOLUME), "claim": (DYNAMIC, PERSISTENT_VOLUME_CLAIM)})
def test_object_stays_assumed_while_its_writes_are_cut(objects, kind, script):
    world = World(*objects)
    network = world.client._transport = LossyTransport(world.client.server, *script)
    name = objects[0]["metadata"]["name"]

    async def story():
        decision = world.place(using(name))
        binding = asyncio.create_task(world.pre_bind(decision))
        held = world.volumes if kind is PERSISTENT_VOLUME else world.claims
        key = "v" if kind is PERSISTENT_VOLUME else f"default/{name}"
        for _ in range(30):
            await asyncio.sleep(1)
            assert held[key] is not held.known(key), "the change is assumed"
        assert not network.script
        await network.arrived()
        await world.sync()
        load(world.client.server, volume("new", "made"))
        await world.bind(name, "v" if kind is PERSISTENT_VOLUME else "new")
        return await binding

    assert run(story()).code is Code.SUCCESS


@pytest.mark.feature("VolumeBinding: failed writes")
def test_changed_object_is_not_overwritten():
    world = World(*STATIC)

    async def story():
        decision = world.place(using("c"))
        await world.client.patch(PERSISTENT_VOLUME, "v", {"metadata": {"labels": {"k": "1"}}})
        with pytest.raises(PluginError, match="409"):
            await world.pre_bind(decision)

    run(story())
    assert world.volumes["v"].spec.claimRef is None


@pytest.mark.feature("VolumeBinding: failed writes")
@cases("fault, written", {"carried out": ({"drop": "after"}, True), "refused": ({"answer": 403}, False)})
def test_cancelled_binding_keeps_what_is_written(fault, written):
    """The cancellation waits until the outcome of the write is known."""
    world = World(*STATIC)
    world.client.server.faults.add(Fault(verb="patch", times=1, **fault))

    async def story():
        decision = world.place(using("c"))
        binding = asyncio.create_task(world.pre_bind(decision))
        await asyncio.sleep(0)
        binding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await binding
        world.unreserve(decision)

    run(story())
    assert (world.volumes["v"].spec.claimRef is not None) == written


@pytest.mark.feature("VolumeBinding: PreBind")
def test_reserved_volume_is_not_written_again():
    mine = volume("v")
    mine["spec"]["claimRef"] = {"namespace": "default", "name": "c", "uid": "claim-c"}
    world = World(claim("c"), storage_class(), mine)

    async def story():
        decision = world.place(using("c"))
        binding = asyncio.create_task(world.pre_bind(decision))
        await asyncio.sleep(1)
        assert writes(world) == []
        await world.bind("c", "v")
        return await binding

    assert run(story()).code is Code.SUCCESS


def test_pre_bind_without_an_api_server_is_an_error():
    cluster = make_cluster(make_node("a"), *STATIC)
    pod = using("c")
    decision = cluster.decide(pod)
    plugin = plugin_of(cluster, "VolumeBinding")
    assert plugin.reserve(decision.cycle, pod, "a") is None
    status = run(plugin.pre_bind(decision.cycle, pod, "a"))
    assert (status.code, status.message) == (Code.ERROR, "binding volumes: there is no API server to write to")


# Claims that the members of a gang share


def place_members(world, *names, **claims):
    """Decide and reserve pods of one gang, which use these claims."""
    gang, decisions = Gang("crew", (), len(names)), []
    for name in names:
        pod = using(claims.get(name, "shared"), name=name)
        put(world.cluster.state, *known(pod))
        cycle = SchedulingCycle(world.cluster.profile, world.cluster.state, pod, random.Random(0), Options(), gang)
        decision = drive(cycle.run())
        assert decision.outcome is Outcome.SCHEDULED, decision.message
        assert run_reserve(world.cluster.profile, decision.cycle, pod, decision.node).code is Code.SUCCESS
        decisions.append(decision)
    return decisions


@pytest.mark.feature("VolumeBinding: gangs")
@cases(
    "objects",
    {
        "an existing volume": [claim("shared"), storage_class(), volume("v", nodes=["a"])],
        "a new volume": [claim("shared", "made"), MADE],
    },
)
def test_members_share_a_volume(objects):
    world = World(*objects)

    async def story():
        decisions = place_members(world, "p", "q")
        assert len({decision.node for decision in decisions}) == 1
        bindings = [asyncio.create_task(world.pre_bind(decision)) for decision in decisions]
        await asyncio.sleep(1)
        await world.sync()
        if len(objects) == 2:
            load(world.client.server, volume("v", "made"))
        await world.bind("shared", "v")
        return [await binding for binding in bindings]

    assert [status.code for status in run(story())] == [Code.SUCCESS, Code.SUCCESS]


@pytest.mark.feature("VolumeBinding: gangs")
@pytest.mark.parametrize("capacity", ["1Gi", "2Gi"])
def test_members_see_the_storage_that_is_left(capacity):
    """Each claim wants 1Gi. Without a gang, each pod sees the whole capacity, as upstream."""
    driver = {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "disk.example.com"}}
    room = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSIStorageCapacity",
        "metadata": {"name": "room", "namespace": "default"},
        "storageClassName": "made",
        "capacity": capacity,
        "nodeTopology": {},
    }
    world = World(claim("c", "made"), claim("d", "made"), MADE, {**driver, "spec": {"storageCapacity": True}}, room)
    (first,) = place_members(world, "p", p="c")
    planned = first.cycle.data["VolumeBinding"].planned
    pod = using("d", name="q")
    gang = first.cycle.data[PLACED_WITH]
    state, profile = world.cluster.state, world.cluster.profile
    second = drive(SchedulingCycle(profile, state, pod, random.Random(0), Options(), gang).run())
    assert (second.outcome is Outcome.SCHEDULED) == (capacity == "2Gi")
    assert decide(profile, state, pod, random.Random(0)).outcome is Outcome.SCHEDULED
    assert len(planned) == 1
    world.unreserve(first)
    assert len(planned) == 0
