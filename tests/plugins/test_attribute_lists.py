"""DynamicResources: constraints on attributes that have several values, with the gate DRAListTypeAttributes."""

from dataclasses import replace

import pytest
from lightkube.models.resource_v1 import DeviceConstraint
from lightkube.resources.resource_v1 import ResourceSlice
from tests.support.tables import cases

from bayplan.core.api.objects import convert
from bayplan.core.devices.slices import Slice
from bayplan.core.plugins.dynamic_resources.rules import SearchRules
from bayplan.core.plugins.dynamic_resources.value_sets import constraint_of
from bayplan.core.versions import DEFAULT_GATES, gates_of
from bayplan.testing import make_cluster, make_node
from devices import DRIVER, claim, device, device_class, pod_with, request, resource_slice

pytestmark = pytest.mark.feature("DynamicResources: lists in attributes")

IN_1_36 = DEFAULT_GATES.but("DRAListTypeAttributes")
ON = gates_of("1.37").but("DRAListTypeAttributes")
NAME = f"{DRIVER}/a"
CANNOT = "cannot allocate all claims"


def ints(*values):
    return {"ints": list(values)}


def of(kind, attribute=NAME, **fields):
    return {f"{kind}Attribute": attribute, **fields}


def gets(devices, count=1, requests=None, constraints=(), gates=ON, expression=""):
    """The names of the devices that a claim gets, in order, or the messages of the rejection."""
    cluster = make_cluster(
        make_node("n1"),
        resource_slice("s", *devices, node="n1"),
        device_class(expression=expression),
        claim("c", *(requests or [request(count=count)]), constraints=constraints),
        gates=gates,
    )
    pod = pod_with("c")
    decision = cluster.decide(pod)
    if decision.node is None:
        return decision.message
    plugin = next(each for each in cluster.profile.every() if each.name == "DynamicResources")
    (result,) = plugin.offered(decision.cycle.data["DynamicResources"], pod, decision.node).results
    return " ".join(each.device for each in result.devices.results)


def devices(**attributes):
    return [device(name, a_a=value) for name, value in attributes.items()]


@cases(
    "attributes, count, expected",
    {
        "one value in common": ({"x": ints(1, 2), "y": ints(2, 3)}, 2, "x y"),
        "none in common": ({"x": ints(1, 2), "y": ints(3)}, 2, None),
        "a value and a list": ({"x": {"int": 2}, "y": ints(2, 3)}, 2, "x y"),
        "a list and a value": ({"x": ints(2, 3), "y": {"int": 2}}, 2, "x y"),
        "pairs in common, but not all": ({"x": ints(1, 2), "y": ints(2, 3), "z": ints(3, 1)}, 3, None),
        "all in common": ({"x": ints(1, 2), "y": ints(2, 3), "z": ints(4, 2)}, 3, "x y z"),
        "the next that fits": ({"x": ints(1, 2), "y": ints(3), "z": ints(2)}, 2, "x z"),
        "texts": ({"x": {"strings": ["a", "b"]}, "y": {"strings": ["b"]}}, 2, "x y"),
        "bools": ({"x": {"bools": [True]}, "y": {"bools": [False, True]}}, 2, "x y"),
        "versions": ({"x": {"versions": ["1.0.0"]}, "y": {"version": "1.0.0"}}, 2, "x y"),
        "versions are texts": ({"x": {"versions": ["1.0.0"]}, "y": {"version": "1.0.0+a"}}, 2, None),
        "other types": ({"x": ints(1), "y": {"bools": [True]}, "z": {"strings": ["1"]}}, 2, None),
        "an unknown type": ({"x": {"odd": 1}, "y": ints(1), "z": ints(1)}, 2, "y z"),
    },
)
def test_matching_devices_have_a_value_in_common(attributes, count, expected):
    found = gets(devices(**attributes), count, constraints=[of("match")])
    assert found == expected if expected else CANNOT in found


@cases(
    "attributes, expected",
    {
        "disjoint": ({"x": ints(1, 2), "y": ints(3)}, "x y"),
        "one value in common": ({"x": ints(1, 2), "y": ints(2, 3)}, None),
        "a value of a list": ({"x": {"int": 1}, "y": ints(1, 2)}, None),
        "the next that fits": ({"x": ints(1, 2), "y": ints(2), "z": ints(3)}, "x z"),
        "other types": ({"x": ints(1), "y": {"bools": [True]}}, "x y"),
        "a first of an unknown type": ({"x": {"odd": 1}, "y": ints(1)}, None),
        "a second of an unknown type": ({"x": ints(1), "y": {"odd": 1}}, None),
    },
)
def test_distinct_devices_have_no_value_in_common(attributes, expected):
    requests = [request("r1"), request("r2")]
    found = gets(devices(**attributes), requests=requests, constraints=[of("distinct")])
    assert found == expected if expected else CANNOT in found


