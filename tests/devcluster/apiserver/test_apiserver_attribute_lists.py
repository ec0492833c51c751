"""Attributes with lists of values in the embedded API server, with and without the gate DRAListTypeAttributes."""

from tests.support.tables import cases

from bayplan.client import ApiError, ClusterAccess, HttpClient
from bayplan.core.api.kinds import DEVICE_CLASS, RESOURCE_SLICE
from bayplan.core.versions import DEFAULT_GATES
from bayplan_devcluster.apiserver import ApiServer
from bayplan_devcluster.apiserver.kinds.strategies import strategy_of

ON = DEFAULT_GATES.but("DRAListTypeAttributes")
WHERE = "spec.devices[0].attributes[a]"
ONE = "exactly one value must be specified"
SEMVER = "must be a string compatible with semver.org spec 2.0.0"


def a_slice(attributes):
    pool = {"name": "p", "generation": 0, "resourceSliceCount": 1}
    devices = [{"name": "d", "attributes": attributes}]
    return {"metadata": {"name": "s"}, "spec": {"driver": "d.org", "pool": pool, "allNodes": True, "devices": devices}}


async def create(gates, kind, document):
    """The stored object, or the errors of the server."""
    async with ApiServer(gates=gates) as server, HttpClient(ClusterAccess(server=server.url)) as client:
        try:
            return await client.create(kind, document)
        except ApiError as error:
            return str(error)


@cases(
    "value",
    {
        "ints": {"ints": [1, -2]},
        "bools": {"bools": [True, False]},
        "strings": {"strings": ["a", "b" * 64]},
        "versions": {"versions": ["1.0.0", "2.0.0-rc.1+b"]},
    },
)
async def test_lists_are_stored_with_the_gate(value):
    made = await create(ON, RESOURCE_SLICE, a_slice({"a": value}))
    assert made.spec.devices[0].attributes == {"a": value}


@cases(
    "gates, attributes, problem",
    {
        "a list and a value": (ON, {"a": {"ints": [1], "int": 1}}, f"{WHERE}: Invalid value: "),
        "a long text": (ON, {"a": {"string": "x" * 65}}, f"{WHERE}.string: Too long: may not be more than 64 bytes"),
        "long texts": (
            ON,
            {"a": {"strings": ["y", "x" * 65]}},
            f"{WHERE}.strings[1]: Too long: may not be more than 64 bytes",
        ),
        "no version": (ON, {"a": {"version": "2"}}, f'{WHERE}.version: Invalid value: "2": {SEMVER}'),
        "no versions": (ON, {"a": {"versions": ["v2"]}}, f'{WHERE}.versions[0]: Invalid value: "v2": {SEMVER}'),
        "too many values": (
            ON,
            {"a": {"ints": list(range(49))}},
            "spec.devices[0]: Invalid value: 49: the total number of attribute values must not exceed 48",
        ),
        "too many attributes": (
            ON,
            {f"a{number}": {"int": 1} for number in range(33)},
            "spec.devices[0]: Invalid value: 33: the total number of attributes and capacities must not exceed 32",
        ),
        "only a list, without the gate": (DEFAULT_GATES, {"a": {"ints": [1]}}, f'{WHERE}: Invalid value: "": {ONE}'),
    },
)
async def test_invalid_attributes_are_rejected(gates, attributes, problem):
    assert problem in await create(gates, RESOURCE_SLICE, a_slice(attributes))


async def test_lists_are_dropped_without_the_gate():
    made = await create(DEFAULT_GATES, RESOURCE_SLICE, a_slice({"a": {"ints": [1], "int": 1}}))
    assert made.spec.devices[0].attributes == {"a": {"int": 1}}


@cases(
    "old, features, expected",
    {
        "new with the gate": ({"int": 1}, ON.on, {"ints": [1]}),
        "new without the gate": ({"int": 1}, DEFAULT_GATES.on, {}),
        "there already": ({"strings": ["x"]}, DEFAULT_GATES.on, {"ints": [1]}),
    },
)
def test_updates_keep_lists_that_an_object_had(old, features, expected):
    new = a_slice({"a": {"ints": [1]}})
    strategy_of(RESOURCE_SLICE, features).prepare_for_update(new, a_slice({"a": old}))
    assert new["spec"]["devices"][0]["attributes"]["a"] == expected


@cases(
    "expression, problem",
    {
        "includes": ("device.attributes['d.org'].a.includes(1)", "undeclared reference to 'includes'"),
        "a loop": ("device.attributes['d.org'].a.exists(x, x == 1)", "expression of type 'any' cannot be range"),
        "in": ("1 in device.attributes['d.org'].a", None),
    },
)
async def test_expressions_on_lists_need_the_gate(expression, problem):
    document = {"metadata": {"name": "c"}, "spec": {"selectors": [{"cel": {"expression": expression}}]}}
    assert (await create(ON, DEVICE_CLASS, document)).metadata.name == "c"
    found = await create(DEFAULT_GATES, DEVICE_CLASS, document)
    assert problem in found if problem else found.metadata.name == "c"
