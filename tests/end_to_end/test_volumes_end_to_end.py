"""Pods with volumes, up to Running: the scheduler with the volume controllers and kubelets."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

import pytest
from running import running_scheduler
from tests.support.invariants import check_invariants
from tests.support.storage_documents import (
    HOSTNAME,
    ZONE,
    allowed,
    claim,
    ephemeral,
    local_class,
    storage_class,
    using,
    volume,
)
from tests.support.tables import cases
from tests.support.waiting import PATIENCE
from workloads import NAME, pod

from bayplan.core.api.kinds import CSI_STORAGE_CAPACITY, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from bayplan.core.config import build_profiles, parse_configuration
from bayplan_devcluster.controllers.csi_provisioner import CsiProvisioner

pytestmark = pytest.mark.feature("VolumeBinding: from nothing to Running")

SELECTED_NODE = "volume.kubernetes.io/selected-node"


@pytest.fixture(autouse=True)
async def _cleanup(cluster):
    yield
    await cleanup(cluster)


async def cleanup(cluster):
    """Deletes a test's storage objects, because tests may share a server."""
    await cluster.client.request("DELETE", POD.path("default"), params={"gracePeriodSeconds": 0})
    for kind in (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME, STORAGE_CLASS, CSI_STORAGE_CAPACITY):
        await cluster.client.request("DELETE", kind.path("default" if kind.namespaced else None))
    for kind in (PERSISTENT_VOLUME_CLAIM, PERSISTENT_VOLUME):
        async with asyncio.timeout(PATIENCE):
            await seen(cluster, kind, lambda found: not found)


async def seen(cluster, kind, condition):
    """Waits until the objects of a kind meet a condition. Returns them by name."""
    found = {}
    page = await cluster.client.list(kind)
    found = {one.metadata.name: one for one in page.items}
    async with aclosing(cluster.client.watch(kind, resource_version=page.resource_version)) as events:
        while not condition(found):
            event = await anext(events)
            found.pop(event.object.metadata.name, None)
            if event.type != "DELETED":
                found[event.object.metadata.name] = event.object
    return found


async def run(cluster, *names):
    """Waits until these pods run. Returns their nodes."""

    def where():
        pods = [cluster.observer.pods[f"default/{name}"] for name in names]
        return all(one["status"].get("phase") == "Running" for one in pods) and {
            one["metadata"]["name"]: one["spec"]["nodeName"] for one in pods
        }

    return await cluster.observer.until(where)


async def bound(cluster, name):
    """Waits until a claim is bound. Returns it with its volume, which is bound too."""
    claims = await seen(cluster, PERSISTENT_VOLUME_CLAIM, lambda found: found[name].status.phase == "Bound")
    volume_name = claims[name].spec.volumeName
    volumes = await seen(cluster, PERSISTENT_VOLUME, lambda found: found[volume_name].status.phase == "Bound")
    assert volumes[volume_name].spec.claimRef.uid == claims[name].metadata.uid
    return claims[name], volumes[volume_name]


def annotations(one):
    return one.metadata.annotations or {}


def reached_from(found):
    """The values in the only node affinity term of a volume."""
    [term] = found.spec.nodeAffinity.required.nodeSelectorTerms
    [expression] = term.matchExpressions
    return (expression.key, expression.values)


async def create(cluster, *objects):
    """Creates classes, volumes and claims."""
    for one in objects:
        spec = one.get("spec", {})
        kind = PERSISTENT_VOLUME if "capacity" in spec else PERSISTENT_VOLUME_CLAIM if spec else STORAGE_CLASS
        await cluster.client.create(kind, one)


async def add_zones(cluster, *zones):
    """Adds node-<zone> in each zone."""
    for zone in zones:
        await cluster.add_node(f"node-{zone}", labels={ZONE: zone})


async def test_late_claim_gets_the_local_volume_and_its_node(cluster):
    await cluster.add_nodes(3)
    await create(cluster, local_class("local"), volume("v", "local", node="node-2"), claim("c", "local"))
    async with running_scheduler(cluster.access):
        await cluster.create(pod("p", **using("c")))
        assert await run(cluster, "p") == {"p": "node-2"}
    _, taken = await bound(cluster, "c")
    assert taken.metadata.name == "v"
    check_invariants(cluster.observer, NAME)


async def test_many_pods_get_distinct_local_volumes(cluster):
    names = await cluster.add_nodes(3)
    await create(cluster, local_class("local"))
    for number in range(9):
        await create(cluster, volume(f"v-{number}", "local", node=names[number % 3]), claim(f"c-{number}", "local"))
    async with running_scheduler(cluster.access):
        await cluster.create_fast([pod(f"p-{number}", **using(f"c-{number}")) for number in range(9)])
        where = await run(cluster, *(f"p-{number}" for number in range(9)))
    for number in range(9):
        _, taken = await bound(cluster, f"c-{number}")
        assert reached_from(taken) == (HOSTNAME, [where[f"p-{number}"]])
    check_invariants(cluster.observer, NAME)


