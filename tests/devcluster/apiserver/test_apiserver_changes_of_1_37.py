"""What kube-apiserver 1.37 changed for pods, their bindings, and ResourceSlices."""

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError
from bayplan.core.api.kinds import POD, RESOURCE_SLICE
from bayplan.core.versions import VERSIONS
from bayplan.testing.builders import make_pod
from bayplan.testing.in_memory import InMemoryClient, load
from bayplan_devcluster.apiserver import ApiServer

CLAIMS = {
    "resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "gpu-1"}],
    "extendedResourceClaimStatus": {
        "resourceClaimName": "extended-1",
        "requestMappings": [{"containerName": "main", "resourceName": "example.com/gpu", "requestName": "r"}],
    },
}
SPEC = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpus"}]}


def client_of(version, *objects):
    client = InMemoryClient(ApiServer(address=None, version=version))
    load(client.server, *objects)
    return client


@cases("version, kept", {"1.36": ("1.36", False), "1.37": ("1.37", True)})
async def test_claims_in_the_status_of_a_pod_are_kept(version, kept):
    client = client_of(version, make_pod("p", resources={"example.com/gpu": "1"}, spec=SPEC))
    await client.patch(POD, "p", {"status": CLAIMS}, "default", subresource="status")
    pod = await client.get(POD, "p", "default")
    pod.status.resourceClaimStatuses = pod.status.extendedResourceClaimStatus = None
    pod.status.message = "from a client that doesn't know them"

    status = (await client.update(POD, pod, subresource="status")).status
    assert bool(status.resourceClaimStatuses) == (status.extendedResourceClaimStatus is not None) == kept
    assert status.message


@cases("name", {"upper case": "Node-A", "underscore": "node_a"})
async def test_the_node_of_a_binding_must_have_a_possible_name(name):
    await client_of("1.36", make_pod("p")).bind("default", "p", name)
    with pytest.raises(
        ApiError, match=f'target.name: Invalid value: "{name}": a lowercase RFC 1123 subdomain'
    ) as caught:
        await client_of("1.37", make_pod("p")).bind("default", "p", name)
    assert caught.value.status == 500


async def test_slices_can_be_selected_by_their_pool():
    def a_slice(name, pool):
        spec = {"driver": "d.org", "pool": {"name": pool, "generation": 0, "resourceSliceCount": 1}, "allNodes": True}
        return {"metadata": {"name": name}, "spec": {**spec, "devices": [{"name": "d"}]}}

    for version in VERSIONS:
        client = client_of(version)
        for name in "ab":
            await client.create(RESOURCE_SLICE, a_slice(name, f"pool-{name}"))
        if version == "1.36":
            with pytest.raises(ApiError, match="field label not supported"):
                await client.list(RESOURCE_SLICE, field_selector="spec.pool.name=pool-b")
        else:
            found = await client.list(RESOURCE_SLICE, field_selector="spec.pool.name=pool-b")
            assert [each.metadata.name for each in found.items] == ["b"]


@pytest.mark.parametrize("version", VERSIONS)
@cases("resources", {"empty": {}, "no requests": {"requests": {}}, "no limits": {"limits": {}}})
async def test_empty_resources_of_a_pod_do_not_decide_its_class(version, resources):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pod = {"metadata": {"name": "p"}, "spec": {"resources": resources, "containers": [container]}}
    assert (await client_of(version).create(POD, pod, "default")).status.qosClass == "Burstable"
