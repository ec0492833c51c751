"""DynamicResources: attributes that requests derive by CEL, with the gate DRADerivedAttributes."""

import pytest
from tests.support.tables import cases

from bayplan.core.devices.cel.derivations import Derivation
from bayplan.core.devices.cel.selectors import CompileError, DeviceFacts, RuntimeFailure
from bayplan.core.versions import gates_of
from bayplan.testing.builders import make_node
from devices import DRIVER, Devices, claim, device, device_class, first_available, pod_with, request
from devices import resource_slice as slice_of

pytestmark = pytest.mark.feature("DynamicResources: derived attributes")

ON = gates_of("1.37").but("DRADerivedAttributes")
WITH_LISTS = ON.but("DRAListTypeAttributes")
NONE = "cannot allocate all claims"
OTHER = "nic.example.com"
NO_VALUE = "must evaluate to a primitive scalar (string, integer, boolean, semver) or a list of these scalars"
NUMA = "derived/sharedNumaNode"
GPU_NUMA, NIC_NUMA = f"device.attributes['{DRIVER}'].numa", f"device.attributes['{OTHER}'].numaNode"


def deriving(expression, name=NUMA):
    return {"derivedAttributes": [{"name": name, "expression": expression}]}


def match(name=NUMA, *requests):
    return {"matchAttribute": name, **({"requests": list(requests)} if requests else {})}


GPUS = slice_of("gpus", device("a1", a_numa="numa-0"), device("a2", a_numa="numa-1"), node="n1")
NICS = slice_of("nics", device("b1", a_numaNode="numa-1"), device("b2", a_numaNode="numa-2"), node="n1", driver=OTHER)
CLASSES = [device_class(), device_class("nic", f"device.driver == '{OTHER}'")]


def gets(*objects, gates=ON):
    return Devices([make_node("n1"), *CLASSES, *objects], gates=gates).gets(pod_with("c"))


def gpu(expression, name=NUMA):
    return request("r", **deriving(expression, name))


def nic(expression):
    return request("s", class_name="nic", **deriving(expression))


@cases(
    "requests, constraints, expected",
    {
        "two drivers": ([gpu(GPU_NUMA), nic(NIC_NUMA)], [match(NUMA, "r", "s")], "r=a2,s=b1"),
        "one of them has the attribute": (
            [gpu(GPU_NUMA, f"{OTHER}/numaNode"), request("s", class_name="nic")],
            [match(f"{OTHER}/numaNode")],
            "r=a2,s=b1",
        ),
        "part of a text": (
            [gpu(f"{GPU_NUMA}.split('-')[0]"), nic(f"{NIC_NUMA}.split('-')[0]")],
            [match()],
            "r=a1,s=b1",
        ),
        "distinct": ([request("r", count=2, **deriving("'same'"))], [{"distinctAttribute": NUMA}], NONE),
        "distinct values": ([request("r", count=2, **deriving(GPU_NUMA))], [{"distinctAttribute": NUMA}], "r=a1,r=a2"),
        "no constraint for the request": ([gpu("device.attributes['x'].y"), nic("1")], [match(NUMA, "s")], "r=a1,s=b1"),
        "a request without it": ([gpu("1"), request("s", class_name="nic")], [match()], NONE),
        "an alternative": (
            [first_available(request("x", **deriving("'numa-9'")), request("y", **deriving(GPU_NUMA))), nic(NIC_NUMA)],
            [match(NUMA, "r", "s")],
            "r/y=a2,s=b1",
        ),
        "other types": ([gpu("1"), nic("'1'")], [match()], NONE),
        "an attribute that isn't there": (
            [gpu("device.attributes['x'].y")],
            [match()],
            f"evaluate derived attribute {NUMA} on device {DRIVER}/n1/a1 failed: no such key: y",
        ),
        "no such syntax": ([gpu("device.")], [match()], f"compile derived attribute {NUMA} failed: compilation failed"),
        "a map": (
            [gpu("{'a': 1}")],
            [match()],
            f"compile derived attribute {NUMA} failed: {NO_VALUE}, not map(string, int)",
        ),
    },
)
def test_constraints_on_derived_attributes(requests, constraints, expected):
    found = gets(GPUS, NICS, claim("c", *requests, constraints=constraints))
    assert found.startswith(expected) if "failed" in expected else found == expected


