"""DynamicResources: compatibility groups of devices, with the gate DRADeviceCompatibilityGroups."""

import pytest
from lightkube.resources.resource_v1 import ResourceSlice
from tests.support.tables import cases

from bayplan.core.api.objects import convert
from bayplan.core.devices.slices import Slice
from bayplan.core.plugins.dynamic_resources.compatibility import JoinedGroups
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_node
from devices import Devices, allocated, claim, device, device_class, first_available, pod_with, request
from devices import resource_slice as slice_of

pytestmark = pytest.mark.feature("DynamicResources: compatibility groups")

ON = gates_of("1.37").but("DRADeviceCompatibilityGroups")
NONE = "cannot allocate all claims"
FOO, BAR, BAZ = ["foo", "foobar"], ["bar", "foobar"], ["baz"]
MIG, VGPU = ["mig"], ["vgpu"]
TAINTED = {"taints": [{"key": "broken", "effect": "NoSchedule"}]}


def part(name, *groups, memory="1", sets=("card",), **fields):
    """A device that consumes counters, with its groups for each counter set."""
    consumed = [
        {
            "counterSet": each,
            "counters": {"memory": {"value": memory}},
            **({"compatibilityGroups": of_set} if of_set is not None else {}),
        }
        for each, of_set in zip(sets, groups or [None] * len(sets), strict=True)
    ]
    return device(name, consumesCounters=consumed, **fields)


def card(*parts, sets=("card",), memory="9", pool="p"):
    counters = [{"name": each, "counters": {"memory": {"value": memory}}} for each in sets]
    yield slice_of(f"{pool}-counters", node="n1", pool=pool, count=2, sharedCounters=counters)
    yield slice_of(f"{pool}-devices", *parts, node="n1", pool=pool, count=2)


def gets(*objects, wanted, gates=ON):
    cluster = Devices([make_node("n1"), device_class(), *objects, *wanted], gates=gates)
    return cluster.gets(pod_with(*(each["metadata"]["name"] for each in wanted)))


def member(groups):
    (found,) = Slice(convert(ResourceSlice, slice_of("s", part("a", groups)))).devices
    return found


@cases(
    "members, candidate, admitted",
    {
        "no members, a group": ([], MIG, True),
        "no members, no groups": ([], None, True),
        "members without groups, no groups": ([None], None, True),
        "members without groups, a group": ([None], MIG, False),
        "members with a group, no groups": ([MIG], None, False),
        "the same group": ([MIG], MIG, True),
        "another group": ([MIG], VGPU, False),
        "one group in common": ([FOO], BAR, True),
        "none in common": ([FOO], BAZ, False),
        "an empty list is no groups": ([None], [], True),
        "fewer in common with each member": ([FOO, BAR], BAZ, False),
        "the one that is left in common": ([FOO, BAR], ["qux", "foobar"], True),
        "one that isn't common to all any more": ([FOO, BAR], ["foo"], False),
        "many without groups": ([None, None, None], None, True),
        "many without groups, a group": ([None, None, None], MIG, False),
        "members that don't go together": ([MIG, VGPU], MIG, False),
        "members that don't go together, no groups": ([MIG, VGPU], None, False),
    },
)
def test_a_device_joins_those_with_which_it_has_a_group_in_common(members, candidate, admitted):
    joined = JoinedGroups()
    for each in members:
        joined.add(member(each))
    assert joined.admit(member(candidate)) is admitted


@cases(
    "parts, taken, requests, expected",
    {
        "the same group": ([part("a", MIG), part("b", MIG)], ["a"], [request()], "r=b"),
        "another group": ([part("a", MIG), part("b", VGPU)], ["a"], [request()], NONE),
        "one that is allocated has no groups": ([part("a"), part("b", MIG), part("c")], ["a"], [request()], "r=c"),
        "a group in common with two": ([part("a", FOO), part("b", BAR), part("c", BAZ)], ["a"], [request()], "r=b"),
        "two of one claim": ([part("a", MIG), part("b", VGPU), part("c", MIG)], [], [request(count=2)], "r=a,r=c"),
        "two requests": ([part("a", MIG), part("b", VGPU), part("c", MIG)], [], [request(), request("s")], "r=a,s=c"),
        "the first one is given back": (
            [part("a", MIG), part("b", VGPU), part("c", VGPU)],
            [],
            [request(count=2)],
            "r=b,r=c",
        ),
        "a tainted one is given back": ([part("a", MIG, **TAINTED), part("b", VGPU)], [], [request()], "r=b"),
        "one with too few counters": ([part("a", MIG, memory="10"), part("b", VGPU)], [], [request()], "r=b"),
        "none of three go together": ([part("a", MIG), part("b", VGPU), part("c")], [], [request(count=2)], NONE),
        "all devices": ([part("a", MIG), part("b", VGPU)], [], [request(mode="All")], NONE),
        "an alternative": (
            [part("a", MIG), part("b", VGPU)],
            [],
            [first_available(request("two", count=2), request("one"))],
            "r/one=a",
        ),
        "a further share": (
            [part("a", MIG, allowMultipleAllocations=True)],
            [{"device": "a", "shareID": "s"}],
            [request()],
            "r=a",
        ),
        "admin access": ([part("a", MIG), part("b", VGPU)], ["a"], [request(adminAccess=True)], "r=a"),
    },
)  # fmt: skip
def test_devices_of_a_counter_set_have_a_group_in_common(parts, taken, requests, expected):
    others = [claim("d", request(), status=allocated(*taken, pool="p"))] if taken else []
    assert gets(*card(*parts), *others, wanted=[claim("c", *requests)]) == expected


@cases(
    "first, second, expected",
    {
        "other counter sets": (part("a", MIG, sets=("x",)), part("b", VGPU, sets=("y",)), "r=a,r=b"),
        "one set in common": (part("a", MIG, VGPU, sets=("x", "y")), part("b", VGPU, sets=("y",)), "r=a,r=b"),
        "another group in one of two sets": (
            part("a", MIG, VGPU, sets=("x", "y")),
            part("b", MIG, MIG, sets=("x", "y")),
            NONE,
        ),
    },
)
def test_groups_of_each_counter_set(first, second, expected):
    there = card(first, second, sets=("x", "y"))
    assert gets(*there, wanted=[claim("c", request(count=2))]) == expected


def test_pools_have_groups_of_their_own():
    there = [*card(part("a", MIG), pool="p"), *card(part("b", VGPU), pool="q")]
    assert gets(*there, wanted=[claim("c", request(count=2))]) == "r=a,r=b"


def test_two_claims_of_a_pod_go_together():
    there = [*card(part("a", MIG), part("b", VGPU), part("d", MIG))]
    assert gets(*there, wanted=[claim("c", request()), claim("e", request())]) == "r=a r=d"


def test_groups_count_again_when_a_claim_ends():
    objects = [make_node("n1"), device_class(), *card(part("a", MIG), part("b", VGPU))]
    cluster = Devices([*objects, claim("c", request()), claim("d", request())], gates=ON)
    cluster.reserve(pod_with("c"))
    cycle = cluster.cycle
    assert cluster.gets(pod_with("d", name="q")) == NONE
    cluster.plugin.unreserve(cycle, pod_with("c"), "n1")
    assert cluster.gets(pod_with("d", name="q")) == "r=a"
