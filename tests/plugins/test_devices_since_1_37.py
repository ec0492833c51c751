"""DynamicResources: how devices are allocated differently since 1.37."""

import re
from dataclasses import replace

import pytest
from tests.support.tables import cases

from bayplan.core.api import quantity
from bayplan.core.plugins.dynamic_resources.capacity import UncountableAmount, consumption, fits
from bayplan.core.plugins.dynamic_resources.rules import SearchRules
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_node
from devices import DRIVER, Devices, allocated, claim, device, device_class, first_available, pod_with, request
from devices import resource_slice as slice_of

pytestmark = pytest.mark.feature("DynamicResources: changes since 1.37")

OLD, NEW = gates_of("1.36"), gates_of("1.37")
NONE = "cannot allocate all claims"
OTHER = "nic.example.com"


def gets(gates, *objects, claims=("c",)):
    """The devices of the claims on a node, or the message of the rejection."""
    return Devices([make_node("n1"), device_class(expression=""), *objects], gates=gates).gets(pod_with(*claims))


def card(*parts, driver=DRIVER, memory="2", pool="p"):
    """A pool whose devices share a counter."""
    counters = [{"name": "card", "counters": {"memory": {"value": memory}}}]
    more = {"pool": pool, "count": 2, "driver": driver}
    yield slice_of(f"{driver}-{pool}-counters", node="n1", sharedCounters=counters, **more)
    yield slice_of(f"{driver}-{pool}-devices", *parts, node="n1", **more)


def part(name, memory="1", groups=None, **fields):
    consumed = {"counterSet": "card", "counters": {"memory": {"value": memory}}}
    if groups is not None:
        consumed["compatibilityGroups"] = groups
    return device(name, consumesCounters=[consumed], **fields)


TAINTED = {"taints": [{"key": "broken", "effect": "NoSchedule"}]}
IS_TWO = f"device.attributes['{DRIVER}'].x == 2"
SHARED = {"allowMultipleAllocations": True}


@cases(
    "parts, requests, constraints, old, new",
    {
        "a taint": ([part("a", **TAINTED), part("b", "2")], [request()], [], NONE, "r=b"),
        "a constraint": (
            [part("a", a_x=1), part("b", a_x=2), part("c", a_x=1)],
            [request(count=2)],
            [{"matchAttribute": f"{DRIVER}/x"}],
            NONE,
            "r=a,r=c",
        ),
        "a share that was tried": (
            [part("a", "2", **SHARED, a_x=1), part("b", "2", a_x=2)],
            [first_available(request("two", count=3), request("one", expression=IS_TWO))],
            [],
            NONE,
            "r/one=b",
        ),
        "enough for both": ([part("a", **TAINTED), part("b")], [request()], [], "r=b", "r=b"),
    },
)  # fmt: skip
def test_rejected_candidates_give_back_their_counters(parts, requests, constraints, old, new):
    there = [*card(*parts), claim("c", *requests, constraints=constraints)]
    assert (gets(OLD, *there), gets(NEW, *there)) == (old, new)


@pytest.mark.parametrize(("gates", "expected"), [(OLD, NONE), (NEW, "r=a")], ids=["1.36", "1.37"])
def test_second_share_without_consumed_capacity(gates, expected):
    shares = claim("d", request(), status=allocated({"device": "a", "shareID": "s"}, pool="p"))
    there = [*card(part("a", "2", **SHARED)), shares, claim("c", request())]
    assert gets(gates, *there) == expected


@cases(
    "amounts, old, new",
    {"the second has more": (("1", "2"), NONE, "r=a s=b"), "the second has less": (("3", "1"), "r=a s=b", NONE)},
)
def test_pools_of_two_drivers_with_the_same_name(amounts, old, new):
    first = card(part("a"), driver=DRIVER, memory=amounts[0])
    second = card(part("b", "2"), driver=OTHER, memory=amounts[1])
    of_driver = [request(name, expression=f"device.driver == '{each}'") for name, each in (("r", DRIVER), ("s", OTHER))]
    there = [*first, *second, claim("c", of_driver[0]), claim("d", of_driver[1])]
    assert (gets(OLD, *there, claims=["c", "d"]), gets(NEW, *there, claims=["c", "d"])) == (old, new)


