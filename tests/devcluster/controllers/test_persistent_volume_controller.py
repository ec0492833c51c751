"""Binding and release of claims and volumes, without a provisioner."""

import random

import pytest
from storage_state import (
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    PROVISIONED_BY,
    SELECTED_NODE,
    annotations,
    message,
    phases,
    pod,
)
from tests.support.storage_documents import claim, default_class, local_class, storage_class, using, volume
from tests.support.tables import cases

from bayplan.client import ApiError, TransportError
from bayplan.core.api.kinds import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, POD, STORAGE_CLASS
from bayplan_devcluster.apiserver import Fault


async def test_claim_and_volume_are_bound_to_each_other(world):
    await world.create(STORAGE_CLASS, storage_class("x", provisioner="kubernetes.io/no-provisioner"))
    await world.create(PERSISTENT_VOLUME, volume("small", "x", "1Gi"))
    await world.create(PERSISTENT_VOLUME, volume("large", "x", "3Gi"))
    await world.until(lambda: phases(world) == {"small": "Available", "large": "Available"})
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x", "2Gi"))
    await world.until(lambda: phases(world) == {"small": "Available", "large": "Bound", "c": "Bound"})
    bound, taken = world.one(PERSISTENT_VOLUME_CLAIM, "c"), world.one(PERSISTENT_VOLUME, "large")
    assert (bound.spec.volumeName, bound.status.capacity) == ("large", {"storage": "3Gi"})
    assert bound.status.accessModes == ["ReadWriteOnce"]
    assert annotations(bound) == {BOUND_BY_CONTROLLER, BIND_COMPLETED}
    assert annotations(taken) == {BOUND_BY_CONTROLLER}
    assert taken.spec.claimRef.uid == bound.metadata.uid
    assert taken.status.lastPhaseTransitionTime == world.clock.now()


@cases(
    "wanted, there, by_controller",
    {
        "the volume names the claim": (
            claim("c", "x"),
            volume("v", "x", claimRef={"namespace": "default", "name": "c"}),
            False,
        ),
        "the claim names the volume": (claim("c", "x", volumeName="v"), volume("v", "x"), True),
        "no class": (claim("c", ""), volume("v"), True),
        "a selector": (
            claim("c", "x", selector={"matchExpressions": [{"key": "disk", "operator": "In", "values": ["fast"]}]}),
            volume("v", "x", metadata={"labels": {"disk": "fast"}}),
            True,
        ),
    },
)
@pytest.mark.parametrize("claim_first", [True, False])
async def test_claim_and_its_volume_are_bound_in_either_order_of_creation(
    world, wanted, there, by_controller, claim_first
):
    order = [(PERSISTENT_VOLUME_CLAIM, wanted), (PERSISTENT_VOLUME, there)]
    for kind, document in order if claim_first else reversed(order):
        await world.create(kind, document)
        await world.settle(1)
    await world.until(lambda: phases(world) == {"v": "Bound", "c": "Bound"})
    assert (BOUND_BY_CONTROLLER in annotations(world.one(PERSISTENT_VOLUME, "v"))) is by_controller
    assert (BOUND_BY_CONTROLLER in annotations(world.one(PERSISTENT_VOLUME_CLAIM, "c"))) is (
        "volumeName" not in wanted["spec"]
    )


async def test_two_claims_get_two_volumes(world):
    for number in range(5):
        await world.create(PERSISTENT_VOLUME, volume(f"v-{number}", "x"))
        await world.create(PERSISTENT_VOLUME_CLAIM, claim(f"c-{number}", "x"))
    await world.until(lambda: set(phases(world).values()) == {"Bound"})
    assert len({one.spec.volumeName for one in world.all(PERSISTENT_VOLUME_CLAIM)}) == 5


