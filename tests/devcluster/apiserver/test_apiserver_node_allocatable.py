"""Resources of nodes that devices provide, in the embedded API server with and without DRANodeAllocatableResources."""

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError
from bayplan.core.api.kinds import POD, RESOURCE_SLICE
from bayplan.core.versions import DEFAULT_GATES, gates_of
from bayplan.testing.builders import make_node, make_pod
from bayplan.testing.in_memory import InMemoryClient, load
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.kinds.strategies import strategy_of

ON = DEFAULT_GATES.but("DRANodeAllocatableResources")
NEXT = gates_of("1.37")
ON_IN_1_37 = NEXT.but("DRANodeAllocatableResources")
FIXED = {"cpu": {"allocationMultiplier": "2"}}
PROVIDED = {"cpu": {"mapping": {"deviceMultiplier": "2"}, "overhead": {"perPod": "100m"}}}
STATUS = {"resourceClaimName": "c", "containers": ["main"], "resources": {"cpu": "2"}}
STATUS_IN_1_37 = {
    "mapping": [{"name": "cpu", "quantity": "2"}],
    "overhead": [{"name": "memory", "perPod": "1Gi", "perContainer": "1Mi"}],
}


def a_slice(mappings, capacity=None, resources=None):
    pool = {"name": "p", "generation": 0, "resourceSliceCount": 1}
    device = {"name": "d", "capacity": capacity or {}, "nodeAllocatableResourceMappings": mappings}
    if resources is not None:
        device["nodeAllocatableResources"] = resources
    return {"metadata": {"name": "s"}, "spec": {"driver": "d.org", "pool": pool, "allNodes": True, "devices": [device]}}


async def problem_of(request):
    """The message of the error that a request fails with, after the name of the object."""
    try:
        await request
    except ApiError as error:
        return str(error).partition('" is ')[2]
    return None


def with_claim():
    return make_pod("p", cpu="1", spec={"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]})


def client_of(gates, *objects):
    client = InMemoryClient(ApiServer(address=None, gates=gates, version=gates.version))
    load(client.server, *objects)
    return client


@cases(
    "gates, expected",
    {
        "on": (ON, {"nodeAllocatableResourceMappings": FIXED}),
        "off": (DEFAULT_GATES, {}),
        "on in 1.37": (ON_IN_1_37, {"nodeAllocatableResources": PROVIDED}),
        "off in 1.37": (NEXT, {}),
    },
)
async def test_resources_of_devices_are_stored_only_with_the_gate(gates, expected):
    made = await client_of(gates).create(RESOURCE_SLICE, a_slice(FIXED, resources=PROVIDED))
    device = made.to_dict()["spec"]["devices"][0]
    assert {field: each for field, each in device.items() if field.startswith("nodeAllocatable")} == expected


@cases(
    "gates, expected",
    {
        "on": (ON, [STATUS]),
        "off": (DEFAULT_GATES, []),
        "on in 1.37": (ON_IN_1_37, [{"resourceClaimName": "c", "containers": ["main"], **STATUS_IN_1_37}]),
        "off in 1.37": (NEXT, []),
    },
)
async def test_statuses_of_pods_are_stored_only_with_the_gate(gates, expected):
    client = client_of(gates, with_claim())
    patch = {"status": {"nodeAllocatableResourceClaimStatuses": [{**STATUS, **STATUS_IN_1_37}]}}
    stored = await client.patch(POD, "p", patch, "default", subresource="status")
    assert stored.to_dict()["status"].get("nodeAllocatableResourceClaimStatuses", []) == expected


@cases(
    "changed, problem",
    {
        "no name": ({"resourceClaimName": ""}, ".resourceClaimName: Required value: must not be empty"),
        "another claim": (
            {"resourceClaimName": "d"},
            '.resourceClaimName: Invalid value: "d": no mapping found in pod reference',
        ),
        "no containers": ({"containers": []}, ".containers: Required value: must not be empty"),
        "no resources": ({"resources": {}}, ".resources: Required value: must not be empty"),
        "an extended resource": (
            {"resources": {"example.com/gpu": "1"}},
            '.resources[example.com/gpu]: Invalid value: "example.com/gpu": must be a node allocatable resource name',
        ),
        "a negative amount": (
            {"resources": {"cpu": "-1"}},
            '.resources[cpu]: Invalid value: "-1": must be non-negative',
        ),
    },
)
async def test_invalid_statuses_of_pods_are_rejected(changed, problem):
    patch = {"status": {"nodeAllocatableResourceClaimStatuses": [{**STATUS, **changed}]}}
    with pytest.raises(ApiError) as error:
        await client_of(ON, with_claim()).patch(POD, "p", patch, "default", subresource="status")
    assert f"status.nodeAllocatableResourceClaimStatuses[0]{problem}" in str(error.value)


@cases(
    "gates, problem",
    {
        "1.36": (ON, "invalid: spec: Forbidden: pods with node allocatable resource claims cannot be resized"),
        "1.37": (ON_IN_1_37, None),
    },
)
async def test_resizes_of_pods_that_take_resources_of_nodes(gates, problem):
    client = client_of(gates, with_claim())
    statuses = {"status": {"nodeAllocatableResourceClaimStatuses": [{**STATUS, **STATUS_IN_1_37}]}}
    await client.patch(POD, "p", statuses, "default", subresource="status")
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}]}
    assert await problem_of(client.patch(POD, "p", {"spec": spec}, "default", subresource="resize")) == problem


