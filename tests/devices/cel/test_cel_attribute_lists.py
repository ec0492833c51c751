"""Device selectors on attributes with lists of values. Mirrors the cases of upstream's cel/compile_test.go."""

import pytest
from tests.support.tables import cases

from bayplan.core.devices.cel.selectors import CompileError, DeviceFacts, RuntimeFailure, Selector, Selectors

pytestmark = pytest.mark.feature("DynamicResources: lists in attributes")

ONE = {"flag": {"bool": True}, "number": {"int": 1}, "animal": {"string": "fish"}, "version": {"version": "1.0.0"}}
MANY = {
    "flags": {"bools": [True, False]},
    "numbers": {"ints": [1, 2]},
    "animals": {"strings": ["fish", "bird"]},
    "versions": {"versions": ["1.0.0", "2.0.0"]},
    "set": {"bools": [True, True]},
}


def texts(number):
    return {"animals": {"strings": [f"value-{each}" for each in range(number)]}}


def device(attributes):
    return DeviceFacts.of("d.org", False, attributes, None)


def written(expression):
    """An expression with the names of attributes written out."""
    for name in sorted({*ONE, *MANY}, key=len, reverse=True):
        expression = expression.replace(f"${name}", f"device.attributes['d.org'].{name}")
    return expression


@cases(
    "expression, expected",
    {
        "size of bools": ("$flags.size() == 2", True),
        "size of ints": ("$numbers.size() == 2", True),
        "size of strings": ("$animals.size() == 2", True),
        "size of versions": ("$versions.size() == 2", True),
        "exists": ("$numbers.exists(x, x > 1)", True),
        "exists not": ("$numbers.exists(x, x > 2)", False),
        "all": ("$animals.all(x, x != '')", True),
        "all versions": ("$versions.all(x, x.isGreaterThan(semver('0.0.1')))", True),
        "in": ("1 in $numbers", True),
        "not in": ("3 in $numbers", False),
        "an element": ("$animals[1] == 'bird'", True),
        "equal lists": ("$numbers == [1, 2]", True),
        "another type": ("$numbers == 1", False),
        "type": ("type($numbers) == list && type($number) == int", True),
        "includes a bool": ("$flag.includes(true)", True),
        "includes not the bool": ("$flag.includes(false)", False),
        "includes a bool of a list": ("$flags.includes(true)", True),
        "includes no such bool": ("$set.includes(false)", False),
        "includes an int": ("$number.includes(1)", True),
        "includes not the int": ("$number.includes(2)", False),
        "includes an int of a list": ("$numbers.includes(1)", True),
        "includes no such int": ("$numbers.includes(3)", False),
        "includes a string": ("$animal.includes('fish')", True),
        "includes not the string": ("$animal.includes('bird')", False),
        "includes a string of a list": ("$animals.includes('fish')", True),
        "includes no such string": ("$animals.includes('cat')", False),
        "includes a version": ("$version.includes(semver('1.0.0'))", True),
        "includes not the version": ("$version.includes(semver('2.0.0'))", False),
        "includes a version of a list": ("$versions.includes(semver('1.0.0'))", True),
        "includes no such version": ("$versions.includes(semver('3.0.0'))", False),
        "a bool is the result": ("$flag", True),
        "a bool of a list is the result": ("$flags[1]", False),
    },
)
def test_selectors_read_lists(expression, expected):
    selectors = Selectors(lists=True)
    for _ in range(2):  # the second time from the cache
        assert selectors.matches(written(expression), device({**ONE, **MANY})) is expected


@cases(
    "expression, attributes, problem",
    {
        "a list is the result": (
            "$animals",
            MANY,
            "CEL result of type list could not be converted to bool: type conversion error from list to 'bool'",
        ),
        "exists on an int": ("$number.exists(x, x > 0)", ONE, "got 'types.Int', expected iterable type"),
        "exists on a bool": ("$flag.exists(x, x)", ONE, "got 'types.Bool', expected iterable type"),
        "exists on a string": ("$animal.exists(x, x == 'a')", ONE, "got 'types.String', expected iterable type"),
        "exists on a version": (
            "$version.exists(x, x.isGreaterThan(semver('0.0.1')))",
            ONE,
            "got 'cel.Semver', expected iterable type",
        ),
        "includes in too many": (
            "$animals.includes('no such')",
            texts(49),
            "'includes' function cannot be applied to lists longer than 48 values",
        ),
        "not a version": ("true", {"versions": {"versions": ["1.0.0", "v2"]}}, "attribute versions: parse semantic"),
        "an empty list": ("true", {"numbers": {"ints": []}}, "attribute numbers: unsupported attribute value"),
    },
)
def test_failures_with_lists(expression, attributes, problem):
    with pytest.raises(RuntimeFailure, match="^" + problem.replace("(", r"\(")):
        Selectors(lists=True).matches(written(expression), device(attributes))


def test_includes_takes_as_many_values_as_a_device_may_have():
    assert Selectors(lists=True).matches(written("$animals.includes('value-47')"), device(texts(48)))
    assert not Selectors(lists=True).matches(written("$animals.includes('no such')"), device(texts(48)))


@cases("expression", {"that reads it": "$numbers.size() == 2", "of the driver": "device.driver == 'd.org'"})
def test_a_device_with_lists_is_an_error_without_the_gate(expression):
    with pytest.raises(RuntimeFailure, match="attribute numbers: unsupported"):
        Selectors().matches(written(expression), device({"numbers": {"ints": [1, 2]}}))


@cases(
    "expression, with_gate, stored, new",
    {
        "includes": ("$numbers.includes(1)", None, None, "undeclared reference to 'includes'"),
        "exists": ("$numbers.exists(x, x > 0)", None, *["expression of type 'any' cannot be range"] * 2),
        "dyn": ("dyn(true)", None, *["unknown type, not dyn"] * 2),
        "in": ("1 in $numbers", None, None, None),
        "no method": ("$numbers.has(1)", *["undeclared reference to 'has'"] * 3),
    },
)
def test_what_compiles_with_and_without_the_gate(expression, with_gate, stored, new):
    expression = written(expression)
    for expected, arguments in ((with_gate, {"lists": True, "stored": False}), (stored, {}), (new, {"stored": False})):
        if expected is None:
            Selector(expression, **arguments)
        else:
            with pytest.raises(CompileError, match=expected):
                Selector(expression, **arguments)
