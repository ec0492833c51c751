"""Pods that claim devices start once all their claims have some and are reserved for them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from lightkube.models.core_v1 import Pod

from bayplan.api.kinds import CORE_EVENT, POD, RESOURCE_CLAIM
from bayplan.client import ApiError
from bayplan.devcluster.apiserver import Fault
from bayplan.devcluster.kubelet_admission import Books, requests_of
from bayplan.devcluster.kubelet_devices import unprepared
from bayplan.devcluster.kubelet_pods import PREPARE_AGAIN
from bayplan.testing.in_memory import make_client

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
TOLD = {"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "m"}]}
EXTENDED = {"extendedResourceClaimStatus": {"resourceClaimName": "e", "requestMappings": [MAPPING]}}


@pytest.mark.parametrize(
    ("wants", "there", "problem"),
    [
        pytest.param(pod(), [], "", id="no claims"),
        pytest.param(pod(NAMED), [claim("c", OURS)], "", id="ready"),
        pytest.param(
            pod(NAMED), [], 'fetch ResourceClaim c: resourceclaims.resource.k8s.io "c" not found', id="missing"
        ),
        pytest.param(
            pod(NAMED),
            [claim("c", {**OURS, "uid": "another"})],
            "pod p (u) is not allowed to use ResourceClaim c (uid-c)",
            id="reserved for others",
        ),
        pytest.param(pod(MADE), [], 'pod "default/p": ResourceClaim not created yet', id="not made yet"),
        pytest.param(
            pod(MADE, resourceClaimStatuses=[{"name": "made"}]), [], "", id="one that is not going to be made"
        ),
        pytest.param(pod(MADE, **TOLD), [claim("m", OURS, ownerReferences=OWNED)], "", id="made"),
        pytest.param(
            pod(MADE, **TOLD),
            [claim("m", OURS)],
            "ResourceClaim default/m was not created for Pod default/p (Pod is not owner)",
            id="made for another",
        ),
        pytest.param(
            pod(NAMED, **EXTENDED),
            [claim("c", OURS), claim("e")],
            "pod p (u) is not allowed to use ResourceClaim e (uid-e)",
            id="the claim for extended resources",
        ),
    ],
)
async def test_what_keeps_devices_from_being_prepared(wants, there, problem):
    assert await unprepared(make_client(*there), wants) == problem


async def test_claim_that_is_reserved_without_devices_is_not_prepared():
    client = make_client()
    client.server.store.put(RESOURCE_CLAIM.resource, claim("c", OURS, allocated=False), {})  # the API would reject it
    assert await unprepared(client, pod(NAMED)) == "ResourceClaim c: not allocated"


async def test_a_server_that_does_not_tell_says_nothing_of_the_claim():
    client = make_client(claim("c", OURS))
    client.server.faults.add(Fault(verb="get", resource="resourceclaims", answer=500))
    with pytest.raises(ApiError):
        await unprepared(client, pod(NAMED))


def test_what_a_claim_gives_is_not_taken_of_the_node():
    assert requests_of(pod()).keys() == {"cpu", "example.com/gpu", "example.com/nic"}
    books = Books()
    books.enter(pod(**EXTENDED))
    assert books.used.keys() == {"cpu", "example.com/nic"}


async def test_a_pod_is_held_until_its_claims_are_reserved_for_it(world):
    world.binding = False
    there = claim("c")
    del there["metadata"]["uid"], there["status"]
    await world.create(RESOURCE_CLAIM, there)
    references = [{"name": "c", "resourceClaimName": "c"}]
    spec = {"nodeName": "node-0", "containers": [{"name": "c", "image": "i"}], "resourceClaims": references}
    runs = await world.create(POD, {"metadata": {"name": "p", "namespace": "default"}, "spec": spec})
    said: list[Any] = []
    while not said:
        await world.settle(1)
        events = (await world.client.list(CORE_EVENT, "default")).items
        said = [one.message for one in events if one.reason == "FailedPrepareDynamicResources"]
    refused = f"pod p ({runs.metadata.uid}) is not allowed to use ResourceClaim c"
    uid = world.one(RESOURCE_CLAIM, "c").metadata.uid
    assert said == [f"Failed to prepare dynamic resources: prepare dynamic resources: {refused} ({uid})"]
    assert world.one(POD, "p").status.phase == "Pending"
    # The controller, which would reserve the claim when it gets devices, is kept from it for a while.
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
