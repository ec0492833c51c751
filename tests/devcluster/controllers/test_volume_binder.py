"""What is written of a binding, and what is not written over others' changes."""

from __future__ import annotations

import pytest
from storage_state import BIND_COMPLETED, BOUND_BY_CONTROLLER, annotations, phases
from tests.storage_documents import claim, local_class, volume

from bayplan.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from bayplan.client import ApiError
from bayplan.devcluster.controllers.volume_binder import VolumeBinder


@pytest.fixture
async def binder(world):
    """In a world whose controllers leave free volumes of class x to the scheduler."""
    await world.create(STORAGE_CLASS, local_class("x"))
    views = (world.views[PERSISTENT_VOLUME], world.views[PERSISTENT_VOLUME_CLAIM])
    return VolumeBinder(world.client, world.clock, *views)


async def pair(world):
    """A free volume and a pending claim, at rest."""
    await world.create(PERSISTENT_VOLUME, volume("v", "x", "2Gi"))
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.until(lambda: phases(world) == {"v": "Available", "c": "Pending"})
    return world.one(PERSISTENT_VOLUME, "v"), world.one(PERSISTENT_VOLUME_CLAIM, "c")


async def test_both_sides_know_each_other_and_everybody_sees_it(world, binder):
    await binder.bind(*await pair(world))
    taken, bound = world.one(PERSISTENT_VOLUME, "v"), world.one(PERSISTENT_VOLUME_CLAIM, "c")
    assert phases(world) == {"v": "Bound", "c": "Bound"}
    assert (taken.spec.claimRef.uid, bound.spec.volumeName) == (bound.metadata.uid, "v")
    assert (annotations(taken), annotations(bound)) == ({BOUND_BY_CONTROLLER}, {BOUND_BY_CONTROLLER, BIND_COMPLETED})
    assert bound.status.capacity == {"storage": "2Gi"}


async def test_what_is_bound_already_is_not_written_again(world, binder):
    await binder.bind(*await pair(world))
    before = world.one(PERSISTENT_VOLUME, "v"), world.one(PERSISTENT_VOLUME_CLAIM, "c")
    await binder.bind(*before)
    assert await world.client.get(PERSISTENT_VOLUME, "v") == before[0]
    assert await world.client.get(PERSISTENT_VOLUME_CLAIM, "c", "default") == before[1]


@pytest.mark.parametrize(
    ("kind", "name"),
    [pytest.param(PERSISTENT_VOLUME, "v", id="volume"), pytest.param(PERSISTENT_VOLUME_CLAIM, "c", id="claim")],
)
async def test_what_has_changed_since_it_was_looked_at_is_not_written(world, binder, kind, name):
    stale = await pair(world)
    await world.patch(kind, name, {"metadata": {"labels": {"changed": "yes"}}})
    with pytest.raises(ApiError) as refusal:
        await binder.bind(*stale)
    assert refusal.value.status == 409


async def test_an_object_of_the_same_name_is_not_taken_for_the_one_that_was_looked_at(world, binder):
    free, wanted = await pair(world)
    await world.client.delete(PERSISTENT_VOLUME, "v")
    await world.until(lambda: world.one(PERSISTENT_VOLUME, "v") is None)
    await world.create(PERSISTENT_VOLUME, volume("v", "x"))
    free.metadata.resourceVersion = None
    with pytest.raises(ApiError) as refusal:
        await binder.bind(free, wanted)
    assert refusal.value.status == 409
    assert world.one(PERSISTENT_VOLUME, "v").spec.claimRef is None
