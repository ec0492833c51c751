from storage_state import message, phases, pod
from tests.support.storage_documents import claim, ephemeral, storage_class, using
from tests.support.tables import cases

from bayplan.core.api.kinds import PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from bayplan_devcluster.apiserver import Fault


def named(world, name):
    return world.one(PERSISTENT_VOLUME_CLAIM, name)


async def test_each_ephemeral_volume_gets_a_claim(world):
    created = await world.create(POD, pod("p", ephemeral("v", "made", labels={"a": "b"}, annotations={"c": "d"})))
    found = await world.until(lambda: named(world, "p-v"))
    [owner] = found.metadata.ownerReferences
    assert (owner.kind, owner.name, owner.uid) == ("Pod", "p", created.metadata.uid)
    assert owner.controller
    assert owner.blockOwnerDeletion
    assert found.metadata.labels == {"a": "b"}
    assert found.metadata.annotations["c"] == "d"
    assert found.spec.storageClassName == "made"


async def test_other_pods_get_no_claims(world):
    await world.create(POD, pod("p", using("c")))
    await world.settle(2)
    assert world.all(PERSISTENT_VOLUME_CLAIM) == []


async def test_claim_and_volume_are_deleted_with_the_pod(world):
    await world.create(STORAGE_CLASS, storage_class("made"))
    await world.create(POD, pod("p", ephemeral("v", "made")))
    await world.until(lambda: phases(world).get("p-v") == "Bound" and world.one(POD, "p").spec.nodeName)
    await world.client.delete(POD, "p", "default")
    await world.until(lambda: world.one(POD, "p") is None and phases(world) == {}, step=0.5)


@cases("gone", {"deleted": True, "assigned to the pod": False})
async def test_claim_of_another_owner_blocks_the_pod(world, gone):
    first = await world.create(PERSISTENT_VOLUME_CLAIM, claim("p-v"))
    made = await world.create(POD, pod("p", ephemeral("v")))
    assert await message(world, "p", "FailedBinding") == (
        "ephemeral volume v: PVC default/p-v was not created for pod default/p (pod is not owner)"
    )
    if gone:
        await world.client.delete(PERSISTENT_VOLUME_CLAIM, "p-v", "default")
        await world.until(lambda: named(world, "p-v") and named(world, "p-v").metadata.uid != first.metadata.uid)
    else:
        owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": made.metadata.uid, "controller": True}
        await world.patch(PERSISTENT_VOLUME_CLAIM, "p-v", {"metadata": {"ownerReferences": [owner]}})
        await world.settle(1)
    assert named(world, "p-v").metadata.ownerReferences[0].uid == made.metadata.uid


async def test_deleted_claim_is_created_again(world):
    world.binding = False
    await world.create(POD, pod("p", ephemeral("v")))
    first = await world.until(lambda: named(world, "p-v"))
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "p-v", "default")
    await world.until(lambda: named(world, "p-v") and named(world, "p-v").metadata.uid != first.metadata.uid)


async def test_claim_that_the_server_rejects_is_retried(world):
    refused = Fault(verb="create", resource="persistentvolumeclaims", answer=403, message="quota", times=3)
    world.cluster.server.faults.add(refused)
    await world.create(POD, pod("p", ephemeral("v")))
    assert await message(world, "p", "FailedBinding") == "ephemeral volume v: create PVC p-v: quota"
    await world.until(lambda: named(world, "p-v"))
    assert refused.hits == 3
