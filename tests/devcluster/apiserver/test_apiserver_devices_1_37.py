"""Fields of devices and of requests for them that 1.37 adds, in the embedded API server, with and without gates."""

import pytest
from tests.support.tables import cases

from bayplan.client import ApiError, ClusterAccess, HttpClient
from bayplan.core.api.kinds import RESOURCE_CLAIM, RESOURCE_CLAIM_TEMPLATE, RESOURCE_SLICE
from bayplan.core.versions import gates_of
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.kinds.strategies import strategy_of

OFF = gates_of("1.37")
GROUPS, DERIVED = OFF.but("DRADeviceCompatibilityGroups"), OFF.but("DRADerivedAttributes")
LISTS = DERIVED.but("DRAListTypeAttributes")
NAME, NUMA = "derived/sharedNumaNode", "device.attributes['dra.example.com'].numa"
SCALAR = "must evaluate to a primitive scalar (string, integer, boolean, semver)"
UNUSED = "must be referenced by at least one matchAttribute or distinctAttribute constraint targeting this request"


def a_slice(*groups):
    consumed = [{"counterSet": f"c{index}", "counters": {"a": {"value": "1"}}} for index, _ in enumerate(groups)]
    for each, given in zip(consumed, groups, strict=True):
        if given is not None:
            each["compatibilityGroups"] = given
    return {
        "metadata": {"name": "s"},
        "spec": {
            "driver": "d.org",
            "pool": {"name": "p", "generation": 0, "resourceSliceCount": 1},
            "allNodes": True,
            "devices": [{"name": "d", "consumesCounters": consumed}],
        },
    }


def asking(*derived):
    attributes = [{"name": name, "expression": expression} for name, expression in derived]
    return {"deviceClassName": "gpu", **({"derivedAttributes": attributes} if derived else {})}


def matching(name=NAME, *requests, kind="match"):
    return {f"{kind}Attribute": name, **({"requests": list(requests)} if requests else {})}


def a_claim(*derived, constraints=(), alternatives=False):
    """A claim with a request `r`, or with a request `r` that has the alternatives `a` and `b`."""
    request = {"exactly": asking(*derived)}
    if alternatives:
        request = {"firstAvailable": [{"name": "a", **asking(*derived)}, {"name": "b", **asking()}]}
    devices = {"requests": [{"name": "r", **request}, {"name": "s", "exactly": asking()}]}
    return {
        "metadata": {"name": "c", "namespace": "default"},
        "spec": {"devices": {**devices, "constraints": list(constraints)}},
    }


def a_template(expression):
    return {
        "metadata": {"name": "t", "namespace": "default"},
        "spec": {"spec": a_claim((NAME, expression), constraints=[matching()])["spec"]},
    }


async def create(gates, kind, document):
    """The stored object, or the errors of the server."""
    server = ApiServer(version="1.37", gates=gates)
    async with server, HttpClient(ClusterAccess(server=server.url)) as client:
        try:
            return await client.create(kind, document)
        except ApiError as error:
            return str(error)


@cases("gates, expected", {"with the gate": (GROUPS, ["mig"]), "without": (OFF, None)})
async def test_compatibility_groups(gates, expected):
    made = await create(gates, RESOURCE_SLICE, a_slice(["mig"]))
    assert made.spec.devices[0].consumesCounters[0].compatibilityGroups == expected


@cases(
    "groups, problem",
    {
        "too many": (
            (["a", "b", "c"],),
            "consumesCounters[0].compatibilityGroups: Too many: 3: must have at most 2 items",
        ),
        "twice": ((None, ["a", "a"]), 'consumesCounters[1].compatibilityGroups[1]: Duplicate value: "a"'),
    },
)
async def test_invalid_compatibility_groups(groups, problem):
    assert f"spec.devices[0].{problem}" in await create(GROUPS, RESOURCE_SLICE, a_slice(*groups))


@cases(
    "gates, alternatives, expected",
    {
        "with the gate": (DERIVED, False, [NAME]),
        "in an alternative": (DERIVED, True, [NAME]),
        "without the gate": (OFF, False, []),
        "in an alternative, without the gate": (OFF, True, []),
    },
)
async def test_derived_attributes(gates, alternatives, expected):
    document = a_claim((NAME, NUMA), constraints=[matching(NAME, "r")], alternatives=alternatives)
    made = await create(gates, RESOURCE_CLAIM, document)
    request = made.spec.devices.requests[0]
    found = request.firstAvailable[0] if alternatives else request.exactly
    assert [each.name for each in found.derivedAttributes or ()] == expected


