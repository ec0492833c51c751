"""Request policies of devices' capacity in the embedded API server, as 1.36 and 1.37 check them."""

import pytest
from tests.support.tables import cases

from bayplan.core.versions import gates_of
from bayplan_devcluster.apiserver.validation.request_policies import policies
from bayplan_devcluster.apiserver.validation.rules import At

OLD, NEW = (gates_of(version).on for version in ("1.36", "1.37"))
BOTH = 'cannot specify "validValues" and "validRange" at the same time'
NO_FRACTIONS = NEW - {"DRAFractionalCapacityRange"}


def device(policy, *, value="10Gi", shared=True):
    return {"allowMultipleAllocations": shared, "capacity": {"memory": {"value": value, "requestPolicy": policy}}}


def problems(features, policy, **options):
    prefix = "d.capacity[memory].requestPolicy"
    found = [str(error) for error in policies(device(policy, **options), At("d", features=features))]
    assert all(each.startswith(prefix) for each in found)
    return [each.removeprefix(prefix) for each in found]


def values(*listed, default="1Gi"):
    return {"default": default, "validValues": list(listed)}


def limits(default="1Gi", **given):
    return {"default": default, "validRange": {"min": "1Gi", **given}}


@cases(
    "policy, expected",
    {
        "nothing": ({}, []),
        "only a default": ({"default": "1Gi"}, []),
        "values": (values("1Gi", "2Gi"), []),
        "a range": (limits("3Gi", max="9Gi", step="2Gi"), []),
        "values and a range": (
            {**values("1Gi"), **limits()},
            [f": Forbidden: exactly one policy can be specified, {BOTH}"],
        ),
        "values without a default": (
            {"validValues": ["1Gi"]},
            [".default: Required value: required when validValues is defined"],
        ),
        "a range without a default": (
            {"validRange": {"min": "1"}},
            [".default: Required value: required when validRange is defined"],
        ),
        "values in another order": (
            values("2Gi", "1Gi"),
            ['.validValues[1]: Invalid value: "1Gi": values must be sorted in ascending order'],
        ),
        "too large a value": (
            values("1Gi", "11Gi"),
            ['.validValues[1]: Invalid value: "11Gi": option is larger than capacity value: 10Gi'],
        ),
        "the same value twice": (values("1", "1", default="1"), ['.validValues[1]: Duplicate value: "1"']),
        "another default": (
            values("2Gi"),
            ['.validValues: Invalid value: "1Gi": default value is not valid according to the requestPolicy'],
        ),
        "too many values": (
            values(*map(str, range(1, 12)), default="1"),
            [
                ".validValues: Too many: 11: must have at most 10 items",
                '.validValues: Invalid value: "1": default value is not valid according to the requestPolicy',
            ],
        ),
        "no minimum": (
            {"default": "1", "validRange": {"max": "2"}},
            [".validRange.min: Required value: required when validRange is defined"],
        ),
        "a minimum above the maximum": (
            limits("1Gi", max="1Mi"),
            [
                '.validRange.max: Invalid value: "1Gi": min is larger than max: 1Mi',
                '.validRange.HIGH: Invalid value: "1Gi": default is more than max: 1Mi',
            ],
        ),
        "too large a maximum": (
            limits(max="11Gi"),
            ['.validRange.max: Invalid value: "11Gi": max is larger than capacity value: 10Gi'],
        ),
        "a default below the minimum": (
            limits("1Mi"),
            ['.validRange.LOW: Invalid value: "1Mi": default is less than min: 1Gi'],
        ),
        "too large a step": (
            limits(step="10Gi"),
            ['.validRange.step: Invalid value: "10Gi": one step 11Gi is larger than capacity value: 10Gi'],
        ),
        "a default between steps": (
            limits("2Gi", step="2Gi"),
            ['.validRange.step: Invalid value: "2Gi": value is not a multiple of a given step (2Gi) from (1Gi)'],
        ),
        "a maximum between steps": (
            limits(max="4Gi", step="2Gi"),
            ['.validRange.step: Invalid value: "4Gi": value is not a multiple of a given step (2Gi) from (1Gi)'],
        ),
    },
)
@pytest.mark.parametrize(("features", "low", "high"), [(OLD, "min", "max"), (NEW, "default", "default")])
def test_policies_in_both_versions(features, low, high, policy, expected):
    assert problems(features, policy) == [each.replace("LOW", low).replace("HIGH", high) for each in expected]


def test_only_shared_devices_have_policies():
    assert problems(OLD, {"default": "1"}, shared=False) == [": Forbidden: allowMultipleAllocations must be true"]


@cases(
    "policy, capacity, features, expected",
    {
        "no step": (limits("1", min="0", step="0"), "9", NEW, ['step: Invalid value: "0": must be greater than zero']),
        "a negative step": (
            limits("1", min="0", step="-1"),
            "9",
            NEW,
            ['step: Invalid value: "-1": must be greater than zero'],
        ),
        "a negative minimum": (
            limits("1", min="-1", step="1"),
            "9",
            NEW,
            ['min: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        "a maximum beyond 64 bits": (
            limits("1", min="0", max="10E", step="1"),
            "10E",
            NEW,
            ['max: Invalid value: "10E": must not be larger than 9223372036854775807'],
        ),
        "fractions": (limits("1500m", min="500m", step="500m"), "9", NEW, []),
        "a default between fractions": (
            limits("1200m", min="500m", step="500m"),
            "9",
            NEW,
            ['step: Invalid value: "1200m": value is not a multiple of a given step (500m) from (500m)'],
        ),
        "too fine a fraction": (
            limits("1", min="1u"),
            "9",
            NEW,
            ['min: Invalid value: "1u": value cannot be represented as a milli value'],
        ),
        "fractions without their gate are rounded up": (
            limits("1200m", min="500m", step="500m"),
            "9",
            NO_FRACTIONS,
            [],
        ),
    },
)
def test_ranges_since_1_37(policy, capacity, features, expected):
    assert problems(features, policy, value=capacity) == [f".validRange.{each}" for each in expected]