@cases(
    "objects, reason, text",
    {
        "no class and no volume": (
            [claim("c", "")],
            "FailedBinding",
            "no persistent volumes available for this claim and no storage class is set",
        ),
        "missing class": (
            [claim("c", "missing")],
            "ProvisioningFailed",
            'storageclass.storage.k8s.io "missing" not found',
        ),
        "a class without provisioner": (
            [storage_class("x", provisioner="kubernetes.io/no-provisioner"), claim("c", "x")],
            "ProvisioningFailed",
            "no volume plugin matched name: kubernetes.io/no-provisioner",
        ),
        "the named volume does not match": (
            [volume("v", "x", "1Mi"), claim("c", "x", volumeName="v")],
            "VolumeMismatch",
            'Cannot bind to requested volume "v": requested PV is too small',
        ),
        "the named volume belongs to another claim": (
            [volume("v", "x", claimRef={"namespace": "default", "name": "o"}), claim("c", "x", volumeName="v")],
            "FailedBinding",
            'volume "v" already bound to a different claim.',
        ),
        "waiting for a pod": (
            [local_class("x"), claim("c", "x")],
            "WaitForFirstConsumer",
            "waiting for first consumer to be created before binding",
        ),
    },
)
async def test_claim_stays_pending_with_an_event(world, objects, reason, text):
    for one in objects:
        kinds = {"provisioner": STORAGE_CLASS, "capacity": PERSISTENT_VOLUME}
        kind = next((kinds[key] for key in kinds if key in one or key in one.get("spec", {})), PERSISTENT_VOLUME_CLAIM)
        await world.create(kind, one)
    assert await message(world, "c", reason) == text
    assert phases(world)["c"] == "Pending"


async def test_event_of_a_waiting_claim_names_the_pods(world):
    world.binding = False
    await world.create(STORAGE_CLASS, local_class("x"))
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.create(POD, pod("p", using("c")))
    assert await message(world, "c", "WaitForPodScheduled") == "waiting for pod p to be scheduled"


async def test_delayed_claim_is_bound_to_the_volume_that_the_scheduler_chose(world):
    await world.create(STORAGE_CLASS, local_class("x"))
    for name in ("a", "b"):
        await world.create(PERSISTENT_VOLUME, volume(name, "x", node=name))
    created = await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.until(lambda: phases(world) == {"a": "Available", "b": "Available", "c": "Pending"})
    await world.settle(20)
    assert phases(world)["c"] == "Pending"
    reference = {"namespace": "default", "name": "c", "uid": created.metadata.uid}
    await world.patch(PERSISTENT_VOLUME, "b", {"spec": {"claimRef": reference}})
    await world.until(lambda: phases(world) == {"a": "Available", "b": "Bound", "c": "Bound"})


async def test_delayed_volume_is_requested_once_its_node_is_selected(world):
    await world.create(STORAGE_CLASS, storage_class("x", provisioner="kubernetes.io/aws-ebs", late=True))
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x", metadata={"annotations": {SELECTED_NODE: "gone"}}))
    text = await message(world, "c", "ExternalProvisioning")
    assert text.startswith("Waiting for a volume to be created either by the external provisioner 'ebs.csi.aws.com'")
    asked = world.one(PERSISTENT_VOLUME_CLAIM, "c").metadata.annotations
    assert asked["volume.kubernetes.io/storage-provisioner"] == "ebs.csi.aws.com"


@cases("of, assigned", {"no class": (None, "std"), "empty class": ("", "")})
async def test_new_default_class_is_set_on_claims_without_a_class(world, of, assigned):
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", of))
    await message(world, "c", "FailedBinding")
    await world.create(STORAGE_CLASS, default_class("std", late=True))
    await world.settle(2)
    await world.until(lambda: world.one(PERSISTENT_VOLUME_CLAIM, "c").spec.storageClassName == assigned)


