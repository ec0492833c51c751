"""Claims from templates: creation, reservation, deallocation and deletion."""

from typing import Any

import pytest
from tests.support.tables import cases

from bayplan.client import PatchType
from bayplan.core.api.kinds import CORE_EVENT, POD, RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE
from bayplan.core.expansion.claims import POD_CLAIM, name_prefix
from bayplan_devcluster.apiserver import Fault
from bayplan_devcluster.controllers.resource_claims import FINALIZER
from bayplan_devcluster.kubelet import RUN_SECONDS

DEVICES = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": "a"}
ALLOCATION = {"devices": {"results": [RESULT]}}


@pytest.fixture(autouse=True)
def _unbound(world):
    """Pods are bound only by the tests."""
    world.binding = False


def template(name: str = "t", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"metadata": metadata, "spec": {"devices": DEVICES}}}


def claim(name: str = "c", **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default", **metadata}, "spec": {"devices": DEVICES}}


def pod(
    name: str = "p", *, templates: tuple[str, ...] = (), claims: tuple[str, ...] = (), node: str = "", **metadata: Any
) -> dict[str, Any]:
    references = [{"name": f"of-{one}", "resourceClaimTemplateName": one} for one in templates]
    references += [{"name": one, "resourceClaimName": one} for one in claims]
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": references, "restartPolicy": "Never"}
    placed = {"nodeName": node} if node else {}
    return {"metadata": {"name": name, "namespace": "default", **metadata}, "spec": {**spec, **placed}}


def claims(world) -> list[Any]:
    return sorted(world.all(RESOURCE_CLAIM), key=lambda one: one.metadata.name)


def claim_names(world, name: str = "p") -> dict[str, str]:
    """The claims in a pod's status, by reference."""
    statuses = world.one(POD, name).status.resourceClaimStatuses or ()
    return {one.name: one.resourceClaimName for one in statuses}


def users(world, name: str = "c") -> list[str]:
    one = world.one(RESOURCE_CLAIM, name)
    return [consumer.name for consumer in (one.status.reservedFor if one.status else None) or ()]


def has_devices(world, name: str = "c") -> bool:
    one = world.one(RESOURCE_CLAIM, name)
    return one.status is not None and one.status.allocation is not None


async def allocate(world, name: str = "c", *consumers: Any, protected: bool = True) -> None:
    """Allocate and reserve a claim, as a scheduler does: for pods, or for consumers as documents."""
    if protected:
        await world.patch(RESOURCE_CLAIM, name, {"metadata": {"finalizers": [FINALIZER]}})
    reserved = [
        one if isinstance(one, dict) else {"resource": "pods", "name": one.metadata.name, "uid": one.metadata.uid}
        for one in consumers
    ]
    status = {"allocation": ALLOCATION, **({"reservedFor": reserved} if reserved else {})}
    written = await world.client.patch(
        RESOURCE_CLAIM, name, {"status": status}, "default", type=PatchType.STRATEGIC, subresource="status"
    )
    await world.views[RESOURCE_CLAIM].observe([written])


async def create_with_template(world, **fields: Any) -> Any:
    """A pod whose claim has been made of a template."""
    await world.create(RESOURCE_CLAIM_TEMPLATE, template())
    created = await world.create(POD, pod(templates=("t",), **fields))
    await world.until(lambda: claim_names(world))
    return created


async def create_allocated(world, *consumers: Any, **options: Any) -> None:
    await world.create(RESOURCE_CLAIM, claim())
    await allocate(world, "c", *consumers, **options)


async def events(world) -> list[tuple[str, str]]:
    return [(one.reason, one.message) for one in (await world.client.list(CORE_EVENT, "default")).items]


async def test_claim_is_created_from_a_template(world):
    await world.create(RESOURCE_CLAIM_TEMPLATE, template(labels={"l": "1"}, annotations={"a": "2"}))
    made_for = await world.create(POD, pod(templates=("t",)))
    await world.until(lambda: claim_names(world))
    [made] = claims(world)
    assert claim_names(world) == {"of-t": made.metadata.name}
    assert made.metadata.name.startswith("p-of-t-")
    assert made.metadata.labels == {"l": "1"}
    assert made.metadata.annotations == {"a": "2", POD_CLAIM: "of-t"}
    [owner] = made.metadata.ownerReferences
    assert (owner.apiVersion, owner.kind, owner.name, owner.uid) == ("v1", "Pod", "p", made_for.metadata.uid)
    assert (owner.controller, owner.blockOwnerDeletion) == (True, None)
    [request] = made.spec.devices.requests
    assert (request.exactly.deviceClassName, request.exactly.allocationMode) == ("gpu", "ExactCount")


async def test_pod_status_has_all_claims(world):
    for name in ("t", "u"):
        await world.create(RESOURCE_CLAIM_TEMPLATE, template(name))
    await world.create(RESOURCE_CLAIM, claim())
    await world.create(POD, pod(templates=("t", "u"), claims=("c",)))
    await world.until(lambda: len(claim_names(world)) == 2)
    assert sorted(claim_names(world)) == ["of-t", "of-u"]
    assert len(claims(world)) == 3


async def test_pod_waits_for_its_template_with_an_event(world):
    await world.create(POD, pod(templates=("t",)))
    problem = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
    while ("FailedResourceClaimCreation", f"PodResourceClaim of-t: {problem}") not in await events(world):
        await world.settle(1)
    await world.create(RESOURCE_CLAIM_TEMPLATE, template())
    await world.until(lambda: claim_names(world))


async def test_failed_creation_of_a_claim_is_reported_and_retried(world):
    fault = Fault(verb="create", resource="resourceclaims", answer=403, message="quota", times=2)
    world.cluster.server.faults.add(fault)
    await create_with_template(world)
    assert fault.hits == 2
    message = "PodResourceClaim of-t: create ResourceClaim : quota"
    while ("FailedResourceClaimCreation", message) not in await events(world):
        await world.settle(1)


async def test_claim_is_not_created_twice_after_a_failed_status_update(world):
    fault = Fault(verb="patch", resource="pods", subresource="status", answer=500, times=3)
    world.cluster.server.faults.add(fault)
    await create_with_template(world)
    assert (fault.hits, len(claims(world))) == (3, 1)


async def test_deleted_claim_is_created_again(world):
    await create_with_template(world)
    first = claim_names(world)["of-t"]
    await world.client.delete(RESOURCE_CLAIM, first, "default")
    await world.until(lambda: claim_names(world)["of-t"] != first)
    assert [one.metadata.name for one in claims(world)] == [claim_names(world)["of-t"]]


async def test_claims_of_a_finished_pod_are_deleted_for_good(world):
    runs = await create_with_template(world, node="node-0", annotations={RUN_SECONDS: "5"})
    await allocate(world, claim_names(world)["of-t"], runs)
    await world.until(lambda: world.one(POD, "p").status.phase == "Running", step=1)
    await world.until(lambda: world.one(POD, "p").status.phase == "Succeeded", step=1)
    await world.until(lambda: not claims(world))
    await world.settle(5)
    assert not claims(world)


async def test_claims_of_a_deleted_pod_are_deleted(world):
    runs = await create_with_template(world, node="node-0")
    await allocate(world, claim_names(world)["of-t"], runs)
    await world.until(lambda: world.one(POD, "p").status.phase == "Running", step=1)
    await world.client.delete(POD, "p", "default")
    await world.until(lambda: not claims(world) and not world.all(POD), step=1)


async def test_claim_for_extended_resources_is_deleted_when_its_pod_ends(world):
    """The scheduler creates it and writes it to the pod's status; the pod's spec doesn't refer to it."""
    bare = pod(annotations={RUN_SECONDS: "5"})
    bare["spec"]["containers"][0]["resources"] = {"limits": {"example.com/gpu": "1"}}
    waits = await world.create(POD, bare)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": waits.metadata.uid, "controller": True}
    await world.create(RESOURCE_CLAIM, claim("e", ownerReferences=[owner]))
    await allocate(world, "e", waits)
    mapping = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}
    status = {"extendedResourceClaimStatus": {"resourceClaimName": "e", "requestMappings": [mapping]}}
    await world.client.patch(POD, "p", {"status": status}, "default", subresource="status")
    await world.client.bind("default", "p", "node-0")
    await world.until(lambda: world.one(POD, "p").status.phase == "Running", step=1)
    assert users(world, "e") == ["p"]
    await world.until(lambda: world.one(POD, "p").status.phase == "Succeeded", step=1)
    await world.until(lambda: not claims(world))


