"""`explain` names devices, and what keeps each from a pod's claims: claims of pods, taints, selectors, constraints."""

import yaml
from tests.support.tables import cases

from bayplan.core.versions import gates_of
from bayplan.insight import Insight, Snapshot

CLUSTER = """
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {kubernetes.io/hostname: n1}}
status: {capacity: {cpu: "4", memory: 8Gi, pods: "110"}, allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
---
apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata: {name: gpu}
spec: {extendedResourceName: acme.io/gpu, selectors: [{cel: {expression: device.driver == "gpu.acme.io"}}]}
"""
KIND = 'device.attributes["gpu.acme.io"].kind == "big"'
BROKEN = {"key": "broken", "value": "yes", "effect": "NoSchedule"}
FEW = "recreate the resourceclaim new"
EVICTS = "delete pod default/first on n1 -> n1 (evicts 1 pod of default)"
NEW_NODE = "add a node like n1 -> n1-new"
HELD = "g0 is allocated to claim first of pod default/first"


def device(name, kind=None, **fields):
    attributes = {"attributes": {"kind": {"string": kind}}} if kind else {}
    return {"name": name, **attributes, **fields}


def resource_slice(*devices, driver="gpu.acme.io", number=1, of=1, **fields):
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"n1-{driver}-{number}"},
        "spec": {
            "driver": driver,
            "pool": {"name": "n1", "generation": 1, "resourceSliceCount": of},
            "devices": list(devices),
            **({} if "perDeviceNodeSelection" in fields else {"nodeName": "n1"}),
            **fields,
        },
    }


def counters(*devices, memory):
    shared = [{"name": "card", "counters": {"memory": {"value": memory}}}]
    sets = resource_slice(number=2, of=2, sharedCounters=shared)
    del sets["spec"]["devices"]
    return [resource_slice(*devices, of=2), sets]


def using(memory, groups=None):
    more = {"compatibilityGroups": groups} if groups else {}
    return {"consumesCounters": [{"counterSet": "card", "counters": {"memory": {"value": memory}}, **more}]}


def device_class(name, **spec):
    return {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": name}, "spec": spec}


def exactly(request="r", class_name="gpu", **fields):
    return {"name": request, "exactly": {"deviceClassName": class_name, **fields}}


def claim(name, *requests, constraints=None, has=None, user=None, on="n1", **metadata):
    devices = {"requests": list(requests or [exactly()]), **({"constraints": constraints} if constraints else {})}
    made = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}", **metadata},
        "spec": {"devices": devices},
    }
    if has is not None:
        results = [
            {"request": "r", "driver": "gpu.acme.io", "pool": "n1", "device": each, **extra} for each, extra in has
        ]
        fields = [{"key": "metadata.name", "operator": "In", "values": [on]}]
        allocation = {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]}}
        reserved = [{"resource": "pods", "name": user, "uid": user}] if user else []
        made["status"] = {"allocation": allocation, "reservedFor": reserved}
    return made


def pod(name, claim_name=None, on=None, resource=None, **spec):
    claims = [{"name": "c", "resourceClaimName": claim_name}] if claim_name else []
    resources = {"requests": {resource: "1"}, "limits": {resource: "1"}} if resource else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name},
        "spec": {
            "containers": [{"name": "c", "image": "i", "resources": resources}],
            "resourceClaims": claims,
            **({"nodeName": on} if on else {}),
            **spec,
        },
    }


def first(*devices, extra=None):
    """A running pod that has these devices."""
    return [claim("first", has=[(each, extra or {}) for each in devices], user="first"), pod("first", "first", on="n1")]


def needs(number, what, has, request="r", class_name="gpu"):
    devices = "1 device" if number == 1 else f"{number} devices"
    return f"claim new, request {request}: needs {devices} of class {class_name}; n1 has {has}: {what}"