@cases(
    "values, requests, old, new",
    {
        "two devices of one request": ([1, 1, 2], [request(count=2)], "r=a,r=c", "r=a,r=c"),
        "the first and the third of one request": ([1, 2, 1], [request(count=3)], "r=a,r=b,r=c", NONE),
        "the next that differs from all": ([1, 2, 1, 3], [request(count=3)], "r=a,r=b,r=c", "r=a,r=b,r=d"),
        "the first of two, and another request": ([1, 2, 1], [request(count=2), request("s")], "r=a,r=b,s=c", NONE),
        "two requests": ([1, 1, 2], [request(), request("s")], "r=a,s=c", "r=a,s=c"),
        "given back": ([1, 2, 2, 3], [request(count=2), request("s")], "r=a,r=b,s=d", "r=a,r=b,s=d"),
    },
)
def test_distinct_devices(values, requests, old, new):
    devices = [device(name, a_x=value) for name, value in zip("abcd", values, strict=False)]
    wanted = claim("c", *requests, constraints=[{"distinctAttribute": f"{DRIVER}/x"}])
    there = [slice_of("s", *devices, node="n1"), wanted]
    assert (gets(OLD, *there), gets(NEW, *there)) == (old, new)


def capacity(amount):
    return {"capacity": {"requests": {"share": amount}}}


@cases(
    "consumed, requested, old, new",
    {
        "one of two is used up": ("1", "1", "r=b", NONE),
        "none is": ("0", "1", "r=a,r=b", "r=a,r=b"),
        "all are too small": ("0", "2", NONE, NONE),
    },
)
def test_all_devices(consumed, requested, old, new):
    share = {"device": "a", "shareID": "s", "consumedCapacity": {"share": consumed}}
    devices = [device(each, {"share": "1"}, **SHARED) for each in "ab"]
    wanted = claim("c", request(mode="All", **capacity(requested)))
    there = [slice_of("s", *devices, node="n1"), claim("d", request(), status=allocated(share)), wanted]
    assert (gets(OLD, *there), gets(NEW, *there)) == (old, new)


@pytest.mark.parametrize("gates", [OLD, NEW], ids=["1.36", "1.37"])
def test_all_devices_with_a_constraint_if_another_claim_can_have_one_of_them(gates):
    """The devices a and c are the same, but not for the second claim: only after a and b is there an error."""
    devices = [device(name, a_x=value) for name, value in (("a", 1), ("b", 2), ("c", 1))]
    everything = claim("d", request(mode="All"), constraints=[{"matchAttribute": f"{DRIVER}/x"}])
    found = gets(gates, slice_of("s", *devices, node="n1"), claim("c", request()), everything, claims=["c", "d"])
    where = f"claim default/d, request r: cannot add device {DRIVER}/n1/b"
    assert found == f"{where} because a claim constraint would not be satisfied"


DUPLICATE = [{"name": "card", "counters": {"memory": {"value": "1"}}}] * 2
UPDATED = f"claim default/c, request r: asks for all devices, but resource pool {DRIVER}/q is currently being updated"
INVALID = "invalid resource pools were encountered"


@cases(
    "counters, wanted, old, new",
    {
        "incomplete, elsewhere": ({"node": "n2", "count": 3}, request(mode="All"), UPDATED, "r=a"),
        "incomplete, here": ({"node": "n1", "count": 3}, request(mode="All"), UPDATED, UPDATED),
        "incomplete, everywhere": ({"allNodes": True, "count": 3}, request(mode="All"), UPDATED, UPDATED),
        "invalid, elsewhere": ({"node": "n2", "sharedCounters": DUPLICATE}, request(count=2), INVALID, NONE),
        "invalid, everywhere": ({"allNodes": True, "sharedCounters": DUPLICATE}, request(count=2), INVALID, INVALID),
        "valid, everywhere": ({"allNodes": True}, request(mode="All"), "r=a", "r=a"),
    },
)
def test_pools_of_which_a_node_has_no_device(counters, wanted, old, new):
    """#138917"""
    of_q = slice_of("q", **{"pool": "q", "sharedCounters": DUPLICATE[:1], **counters})
    there = [slice_of("s", "a", node="n1"), of_q, claim("c", wanted)]
    assert (gets(OLD, *there), gets(NEW, *there)) == (old, new)


