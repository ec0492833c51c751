"""Allocations and device statuses of claims need separate permissions, in addition to that for the status."""

import aiohttp
import pytest
from tests.support.tables import cases

from bayplan_devcluster.apiserver import ADMIN, ApiServer

RBAC = "/apis/rbac.authorization.k8s.io/v1"
GROUP = "resource.k8s.io"
CLAIMS = f"/apis/{GROUP}/v1/namespaces/default/resourceclaims"
READ_AND_WRITE_STATUS = (
    {"verbs": ["get"], "apiGroups": [GROUP], "resources": ["resourceclaims"]},
    {"verbs": ["update", "patch"], "apiGroups": [GROUP], "resources": ["resourceclaims/status"]},
)
DRIVER = {"kind": "User", "name": "driver"}
NODE_A = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}
DEVICE = {"driver": "gpu.example.com", "pool": "p", "device": "one"}
CLAIM = {
    "metadata": {"name": "c"},
    "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
}
ALLOCATED = {"allocation": {"nodeSelector": NODE_A, "devices": {"results": [{"request": "r", **DEVICE}]}}}
DEVICES = {"devices": [DEVICE]}
RESERVED = {"reservedFor": [{"resource": "pods", "name": "p", "uid": "1"}]}


def binding(verb):
    return {"verbs": [verb], "apiGroups": [GROUP], "resources": ["resourceclaims/binding"]}


@pytest.fixture
async def server():
    async with ApiServer(tokens={"admins": ADMIN, "drivers": "driver"}, rbac=True) as running:
        yield running


@pytest.fixture
async def api(server, make_requests):
    async with aiohttp.ClientSession(server.url, headers={"Authorization": "Bearer admins"}) as session:
        requests = make_requests(session)
        await requests.create(CLAIMS, CLAIM)
        yield requests


@pytest.fixture
async def driver(server, make_requests):
    async with aiohttp.ClientSession(server.url, headers={"Authorization": "Bearer drivers"}) as session:
        yield make_requests(session)


async def grant(api, *rules, subject=DRIVER):
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "driver"}
    await api.create(f"{RBAC}/clusterroles", {"metadata": {"name": "driver"}, "rules": rules})
    bound = {"metadata": {"name": "driver"}, "roleRef": reference, "subjects": [subject]}
    await api.create(f"{RBAC}/clusterrolebindings", bound)


@cases(
    "before, status",
    {
        "allocation": ({}, ALLOCATED),
        "reservation": (ALLOCATED, RESERVED),
        "deallocation": (ALLOCATED, {"allocation": None}),
    },
)
async def test_status_permission_is_not_sufficient(api, driver, before, status):
    await api.patch(f"{CLAIMS}/c/status", {"status": before})
    await grant(api, *READ_AND_WRITE_STATUS, binding("update"))
    answer = await driver.patch(f"{CLAIMS}/c/status", {"status": status}, 422)
    assert answer["message"] == (
        'ResourceClaim.resource.k8s.io "c" is invalid: status.allocation: Forbidden: changing status.allocation or '
        'status.reservedFor requires resource="resourceclaims/binding", verb="patch" permission: '
        'resourceclaims.resource.k8s.io is forbidden: User "driver" cannot patch resource "resourceclaims/binding" in '
        'API group "resource.k8s.io" at the cluster scope'
    )


async def test_binding_permission_allows_allocation(api, driver):
    await grant(api, *READ_AND_WRITE_STATUS, binding("update"))
    claim = await driver.get(f"{CLAIMS}/c")
    written = await driver.put(f"{CLAIMS}/c/status", {**claim, "status": ALLOCATED | RESERVED})
    assert written["status"] == ALLOCATED | RESERVED
    await driver.put(f"{CLAIMS}/c/status", written)


async def test_deallocation_needs_no_driver_permission(api, driver):
    await api.patch(f"{CLAIMS}/c/status", {"status": ALLOCATED | DEVICES})
    await grant(api, *READ_AND_WRITE_STATUS, binding("patch"))
    written = await driver.patch(f"{CLAIMS}/c/status", {"status": {"allocation": None, "devices": None}})
    assert not written["status"]


def driver_rule(verb, driver="gpu.example.com"):
    return {"verbs": [verb], "apiGroups": [GROUP], "resources": ["resourceclaims/driver"], "resourceNames": [driver]}


@cases(
    "right, allowed",
    {
        "own devices on any node": (driver_rule("arbitrary-node:patch"), True),
        "devices of another driver": (driver_rule("arbitrary-node:patch", "other.example.com"), False),
        "devices of another node": (driver_rule("associated-node:patch"), False),
        "binding permission": (binding("patch"), False),
    },
)
async def test_driver_writes_status_of_its_own_devices(api, driver, right, allowed):
    await api.patch(f"{CLAIMS}/c/status", {"status": ALLOCATED})
    await grant(api, *READ_AND_WRITE_STATUS, right)
    answer = await driver.patch(f"{CLAIMS}/c/status", {"status": DEVICES}, 200 if allowed else 422)
    message = (
        'ResourceClaim.resource.k8s.io "c" is invalid: status.devices: Forbidden: changing status.devices requires '
        'resource="resourceclaims/driver", verb="[arbitrary-node:patch]" permission: resourceclaims.resource.k8s.io '
        '"gpu.example.com" is forbidden: User "driver" cannot arbitrary-node:patch resource "resourceclaims/driver" in '
        'API group "resource.k8s.io" in the namespace "default"'
    )
    assert answer.get("message", "") == ("" if allowed else message)


@pytest.mark.parametrize(("node", "status"), [("a", 200), ("b", 422)])
async def test_driver_on_the_node_of_the_claim(api, server, make_requests, node, status):
    await api.patch(f"{CLAIMS}/c/status", {"status": ALLOCATED})
    subject = {"kind": "ServiceAccount", "name": "driver", "namespace": "default"}
    await grant(api, *READ_AND_WRITE_STATUS, driver_rule("associated-node:patch"), subject=subject)
    accounts, nodes = "/api/v1/namespaces/default/serviceaccounts", "/api/v1/nodes"
    await api.create(accounts, {"metadata": {"name": "driver"}})
    there = await api.create(nodes, {"metadata": {"name": node}})
    bound = {"kind": "Node", "apiVersion": "v1", "name": node, "uid": there["metadata"]["uid"]}
    asked = await api.create(f"{accounts}/driver/token", {"spec": {"boundObjectRef": bound}})
    headers = {"Authorization": f"Bearer {asked['status']['token']}"}
    async with aiohttp.ClientSession(server.url, headers=headers) as session:
        await make_requests(session).patch(f"{CLAIMS}/c/status", {"status": DEVICES}, status)
