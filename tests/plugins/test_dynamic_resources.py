"""DynamicResources: the devices for claims on a node, and the messages for infeasible nodes."""

# ruff: noqa: E501 - a case is easier to read on one or two lines

import numpy as np
import pytest
from tests.support.tables import cases

from bayplan.core.framework.status import SKIP, Code
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_node, make_pod
from devices import (
    DRIVER,
    Devices,
    allocated,
    claim,
    device,
    device_class,
    first_available,
    pod_with,
    request,
    resource_slice,
)

NONE = "cannot allocate all claims"
MATCH = {"matchAttribute": f"{DRIVER}/numa"}
DISTINCT = {"distinctAttribute": f"{DRIVER}/numa"}


def on_n1(*devices, **fields):
    return resource_slice("s", *devices, node="n1", **fields)


def numa(name, number, **fields):
    return device(name, a_numa=number, **fields)


def tainted(name, *effects):
    return device(name, taints=[{"key": "broken", "value": "yes", "effect": effect} for effect in effects])


def tolerates(**fields):
    return {"tolerations": [fields]}


def shared(name, memory="10Gi", **policy):
    spec = {"value": memory, **({"requestPolicy": policy} if policy else {})}
    return device(name, {"memory": spec}, allowMultipleAllocations=True)


def memory(amount):
    return {"capacity": {"requests": {"memory": amount}}}


def counters(name, **amounts):
    return {"name": name, "counters": {key: {"value": value} for key, value in amounts.items()}}


def slot(name, amount):
    return device(name, consumesCounters=[{"counterSet": "card", "counters": {"slots": {"value": amount}}}])


def card(*devices, slots="4", count=2):
    return [
        resource_slice("c", node="n1", count=count, sharedCounters=[counters("card", slots=slots)]),
        resource_slice("d", *devices, node="n1", count=count),
    ]