def test_counters_of_a_pool_count_wherever_their_slice_is():
    counters = slice_of("c", node="n2", pool="p", count=2, sharedCounters=DUPLICATE[:1])
    there = [counters, slice_of("s", part("a", "2"), part("b"), node="n1", pool="p", count=2), claim("c", request())]
    assert (gets(OLD, *there), gets(NEW, *there)) == ("r=b", "r=b")


def config(*requests):
    return {"requests": list(requests), "opaque": {"driver": DRIVER, "parameters": {}}}


@cases(
    "requests, of_claim, of_class, old, new",
    {
        "all requests": ([request(), request("s")], config("r", "s"), None, [["r", "s"]] * 2, [None]),
        "one of two": ([request(), request("s")], config("s"), None, [["s"]], [["s"]]),
        "two of three": (
            [request(), request("s"), request("t")],
            config("r", "t"),
            None,
            [["r", "t"]] * 2,
            [["r", "t"]],
        ),
        "no names": ([request(), request("s")], config(), None, [None], [None]),
        "of the class": ([request(), request("s")], None, config(), [["r", "s"]], [None]),
        "of the class, for one": ([request(), request("s", class_name="any")], None, config(), [["r"]], [["r"]]),
        "an alternative": ([first_available(request("a"))], config("r/a"), None, [["r/a"]], [None]),
        "two alternatives of one request": (
            [first_available(request("a"), request("b")), request("s")],
            config("r/a", "r/b"),
            None,
            [["r/a", "r/b"]],
            [["r/a", "r/b"]],
        ),
    },
)
def test_configurations(requests, of_claim, of_class, old, new):
    """#139731, #139732"""
    classes = [device_class(config=[{"opaque": of_class["opaque"]}] if of_class else []), device_class("any")]
    wanted = claim("c", *requests, config=[of_claim] if of_claim else [])
    for gates, expected in ((OLD, old), (NEW, new)):
        there = [make_node("n1"), *classes, slice_of("s", "a", "b", "d", node="n1"), wanted]
        cluster, pod = Devices(there, gates=gates), pod_with("c")
        cluster.ask(pod)
        (result,) = cluster.results(pod)
        assert [each.requests or None for each in result.devices.config or ()] == expected


RANGE = "capacity request cannot be represented in the device's range arithmetic"
TOO_LARGE = "18446744073709551619"
MOST = str(quantity.LARGEST)


def ranged(value, **valid):
    return {"value": value, "requestPolicy": {"default": valid["min"], "validRange": valid}}


@cases(
    "requested, spec, fractions, expected",
    {
        "above 64 bits in thousandths": (
            TOO_LARGE,
            ranged(TOO_LARGE, min="0", step="3"),
            True,
            f"{RANGE}: request {TOO_LARGE} is not a representable milli value",
        ),
        "above 64 bits": (
            TOO_LARGE,
            ranged(TOO_LARGE, min="0", step="3"),
            False,
            f"{RANGE}: request {TOO_LARGE} exceeds MaxInt64",
        ),
        "rounded above 64 bits": (
            MOST,
            ranged("9223372036854775808", min="0", step="2"),
            False,
            f"{RANGE}: rounding request {MOST} up to the next step passes MaxInt64",
        ),
        "rounded to 64 bits": ("9223372036854775806", ranged(MOST, min="1", step="2"), False, MOST),
        "default of a range": (None, ranged("2", min="1"), False, "1"),
        "default of values": (
            None,
            {"value": "2", "requestPolicy": {"default": "1", "validValues": ["1"]}},
            False,
            "1",
        ),
        "everything": (None, {"value": "1"}, False, "1"),
        "more than the least": ("2", ranged("2", min="1"), False, "2"),
        "less than the least": ("1", ranged("2", min="2"), False, "2"),
        "rounded up": ("2", ranged("3", min="1", step="2"), False, "3"),
        "in steps": ("2", ranged("2", min="1", step="1"), False, "2"),
        "fractions": ("250m", ranged("1", min="200m", max="1", step="100m"), True, "300m"),
        "fractions without the gate": ("250m", ranged("1", min="200m", max="1", step="100m"), False, "1"),
        "a finer request": (
            "250u",
            ranged("1", min="0", step="100m"),
            True,
            f"{RANGE}: request 250u is not a representable milli value",
        ),
        "a finer range": ("1500m", ranged("9", min="100u", step="1"), True, "2"),
        "whole numbers in thousandths": ("2500m", ranged("9", min="1", step="1"), True, "3"),
    },
)
def test_amounts_that_can_not_be_computed_with(requested, spec, fractions, expected):
    """#140442, #140161"""
    rules = replace(SearchRules.of(NEW), fractions=fractions)
    if expected.startswith(RANGE):
        with pytest.raises(UncountableAmount, match=re.escape(expected)):
            consumption(requested, spec, rules)
    else:
        assert consumption(requested, spec, rules) == quantity.parse(expected)