@cases(
    "policy, fields, expected",
    {
        "kept": ("Retain", {}, "Released"),
        "deleted": ("Delete", {"hostPath": {"path": "/tmp/x"}}, None),
        "cannot be deleted": ("Delete", {}, "Failed"),
        "recycled": ("Recycle", {}, "Available"),
    },
)
async def test_reclaim_policy_of_a_released_volume(world, policy, fields, expected):
    await world.create(PERSISTENT_VOLUME, volume("v", "x", persistentVolumeReclaimPolicy=policy, **fields))
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.until(lambda: phases(world) == {"v": "Bound", "c": "Bound"})
    await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
    await world.until(lambda: phases(world) == ({"v": expected} if expected else {}))
    if expected == "Failed":
        assert "host_path deleter only supports" in await message(world, "v", "VolumeFailedDelete")


async def test_released_volume_is_not_bound_to_a_new_claim_of_the_same_name(world):
    await world.create(PERSISTENT_VOLUME, volume("v", "x"))
    for _ in range(2):
        await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
        await world.until(lambda: phases(world).get("v") in {"Bound", "Released"})
        await world.settle(1)
        await world.client.delete(PERSISTENT_VOLUME_CLAIM, "c", "default")
        await world.until(lambda: phases(world) == {"v": "Released"})


@cases("spec", {"the claim has lost its reference": {}, "the volume was deleted": {"volumeName": "other"}})
async def test_claim_without_its_volume_is_lost(world, spec):
    bound = claim("c", "x", **spec, metadata={"annotations": {BIND_COMPLETED: "yes"}})
    await world.create(PERSISTENT_VOLUME_CLAIM, bound)
    await world.until(lambda: phases(world)["c"] == "Lost")
    assert "Data on the volume is lost!" in await message(world, "c", "ClaimLost")
    assert world.one(PERSISTENT_VOLUME_CLAIM, "c").status.capacity is None


async def test_claim_on_a_volume_of_another_claim_is_lost(world):
    await world.create(PERSISTENT_VOLUME, volume("v", "x"))
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.until(lambda: phases(world) == {"v": "Bound", "c": "Bound"})
    late = claim("late", "x", volumeName="v", metadata={"annotations": {BIND_COMPLETED: "yes"}})
    await world.create(PERSISTENT_VOLUME_CLAIM, late)
    await world.until(lambda: phases(world) == {"v": "Bound", "c": "Bound", "late": "Lost"})
    assert "Two claims are bound to the same volume" in await message(world, "late", "ClaimMisbound")


@pytest.mark.parametrize("by_controller", [True, False])
async def test_volume_that_its_claim_does_not_use_is_available_again(world, by_controller):
    await world.create(PERSISTENT_VOLUME, volume("v", "x"))
    created = await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.until(lambda: phases(world) == {"v": "Bound", "c": "Bound"})
    reference = {"namespace": "default", "name": "c", "uid": created.metadata.uid}
    marks = {"metadata": {"annotations": {BOUND_BY_CONTROLLER: "yes"}}} if by_controller else {}
    await world.create(PERSISTENT_VOLUME, volume("w", "x", claimRef=reference, **marks))
    await world.until(lambda: phases(world) == {"v": "Bound", "w": "Available", "c": "Bound"})
    left = world.one(PERSISTENT_VOLUME, "w").spec.claimRef
    assert left is None if by_controller else (left.name, left.uid) == ("c", None)


async def test_volume_of_a_deleted_claim_is_released_despite_a_new_claim_of_the_same_name(world):
    await world.create(PERSISTENT_VOLUME, volume("v", "x"))
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.until(lambda: phases(world) == {"v": "Bound", "c": "Bound"})
    await world.create(
        PERSISTENT_VOLUME, volume("w", "x", claimRef={"namespace": "default", "name": "c", "uid": "old"})
    )
    await world.until(lambda: phases(world) == {"v": "Bound", "w": "Released", "c": "Bound"})