def on(**spec):
    return {"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"operator": "In", **spec}]}]}}


CASES = {
    "exact counts and all": [
        ("one", [on_n1("a", "b")], [claim("c", request())], "r=a"),
        ("two", [on_n1("a", "b")], [claim("c", request(count=2))], "r=a,r=b"),
        ("too many", [on_n1("a", "b")], [claim("c", request(count=3))], NONE),
        ("all", [on_n1("a", "b")], [claim("c", request(mode="All"))], "r=a,r=b"),
        ("all of none", [on_n1()], [claim("c", request(mode="All"))], NONE),
        ("all, but one is taken", [on_n1("a", "b"), claim("x", status=allocated("a"))], [claim("c", request(mode="All"))], NONE),
        ("one after the other", [on_n1("a", "b")], [claim("c", request("r"), request("q"))], "r=a,q=b"),
        ("backtracking", [on_n1(numa("a", 0), numa("b", 1))],
         [claim("c", request("r"), request("q", expression=f"device.attributes['{DRIVER}'].numa == 0"))], "r=b,q=a"),
        ("two claims", [on_n1("a", "b")], [claim("c", request()), claim("d", request())], "r=a r=b"),
        ("more than the limit of a claim", [on_n1(*(f"d{index}" for index in range(40)))], [claim("c", request(count=33))],
         "claim default/c: number of requested devices 33 exceeds the claim limit of 32"),
        ("unknown mode", [on_n1("a")], [claim("c", request(mode="Some"))],
         "claim default/c, request r: unsupported count mode Some"),
    ],
    "first available": [
        ("the first", [on_n1("a", "b")], [claim("c", first_available(request("x", 2), request("y", 1)))], "r/x=a,r/x=b"),
        ("the second", [on_n1("a")], [claim("c", first_available(request("x", 2), request("y", 1)))], "r/y=a"),
        ("none", [on_n1()], [claim("c", first_available(request("x", 2), request("y", 1)))], NONE),
        ("an alternative that leaves enough for other requests", [on_n1("a", "b")],
         [claim("c", first_available(request("x", 2), request("y", 1)), request("q"))], "r/y=a,q=b"),
        ("an alternative within the limit of devices", [on_n1(*(f"d{index:02}" for index in range(40)))],
         [claim("c", first_available(request("x", 32), request("y", 1)), request("q"))], "r/y=d00,q=d01"),
    ],
    "constraints": [
        ("match", [on_n1(numa("a", 0), numa("b", 1), numa("c", 1))], [claim("c", request(count=2), constraints=[MATCH])],
         "r=b,r=c"),
        ("match without the attribute", [on_n1("a", "b")], [claim("c", request(count=2), constraints=[MATCH])], NONE),
        ("match of other requests", [on_n1(numa("a", 0), numa("b", 1))],
         [claim("c", request("r"), request("q"), constraints=[{**MATCH, "requests": ["q"]}])], "r=a,q=b"),
        ("all of alike devices after one of them", [on_n1(numa("a", 0), numa("b", 0))],
         [claim("c", request("r"), request("q", mode="All"), constraints=[DISTINCT])],
         f"claim default/c, request q: cannot add device {DRIVER}/n1/a because a claim constraint would not be satisfied"),
        ("match of all", [on_n1(numa("a", 0), numa("b", 1))], [claim("c", request(mode="All"), constraints=[MATCH])],
         f"claim default/c, request r: cannot add device {DRIVER}/n1/b because a claim constraint would not be satisfied"),
        ("match of an alternative", [on_n1(numa("a", 0), numa("b", 1))],
         [claim("c", first_available(request("x", 2), request("y")), constraints=[{**MATCH, "requests": ["r/x"]}])],
         "r/y=a"),
        ("distinct", [on_n1(numa("a", 0), numa("b", 0), numa("c", 1))],
         [claim("c", request("r"), request("q"), constraints=[DISTINCT])], "r=a,q=c"),
        ("not distinct", [on_n1(numa("a", 0), numa("b", 0))],
         [claim("c", request("r"), request("q"), constraints=[DISTINCT])], NONE),
        ("unknown type", [on_n1("a")], [claim("c", request(), constraints=[{"requests": ["r"]}])],
         "claim default/c, constraint #0: empty constraint (unsupported constraint type?)"),
    ],
    "admin access": [
        ("a taken device", [on_n1("a"), claim("x", status=allocated("a"))], [claim("c", request(adminAccess=True))], "r=a"),
        ("does not take one", [on_n1("a"), claim("x", status=allocated({"device": "a", "adminAccess": True}))],
         [claim("c", request())], "r=a"),
        ("once per claim", [on_n1("a")], [claim("c", request("r", adminAccess=True), request("q", adminAccess=True))], NONE),
    ],
    "shared counters": [
        ("enough", card(slot("a", "2"), slot("b", "2")), [claim("c", request(count=2))], "r=a,r=b"),
        ("another one", card(slot("a", "3"), slot("b", "2"), slot("c", "1")), [claim("c", request(count=2))], "r=a,r=c"),
        ("used up", [*card(slot("a", "3"), slot("b", "2")), claim("x", status=allocated("a"))], [claim("c", request())], NONE),
        ("used up by a share",
         [*card({**slot("a", "3"), "allowMultipleAllocations": True}, slot("b", "2")),
          claim("x", status=allocated({"device": "a", "shareID": "s", "consumedCapacity": {"m": "1"}}))],
         [claim("c", request(expression="!device.allowMultipleAllocations"))], NONE),
        ("missing counter set", [resource_slice("d", slot("a", "1"), node="n1")], [claim("c", request())],
         "invalid resource pools were encountered"),
    ],
    "consumable capacity": [
        ("shared", [on_n1(shared("a"))], [claim("c", request("r", **memory("4Gi")), request("q", **memory("6Gi")))], "r=a,q=a"),
        ("used up", [on_n1(shared("a"))], [claim("c", request("r", **memory("5Gi")), request("q", **memory("6Gi")))], NONE),
        ("no request takes everything", [on_n1(shared("a"))], [claim("c", request("r"), request("q", **memory("1")))], NONE),
        ("a default", [on_n1(shared("a", default="1Gi"))], [claim("c", request("r"), request("q", **memory("9Gi")))], "r=a,q=a"),
        ("rounded up to a step", [on_n1(shared("a", default="2Gi", validRange={"min": "2Gi", "step": "2Gi"}))],
         [claim("c", request("r", **memory("3Gi")), request("q", **memory("7Gi")))], NONE),
        ("more than allowed", [on_n1(shared("a", default="1Gi", validRange={"min": "1Gi", "max": "2Gi"}))],
         [claim("c", request("r", **memory("3Gi")))], NONE),
        ("rounded up to a value", [on_n1(shared("a", default="2Gi", validValues=["2Gi", "8Gi"]))],
         [claim("c", request("r", **memory("3Gi")), request("q", **memory("2Gi")))], "r=a,q=a"),
        ("no such value", [on_n1(shared("a", default="2Gi", validValues=["2Gi", "4Gi"]))],
         [claim("c", request("r", **memory("5Gi")))], NONE),
        ("no such capacity", [on_n1("a")], [claim("c", request(**memory("1Gi")))], NONE),
        ("consumed by other claims", [on_n1(shared("a")), claim("x", status=allocated(
            {"device": "a", "shareID": "1", "consumedCapacity": {"memory": "8Gi"}}))],
         [claim("c", request(**memory("3Gi")))], NONE),
        ("shared before, exclusive now", [on_n1(device("a", {"memory": "10Gi"}), "b"), claim("x", status=allocated(
            {"device": "a", "shareID": "1", "consumedCapacity": {"memory": "8Gi"}}))],
         [claim("c", request())], "r=b"),
        ("a device that isn't shared", [on_n1(device("a", {"memory": "4Gi"}), device("b", {"memory": "8Gi"}))],
         [claim("c", request(**memory("6Gi")))], "r=b"),
    ],
    "taints": [
        ("not tolerated", [on_n1(tainted("a", "NoSchedule"), "b")], [claim("c", request())], "r=b"),
        ("no effect", [on_n1(tainted("a", "None"), "b")], [claim("c", request())], "r=a"),
        ("tolerated", [on_n1(tainted("a", "NoExecute"))], [claim("c", request(**tolerates(operator="Exists")))], "r=a"),
        ("another value", [on_n1(tainted("a", "NoExecute"))], [claim("c", request(**tolerates(key="broken", value="no")))], NONE),
        ("one of two", [on_n1(tainted("a", "NoExecute", "NoSchedule"))],
         [claim("c", request(**tolerates(key="broken", operator="Exists", effect="NoExecute")))], NONE),
    ],
    "slices of several nodes": [
        ("all nodes", [resource_slice("s", "a", allNodes=True)], [claim("c", request())], "r=a"),
        ("a selector", [resource_slice("s", "a", **on(key="zone", values=["z1"]))], [claim("c", request())], "r=a"),
        ("another zone", [resource_slice("s", "a", **on(key="zone", values=["z2"]))], [claim("c", request())], NONE),
        ("each device", [resource_slice("s", device("a", nodeName="n2"), device("b", nodeName="n1"),
         perDeviceNodeSelection=True)], [claim("c", request())], "r=b"),
        ("another node", [resource_slice("s", "a", node="n2")], [claim("c", request())], NONE),
        ("unspecified", [resource_slice("s", "a")], [claim("c", request())], NONE),
        ("invalid selector", [resource_slice("s", "a", **on(key="zone", values=["z"], operator="Like"))],
         [claim("c", request())], "gather pool information: failed to perform node selection for slice s"),
    ],
    "pools": [
        ("incomplete", [on_n1("a", count=2)], [claim("c", request())], NONE),
        ("all of an incomplete one", [on_n1("a", count=2)], [claim("c", request(mode="All"))],
         f"claim default/c, request r: asks for all devices, but resource pool {DRIVER}/n1 is currently being updated"),
        ("out-dated", [on_n1("a"), resource_slice("t", "b", node="n1", generation=2)], [claim("c", request(mode="All"))], "r=b"),
        ("being replaced", [on_n1("a", count=2), resource_slice("t", "b", node="n2", pool="n1", generation=2)],
         [claim("c", request())], NONE),
        ("half on another node", [on_n1("a", count=2), resource_slice("t", "b", node="n2", pool="n1", count=2)],
         [claim("c", request())], "r=a"),
        ("a name twice", [on_n1("a", "a")], [claim("c", request())], "invalid resource pools were encountered"),
        ("a name twice, but another pool has devices", [on_n1("a", "a"), resource_slice("t", "b", allNodes=True)],
         [claim("c", request())], "r=b"),
        ("all of an invalid one", [on_n1("a", "a")], [claim("c", request(mode="All"))],
         f"claim default/c, request r: asks for all devices, but resource pool {DRIVER}/n1 is currently invalid"),
        ("by name", [resource_slice("t", "b", node="n1", pool="z"), resource_slice("s", "a", node="n1", pool="a")],
         [claim("c", request(count=2))], "r=a,r=b"),
        ("binding conditions last", [resource_slice("t", device("b", bindingConditions=["ready"]), node="n1", pool="a"),
         resource_slice("s", "a", node="n1", pool="z")], [claim("c", request(count=2))], "r=a,r=b"),
    ],
    "claims": [
        ("no such class", [on_n1("a")], [claim("c", request(class_name="fpga"))],
         "request r: device class fpga does not exist"),
        ("no such class of an alternative", [on_n1("a")], [claim("c", first_available(request("x", class_name="fpga")))],
         "request r/x: device class fpga does not exist"),
        ("unknown request type", [on_n1("a")], [claim("c", {"name": "r"})],
         "resource claim default/c, request r: unknown request type"),
        ("being deleted", [on_n1("a")], [claim("c", request(), deletionTimestamp="2026-01-01T00:00:00Z")],
         'resourceclaim "c" is being deleted'),
        ("allocated elsewhere", [on_n1("a")], [claim("c", status=allocated("a", node="n2"))],
         "resourceclaim not available on the node"),
        ("does not compile", [on_n1("a")], [claim("c", request(expression="device.driver =="))],
         "claim default/c: selector #0: CEL compile error: compilation failed: syntax error"),
        ("fails", [on_n1("a")], [claim("c", request(expression="device.attributes['x'].y"))],
         "claim default/c: selector #0: CEL runtime error: no such key: y"),
        ("no expression", [on_n1("a")], [claim("c", request(selectors=[{}]))],
         "claim default/c, request r, selector #0: CEL expression empty (unsupported selector type?)"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("there", "claims", "expected"),
    [
        pytest.param(*case[1:], id=f"{feature}: {case[0]}", marks=pytest.mark.feature(f"DynamicResources: {feature}"))
        for feature, cases in CASES.items()
        for case in cases
    ],
)
def test_allocated_devices(there, claims, expected):
    nodes = [make_node("n1", labels={"zone": "z1"}), make_node("n2")]
    cluster = Devices([*nodes, device_class(), *there, *claims])
    got = cluster.gets(pod_with(*(each["metadata"]["name"] for each in claims)))
    if got.startswith(("claim", "request", "resource", "gather", "invalid", "cannot")):
        assert got.startswith(expected)
    else:
        assert got == expected


@cases(
    "expression, problem",
    {
        "no such attribute": (
            "device.attributes['x'].y",
            "no such key: y. consider using CEL optional chaining (.? followed by orValue()) or guarding the check with has() for optional fields",
        ),
        "another error": ("1 / 0 == 1", "division by zero"),
    },
)
def test_messages_about_failed_expressions_since_1_37(expression, problem):
    """#136709"""
    there = [device_class(), on_n1("a"), claim("c", request(expression=expression))]
    message = Devices([make_node("n1"), *there]).gets(pod_with("c"))
    assert message == f"claim default/c: selector #0: CEL runtime error: {problem.partition('. ')[0]}"
    message = Devices([make_node("n1"), *there], gates=gates_of("1.37")).gets(pod_with("c"))
    assert message == f"claim default/c: selector #0 on device {DRIVER}/n1/a: CEL runtime error: {problem}"


def test_pod_with_missing_claim_is_gated():
    cluster = Devices([device_class()])
    status = cluster.plugin.pre_enqueue(pod_with("c"))
    assert (status.code, status.message) == (
        Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
        'could not find ResourceClaim "default/c"',
    )
    assert cluster.ask(pod_with("c")) == status


@cases(
    "owner, status, expected",
    {
        "created for the pod": ("uid-p", "c", None),
        "other": ("other", "c", "ResourceClaim default/c was not created for Pod default/p (Pod is not owner)"),
        "not created yet": ("uid-p", None, 'pod "default/p": ResourceClaim not created yet'),
    },
)
@pytest.mark.feature("DynamicResources: templates")
def test_claims_from_templates(owner, status, expected):
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner, "controller": True}]
    cluster = Devices([device_class(), claim("c", request(), ownerReferences=owners)])
    statuses = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": status}]} if status else {}
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}]}
    pod = make_pod("p", spec=spec, status=statuses)
    owners[0]["uid"] = pod.uid if owner == "uid-p" else owner
    cluster = Devices([device_class(), claim("c", request(), ownerReferences=owners)])
    answer = cluster.plugin.pre_enqueue(pod)
    assert (answer and answer.message) == expected


