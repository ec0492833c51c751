"""VolumeBinding: what is set aside, how it is written, and what becomes of it when that fails."""

from __future__ import annotations

import asyncio
import copy
import random

import msgspec
import pytest
from lightkube.models.core_v1 import VolumeNodeAffinity
from volumes import BOUND, claim, plugin_of, storage_class, using, volume

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD
from bayplan.api.objects import convert
from bayplan.client import ApiError
from bayplan.config import KubeSchedulerConfiguration, build_profile
from bayplan.devcluster.apiserver import Fault
from bayplan.framework.binding_runner import run_pre_bind, run_pre_bind_pre_flight, run_reserve, run_unreserve
from bayplan.framework.status import Code
from bayplan.scheduling import Outcome, decide
from bayplan.service.handle import SchedulerHandle
from bayplan.service.runtime import Runtime
from bayplan.testing.builders import Cluster, make_cluster, make_node
from bayplan.testing.documents import known, put
from bayplan.testing.in_memory import load, make_client
from bayplan.testing.virtual_time import VirtualTime

SELECTED = "volume.kubernetes.io/selected-node"
CONTROLLED = "pv.kubernetes.io/bound-by-controller"
MADE = storage_class("made", provisioner="disk.example.com")
STATIC = [claim("c"), storage_class(), volume("v", nodes=["a"])]
DYNAMIC = [claim("d", "made"), MADE]


class World:
    """A cluster that is told of what its API server has, when `sync` is called or an object is written by `control`."""

    def __init__(self, *objects, timeout=600):
        self.client = make_client(*objects)
        self.cluster = make_cluster()
        state = self.cluster.state
        self.handle = SchedulerHandle(Runtime(self.client, state=state), None)
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
        """Tell the scheduler what the server has."""
        for kind in (PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM):
            for obj in (await self.client.list(kind)).items:
                put(self.cluster.state, *known(obj))

    async def control(self, kind, name, patch):
        """What a controller writes, and the scheduler hears of."""
        await self.client.patch(kind, name, patch, "default" if kind is PERSISTENT_VOLUME_CLAIM else None)
        await self.sync()

    async def bind(self, claim_name, volume_name):
        await self.control(
            PERSISTENT_VOLUME_CLAIM,
            claim_name,
            {"metadata": {"annotations": BOUND}, "spec": {"volumeName": volume_name}},
        )

    def place(self, pod):
        """Decide for a pod, and set aside what it needs."""
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
        return await run_pre_bind(self.cluster.profile, decision.cycle, decision.pod, decision.node)


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
def test_a_volume_is_set_aside():
    world = World(*STATIC)
    decision = world.place(using("c"))
    assert (decision.node, world.works(decision)) == ("a", True)
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
def test_a_claim_is_told_its_node():
    world = World(*DYNAMIC)
    decision = world.place(using("d"))
    assert world.claims["default/d"].metadata.annotations[SELECTED] == decision.node
    world.unreserve(decision)
    assert SELECTED not in (world.claims["default/d"].metadata.annotations or {})


@pytest.mark.feature("VolumeBinding: Reserve")
def test_what_is_bound_needs_nothing():
    world = World(claim("c", volume="v"), volume("v"))
    decision = world.place(using("c"))
    assert not world.works(decision)
    assert run(world.pre_bind(decision)).code is Code.SUCCESS
    assert writes(world) == []


@pytest.mark.feature("VolumeBinding: Reserve")
def test_the_next_pod_sees_what_is_set_aside():
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
def test_a_pod_that_gives_up_leaves_alone_what_another_set_aside_since():
    world = World(*DYNAMIC)
    first = world.place(using("d"))
    second = world.place(using("d", name="q"))
    world.unreserve(first)
    assert world.claims["default/d"].metadata.annotations[SELECTED] == second.node


# PreBind


@pytest.mark.feature("VolumeBinding: PreBind")
def test_a_volume_is_bound_by_the_controller():
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
def test_a_volume_is_made_by_the_provisioner():
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
def test_time_runs_out():
    world = World(*STATIC, timeout=20)

    async def story():
        decision = world.place(using("c"))
        status = await world.pre_bind(decision)
        return status, asyncio.get_running_loop().time()

    status, seconds = run(story())
    assert (status.code, status.message) == (Code.ERROR, "binding volumes: context deadline exceeded")
    assert seconds == pytest.approx(20)


async def take_away_annotation(world):
    await world.control(PERSISTENT_VOLUME_CLAIM, "d", {"metadata": {"annotations": {SELECTED: "elsewhere"}}})