async def test_late_volume_is_provisioned_in_the_zone_of_the_node(cluster):
    await add_zones(cluster, "z1", "z2", "z3")
    await create(cluster, storage_class("made", late=True, **allowed(ZONE, "z2")), claim("c", "made"))
    async with running_scheduler(cluster.access):
        await cluster.create(pod("p", **using("c")))
        assert await run(cluster, "p") == {"p": "node-z2"}
    found, made = await bound(cluster, "c")
    assert annotations(found)[SELECTED_NODE] == "node-z2"
    assert reached_from(made) == (ZONE, ["z2"])
    check_invariants(cluster.observer, NAME)


async def test_immediate_claim_decides_the_node_of_its_pod(cluster):
    await add_zones(cluster, "z1", "z2", "z3")
    await create(cluster, storage_class("made", **allowed(ZONE, "z3")))
    async with running_scheduler(cluster.access):
        await cluster.create(pod("p", **using("c")))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/p", "FailedScheduling"))
        await create(cluster, claim("c", "made"))
        assert await run(cluster, "p") == {"p": "node-z3"}
    _, made = await bound(cluster, "c")
    assert reached_from(made) == (ZONE, ["z3"])
    check_invariants(cluster.observer, NAME)


@cases("late", {"immediate": False, "late": True})
async def test_generic_ephemeral_volume_is_created_and_deleted_with_its_pod(cluster, late):
    await cluster.add_nodes(2)
    await create(cluster, storage_class("made", late=late))
    async with running_scheduler(cluster.access):
        await cluster.create(pod("p", **ephemeral("scratch", "made")))
        await run(cluster, "p")
        found, _ = await bound(cluster, "p-scratch")
        assert [owner.name for owner in found.metadata.ownerReferences] == ["p"]
        await cluster.delete("p")
        await seen(cluster, PERSISTENT_VOLUME_CLAIM, lambda claims: not claims)
        await seen(cluster, PERSISTENT_VOLUME, lambda volumes: not volumes)
    check_invariants(cluster.observer, NAME)