async def test_unused_provisioned_volume_is_released(world):
    await world.create(PERSISTENT_VOLUME, volume("v", "x"))
    created = await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.until(lambda: phases(world) == {"v": "Bound", "c": "Bound"})
    made = volume(
        "w",
        "x",
        claimRef={"namespace": "default", "name": "c", "uid": created.metadata.uid},
        persistentVolumeReclaimPolicy="Delete",
        metadata={"annotations": {PROVISIONED_BY: "kubernetes.io/in-tree"}},
    )
    await world.create(PERSISTENT_VOLUME, made)
    await world.until(lambda: phases(world)["w"] == "Released")


async def test_volume_mode_mismatch_is_reported(world):
    created = await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x", volumeMode="Block"))
    reference = {"namespace": "default", "name": "c", "uid": created.metadata.uid}
    await world.create(PERSISTENT_VOLUME, volume("v", "x", claimRef=reference))
    assert "due to incompatible volumeMode" in await message(world, "v", "VolumeMismatch")
    assert "due to incompatible volumeMode" in await message(world, "c", "VolumeMismatch")
    assert phases(world)["c"] == "Pending"


@cases(
    "resource, subresource",
    {
        "the volume's spec": ("persistentvolumes", ""),
        "the volume's status": ("persistentvolumes", "status"),
        "the claim's spec": ("persistentvolumeclaims", ""),
        "the claim's status": ("persistentvolumeclaims", "status"),
    },
)
@cases(
    "what",
    {
        "conflict": {"answer": 409, "reason": "Conflict"},
        "500": {"answer": 500},
        "processed without a response": {"drop": "after"},
    },
)
async def test_binding_that_fails_halfway_is_finished(world, resource, subresource, what):
    await world.create(PERSISTENT_VOLUME, volume("v", "x"))
    await world.until(lambda: phases(world) == {"v": "Available"})
    fault = Fault(verb="patch", resource=resource, subresource=subresource, times=3, **what)
    world.cluster.server.faults.add(fault)
    await world.create(PERSISTENT_VOLUME_CLAIM, claim("c", "x"))
    await world.until(lambda: phases(world) == {"v": "Bound", "c": "Bound"})
    assert fault.hits == 3 or "drop" in what


@pytest.mark.parametrize("seed", range(4))
async def test_every_claim_gets_its_own_volume_despite_random_failures(world, seed):
    chance = random.Random(seed)
    mishaps = [{"answer": 409, "reason": "Conflict"}, {"answer": 500}, {"drop": "before"}, {"drop": "after"}]
    for what in mishaps:
        for resource in ("persistentvolumes", "persistentvolumeclaims"):
            world.cluster.server.faults.add(
                Fault(
                    resource=resource,
                    when=lambda info: info.verb in {"patch", "create", "delete"} and chance.random() < 0.1,
                    **what,
                )
            )
    documents = [
        (STORAGE_CLASS, storage_class("made")),
        *((PERSISTENT_VOLUME, volume(f"v-{number}", "there")) for number in range(8)),
        *((PERSISTENT_VOLUME_CLAIM, claim(f"c-{number}", ("made", "there")[number % 2])) for number in range(16)),
    ]
    chance.shuffle(documents)
    for kind, document in documents:
        await stubborn(world.client.create, kind, document)
    claims = [f"c-{number}" for number in range(16)]
    await world.until(lambda: all(phases(world).get(name) == "Bound" for name in claims))
    taken = {name: world.one(PERSISTENT_VOLUME_CLAIM, name).spec.volumeName for name in claims}
    assert len(set(taken.values())) == 16
    for name, volume_name in taken.items():
        found = world.one(PERSISTENT_VOLUME, volume_name)
        assert (found.status.phase, found.spec.claimRef.name) == ("Bound", name)
    for name in claims:
        await stubborn(world.client.delete, PERSISTENT_VOLUME_CLAIM, name, "default")
    await world.until(lambda: phases(world) == {f"v-{number}": "Released" for number in range(8)})


async def stubborn(call, *arguments):
    """Repeat a request until it succeeds."""
    while True:
        try:
            await call(*arguments)
        except TransportError:
            continue
        except ApiError as error:
            if error.status == 404 or error.reason == "AlreadyExists":
                return
        else:
            return
