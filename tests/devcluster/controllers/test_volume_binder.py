"""The writes of a binding, which don't overwrite concurrent changes."""

import pytest
from storage_state import BIND_COMPLETED, BOUND_BY_CONTROLLER, annotations, phases
from tests.support.storage_documents import claim, local_class, volume
from tests.support.tables import cases

from bayplan.client import ApiError
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan_devcluster.controllers.volume_binder import VolumeBinder


@pytest.fixture
async def binder(world):
    """A binder in a world whose controllers leave available volumes of class x to the scheduler."""
    await world.create(STORAGE_CLASS, local_class("x"))
    views = (world.views[PERSISTENT_VOLUME], world.views[PERSISTENT_VOLUME_CLAIM])
    return VolumeBinder(world.client, world.clock, *views)


async def pair(world):
    """An available volume and a pending claim."""
    await world.create(PERSISTENT_VOLUME, volume("v", "x", "2Gi"))
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.until(lambda: phases(world) == {"v": "Available", "c": "Pending"})
    return world.one(PERSISTENT_VOLUME, "v"), world.one(PERSISTENT_VOLUME_CLAIM, "c")


async def test_binding_is_written_to_both_objects(world, binder):
    await binder.bind(*await pair(world))
    taken, bound = world.one(PERSISTENT_VOLUME, "v"), world.one(PERSISTENT_VOLUME_CLAIM, "c")
    assert phases(world) == {"v": "Bound", "c": "Bound"}
    assert (taken.spec.claimRef.uid, bound.spec.volumeName) == (bound.metadata.uid, "v")
    assert (annotations(taken), annotations(bound)) == ({BOUND_BY_CONTROLLER}, {BOUND_BY_CONTROLLER, BIND_COMPLETED})
    assert bound.status.capacity == {"storage": "2Gi"}


async def test_existing_binding_is_not_written_again(world, binder):
    await binder.bind(*await pair(world))
    before = world.one(PERSISTENT_VOLUME, "v"), world.one(PERSISTENT_VOLUME_CLAIM, "c")
    await binder.bind(*before)
    assert await world.client.get(PERSISTENT_VOLUME, "v") == before[0]
    assert await world.client.get(PERSISTENT_VOLUME_CLAIM, "c", "default") == before[1]


@cases("kind, name", {"volume": (PERSISTENT_VOLUME, "v"), "claim": (PERSISTENT_VOLUME_CLAIM, "c")})
async def test_changed_object_is_not_overwritten(world, binder, kind, name):
    stale = await pair(world)
    await world.patch(kind, name, {"metadata": {"labels": {"changed": "yes"}}})
    with pytest.raises(ApiError) as refusal:
        await binder.bind(*stale)
    assert refusal.value.status == 409


async def test_new_object_of_the_same_name_is_not_overwritten(world, binder):
    free, wanted = await pair(world)
    await world.client.delete(PERSISTENT_VOLUME, "v")
    await world.until(lambda: world.one(PERSISTENT_VOLUME, "v") is None)
    await world.create(PERSISTENT_VOLUME, volume("v", "x"))
    free.metadata.resourceVersion = None
    with pytest.raises(ApiError) as refusal:
        await binder.bind(free, wanted)
    assert refusal.value.status == 409
    assert world.one(PERSISTENT_VOLUME, "v").spec.claimRef is None