G0, FPGA = resource_slice(device("g0")), resource_slice(device("x0"), driver="fpga.acme.io")
OF_FPGA = [{"cel": {"expression": 'device.driver == "fpga.acme.io"'}}]
CASES = {
    "each device has its own reason": (
        [
            resource_slice(
                device("g0"), device("g1", "big", taints=[BROKEN]), device("g2", "small"), device("g3", "big")
            ),
            *first("g0"),
            claim(
                "new",
                exactly(
                    count=2,
                    selectors=[{"cel": {"expression": f'!("kind" in device.attributes["gpu.acme.io"]) || {KIND}'}}],
                ),
            ),
        ],
        needs(
            2,
            f'{HELD}, g1 is tainted broken=yes:NoSchedule, g2 is rejected by the selector !("kind" in '
            f'device.attributes["gpu.acme.io"]) || {KIND}, g3 is free',
            4,
        ),
        [f"{FEW} with a toleration of broken=yes:NoSchedule in request r -> n1", EVICTS],
    ),
    "all devices are tainted": (
        [resource_slice(device("g0", taints=[BROKEN]), device("g1", taints=[BROKEN])), claim("new")],
        needs(1, "g0 and g1 are tainted broken=yes:NoSchedule", 2),
        [f"{FEW} with a toleration of broken=yes:NoSchedule in request r -> n1"],
    ),
    "a device is both taken and tainted": (
        [resource_slice(device("g0", taints=[BROKEN])), *first("g0"), claim("new")],
        needs(1, f"{HELD} and tainted broken=yes:NoSchedule", 1),
        [f"{FEW} with a toleration of broken=yes:NoSchedule in request r and delete pod default/first on n1 -> n1"],
    ),
    "many devices are taken": (
        [
            resource_slice(*(device(f"g{number}") for number in range(6))),
            *first(*(f"g{each}" for each in range(6))),
            claim("new"),
        ],
        needs(1, "g0, g1, g2 and 3 more are allocated to claim first of pod default/first", 6),
        [EVICTS],
    ),
    "too few devices": ([G0, claim("new", exactly(count=2))], needs(2, "g0 is free", 1), []),
    "the node has devices of another class only": (
        [FPGA, device_class("fpga", selectors=OF_FPGA), claim("new")],
        "claim new, request r: needs 1 device of class gpu; the node has none (its 1 device is of other classes)",
        [f"{FEW} with class fpga in request r -> n1"],
    ),
    "the node has no devices": (
        [claim("new")],
        "claim new, request r: needs 1 device of class gpu; the node has none",
        [],
    ),
    "no common value": (
        [
            resource_slice(device("g0", "big"), device("g1", "small")),
            claim("new", exactly(count=2), constraints=[{"matchAttribute": "gpu.acme.io/kind"}]),
        ],
        "claim new: the devices don't meet the constraint matchAttribute gpu.acme.io/kind: g0 has big, g1 has small",
        [f"{FEW} without the constraint matchAttribute gpu.acme.io/kind -> n1"],
    ),
    "no different values": (
        [
            resource_slice(device("g0", "big"), device("g1", "big")),
            claim("new", exactly("a"), exactly("b"), constraints=[{"distinctAttribute": "gpu.acme.io/kind"}]),
        ],
        "claim new: the devices don't meet the constraint distinctAttribute gpu.acme.io/kind: g0 and g1 have big",
        [f"{FEW} without the constraint distinctAttribute gpu.acme.io/kind -> n1"],
    ),
    "two requests for one device": (
        [G0, claim("new", exactly("a"), exactly("b"))],
        "each of the requests new/a, new/b finds devices on n1, but not all of them: free is g0",
        [],
    ),
    "all devices are wanted": (
        [resource_slice(device("g0"), device("g1")), *first("g0"), claim("new", exactly(allocationMode="All"))],
        f"claim new, request r: needs all devices of class gpu; n1 has 2: {HELD}, g1 is free",
        [EVICTS],
    ),
    "no alternative fits": (
        [
            G0,
            *first("g0"),
            claim(
                "new",
                {
                    "name": "r",
                    "firstAvailable": [
                        {"name": "two", "deviceClassName": "gpu", "count": 2},
                        {"name": "one", "deviceClassName": "gpu"},
                    ],
                },
            ),
        ],
        f"{needs(2, HELD, 1, 'r/two')}; {needs(1, HELD, 1, 'r/one')}",
        [EVICTS],
    ),
    "a shared counter is used up": (
        [
            *counters(device("g0", **using("6Gi")), device("g1", **using("6Gi")), memory="8Gi"),
            *first("g0"),
            claim("new"),
        ],
        needs(
            1,
            f"{HELD} and short of 4Gi of counter memory in card, g1 is short of 4Gi of counter memory in card, "
            "which claim first of pod default/first uses",
            2,
        ),
        [EVICTS],
    ),
    "too little capacity is left": (
        [
            resource_slice(device("g0", allowMultipleAllocations=True, capacity={"memory": {"value": "8Gi"}})),
            *first(
                "g0", extra={"shareID": "5b7a5d4e-6d1f-4c39-9f0c-0f2b8b3b0a10", "consumedCapacity": {"memory": "6Gi"}}
            ),
            claim("new", exactly(capacity={"requests": {"memory": "4Gi"}})),
        ],
        needs(1, "g0 is too small for 4Gi of memory, of which 2Gi is left beside claim first of pod default/first", 1),
        [EVICTS],
    ),
    "a pool that is invalid": (
        [resource_slice(device("g0"), device("g0")), claim("new")],
        (
            "claim new, request r: needs 1 device of class gpu; the node has none; "
            "resource pool gpu.acme.io/n1 is invalid: duplicate device name g0"
        ),
        [],
    ),
    "a pool that is being published": (
        [resource_slice(device("g0"), of=2), claim("new")],
        (
            "claim new, request r: needs 1 device of class gpu; the node has none; "
            "resource pool gpu.acme.io/n1 is incomplete, because its driver is publishing it"
        ),
        [],
    ),
    "a claim whose devices are elsewhere": (
        [G0, claim("new", has=[("x7", {})], user="first", on="n2"), pod("first", "new", on="n1")],
        "claim new has n1/x7, which this node can't use; pod default/first uses it",
        [EVICTS],
    ),
    "a class that does not exist": (
        [G0, claim("new", exactly(class_name="gpus"))],
        "claim new, request r: device class gpus does not exist (did you mean gpu?)",
        [f"{FEW} with class gpu in request r -> n1"],
    ),
    "a claim that does not exist": (
        [G0, claim("news")],
        'could not find ResourceClaim "default/new" (did you mean news?)',
        ["let the pod use the resourceclaim news -> n1"],
    ),
    "a claim that is being deleted": (
        [G0, claim("new", deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["x/y"])],
        'resourceclaim "new" is being deleted: no pod uses it',
        [],
    ),
}