async def test_allocated_claim_is_reserved_for_a_bound_pod(world):
    await world.create(RESOURCE_CLAIM, claim())
    other = await world.create(POD, pod("other", claims=("c",)))
    await allocate(world, "c", other)
    await world.create(POD, pod(claims=("c",), node="node-0"))
    await world.until(lambda: users(world) == ["other", "p"])
    await world.until(lambda: world.one(POD, "p").status.phase == "Running", step=1)


async def test_claims_are_not_reserved_for_unscheduled_pods(world):
    await create_allocated(world)
    await world.create(POD, pod(claims=("c",)))
    await world.settle(5)
    assert users(world) == []


GONE = {"resource": "pods", "name": "gone", "uid": "gone"}
REPLACED = {"resource": "pods", "name": "waits", "uid": "an-older-one"}
OTHER_KIND = {"apiGroup": "example.com", "resource": "jobs", "name": "j", "uid": "j"}


@cases(
    "consumers, left",
    {
        "pending pod": (["waits"], ["waits"]),
        "terminated pod": (["waits", "ended"], ["waits"]),
        "pod deleted before it was bound": (["waits", "doomed"], ["waits"]),
        "deleted pod that still runs": (["waits", "leaving"], ["waits", "leaving"]),
        "missing pod": (["waits", GONE], ["waits"]),
        "an older pod of the same name": (["waits", REPLACED], ["waits"]),
        "not a pod": ([OTHER_KIND], ["j"]),
    },
)
async def test_consumers_that_keep_their_reservation(world, consumers, left):
    there = {name: await world.create(POD, pod(name, claims=("c",))) for name in ("waits", "ended", "leaving")}
    kept = {"finalizers": ["example.com/keeps"]}
    there["doomed"] = await world.create(POD, pod("doomed", claims=("c",), **kept))
    await world.client.patch(POD, "ended", {"status": {"phase": "Failed"}}, "default", subresource="status")
    await world.client.bind("default", "leaving", "node-0")
    world.cluster.kubelets.silence("node-0")
    for name in ("doomed", "leaving"):
        await world.client.delete(POD, name, "default")
    await world.until(lambda: world.one(POD, "doomed").metadata.deletionTimestamp)
    await create_allocated(world, *(there[one] if isinstance(one, str) else one for one in consumers))
    await world.until(lambda: users(world) == left)
    await world.settle(3)
    assert (users(world), has_devices(world)) == (left, True)


