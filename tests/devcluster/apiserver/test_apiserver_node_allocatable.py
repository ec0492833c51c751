"""Resources of nodes that devices provide, in the embedded API server with and without DRANodeAllocatableResources."""

from __future__ import annotations

import pytest
from tests.support.tables import cases

from bayplan.api.kinds import POD, RESOURCE_SLICE
from bayplan.client import ApiError
from bayplan.devcluster.apiserver import ApiServer
from bayplan.devcluster.apiserver.kinds.strategies import strategy_of
from bayplan.testing.builders import make_pod
from bayplan.testing.in_memory import InMemoryClient, load
from bayplan.versions import DEFAULT_GATES

ON = DEFAULT_GATES.but("DRANodeAllocatableResources")
FIXED = {"cpu": {"allocationMultiplier": "2"}}
STATUSES = [{"resourceClaimName": "c", "containers": ["main"], "resources": {"cpu": "2"}}]


def a_slice(mappings, capacity=None):
    pool = {"name": "p", "generation": 0, "resourceSliceCount": 1}
    device = {"name": "d", "capacity": capacity or {}, "nodeAllocatableResourceMappings": mappings}
    return {
        "metadata": {"name": "s"},
        "spec": {"driver": "d.org", "pool": pool, "allNodes": True, "devices": [device]},
    }


def client_of(gates, *objects):
    client = InMemoryClient(ApiServer(listen=False, gates=gates))
    load(client.server, *objects)
    return client


@cases("gates, expected", {"on": (ON, FIXED), "off": (DEFAULT_GATES, None)})
async def test_mappings_are_stored_only_with_the_gate(gates, expected):
    made = await client_of(gates).create(RESOURCE_SLICE, a_slice(FIXED))
    assert made.spec.devices[0].nodeAllocatableResourceMappings == expected


@cases("gates, expected", {"on": (ON, ["c"]), "off": (DEFAULT_GATES, [])})
async def test_statuses_of_pods_are_stored_only_with_the_gate(gates, expected):
    client = client_of(gates, make_pod("p"))
    patch = {"status": {"nodeAllocatableResourceClaimStatuses": STATUSES}}
    stored = await client.patch(POD, "p", patch, "default", subresource="status")
    found = stored.status.nodeAllocatableResourceClaimStatuses or ()
    assert [each.resourceClaimName for each in found] == expected


def test_an_update_keeps_mappings_that_a_slice_had():
    for old, expected in (({}, False), (FIXED, True)):
        new = a_slice({"memory": {"allocationMultiplier": "1Gi"}})
        strategy_of(RESOURCE_SLICE, DEFAULT_GATES.on).prepare_for_update(
            new, {"spec": {"devices": [{"nodeAllocatableResourceMappings": old} if old else {}]}}
        )
        assert ("nodeAllocatableResourceMappings" in new["spec"]["devices"][0]) is expected


@cases(
    "mappings, problem",
    {
        "an extended resource": (
            {"example.com/gpu": {"allocationMultiplier": "1"}},
            '[example.com/gpu]: Invalid value: "example.com/gpu": must be a node allocatable resource name',
        ),
        "no amount": ({"cpu": {}}, '[cpu]: Invalid value: "": at least one of allocationMultiplier or capacityKey'),
        "zero": (
            {"cpu": {"allocationMultiplier": "0"}},
            '[cpu].allocationMultiplier: Invalid value: "0": must be posi',
        ),
        "an empty key": ({"cpu": {"capacityKey": ""}}, '[cpu].capacityKey: Invalid value: "": capacityKey must not be'),
        "an unknown capacity": ({"cpu": {"capacityKey": "x"}}, '[cpu].capacityKey: Not found: "x"'),
    },
)
async def test_invalid_mappings_are_rejected(mappings, problem):
    with pytest.raises(ApiError) as error:
        await client_of(ON).create(RESOURCE_SLICE, a_slice(mappings, {"cores": {"value": "8"}}))
    assert f"spec.devices[0].nodeAllocatableResourceMappings{problem}" in str(error.value)


async def test_a_mapping_names_a_capacity_of_the_device():
    mapping = {"cpu": {"capacityKey": "cores", "allocationMultiplier": "2"}}
    made = await client_of(ON).create(RESOURCE_SLICE, a_slice(mapping, {"cores": {"value": "8"}}))
    assert made.spec.devices[0].nodeAllocatableResourceMappings == mapping