@cases(
    "gates, field, resources",
    {
        "1.36": (DEFAULT_GATES, "nodeAllocatableResourceMappings", FIXED),
        "1.37": (NEXT, "nodeAllocatableResources", PROVIDED),
    },
)
def test_an_update_keeps_what_a_slice_had(gates, field, resources):
    for had in (False, True):
        new = a_slice(FIXED, resources=PROVIDED)
        old = {"spec": {"devices": [{field: resources} if had else {}]}}
        strategy_of(RESOURCE_SLICE, gates.on).prepare_for_update(new, old)
        assert (field in new["spec"]["devices"][0]) is had


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


NAME = "must be a node allocatable resource name"
NOTHING = "[cpu]: Required value: at least one of mapping or overhead must be set"
NO_MULTIPLIER = (
    "[cpu].mapping.capacityMultiplier: Required value: capacityMultiplier is required when capacityKey is set"
)
NO_KEY = "[cpu].mapping.capacityKey: Required value: capacityKey is required when capacityMultiplier is set"
NEITHER = '[cpu].mapping: Invalid value: "": must specify one of: `capacityKey`, `deviceMultiplier`'
EITHER = "[cpu].mapping: Invalid value: {}: must specify exactly one of: `capacityKey`, `deviceMultiplier`".format(
    '"{`capacityKey`, `deviceMultiplier`}"'
)


def a_mapping(**fields):
    return {"cpu": {"mapping": fields}}


def an_overhead(**fields):
    return {"cpu": {"overhead": fields}}


@cases(
    "resources, problem",
    {
        "an extended resource": (
            {"example.com/gpu": {"mapping": {"deviceMultiplier": "1"}}},
            f'[example.com/gpu]: Invalid value: "example.com/gpu": {NAME}',
        ),
        "ephemeral storage": (
            {"ephemeral-storage": {"mapping": {"deviceMultiplier": "1"}}},
            f'[ephemeral-storage]: Invalid value: "ephemeral-storage": {NAME}',
        ),
        "nothing": ({"cpu": {}}, NOTHING),
        "an empty mapping": (a_mapping(), NEITHER),
        "both kinds of mapping": (a_mapping(capacityKey="cores", capacityMultiplier="1", deviceMultiplier="1"), EITHER),
        "a zero for each device": (
            a_mapping(deviceMultiplier="0"),
            '[cpu].mapping.deviceMultiplier: Invalid value: "0": must be positive',
        ),
        "an empty key": (
            a_mapping(capacityKey="", capacityMultiplier="1"),
            '[cpu].mapping.capacityKey: Invalid value: "": capacityKey must not be an empty string',
        ),
        "an unknown capacity": (
            a_mapping(capacityKey="x", capacityMultiplier="1"),
            '[cpu].mapping.capacityKey: Not found: "x"',
        ),
        "a capacity without a multiplier": (a_mapping(capacityKey="cores"), NO_MULTIPLIER),
        "a multiplier without a capacity": (a_mapping(deviceMultiplier="1", capacityMultiplier="1"), NO_KEY),
        "a negative multiplier": (
            a_mapping(capacityKey="cores", capacityMultiplier="-1"),
            '[cpu].mapping.capacityMultiplier: Invalid value: "-1": must be positive',
        ),
        "an empty overhead": (
            an_overhead(),
            '[cpu].overhead: Invalid value: "": at least one of perPod or perContainer must be set',
        ),
        "a negative overhead for pods": (
            an_overhead(perPod="-1"),
            '[cpu].overhead.perPod: Invalid value: "-1": must be non-negative',
        ),
        "a negative overhead for containers": (
            an_overhead(perContainer="-1"),
            '[cpu].overhead.perContainer: Invalid value: "-1": must be non-negative',
        ),
    },
)
async def test_invalid_resources_of_devices_are_rejected_in_1_37(resources, problem):
    with pytest.raises(ApiError) as error:
        await client_of(ON_IN_1_37).create(RESOURCE_SLICE, a_slice({}, {"cores": {"value": "8"}}, resources))
    message = str(error.value)
    assert message.count("spec.devices[0].nodeAllocatableResources") == 1
    assert f"spec.devices[0].nodeAllocatableResources{problem}" in message