@cases("protected, keeps", {"allocated by a scheduler": (True, False), "allocated otherwise": (False, True)})
async def test_claim_is_deallocated_after_its_last_consumer(world, protected, keeps):
    user = await world.create(POD, pod(claims=("c",)))
    await create_allocated(world, user, protected=protected)
    condition = {
        "type": "Ready",
        "status": "True",
        "reason": "R",
        "message": "",
        "lastTransitionTime": world.clock.now(),
    }
    device = {key: value for key, value in RESULT.items() if key != "request"}
    status = {"status": {"devices": [{**device, "conditions": [condition]}]}}
    await world.client.patch(RESOURCE_CLAIM, "c", status, "default", subresource="status")
    await world.client.delete(POD, "p", "default")
    await world.until(lambda: not users(world) and not world.one(RESOURCE_CLAIM, "c").metadata.finalizers)
    assert has_devices(world) == keeps
    assert bool(world.one(RESOURCE_CLAIM, "c").status.devices) == keeps


async def test_unused_claim_stays_allocated(world):
    await create_allocated(world)
    await world.settle(5)
    assert has_devices(world)
    assert world.one(RESOURCE_CLAIM, "c").metadata.finalizers == [FINALIZER]


async def test_deleted_claim_is_removed_after_its_last_consumer(world):
    user = await world.create(POD, pod(claims=("c",)))
    await create_allocated(world, user)
    await world.client.delete(RESOURCE_CLAIM, "c", "default")
    await world.settle(5)
    assert world.one(RESOURCE_CLAIM, "c").metadata.deletionTimestamp is not None
    await world.client.delete(POD, "p", "default")
    await world.until(lambda: world.one(RESOURCE_CLAIM, "c") is None)


async def test_deleted_claim_without_consumers_is_removed_at_once(world):
    await create_allocated(world)
    await world.client.delete(RESOURCE_CLAIM, "c", "default")
    await world.until(lambda: world.one(RESOURCE_CLAIM, "c") is None)


async def test_concurrent_change_is_not_overwritten(world):
    """A reservation that is added while another one is removed is kept."""
    users_ = [await world.create(POD, pod(name, claims=("c",))) for name in ("p", "q", "r")]
    await create_allocated(world, *users_[:2])
    held = Fault(verb="update", resource="resourceclaims", subresource="status", delay=0.2, times=1)
    world.cluster.server.faults.add(held)
    await world.client.delete(POD, "p", "default")
    await world.until(lambda: held.hits)
    added = {"resource": "pods", "name": "r", "uid": users_[2].metadata.uid}
    await world.client.patch(
        RESOURCE_CLAIM,
        "c",
        {"status": {"reservedFor": [added]}},
        "default",
        type=PatchType.STRATEGIC,
        subresource="status",
    )
    await world.until(lambda: sorted(users(world)) == ["q", "r"])


@cases(
    "of_pod, reference, prefix",
    {
        "short": ("p", "c", "p-c-"),
        "just short enough": ("p" * 27, "c" * 28, "p" * 27 + "-" + "c" * 28 + "-"),
        "long": ("p" * 200, "c" * 20, "p" * 51 + "-" + "c" * 5),
        "both long": ("p" * 60, "c" * 60, "p" * 28 + "-" + "c" * 28),
    },
)
def test_prefix_of_claim_names(of_pod, reference, prefix):
    assert name_prefix(of_pod, reference) == prefix
    assert len(prefix) <= 57