@cases(
    "amount, spec, fractions, expected",
    {
        "no policy": ("1", {"value": "2"}, False, True),
        "below the most": ("1", ranged("9", min="1", max="2"), False, True),
        "above the most": ("2", ranged("9", min="1", max="1"), False, False),
        "one of the values": ("1", {"value": "9", "requestPolicy": {"validValues": ["1"]}}, False, True),
        "none of the values": ("2", {"value": "9", "requestPolicy": {"validValues": ["1"]}}, False, False),
        "a step of a fraction": ("300m", ranged("1", min="200m", max="1", step="100m"), True, True),
        "above all steps": ("950m", ranged("1", min="200m", max="920m", step="100m"), True, False),
    },
)
def test_amounts_that_fit(amount, spec, fractions, expected):
    rules = replace(SearchRules.of(NEW), fractions=fractions)
    assert fits({"share": amount}, {"share": spec}, {}, {}, rules) is expected


@cases(
    "requested, problem",
    {
        "negative": ({"a": "-1", "b": "1"}, 'capacity "a": capacity value is negative'),
        "after one that doesn't fit": ({"a": "2", "b": MOST}, f'capacity "b": {RANGE}'),
    },
)
def test_amounts_that_no_device_can_have(requested, problem):
    spec = {"a": {"value": "1"}, "b": ranged("9223372036854775808", min="0", step="2")}
    with pytest.raises(UncountableAmount, match=re.escape(problem)):
        fits(requested, spec, {}, {}, SearchRules.of(NEW))


def test_a_claim_for_an_amount_that_can_not_be_computed_with_fails():
    devices = [
        device("a", {"share": ranged(TOO_LARGE, min="0", step="3")}, **SHARED),
        device("b", {"share": TOO_LARGE}),
    ]
    there = [slice_of("s", *devices, node="n1"), claim("c", request(**capacity(TOO_LARGE)))]
    problem = f'capacity "share": {RANGE}: request {TOO_LARGE} is not a representable milli value'
    assert gets(NEW, *there) == f"claim default/c, request r: checking capacity for device {DRIVER}/n1/a: {problem}"
    everything = claim("c", request(mode="All", **capacity(TOO_LARGE)))
    assert gets(NEW, there[0], everything) == f"claim default/c, request r: checking capacity for device a: {problem}"


def test_selectors_read_lists_without_the_gate():
    """#139395"""
    devices = [device("a", a_x={"ints": [1]}), device("b", a_x={"ints": [2, 3]})]
    for expression in (
        f"device.attributes['{DRIVER}'].x.includes(3)",
        f"device.attributes['{DRIVER}'].x.exists(x, x > 2)",
    ):
        there = [slice_of("s", *devices, node="n1"), claim("c", request(expression=expression))]
        assert gets(NEW, *there) == "r=b"
        assert gets(OLD, *there).startswith("claim default/c: selector #0: CEL")


@cases(
    "parts, taken, derived, expected",
    {
        "a device with groups": ([part("a", groups=["mig"]), part("b")], [], {}, "r=b"),
        "an empty list": ([part("a", groups=[])], [], {}, "r=a"),
        "counters of an allocated device with groups": ([part("a"), part("b", groups=["mig"])], ["b"], {}, NONE),
        "counters of one without groups": ([part("a"), part("b")], ["b"], {}, "r=a"),
        "derived attributes": (
            [part("a")],
            [],
            {"derivedAttributes": [{"name": "derived/x", "expression": "1"}]},
            "claim default/c, request r: cannot handle request with derived attributes, the feature is disabled",
        ),
    },
)
def test_fields_of_disabled_gates(parts, taken, derived, expected):
    others = [claim(f"of-{each}", request(), status=allocated(each, pool="p")) for each in taken]
    there = [*card(*parts), *others, claim("c", request(**derived))]
    assert gets(NEW, *there) == expected
    free = next(each["name"] for each in parts if each["name"] not in taken)
    assert gets(OLD, *there) == f"r={free}"