@cases("gates, kept", {"with the gate": (DERIVED, True), "without": (OFF, False)})
async def test_derived_attributes_of_a_template(gates, kept):
    made = await create(gates, RESOURCE_CLAIM_TEMPLATE, a_template(NUMA))
    assert bool(made.spec.spec.devices.requests[0].exactly.derivedAttributes) is kept


@cases(
    "alternatives, constraints",
    {
        "of all requests": (False, [matching()]),
        "of the request": (False, [matching(NAME, "s"), matching(NAME, "s", "r")]),
        "that is distinct": (False, [matching(kind="distinct")]),
        "of the alternative": (True, [matching(NAME, "r/a")]),
        "of the request with the alternative": (True, [matching(NAME, "r")]),
    },
)
async def test_a_derived_attribute_is_used_in_a_constraint(alternatives, constraints):
    document = a_claim((NAME, NUMA), constraints=constraints, alternatives=alternatives)
    assert not isinstance(await create(DERIVED, RESOURCE_CLAIM, document), str)


@cases(
    "gates, derived, more, problem",
    {
        "unused": (DERIVED, [(NAME, NUMA)], {}, f'[0].name: Invalid value: "{NAME}": {UNUSED}'),
        "used by another request": (
            DERIVED,
            [(NAME, NUMA)],
            {"constraints": [matching(NAME, "s")]},
            f'[0].name: Invalid value: "{NAME}": {UNUSED}',
        ),
        "no domain": (DERIVED, [("numa", NUMA)], {}, '[0].name: Invalid value: "numa": a fully qualified name must be'),
        "no name": (DERIVED, [("", NUMA)], {}, "[0].name: Required value"),
        "no expression": (DERIVED, [(NAME, "")], {}, "[0].expression: Required value"),
        "a long expression": (DERIVED, [(NAME, "1" * 10241)], {}, "[0].expression: Too long"),
        "no such variable": (
            DERIVED,
            [(NAME, "node")],
            {},
            '[0].expression: Invalid value: "node": compilation failed',
        ),
        "a map": (DERIVED, [(NAME, "{'a': 1}")], {}, f"{SCALAR}, not map(string, int)"),
        "a list": (DERIVED, [(NAME, "[1]")], {}, f"{SCALAR}, not list(int)"),
        "a list of maps": (LISTS, [(NAME, "[{'a': 1}]")], {}, "or a list of these scalars, not list(map(string, int))"),
        "twice": (DERIVED, [(NAME, "1"), (NAME, "2")], {}, f'[1]: Duplicate value: "{NAME}"'),
        "too many": (
            DERIVED,
            [(f"derived/a{index}", "1") for index in range(33)],
            {},
            ": Too many: 33: must have at most 32 items",
        ),
    },
)
async def test_invalid_derived_attributes(gates, derived, more, problem):
    document = a_claim(*derived, **more)
    assert problem in await create(gates, RESOURCE_CLAIM, document)


@cases(
    "kind, old, new",
    {
        "groups": (RESOURCE_SLICE, a_slice(["a"]), a_slice(["b"])),
        "derived attributes": (RESOURCE_CLAIM_TEMPLATE, a_template("1"), a_template("2")),
    },
)
def test_fields_that_are_there_already_are_kept_without_the_gate(kind, old, new):
    hooks = strategy_of(kind, OFF.on)
    text = str(new)
    hooks.prepare_for_update(new, old)
    assert str(new) == text
    hooks.prepare_for_create(new)
    assert str(new) != text


@pytest.mark.parametrize("version", ["1.36", "1.37"])
async def test_fields_without_a_gate_are_dropped_in_each_version(version):
    server = ApiServer(version=version)
    async with server, HttpClient(ClusterAccess(server=server.url)) as client:
        made = await client.create(RESOURCE_CLAIM, a_claim((NAME, NUMA)))
    assert made.spec.devices.requests[0].exactly.derivedAttributes is None