@cases(
    "resources",
    {
        "for each device": PROVIDED,
        "huge pages": {"hugepages-2Mi": {"mapping": {"deviceMultiplier": "2Mi"}}},
        "by a capacity": a_mapping(capacityKey="cores", capacityMultiplier="500m"),
        "overhead of nothing": an_overhead(perPod="0", perContainer="0"),
    },
)
async def test_resources_of_devices_are_stored_in_1_37(resources):
    made = await client_of(ON_IN_1_37).create(RESOURCE_SLICE, a_slice({}, {"cores": {"value": "8"}}, resources))
    assert made.to_dict()["spec"]["devices"][0]["nodeAllocatableResources"] == resources


DECLARED = make_node("new", labels={"zone": "a"})
DECLARED.status.declaredFeatures = ["DRANodeAllocatableResources"]
OLD = make_node("old", labels={"zone": "b"})
IN_ZONE = {
    zone: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]}
    for zone in "abc"
}
LACKS = 'forbidden: node "old" does not support DRANodeAllocatableResources feature'


def placed(where, of_device, resources):
    made = a_slice({}, resources=resources)
    device = {**made["spec"]["devices"][0], **of_device}
    spec = {**made["spec"], "devices": [device], **where}
    if "allNodes" not in where:
        del spec["allNodes"]
    return {**made, "spec": spec}


@cases(
    "where, of_device, problem",
    {
        "a node that declares the feature": ({"nodeName": "new"}, {}, None),
        "a node that doesn't": ({"nodeName": "old"}, {}, LACKS),
        "no such node": ({"nodeName": "gone"}, {}, 'forbidden: node "gone" not found for device "d"'),
        "all nodes": ({"allNodes": True}, {}, LACKS),
        "selected nodes that declare it": ({"nodeSelector": IN_ZONE["a"]}, {}, None),
        "selected nodes that don't": ({"nodeSelector": IN_ZONE["b"]}, {}, LACKS),
        "no node is selected": ({"nodeSelector": IN_ZONE["c"]}, {}, None),
        "by device, declared": ({"perDeviceNodeSelection": True}, {"nodeName": "new"}, None),
        "by device, not declared": ({"perDeviceNodeSelection": True}, {"nodeSelector": IN_ZONE["b"]}, LACKS),
        "by device, all nodes": ({"perDeviceNodeSelection": True}, {"allNodes": True}, LACKS),
    },
)
async def test_nodes_of_devices_declare_the_feature(where, of_device, problem):
    made = placed(where, of_device, PROVIDED)
    assert await problem_of(client_of(ON_IN_1_37, DECLARED, OLD).create(RESOURCE_SLICE, made)) == problem
    assert await problem_of(client_of(NEXT, DECLARED, OLD).create(RESOURCE_SLICE, made)) is None, "without the gate"
    others = placed(where, of_device, None)
    assert await problem_of(client_of(ON_IN_1_37, DECLARED, OLD).create(RESOURCE_SLICE, others)) is None, (
        "without such devices"
    )


async def test_changed_slices_are_checked_too():
    client = client_of(ON_IN_1_37, OLD)
    await client.create(RESOURCE_SLICE, placed({"nodeName": "old"}, {}, None))
    devices = placed({"nodeName": "old"}, {}, PROVIDED)["spec"]["devices"]
    with pytest.raises(ApiError, match=LACKS):
        await client.patch(RESOURCE_SLICE, "s", {"spec": {"devices": devices}})