def test_a_derived_attribute_hides_that_of_the_device():
    shadowed = request("r", count=2, **deriving("'same'", f"{DRIVER}/numa"))
    wanted = [match(f"{DRIVER}/numa")]
    assert gets(GPUS, claim("c", shadowed, constraints=wanted)) == "r=a1,r=a2"
    assert gets(GPUS, claim("c", request("r", count=2), constraints=wanted)) == NONE


def test_selectors_do_not_see_derived_attributes():
    wanted = request("r", expression="has(device.attributes['derived'].sharedNumaNode)", **deriving("1"))
    assert gets(GPUS, claim("c", wanted, constraints=[match()])) == NONE


@cases("gates, expected", {"with lists": (WITH_LISTS, "r=a1,s=b1"), "without": (ON, NONE)})
def test_derived_lists(gates, expected):
    requests = [
        request("r", **deriving(f"[string({GPU_NUMA}), 'numa-1']")),
        request("s", class_name="nic", **deriving(f"[{NIC_NUMA}]")),
    ]
    assert gets(GPUS, NICS, claim("c", *requests, constraints=[match()]), gates=gates) == expected


FACTS = DeviceFacts.of(
    "d.org", False, {"int": {"int": 3}, "list": {"strings": ["a"]}, "v": {"version": "1.2.3-a+b"}}, {}
)
HERE = "device.attributes['d.org']"


@cases(
    "expression, expected",
    {
        "an int": (f"{HERE}.int + 1", {"int": 4}),
        "a bool": (f"{HERE}.int > 1", {"bool": True}),
        "a text": ("device.driver", {"string": "d.org"}),
        "a version": (f"{HERE}.v", {"version": "1.2.3-a+b"}),
        "a list of the device": (f"{HERE}.list", {"strings": ["a"]}),
        "ints": ("[1, 2]", {"ints": [1, 2]}),
        "bools": ("[true]", {"bools": [True]}),
        "versions": (f"[{HERE}.v, dyn(semver('1.0.0'))]", {"versions": ["1.2.3-a+b", "1.0.0"]}),
        "nothing": ("[].filter(x, true).map(x, string(x))", {"strings": []}),
        "a double": ("dyn(1.5)", "unsupported CEL return type: float64"),
        "an unsigned int": ("dyn(1u)", "unsupported CEL return type: uint64"),
        "a list of doubles": ("[dyn(1.5)]", "unsupported list element type: float64"),
        "other types in a list": ("[dyn(1), dyn('a')]", "expected list element at index 1 to be int, got string"),
        "a missing attribute": (f"{HERE}.other", "no such key: other"),
    },
)
def test_derived_values(expression, expected):
    derivation = Derivation(expression, lists=True)
    if isinstance(expected, dict):
        assert derivation.result(FACTS) == expected
    else:
        with pytest.raises(RuntimeFailure, match=f"^{expected}$"):
            derivation.result(FACTS)


@cases(
    "expression, lists, problem",
    {
        "a double": ("1.5", True, "or a list of these scalars, not double"),
        "a list of doubles": ("[1.5]", True, "or a list of these scalars, not list(double)"),
        "a list without the gate": ("[1]", False, "(string, integer, boolean, semver), not list(int)"),
        "a quantity": ("quantity('1')", True, "not kubernetes.Quantity"),
    },
)
def test_types_of_derived_values(expression, lists, problem):
    with pytest.raises(CompileError) as error:
        Derivation(expression, lists=lists)
    assert str(error.value).endswith(problem)