def test_pod_without_claims_is_skipped():
    cluster = Devices([device_class()])
    pod = make_pod("p", resources={"example.com/fpga": "1"})
    assert cluster.ask(pod) is SKIP
    assert cluster.plugin.sign(pod) == ("example.com/fpga",)
    assert cluster.plugin.rests_on(pod, cluster.state.nodes) == ()
    assert cluster.plugin.sign(pod_with("c")) is None


@pytest.mark.feature("DynamicResources: allocations in flight")
def test_reserved_device_is_not_allocated_again():
    cluster = Devices([device_class(), on_n1("a"), claim("c", request()), claim("d", request())])
    pod = pod_with("c")
    cluster.reserve(pod)
    reserved = cluster.cycle
    assert cluster.gets(pod_with("d", name="q")) == NONE
    waits = cluster.ask(pod_with("c", name="q"))
    assert waits.message == "resource claim default/c is in the process of being allocated"
    cluster.plugin.unreserve(reserved, pod, "n1")
    assert cluster.gets(pod_with("d", name="q")) == "r=a"


@pytest.mark.feature("DynamicResources: allocations in flight")
def test_claim_that_a_pod_names_twice_keeps_its_first_allocation():
    cluster = Devices([device_class(), on_n1("a", "b"), claim("c", request()), claim("d", request())])
    pod = pod_with("c", "c")
    cluster.reserve(pod)
    reserved = cluster.cycle
    assert cluster.gets(pod_with("d", name="q")) == "r=b"
    cluster.plugin.unreserve(reserved, pod, "n1")
    assert cluster.gets(pod_with("d", name="q")) == "r=a"