def test_values_that_a_given_back_device_ruled_out_are_common_again():
    found = gets(devices(x=ints(1, 2), y=ints(1), z=ints(2), c=ints(2)), 3, constraints=[of("match")])
    assert found == "x z c"


@cases(
    "kind, attributes, expected",
    {
        "lists with a value in common": ("match", {"x": ints(1, 2), "y": ints(2, 3)}, None),
        "a value and a list": ("match", {"x": {"int": 2}, "y": ints(2, 3), "z": {"int": 2}}, "x z"),
        "disjoint lists": ("distinct", {"x": ints(1), "y": ints(2)}, None),
        "a list first": ("distinct", {"x": ints(1), "y": {"int": 1}}, "x y"),
        "a list second": ("distinct", {"x": {"int": 1}, "y": ints(2)}, "y x"),
    },
)
def test_lists_are_unknown_values_in_1_36(kind, attributes, expected):
    requests = [request("r1"), request("r2")]
    found = gets(devices(**attributes), requests=requests, constraints=[of(kind)], gates=IN_1_36)
    assert found == expected if expected else CANNOT in found


@cases(
    "lists, kind, given, expected",
    {
        "match": (True, "match", [ints(1, 2), ints(2, 3), ints(3), ints(2)], [True, True, False, True]),
        "distinct": (True, "distinct", [ints(1, 2), ints(2, 3), ints(3), ints(4)], [True, False, True, True]),
        "match without the gate": (False, "match", [ints(1), ints(1), {"int": 1}], [True, False, False]),
        "distinct without the gate": (False, "distinct", [ints(1), ints(1), {"int": 1}], [True, False, True]),
    },
)
def test_devices_are_added_one_by_one(lists, kind, given, expected):
    document = resource_slice("s", *(device(f"d{index}", a_a=value) for index, value in enumerate(given)), node="n1")
    added = constraint_of(convert(DeviceConstraint, of(kind)), replace(SearchRules.of(ON), lists=lists))
    found = Slice(convert(ResourceSlice, document)).devices
    assert [added.add(f"r{index}", "", each) for index, each in enumerate(found)] == expected


@cases(
    "expression, gates, expected",
    {
        "with the gate": ("device.attributes['gpu.example.com'].a.includes(2)", IN_1_36, "y"),
        "without the gate": (
            "device.attributes['gpu.example.com'].a.includes(2)",
            DEFAULT_GATES,
            "class gpu: selector #0: CEL runtime error: attribute a: unsupported attribute value",
        ),
        "a loop without the gate": (
            "device.attributes['gpu.example.com'].a.exists(x, x == 2)",
            DEFAULT_GATES,
            "class gpu: selector #0: CEL compile error: compilation failed",
        ),
    },
)
def test_selectors_read_lists_only_with_the_gate(expression, gates, expected):
    assert expected in gets(devices(x=ints(1), y=ints(2, 3)), gates=gates, expression=expression)


def test_a_claim_without_constraints_gets_devices_with_lists_without_the_gate():
    assert gets(devices(x=ints(1)), gates=DEFAULT_GATES) == "x"


@cases(
    "gates, shown", {"on": (ON, "x has 1, 2, y has 3"), "1.36": (IN_1_36, "x and y have a list, which isn't compared")}
)
def test_values_of_lists_are_explained(gates, shown):
    cluster = make_cluster(
        make_node("n1"),
        resource_slice("s", *devices(x=ints(2, 1), y=ints(3)), node="n1"),
        device_class(expression=""),
        claim("c", request(count=2), constraints=[of("match")]),
        gates=gates,
    )
    decision = cluster.decide(pod_with("c"))
    plugin = next(each for each in cluster.profile.every() if each.name == "DynamicResources")
    text = plugin.explain(decision.cycle, pod_with("c"), cluster.state.nodes.info(0)).text
    assert f"the devices don't meet the constraint matchAttribute {NAME}: {shown}" in text
