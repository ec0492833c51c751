"""Claims of PodGroups, with the feature gate DRAWorkloadResourceClaims. Cases of upstream's controller_test.go."""

import pytest
from tests.support.tables import cases

from bayplan.client import PatchType
from bayplan.core.api.kinds import (
    CORE_EVENT,
    POD,
    POD_GROUP,
    POD_GROUP_V1ALPHA2,
    RESOURCE_CLAIM,
    RESOURCE_CLAIM_TEMPLATE,
)
from bayplan.core.expansion.claims import POD_CLAIM
from bayplan.core.versions import gates_of
from bayplan_devcluster.controllers.resource_claims import FINALIZER

GATES = ("GenericWorkload", "DRAWorkloadResourceClaims")
DEVICES = {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}
RESULT = {"request": "r", "driver": "gpu.example.com", "pool": "node-0", "device": "a"}
OLDER = {"version": "1.36", "alpha": True, "gates": gates_of("1.36").but(*GATES)}
NEWER = {"version": "1.37", "alpha": True, "gates": gates_of("1.37").but(*GATES)}
OFF = {"version": "1.36", "alpha": True}
both = pytest.mark.parametrize("world", [OLDER, NEWER], ids=["1.36", "1.37"], indirect=True)
only_newer = pytest.mark.parametrize("world", [NEWER], ids=["1.37"], indirect=True)
SHARED = {"name": "shared", "resourceClaimTemplateName": "t"}
NAMED = {"name": "named", "resourceClaimName": "c"}


@pytest.fixture(autouse=True)
def _unbound(world):
    """Pods are bound only by the tests."""
    world.binding = False


def kind_of_groups(world):
    return POD_GROUP_V1ALPHA2 if world.cluster.server.pod_groups is POD_GROUP_V1ALPHA2 else POD_GROUP


async def make_template(world):
    await world.create(RESOURCE_CLAIM_TEMPLATE, {"metadata": {"name": "t"}, "spec": {"spec": {"devices": DEVICES}}})


async def make_group(world, *references, name="crew", kind=None):
    spec = {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": list(references)}
    return await world.client.create(
        kind or kind_of_groups(world), {"metadata": {"name": name, "namespace": "default"}, "spec": spec}
    )


async def make_pod(world, name, *references, of="crew", node=""):
    group = {"schedulingGroup": {"podGroupName": of}} if of else {}
    spec = {"containers": [{"name": "c", "image": "i"}], "resourceClaims": list(references), **group}
    placed = {"nodeName": node} if node else {}
    return await world.create(POD, {"metadata": {"name": name, "namespace": "default"}, "spec": {**spec, **placed}})


def made(world):
    return sorted(world.all(RESOURCE_CLAIM), key=lambda one: one.metadata.name)


def claims_of_pod(world, name):
    return {each.name: each.resourceClaimName for each in world.one(POD, name).status.resourceClaimStatuses or ()}


def consumers(world, name):
    status = world.one(RESOURCE_CLAIM, name).status
    return [(each.apiGroup, each.resource, each.name) for each in (status and status.reservedFor) or ()]


async def allocate(world, name, *reserved):
    await world.patch(RESOURCE_CLAIM, name, {"metadata": {"finalizers": [FINALIZER]}})
    status = {"allocation": {"devices": {"results": [RESULT]}}, "reservedFor": list(reserved)}
    written = await world.client.patch(
        RESOURCE_CLAIM, name, {"status": status}, "default", type=PatchType.STRATEGIC, subresource="status"
    )
    await world.views[RESOURCE_CLAIM].observe([written])


def reservation(group):
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "crew", "uid": group.metadata.uid}


@both
async def test_pods_use_the_claim_that_is_made_for_their_group(world):
    await make_template(world)
    for name in ("one", "two"):
        await make_pod(world, name, SHARED)
    group = await make_group(world, SHARED)
    await world.until(lambda: claims_of_pod(world, "one") and claims_of_pod(world, "two"))
    [claim] = made(world)
    assert claim.metadata.name.startswith("crew-shared-")
    assert claim.metadata.annotations == {POD_CLAIM: "shared"}
    [owner] = claim.metadata.ownerReferences
    kind = kind_of_groups(world)
    assert (owner.apiVersion, owner.kind, owner.name) == (kind.api_version, "PodGroup", "crew")
    assert (owner.uid, owner.controller) == (group.metadata.uid, True)
    assert claims_of_pod(world, "one") == claims_of_pod(world, "two") == {"shared": claim.metadata.name}
    found = await world.client.get(kind, "crew", "default")
    assert [each.resourceClaimName for each in found.status.resourceClaimStatuses] == [claim.metadata.name]


