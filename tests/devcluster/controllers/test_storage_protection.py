from storage_state import phases, pod
from tests.support.storage_documents import claim, storage_class, using, volume
from tests.support.tables import cases

from bayplan.core.api.kinds import NAMESPACE, PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from bayplan.core.expansion import pods
from bayplan_devcluster.controllers.informers import Index
from bayplan_devcluster.controllers.manager import ControllerManager
from bayplan_devcluster.controllers.storage_protection import (
    CLAIM_FINALIZER,
    VOLUME_FINALIZER,
    ClaimProtectionController,
)


def finalizers(world, kind, name):
    return world.one(kind, name).metadata.finalizers or []


async def bound(world):
    await world.create(PERSISTENT_VOLUME, volume("v", "x"))
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.until(lambda: phases(world) == {"v": "Bound", "c": "Bound"})


@cases(
    "kind, document, finalizer",
    {
        "claim": (PERSISTENT_VOLUME_CLAIM, claim("one", "x"), CLAIM_FINALIZER),
        "volume": (PERSISTENT_VOLUME, volume("one", "x"), VOLUME_FINALIZER),
    },
)
async def test_unprotected_object_is_protected_until_it_is_unused(world, kind, document, finalizer):
    created = await world.create(kind, document)
    assert created.metadata.finalizers == [finalizer]
    await world.client.patch(kind, "one", {"metadata": {"finalizers": ["example.com/mine"]}}, "default")
    await world.until(lambda: finalizers(world, kind, "one") == ["example.com/mine", finalizer])
    await world.client.delete(kind, "one", "default")
    await world.until(lambda: finalizers(world, kind, "one") == ["example.com/mine"])
    await world.client.patch(kind, "one", {"metadata": {"finalizers": None}}, "default")
    await world.until(lambda: world.one(kind, "one") is None)


async def test_claim_is_kept_until_its_pod_is_removed(world):
    await bound(world)
    await world.create(POD, pod("p", using("c")))
    await world.until(lambda: pods.phase(world.one(POD, "p")) == "Running", step=0.5)
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.until(lambda: world.one(PERSISTENT_VOLUME_CLAIM, "c").metadata.deletionTimestamp)
    await world.settle(60)
    assert phases(world) == {"v": "Bound", "c": "Bound"}
    await world.client.delete(POD, "p", "default")
    await world.until(lambda: phases(world) == {"v": "Released"}, step=0.5)
    assert world.one(POD, "p") is None


async def test_claim_is_kept_for_a_pod_that_the_view_lacks(world):
    await bound(world)
    managers = [part for part in world.cluster._parts if isinstance(part, ControllerManager)]
    [protection] = [one for one in managers[0]._controllers if isinstance(one, ClaimProtectionController)]
    known, protection._by_claim = protection._by_claim, Index(lambda _pod: ())
    await world.create(POD, pod("p", using("c")))
    await world.until(lambda: world.one(POD, "p").spec.nodeName)
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.settle(5)
    assert phases(world) == {"v": "Bound", "c": "Bound"}
    protection._by_claim = known
    await world.client.delete(POD, "p", "default", grace_period_seconds=0)
    await world.until(lambda: phases(world) == {"v": "Released"})


async def test_claim_is_not_kept_for_an_unscheduled_pod(world):
    world.binding = False
    await bound(world)
    await world.create(POD, pod("p", using("c")))
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.until(lambda: phases(world) == {"v": "Released"})


async def test_claim_is_kept_until_its_last_pod_is_removed(world):
    await world.create(STORAGE_CLASS, storage_class("made"))
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "made", mode="ReadWriteMany"))
    for name in ("p", "q"):
        await world.create(POD, pod(name, using("c")))
    await world.until(lambda: all(one.spec.nodeName for one in world.all(POD)))
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.client.delete(POD, "p", "default", grace_period_seconds=0)
    await world.until(lambda: world.one(POD, "p") is None)
    await world.settle(5)
    assert phases(world)["c"] == "Bound"
    await world.client.delete(POD, "q", "default", grace_period_seconds=0)
    await world.until(lambda: phases(world) == {})


async def test_volume_is_kept_until_its_claim_is_removed(world):
    await bound(world)
    await world.client.delete(PERSISTENT_VOLUME, "v")
    await world.until(lambda: world.one(PERSISTENT_VOLUME, "v").metadata.deletionTimestamp)
    await world.settle(5)
    assert phases(world) == {"v": "Bound", "c": "Bound"}
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.until(lambda: phases(world) == {})


async def test_namespace_is_deleted_with_claims_in_use(world):
    await world.create(NAMESPACE, {"metadata": {"name": "team"}})
    await world.create(STORAGE_CLASS, storage_class("made"))
    await world.client.create(PERSISTENT_VOLUME_CLAIM, claim("c", "made", metadata={"namespace": "team"}))
    await world.client.create(POD, pod("p", using("c"), namespace="team"))
    await world.until(lambda: [one.status.phase for one in world.all(POD)] == ["Running"], step=0.5)
    await world.client.delete(NAMESPACE, "team")
    namespaces = world.cluster.informers.of(NAMESPACE)
    await world.until(lambda: namespaces.get("team") is None and phases(world) == {}, step=0.5)