@pytest.mark.feature("DynamicResources: first available")
def test_earlier_alternatives_score_higher():
    alternatives = first_available(request("x", 2), request("y", 1))
    nodes = [make_node(name) for name in ("n1", "n2")]
    slices = [on_n1("a", "b"), resource_slice("t", "a", node="n2")]
    cluster = Devices([*nodes, device_class(), *slices, claim("c", alternatives)])
    pod = pod_with("c")
    cluster.ask(pod)
    assert cluster.filter(pod, "n2") is None
    raw = cluster.plugin.score_nodes(cluster.cycle, pod, cluster.state.nodes)
    assert raw.tolist() == [8, 7]
    assert cluster.plugin.normalize_scores(cluster.cycle, pod, raw, cluster.state.nodes).tolist() == [100, 87]
    assert np.array_equal(cluster.plugin.score_nodes(type(cluster.cycle)(), pod, cluster.state.nodes), [0, 0])


@pytest.mark.feature("DynamicResources: first available")
def test_scores_with_an_allocated_claim_of_all_nodes_and_one_of_the_pod():
    """#139017"""
    fabric = resource_slice("fabric", "x", allNodes=True)
    shared = claim("shared", request(), status=allocated("x", pool="fabric", reserved=["other"]))
    own = claim("own", first_available(request("x", 2), request("y", 1)))
    gpus = [resource_slice("s1", "a", node="n1"), resource_slice("s2", "a", "b", node="n2")]
    cluster = Devices([make_node("n1"), make_node("n2"), device_class(), fabric, *gpus, shared, own])
    pod = pod_with("shared", "own")
    assert cluster.ask(pod, "n1") is None
    assert cluster.filter(pod, "n2") is None
    first, second = cluster.plugin.score_nodes(cluster.cycle, pod, cluster.state.nodes)
    assert 0 < first < second
    assert cluster.plugin.reserve(cluster.cycle, pod, "n2") is None


