"""Pods with claims start once all their claims are allocated and reserved for them."""

from typing import Any

import msgspec
import pytest
from lightkube.models.core_v1 import Pod
from tests.support.tables import cases

from bayplan.client import ApiError
from bayplan.core.api.kinds import CORE_EVENT, POD, RESOURCE_CLAIM
from bayplan.testing.in_memory import make_client
from bayplan_devcluster.apiserver import Fault
from bayplan_devcluster.kubelet_admission import Accounting, requests_of
from bayplan_devcluster.kubelet_devices import unprepared
from bayplan_devcluster.kubelet_pods import PREPARE_AGAIN

ALLOCATION: dict[str, Any] = {"devices": {"results": []}}
OURS = {"resource": "pods", "name": "p", "uid": "u"}
OWNED = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}]
MAPPING = {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}


def pod(*references: dict[str, str], **status: Any) -> Pod:
    containers = [
        {"name": "c", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1", "example.com/nic": "1"}}}
    ]
    document = {
        "metadata": {"name": "p", "namespace": "default", "uid": "u"},
        "spec": {"containers": containers, "resourceClaims": list(references)},
        "status": status,
    }
    return msgspec.convert(document, Pod)


def claim(name: str, *reserved: dict[str, str], allocated: bool = True, **metadata: Any) -> dict[str, Any]:
    status = {"reservedFor": list(reserved), **({"allocation": ALLOCATION} if allocated else {})}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}", **metadata},
        "spec": {},
        "status": status,
    }


NAMED = {"name": "of-p", "resourceClaimName": "c"}
MADE = {"name": "made", "resourceClaimTemplateName": "t"}
GENERATED = {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "m"}]}
EXTENDED = {"extendedResourceClaimStatus": {"resourceClaimName": "e", "requestMappings": [MAPPING]}}


@cases(
    "wants, there, problem",
    {
        "no claims": (pod(), [], ""),
        "ready": (pod(NAMED), [claim("c", OURS)], ""),
        "missing": (pod(NAMED), [], 'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found'),
        "reserved for others": (
            pod(NAMED),
            [claim("c", {**OURS, "uid": "another"})],
            "pod p (u) is not allowed to use ResourceClaim c (uid-c)",
        ),
        "not created yet": (pod(MADE), [], 'pod "default/p": ResourceClaim not created yet'),
        "no claim needed": (pod(MADE, resourceClaimStatuses=[{"name": "made"}]), [], ""),
        "created": (pod(MADE, **GENERATED), [claim("m", OURS, ownerReferences=OWNED)], ""),
        "created for another pod": (
            pod(MADE, **GENERATED),
            [claim("m", OURS)],
            "ResourceClaim default/m was not created for Pod default/p (Pod is not owner)",
        ),
        "the claim for extended resources": (
            pod(NAMED, **EXTENDED),
            [claim("c", OURS), claim("e")],
            "pod p (u) is not allowed to use ResourceClaim e (uid-e)",
        ),
    },
)
async def test_reason_that_devices_are_not_prepared(wants, there, problem):
    assert await unprepared(make_client(*there), wants) == problem


async def test_claim_that_is_reserved_without_devices_is_not_prepared():
    client = make_client()
    client.server.store.put(RESOURCE_CLAIM.resource, claim("c", OURS, allocated=False), {})  # the API would reject it
    assert await unprepared(client, pod(NAMED)) == "ResourceClaim c: not allocated"


async def test_error_of_the_server_is_raised():
    client = make_client(claim("c", OURS))
    client.server.faults.add(Fault(verb="get", resource="resourceclaims", answer=500))
    with pytest.raises(ApiError):
        await unprepared(client, pod(NAMED))


def test_claimed_extended_resources_are_not_requests_of_the_node():
    assert requests_of(pod()).keys() == {"cpu", "example.com/gpu", "example.com/nic"}
    accounting = Accounting()
    accounting.add(pod(**EXTENDED))
    assert accounting.used.keys() == {"cpu", "example.com/nic"}


async def test_pod_waits_until_its_claims_are_reserved(world):
    world.binding = False
    there = claim("c")
    del there["metadata"]["uid"], there["status"]
    await world.create(RESOURCE_CLAIM, there)
    references = [{"name": "c", "resourceClaimName": "c"}]
    spec = {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}], "resourceClaims": references}
    runs = await world.create(POD, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    messages: list[Any] = []
    while not messages:
        await world.settle(1)
        events = (await world.client.list(CORE_EVENT, "default")).items
        messages = [one.message for one in events if one.reason == "FailedPrepareDynamicResources"]
    refused = f"pod p ({runs.metadata.uid}) is not allowed to use ResourceClaim c"
    uid = world.one(RESOURCE_CLAIM, "c").metadata.uid
    assert messages == [f"Failed to prepare dynamic resources: prepare dynamic resources: {refused} ({uid})"]
    assert world.one(POD, "p").status.phase == "Pending"
    # Keep the controller from reserving the allocated claim for a while.
    refusal = Fault(verb="update", resource="resourceclaims", subresource="status", answer=500, times=3)
    world.cluster.server.faults.add(refusal)
    await world.client.patch(
        RESOURCE_CLAIM, "c", {"status": {"allocation": ALLOCATION}}, "default", subresource="status"
    )
    await world.until(lambda: world.one(RESOURCE_CLAIM, "c").status.reservedFor)
    assert refusal.hits == 3
    assert world.one(POD, "p").status.phase == "Pending"
    world.clock.advance(PREPARE_AGAIN)
    await world.until(lambda: world.one(POD, "p").status.phase == "Running")