def explained(objects, gates=None):
    answer = Insight(Snapshot.of([*yaml.safe_load_all(CLUSTER), *objects]), gates=gates).explain("default/new")
    return [each for miss in answer.nearest for each in miss.blockers], [each.text for each in answer.help]


@cases("objects, blocker, helps", CASES)
def test_blockers_name_devices(objects, blocker, helps):
    blockers, found = explained([*objects, pod("new", "new")])

    assert blockers == [blocker]
    for each in helps:
        assert any(text.startswith(each) for text in found), found
    assert bool(found) is bool(helps)


ON_1_37 = gates_of("1.37")
GROUPS = {
    "devices of different groups": (
        True,
        [*counters(device("g0", **using("1Gi", ["mig"])), device("g1", **using("1Gi", ["vgpu"])), memory="8Gi")],
        needs(
            1,
            f"{HELD}, g1 is kept apart (group vgpu) on card from g0 (group mig), "
            "which claim first of pod default/first uses",
            2,
        ),
        [EVICTS],
    ),
    "a device without groups": (
        True,
        [*counters(device("g0", **using("1Gi", ["b", "a"])), device("g1", **using("1Gi")), memory="8Gi")],
        needs(
            1,
            f"{HELD}, g1 is kept apart (no groups) on card from g0 (groups a, b), "
            "which claim first of pod default/first uses",
            2,
        ),
        [EVICTS],
    ),
    "without the gate": (
        False,
        [*counters(device("g0", **using("1Gi", ["mig"])), device("g1", **using("1Gi", ["mig"])), memory="8Gi")],
        needs(
            1,
            f"{HELD} and left out, because the gate DRADeviceCompatibilityGroups is off: it has group mig, "
            "g1 is left out, because the gate DRADeviceCompatibilityGroups is off: it has group mig",
            2,
        ),
        [],
    ),
    "beside a device with groups, without the gate": (
        False,
        [*counters(device("g0", **using("1Gi", ["mig"])), device("g1", **using("1Gi")), memory="8Gi")],
        needs(
            1,
            f"{HELD} and left out, because the gate DRADeviceCompatibilityGroups is off: it has group mig, "
            "g1 is kept apart (no groups) on card from g0 (group mig), which claim first of pod default/first uses",
            2,
        ),
        [EVICTS],
    ),
}


@cases("on, slices, blocker, helps", GROUPS)
def test_compatibility_groups_are_named(on, slices, blocker, helps):
    gates = gates_of("1.37").but(*(["DRADeviceCompatibilityGroups"] if on else []))
    blockers, found = explained([*slices, *first("g0"), claim("new"), pod("new", "new")], gates)
    assert blockers == [blocker]
    assert [each for each in helps if any(text.startswith(each) for text in found)] == helps
    assert bool(found) is bool(helps)