@pytest.mark.feature("DynamicResources: results")
def test_allocation_result():
    opaque = {"driver": DRIVER, "parameters": {"mode": "fast"}}
    classes = [device_class(config=[{"opaque": opaque}])]
    config = [{"requests": ["q"], "opaque": opaque}, {"opaque": opaque}]
    there = [resource_slice("s", "a", shared("b"), allNodes=True)]
    wanted = claim("c", request("r"), request("q", expression="device.allowMultipleAllocations"), config=config)
    cluster = Devices([*classes, *there, wanted])
    assert cluster.gets(pod_with("c")) == "r=a,q=b"
    (result,) = cluster.results(pod_with("c"))
    assert [(each.source, each.requests) for each in result.devices.config] == [
        ("FromClass", ["r", "q"]),
        ("FromClaim", ["q"]),
        ("FromClaim", None),
    ]
    assert result.nodeSelector is None
    assert result.devices.results[1].consumedCapacity == {"memory": "10Gi"}
    assert result.devices.results[0].shareID is None
    assert result.devices.results[1].shareID
    local = Devices([*classes, on_n1("a"), claim("c", request())])
    assert local.gets(pod_with("c")) == "r=a"
    (term,) = local.results(pod_with("c"))[0].nodeSelector.nodeSelectorTerms
    assert [(each.key, each.operator, each.values) for each in term.matchFields] == [("metadata.name", "In", ["n1"])]