@cases(
    "reference, of",
    {
        "another name": ({**SHARED, "name": "other"}, "crew"),
        "no group": (SHARED, ""),
        "another group": (SHARED, "others"),
    },
)
@only_newer
async def test_other_pods_get_claims_of_their_own(world, reference, of):
    await make_template(world)
    await make_group(world, SHARED)
    await make_group(world, name="others")
    pod = await make_pod(world, "one", reference, of=of)
    await world.until(lambda: claims_of_pod(world, "one"))
    claim = world.one(RESOURCE_CLAIM, claims_of_pod(world, "one")[reference["name"]])
    assert [each.uid for each in claim.metadata.ownerReferences] == [pod.metadata.uid]


@only_newer
async def test_a_deleted_claim_is_made_again(world):
    await make_template(world)
    await make_group(world, SHARED)
    await world.until(lambda: made(world))
    [first] = made(world)
    await world.client.delete(RESOURCE_CLAIM, first.metadata.name, "default")
    await world.until(lambda: made(world) and made(world)[0].metadata.uid != first.metadata.uid)
    assert made(world)[0].metadata.name.startswith("crew-shared-")


@only_newer
async def test_a_missing_template_is_reported_and_awaited(world):
    await make_group(world, SHARED)
    message = 'resource claim template "t": resourceclaimtemplate.resource.k8s.io "t" not found'
    await world.settle(2)
    found = [(one.reason, one.message) for one in (await world.client.list(CORE_EVENT, "default")).items]
    assert ("FailedResourceClaimCreation", f"PodGroupResourceClaim shared: {message}") in found
    await make_template(world)
    await world.until(lambda: made(world))


@cases("of_group, expected", {"of the group": (True, "podgroups"), "of the pod": (False, "pods")})
@only_newer
async def test_an_allocated_claim_is_reserved_for_a_bound_pod_or_its_group(world, of_group, expected):
    await world.create(
        RESOURCE_CLAIM, {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": DEVICES}}
    )
    await allocate(world, "c")
    await make_group(world, *([NAMED] if of_group else []))
    await make_pod(world, "one", NAMED, node="node-0")
    await world.until(lambda: consumers(world, "c"))
    assert [resource for _, resource, _ in consumers(world, "c")] == [expected]


@only_newer
async def test_a_pod_whose_group_has_the_claim_needs_no_reservation(world):
    await world.create(
        RESOURCE_CLAIM, {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": DEVICES}}
    )
    group = await make_group(world, NAMED)
    await allocate(world, "c", reservation(group))
    await make_pod(world, "one", NAMED, node="node-0")
    await world.settle(5)
    assert consumers(world, "c") == [("scheduling.k8s.io", "podgroups", "crew")]


@both
async def test_the_claim_is_free_once_the_group_is_deleted(world):
    await world.create(
        RESOURCE_CLAIM, {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": DEVICES}}
    )
    group = await make_group(world, NAMED)
    await allocate(world, "c", reservation(group))
    pod = await make_pod(world, "one", NAMED)
    await world.client.delete(POD, pod.metadata.name, "default")
    await world.settle(5)
    assert consumers(world, "c") == [("scheduling.k8s.io", "podgroups", "crew")]
    await world.client.delete(kind_of_groups(world), "crew", "default")
    await world.until(lambda: not consumers(world, "c"))
    await world.until(lambda: not world.one(RESOURCE_CLAIM, "c").metadata.finalizers)
    assert world.one(RESOURCE_CLAIM, "c").status.allocation is None


@only_newer
async def test_a_reservation_for_a_group_that_is_gone_is_removed(world):
    await world.create(
        RESOURCE_CLAIM, {"metadata": {"name": "c", "namespace": "default"}, "spec": {"devices": DEVICES}}
    )
    gone = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "crew", "uid": "gone"}
    await allocate(world, "c", gone)
    await world.until(lambda: not consumers(world, "c"))


@pytest.mark.parametrize("world", [OFF], ids=["off"], indirect=True)
async def test_without_the_gate_groups_have_no_claims(world):
    await make_template(world)
    group = await make_group(world, SHARED, kind=POD_GROUP_V1ALPHA2)
    assert group.spec.resourceClaims is None
    pod = await make_pod(world, "one", SHARED)
    await world.until(lambda: claims_of_pod(world, "one"))
    [claim] = made(world)
    assert [each.uid for each in claim.metadata.ownerReferences] == [pod.metadata.uid]
    await allocate(world, claim.metadata.name, reservation(group))
    await world.settle(5)
    assert consumers(world, claim.metadata.name) == [("scheduling.k8s.io", "podgroups", "crew")]