def test_amounts_that_can_not_be_computed_with_are_named():
    policy = {"default": "1", "validRange": {"min": "1", "step": "1"}}
    shared = device("g0", allowMultipleAllocations=True, capacity={"x": {"value": "9", "requestPolicy": policy}})
    amount = exactly("s", capacity={"requests": {"x": "1e27"}})
    blockers, _ = explained(
        [resource_slice(shared), claim("new", exactly(count=9), amount), pod("new", "new")], ON_1_37
    )
    problem = "capacity request cannot be represented in the device's range arithmetic: request 1e27 is not a"
    assert f"g0 is not to be had in such amounts: {problem} representable milli value" in blockers[0].replace(
        'capacity "x": ', ""
    )


def test_values_of_derived_attributes_are_named():
    expression = 'device.attributes["gpu.acme.io"].kind'
    requests = [exactly("r", derivedAttributes=[{"name": "derived/kind", "expression": expression}], count=2)]
    slices = [resource_slice(device("g0", "big"), device("g1", "small"))]
    wanted = claim("new", *requests, constraints=[{"matchAttribute": "derived/kind"}])
    blockers, _ = explained([*slices, wanted, pod("new", "new")], gates_of("1.37").but("DRADerivedAttributes"))
    assert blockers == [
        "claim new: the devices don't meet the constraint matchAttribute derived/kind: g0 has big, g1 has small"
    ]


def held_by_extended_resource():
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "first", "uid": "first", "controller": True}
    annotations = {"resource.kubernetes.io/extended-resource-claim": "true"}
    return claim("first-ext", has=[("g0", {})], user="first", annotations=annotations, ownerReferences=[owner])


EXTENDED = {
    "held by a pod that asked for the resource": (
        [G0, held_by_extended_resource(), pod("first", on="n1", resource="acme.io/gpu")],
        "n1 has 1: g0 is allocated to claim first-ext of pod default/first",
        [EVICTS, NEW_NODE],
    ),
    "held by a pod with a claim": ([G0, *first("g0")], f"n1 has 1: {HELD}", [EVICTS, NEW_NODE]),
    "tainted, and there is no request to tolerate it": (
        [resource_slice(device("g0", taints=[BROKEN]))],
        "n1 has 1: g0 is tainted broken=yes:NoSchedule",
        [],
    ),
    "another resource has devices": (
        [FPGA, device_class("fpga", extendedResourceName="acme.io/fpga", selectors=OF_FPGA)],
        "the node has none (its 1 device is of other classes)",
        ["let the pod request acme.io/fpga instead of acme.io/gpu -> n1"],
    ),
}


@cases("objects, has, helps", EXTENDED)
def test_devices_behind_extended_resources_are_named(objects, has, helps):
    blockers, found = explained([*objects, pod("new", resource="acme.io/gpu")])

    assert blockers == [f"acme.io/gpu: needs 1 device of class gpu; {has}"]
    assert found == helps


def test_nodes_with_the_same_causes_are_one_kind():
    """Only the first node of a kind is tried, so that many nodes don't take many tries."""
    nodes, objects = [f"n{number}" for number in range(1, 31)], []
    for name in nodes:
        made = resource_slice(device(f"gpu-of-{name}", taints=[BROKEN]))
        made["metadata"]["name"], made["spec"]["nodeName"], made["spec"]["pool"]["name"] = name, name, name
        objects.append(made)
        if name != "n1":
            node = next(yaml.safe_load_all(CLUSTER))
            node["metadata"] = {"name": name}
            objects.append(node)
    tried = []
    insight = Insight(Snapshot.of([*yaml.safe_load_all(CLUSTER), *objects, claim("new"), pod("new", "new")]))

    answer = insight.explain("default/new", progress=tried.append)

    assert [each.change.text for each in answer.help] == [
        f"{FEW} with a toleration of broken=yes:NoSchedule in request r"
    ]
    assert len(tried) == 1


def test_nodes_of_one_size_with_and_without_devices():
    """The node with devices isn't the first one; the others are shown together, and a new node is like this one."""
    plain = yaml.safe_load(CLUSTER.partition("---")[0])
    others = [{**plain, "metadata": {"name": name, "labels": {}}} for name in ("a", "b", "c")]
    cluster = [*others, *yaml.safe_load_all(CLUSTER), G0, *first("g0")]
    answer = Insight(Snapshot.of([*cluster, claim("new"), pod("new", "new")])).explain("default/new")

    assert [miss.nodes for miss in answer.nearest] == [("a", "b", "c"), ("n1",)]
    assert NEW_NODE in [each.text for each in answer.help]