@pytest.mark.feature("DynamicResources: extended resources")
@pytest.mark.parametrize(
    ("name", "offered", "expected"),
    [
        ("example.com/gpu", {}, "container-0-request-0=a,container-0-request-0=b"),
        ("deviceclass.resource.kubernetes.io/gpu", {}, "container-0-request-0=a,container-0-request-0=b"),
        ("example.com/gpu", {"example.com/gpu": "4"}, None),
    ],
)
def test_extended_resources(name, offered, expected):
    node = make_node("n1", resources=offered)
    cluster = Devices([node, device_class(extendedResourceName="example.com/gpu"), on_n1("a", "b")])
    pod = make_pod("p", resources={name: "2"})
    assert cluster.plugin.rests_on(pod, cluster.state.nodes) is None
    if expected is None:
        assert cluster.ask(pod) is None
        assert cluster.plugin.reserve(cluster.cycle, pod, "n1") is None
    else:
        assert cluster.gets(pod) == expected
        cluster.reserve(pod)
        assert cluster.gets(make_pod("q", resources={name: "1"})) == NONE


@pytest.mark.feature("DynamicResources: shared counters")
def test_pools_with_the_same_name_share_the_counters_of_the_first_node():
    def card(driver):
        return resource_slice(f"{driver}-c", pool="p", count=2, driver=driver, sharedCounters=[card_of("1")])

    def card_of(amount):
        return {"name": "card", "counters": {"memory": {"value": amount}}}

    def part(name):
        return device(name, consumesCounters=[{"counterSet": "card", "counters": {"memory": {"value": "1"}}}])

    slices = [
        resource_slice("s", part("a"), part("b"), node="n1", pool="p", count=2, driver="one.example.com"),
        resource_slice("t", part("c"), node="n2", pool="p", count=2, driver="two.example.com"),
    ]
    counters = [card("one.example.com"), card("two.example.com")]
    anything = device_class(expression="")
    nodes = [make_node("n1"), make_node("n2")]
    cluster = Devices([*nodes, anything, *slices, *counters, claim("c", request()), claim("d", request())])

    def rejected(pod):
        assert cluster.plugin.pre_filter(cluster.cycle, pod, cluster.state.nodes) is None
        return cluster.plugin.filter_nodes(cluster.cycle, pod, cluster.state.nodes).index.tolist()

    assert rejected(pod_with("c")) == [0, 0]
    assert cluster.plugin.reserve(cluster.cycle, pod_with("c"), "n1") is None
    assert all(rejected(pod_with("d", name="q"))), "n1 has no counters left, and its pool also counts for the other one"