async def take_away_all_annotations(world):
    await world.control(PERSISTENT_VOLUME_CLAIM, "d", {"metadata": {"annotations": None}})


async def take_away_reference(world):
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


@pytest.mark.feature("VolumeBinding: bindings that will not be")
@pytest.mark.parametrize(
    ("objects", "happens", "message"),
    [
        pytest.param(DYNAMIC, take_away_annotation, 'provisioning failed for PVC "d"', id="the provisioner gave up"),
        pytest.param(
            DYNAMIC, take_away_all_annotations, 'selectedNode annotation reset for PVC "d"', id="no annotations left"
        ),
        pytest.param(STATIC, take_away_reference, 'ClaimRef got reset for pv "v"', id="the reference was reset"),
        pytest.param(STATIC, delete_volume, 'failed to check binding: persistentvolumes "v" not found', id="no volume"),
        pytest.param(
            STATIC, delete_claim, 'failed to check binding: persistentvolumeclaims "default/c" not found', id="no claim"
        ),
        pytest.param(
            DYNAMIC,
            delete_claim,
            'failed to check provisioning pvc: persistentvolumeclaims "default/d" not found',
            id="no claim to make a volume for",
        ),
        pytest.param(STATIC, delete_pod, 'pod does not exist any more: pod "p" not found', id="no pod"),
        pytest.param(STATIC, delete_node, 'failed to get node "a": node "a" not found', id="no node"),
        pytest.param(
            STATIC,
            move_volume,
            'pv "v" node affinity doesn\'t match node "a": no matching NodeSelectorTerms',
            id="the volume is elsewhere",
        ),
    ],
)
def test_what_ends_the_waiting(objects, happens, message):
    world = World(*objects)

    async def story():
        decision = world.place(using(*[each["metadata"]["name"] for each in objects if each["kind"].endswith("Claim")]))
        binding = asyncio.create_task(world.pre_bind(decision))
        await asyncio.sleep(1)
        await world.sync()
        await happens(world)
        return await binding

    status = run(story())
    assert (status.code, status.message) == (Code.ERROR, f"binding volumes: {message}")


@pytest.mark.feature("VolumeBinding: writing that fails half-way")
@pytest.mark.parametrize(
    ("kind", "written"),
    [
        pytest.param(PERSISTENT_VOLUME, [], id="at the first"),
        pytest.param(PERSISTENT_VOLUME_CLAIM, ["v"], id="at the second"),
    ],
)
def test_what_is_not_written_is_given_back(kind, written):
    world = World(*STATIC, *DYNAMIC)
    world.client.server.faults.add(Fault(verb="patch", resource=kind.plural, answer=409, reason="Conflict", times=1))

    async def story():
        decision = world.place(using("c", "d"))
        with pytest.raises(ApiError, match="409"):
            await world.pre_bind(decision)
        assert SELECTED not in (world.claims["default/d"].metadata.annotations or {})
        world.unreserve(decision)
        taken = world.volumes["v"].spec.claimRef
        assert (taken is not None) == bool(written)  # what is written stays: the pod will need it again
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


@pytest.mark.feature("VolumeBinding: writing that fails half-way")
def test_an_object_that_changed_meanwhile_is_left_alone():
    world = World(*STATIC)

    async def story():
        decision = world.place(using("c"))
        await world.client.patch(PERSISTENT_VOLUME, "v", {"metadata": {"labels": {"k": "1"}}})
        with pytest.raises(ApiError, match="409"):
            await world.pre_bind(decision)

    run(story())
    assert world.volumes["v"].spec.claimRef is None


@pytest.mark.feature("VolumeBinding: writing that fails half-way")
def test_a_binding_that_is_broken_off_gives_back_what_is_not_written():
    world = World(*STATIC)

    async def story():
        decision = world.place(using("c"))
        binding = asyncio.create_task(world.pre_bind(decision))
        await asyncio.sleep(0)
        binding.cancel()
        with pytest.raises(asyncio.CancelledError):
            await binding
        world.unreserve(decision)

    run(story())
    assert world.volumes["v"].spec.claimRef is None


@pytest.mark.feature("VolumeBinding: PreBind")
def test_a_volume_that_was_set_aside_already_is_not_written():
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


def test_plugins_without_an_api_server_say_so():
    cluster = make_cluster(make_node("a"), *STATIC)
    pod = using("c")
    decision = cluster.decide(pod)
    plugin = plugin_of(cluster, "VolumeBinding")
    assert plugin.reserve(decision.cycle, pod, "a") is None
    status = run(plugin.pre_bind(decision.cycle, pod, "a"))
    assert (status.code, status.message) == (Code.ERROR, "binding volumes: there is no API server to write to")
