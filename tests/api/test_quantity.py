import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from lightkube.models.core_v1 import Node

from bayplan.core.api import quantity
from bayplan.core.api.objects import UndecodableObject, decode

NANO = quantity.NANO


@pytest.mark.parametrize(
    ("text", "nanos"),
    [
        ("0", 0),
        ("1", NANO),
        ("+2", 2 * NANO),
        ("-3", -3 * NANO),
        ("500m", 5 * 10**8),
        ("100n", 100),
        ("1u", 1000),
        ("1.5", 15 * 10**8),
        (".5", 5 * 10**8),
        ("2.", 2 * NANO),
        ("1k", 1000 * NANO),
        ("1Ki", 1024 * NANO),
        ("1.5Gi", 3 * 2**29 * NANO),
        ("1E", 10**18 * NANO),
        ("1Ei", 2**60 * NANO),
        ("12e6", 12 * 10**6 * NANO),
        ("12E6", 12 * 10**6 * NANO),
        ("5e-1", 5 * 10**8),
        pytest.param("0.0000000001", 1, id="less than a nano-unit rounds away from zero"),
        pytest.param("-0.0000000001", -1, id="negative less than a nano-unit rounds away from zero"),
    ],
)
def test_parse(text, nanos):
    assert quantity.parse(text) == nanos


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1gi", "0x10", "1e", "1e99", "--1", "1,5", "١", "1Gi1", None])
def test_malformed_quantity_error_gives_an_example(text):
    with pytest.raises(quantity.InvalidQuantity, match="expected a number with an optional suffix"):
        quantity.parse(text)


@pytest.mark.parametrize(
    ("nanos", "whole", "milli"), [(1, 1, 1), (NANO, 1, 1000), (NANO + 1, 2, 1001), (0, 0, 0), (-NANO - 1, -1, -1000)]
)
def test_units_round_up(nanos, whole, milli):
    assert quantity.value(nanos) == whole
    assert quantity.milli_value(nanos) == milli


@given(st.integers(0, 10**15), st.sampled_from(["", "m", "k", "Ki", "Mi", "G"]))
def test_sums_are_exact(number, suffix):
    assert quantity.parse(f"{number}{suffix}") * 3 == quantity.parse(f"{3 * number}{suffix}")


@pytest.mark.parametrize("text", ["10Ei", "9223372036854775808", "1e27", "99999999E"])
def test_amounts_beyond_64_bits_saturate(text):
    assert quantity.value(quantity.parse(text)) == 2**63 - 1
    assert quantity.milli_value(quantity.parse(text)) == 2**63 - 1
    assert quantity.value(quantity.parse(f"-{text}")) == -(2**63)


def test_very_long_number_is_malformed():
    with pytest.raises(quantity.InvalidQuantity):
        quantity.parse("9" * 5000)


@pytest.mark.parametrize("value", [{}, [], 7])
def test_quantity_must_be_a_string(value):
    raw = msgspec.json.encode({"metadata": {"name": "n"}, "status": {"allocatable": {"cpu": value}}})
    with pytest.raises(UndecodableObject, match="Expected `str`"):
        decode(Node, raw)
