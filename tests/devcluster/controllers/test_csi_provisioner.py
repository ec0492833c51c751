"""Provisioning and deletion of volumes."""

from storage_state import PROVISIONED_BY, SELECTED_NODE, annotations, message, phases
from tests.support.storage_documents import DRIVER, HOSTNAME, ZONE, allowed, claim, storage_class, volume
from tests.support.tables import cases

from bayplan.core.api.kinds import (
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    NODE,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from bayplan_devcluster.apiserver import Fault
from bayplan_devcluster.controllers.csi_provisioner import FINALIZER, RETRY

PV_PROTECTION = "kubernetes.io/pv-protection"


def made(world):
    """The volume that was provisioned for claim c, if there is one."""
    return next(iter(world.all(PERSISTENT_VOLUME)), None)


def places(one):
    affinity = one.spec.nodeAffinity
    terms = affinity.required.nodeSelectorTerms if affinity else ()
    return [{each.key: each.values for each in term.matchExpressions} for term in terms]


def wanted(node=None, size="1Gi", **fields):
    """A claim with a selected node."""
    metadata = {"annotations": {SELECTED_NODE: node}} if node else {}
    return claim("c", "made", size, metadata=metadata, **fields)


async def zoned(world):
    """Nodes 0 and 1 are in z0 and z1."""
    for number in range(2):
        await world.patch(NODE, f"node-{number}", {"metadata": {"labels": {ZONE: f"z{number}"}}})


async def test_immediate_claim_gets_a_volume_at_once(world):
    await world.create(STORAGE_CLASS, storage_class("made", parameters={"type": "fast"}, mountOptions=["ro"]))
    await world.create(PERSISTENT_VOLUME_CLAIM, wanted(size="3Gi", mode="ReadWriteMany", volumeMode="Block"))
    await world.until(lambda: phases(world).get("c") == "Bound")
    bound, found = world.one(PERSISTENT_VOLUME_CLAIM, "c"), made(world)
    assert found.metadata.name == bound.spec.volumeName == f"pvc-{bound.metadata.uid}"
    assert found.metadata.annotations[PROVISIONED_BY] == found.spec.csi.driver == DRIVER
    assert set(found.metadata.finalizers) == {FINALIZER, PV_PROTECTION}
    assert (found.spec.capacity, found.spec.accessModes, found.spec.volumeMode, found.spec.mountOptions) == (
        {"storage": "3Gi"},
        ["ReadWriteMany"],
        "Block",
        ["ro"],
    )
    assert (found.spec.persistentVolumeReclaimPolicy, found.spec.storageClassName) == ("Delete", "made")
    assert places(found) == []
    assert (
        await message(world, "c", "ProvisioningSucceeded") == f"Successfully provisioned volume {bound.spec.volumeName}"
    )


@cases(
    "fields, keys, expected",
    {
        "a driver that is everywhere": ({}, [], []),
        "a driver of single nodes": ({}, [HOSTNAME], [{HOSTNAME: ["node-1"]}]),
        "a class of zones": (allowed(ZONE, "z0", "z1"), [], [{ZONE: ["z1"]}]),
    },
)
async def test_delayed_claim_gets_a_volume_for_the_selected_node(world, fields, keys, expected):
    await zoned(world)
    if keys:
        drivers = [{"name": DRIVER, "nodeID": "1", "topologyKeys": keys}]
        await world.client.create(CSI_NODE, {"metadata": {"name": "node-1"}, "spec": {"drivers": drivers}})
    await world.create(STORAGE_CLASS, storage_class("made", late=True, **fields))
    await world.create(PERSISTENT_VOLUME_CLAIM, wanted())
    await message(world, "c", "WaitForFirstConsumer")
    assert made(world) is None
    await world.patch(PERSISTENT_VOLUME_CLAIM, "c", {"metadata": {"annotations": {SELECTED_NODE: "node-1"}}})
    await world.until(lambda: phases(world)["c"] == "Bound")
    assert places(made(world)) == expected


@cases(
    "node, fields, problem",
    {
        "deleted node": ("gone", {}, 'node "gone" not found'),
        "not allowed there": ("node-0", allowed(ZONE, "z1"), "is not in allowed topologies"),
        "no room there": ("node-0", {}, "not enough capacity"),
    },
)
async def test_impossible_selected_node_is_removed_and_the_next_one_is_used(world, node, fields, problem):
    await zoned(world)
    for name, capacity in (("node-0", "1Mi"), ("node-1", "9Gi")):
        where = {"metadata": {"name": name}, "nodeTopology": {"matchLabels": {HOSTNAME: name}}}
        room = {**where, "storageClassName": "made", "capacity": capacity}
        await world.client.create(CSI_STORAGE_CAPACITY, room, "default")
    await world.create(STORAGE_CLASS, storage_class("made", late=True, **fields))
    await world.create(PERSISTENT_VOLUME_CLAIM, wanted(node))
    await world.until(lambda: SELECTED_NODE not in annotations(world.one(PERSISTENT_VOLUME_CLAIM, "c")))
    text = await message(world, "c", "ProvisioningFailed")
    assert text.startswith('failed to provision volume with StorageClass "made": ')
    assert problem in text
    assert phases(world) == {"c": "Pending"}
    await world.patch(PERSISTENT_VOLUME_CLAIM, "c", {"metadata": {"annotations": {SELECTED_NODE: "node-1"}}})
    await world.until(lambda: phases(world)["c"] == "Bound")


async def test_failed_provisioning_is_retried(world):
    capacity = {"metadata": {"name": "r"}, "storageClassName": "made", "nodeTopology": {}, "capacity": "1Mi"}
    await world.client.create(CSI_STORAGE_CAPACITY, capacity, "default")
    await world.create(STORAGE_CLASS, storage_class("made", **allowed(ZONE, "z0")))
    await world.create(PERSISTENT_VOLUME_CLAIM, wanted())
    assert "ResourceExhausted" in await message(world, "c", "ProvisioningFailed")
    changed = await world.client.patch(CSI_STORAGE_CAPACITY, "r", {"capacity": "9Gi"}, "default")
    await world.cluster.informers.of(CSI_STORAGE_CAPACITY).observe([changed])
    assert phases(world) == {"c": "Pending"}
    await world.settle(RETRY)
    await world.until(lambda: phases(world)["c"] == "Bound")
    assert places(made(world)) == [{ZONE: ["z0"]}]


async def test_volume_that_the_server_rejects_is_retried(world):
    fault = world.cluster.server.faults.add(Fault(verb="create", resource="persistentvolumes", answer=500, times=3))
    await world.create(STORAGE_CLASS, storage_class("made"))
    await world.create(PERSISTENT_VOLUME_CLAIM, wanted())
    await world.until(lambda: phases(world)["c"] == "Bound")
    assert fault.hits == 3
    assert "failed to save persistentvolume" in await message(world, "c", "ProvisioningFailed")


@cases("policy, expected", {"deleted": ("Delete", None), "kept": ("Retain", "Released")})
async def test_provisioned_volume_is_deleted_or_kept_by_its_policy(world, policy, expected):
    await world.create(STORAGE_CLASS, storage_class("made", reclaimPolicy=policy))
    await world.create(PERSISTENT_VOLUME_CLAIM, wanted())
    await world.until(lambda: phases(world)["c"] == "Bound")
    name = made(world).metadata.name
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.until(lambda: phases(world) == ({name: expected} if expected else {}))


async def test_volume_is_deleted_when_its_claim_is_deleted_during_provisioning(world):
    late = volume(
        "pvc-late",
        "made",
        csi={"driver": DRIVER, "volumeHandle": "h"},
        claimRef={"namespace": "default", "name": "c", "uid": "gone"},
        persistentVolumeReclaimPolicy="Delete",
        metadata={"annotations": {PROVISIONED_BY: DRIVER}, "finalizers": [FINALIZER, "example.com/seen"]},
    )
    await world.create(PERSISTENT_VOLUME, late)
    await world.until(lambda: made(world).metadata.finalizers == ["example.com/seen"])
    assert made(world).metadata.deletionTimestamp is not None


async def test_volume_that_is_deleted_first_is_removed_after_its_claim(world):
    await world.create(STORAGE_CLASS, storage_class("made"))
    await world.create(PERSISTENT_VOLUME_CLAIM, wanted())
    await world.until(lambda: phases(world)["c"] == "Bound")
    await world.client.delete(PERSISTENT_VOLUME, made(world).metadata.name)
    await world.until(lambda: made(world).metadata.deletionTimestamp is not None)
    await world.settle(5)
    assert made(world).status.phase == "Bound"
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.until(lambda: phases(world) == {})


async def test_finalizer_of_a_volume_follows_its_policy(world):
    await world.create(STORAGE_CLASS, storage_class("made"))
    await world.create(PERSISTENT_VOLUME_CLAIM, wanted())
    await world.until(lambda: phases(world)["c"] == "Bound")
    for policy, protected in (("Retain", False), ("Delete", True)):
        patch = {"spec": {"persistentVolumeReclaimPolicy": policy}}
        await world.patch(PERSISTENT_VOLUME, made(world).metadata.name, patch)
        await world.until(lambda p=protected: (FINALIZER in made(world).metadata.finalizers) is p)