@cases("late", {"immediate": False, "late": True})
async def test_pods_on_different_nodes_share_a_claim(cluster, late):
    await cluster.add_nodes(4)
    await create(cluster, storage_class("made", late=late), claim("shared", "made", mode="ReadWriteMany"))
    selector = {"matchLabels": {"app": "web"}}
    apart = {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": HOSTNAME, "labelSelector": selector}]}
    names = [f"web-{number}" for number in range(4)]
    async with running_scheduler(cluster.access):
        for name in names:
            one = pod(name, affinity={"podAntiAffinity": apart}, **using("shared"))
            one["metadata"]["labels"] = {"app": "web"}
            await cluster.create(one)
        assert len(set((await run(cluster, *names)).values())) == 4
    check_invariants(cluster.observer, NAME)


async def test_pod_waits_for_its_missing_claim(cluster):
    await add_zones(cluster, "z1", "z2")
    await create(
        cluster,
        local_class("local"),
        storage_class("made", late=True),
        volume("v", "local", node="node-z2"),
        claim("mine", "local"),
        claim("new", "made"),
    )
    async with running_scheduler(cluster.access):
        await cluster.create(pod("p", **using("mine", "new", "now")))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/p", "FailedScheduling"))
        volumes = await seen(cluster, PERSISTENT_VOLUME, lambda _: True)
        assert volumes["v"].spec.claimRef is None
        await create(cluster, storage_class("at-once"), claim("now", "at-once"))
        assert await run(cluster, "p") == {"p": "node-z2"}
    for name in ("mine", "new", "now"):
        await bound(cluster, name)
    check_invariants(cluster.observer, NAME)


ANSWERS = [
    pytest.param({"status": 409}, id="409"),
    pytest.param({"status": 403}, id="403"),
    pytest.param({"status": 500}, id="500"),
    pytest.param({"drop_response": True}, id="carried out, connection lost"),
    pytest.param({"hang": True}, id="no reply"),
]


@pytest.mark.parametrize("failing", ["/persistentvolumes/v$", "/persistentvolumeclaims/new$"])
@pytest.mark.parametrize("what", ANSWERS)
async def test_failed_writes_of_claims_are_retried(cluster, proxy, failing, what):
    await cluster.add_nodes(2)
    await create(
        cluster,
        local_class("local"),
        storage_class("made", late=True),
        volume("v", "local", node="node-1"),
        claim("mine", "local"),
        claim("new", "made"),
    )
    async with running_scheduler(proxy.access, request_timeout=2.0):
        fault = proxy.inject("PATCH", failing, times=1 if "drop_response" in what else 3, **what)
        await cluster.create(pod("p", **using("mine", "new")))
        assert await run(cluster, "p") == {"p": "node-1"}
    assert fault.hits == fault.times
    for name in ("mine", "new"):
        await bound(cluster, name)
    check_invariants(cluster.observer, NAME)


async def test_pod_with_failing_claims_releases_its_resources(cluster, proxy):
    await cluster.add_node("a", cpu="1")
    await create(cluster, local_class("local"), volume("v", "local", node="a"), claim("c", "local"))
    async with running_scheduler(proxy.access):
        fault = proxy.inject("PATCH", "/persistentvolumes/", times=None, status=403, message="not yours")
        await cluster.create(pod("first", "800m", **using("c")))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/first", "FailedScheduling"))
        await cluster.create(pod("plain", "800m"))
        assert await run(cluster, "plain") == {"plain": "a"}
        assert not cluster.observer.node_of("default/first")
        # The volume that was assumed for the failed attempt is available for another claim.
        await cluster.delete("first")
        await cluster.delete("plain")
        await cluster.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
        proxy.faults.remove(fault)
        await create(cluster, claim("d", "local"))
        await cluster.create(pod("second", "800m", **using("d")))
        assert await run(cluster, "second") == {"second": "a"}
    _, taken = await bound(cluster, "d")
    assert taken.metadata.name == "v"
    check_invariants(cluster.observer, NAME)


def short_bind_timeout(handle):
    """A profile that waits one second for claims to be bound."""
    binding = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": 1}}
    profile = {"schedulerName": NAME, "pluginConfig": [binding]}
    version = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return build_profiles(parse_configuration({**version, "profiles": [profile]}), handle, ())


@pytest.mark.parametrize("cluster", [(CsiProvisioner,)], indirect=True, ids=["without provisioner"])
async def test_pod_waiting_for_a_slow_volume_releases_its_resources(cluster):
    await cluster.add_node("a", cpu="1")
    await create(cluster, storage_class("made", late=True), claim("c", "made"))
    async with running_scheduler(cluster.access, build_profiles=short_bind_timeout):
        await cluster.create(pod("first", "800m", **using("c")))
        claims = await seen(cluster, PERSISTENT_VOLUME_CLAIM, lambda found: SELECTED_NODE in annotations(found["c"]))
        assert annotations(claims["c"])[SELECTED_NODE] == "a"
        assert not cluster.observer.node_of("default/first")
        await cluster.create(pod("plain", "800m"))
        assert await run(cluster, "plain") == {"plain": "a"}
        [failed, *_] = cluster.observer.events_of("default/first", "FailedScheduling")
        assert "context deadline exceeded" in failed["note"]
        await cluster.delete("plain")
        async with cluster.controlled_by(CsiProvisioner):
            assert await run(cluster, "first") == {"first": "a"}
            await cleanup(cluster)
    check_invariants(cluster.observer, NAME)


async def test_failed_provisioning_moves_the_pod(cluster):
    await add_zones(cluster, "z1", "z2")
    for zone, capacity in (("z1", "1Mi"), ("z2", "1Mi")):
        where = {"metadata": {"name": zone, "namespace": "default"}, "nodeTopology": {"matchLabels": {ZONE: zone}}}
        room = {**where, "storageClassName": "made", "capacity": capacity}
        await cluster.client.create(CSI_STORAGE_CAPACITY, room)
    await create(cluster, storage_class("made", late=True), claim("c", "made"))
    async with running_scheduler(cluster.access):
        await cluster.create(pod("p", **using("c")))
        await cluster.observer.until(lambda: cluster.observer.events_of("default/p", "FailedScheduling"))
        [failed, *_] = cluster.observer.events_of("default/p", "FailedScheduling")
        assert "provisioning failed for PVC" in failed["note"]
        await cluster.client.patch(CSI_STORAGE_CAPACITY, "z2", {"capacity": "9Gi"}, "default")
        assert await run(cluster, "p") == {"p": "node-z2"}
    check_invariants(cluster.observer, NAME)


async def test_pods_run_where_their_volumes_are_despite_faults(cluster, proxy):
    names = await cluster.add_nodes(4)
    await create(cluster, local_class("local"), storage_class("made", late=True, **allowed(HOSTNAME, *names)))
    for number in range(12):
        await create(cluster, volume(f"v-{number}", "local", node=names[number % 4]))
        await create(cluster, claim(f"local-{number}", "local"), claim(f"made-{number}", "made"))
    async with running_scheduler(proxy.access, request_timeout=2.0, names_have_order=True):  # of the volumes
        proxy.cut_every(0.3)
        for what in ({"status": 500}, {"status": 409}, {"drop_response": True}):
            proxy.inject("PATCH", "/persistentvolumes/", times=4, **what)
            proxy.inject("PATCH", "/persistentvolumeclaims/", times=4, **what)
            proxy.inject("POST", "/binding$", times=4, **what)
        pods = [pod(f"p-{number}", **using(f"local-{number}", f"made-{number}")) for number in range(12)]
        await cluster.create_fast(pods)
        where = await run(cluster, *(f"p-{number}" for number in range(12)))
    for number in range(12):
        for name in (f"local-{number}", f"made-{number}"):
            _, taken = await bound(cluster, name)
            assert reached_from(taken) == (HOSTNAME, [where[f"p-{number}"]])
    check_invariants(cluster.observer, NAME)
