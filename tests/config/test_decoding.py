"""Decoding plain values into all types that a plugin's arguments may use."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, Literal

import msgspec
import pytest

from bayplan.core.config.decoding import decode


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Inner(msgspec.Struct):
    name: str
    count: int = 0


@dataclass
class Everything:
    required: str
    number: int = 0
    ratio: float = 0.0
    flag: bool = False
    names: list[str] = field(default_factory=list)
    limits: dict[str, int] = field(default_factory=dict)
    inner: Inner | None = None
    inners: list[Inner] = field(default_factory=list)
    colour: Colour = Colour.RED
    mode: Literal["hard", "soft", 3] = "hard"
    port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 1
    few: Annotated[list[int], msgspec.Meta(max_length=2)] = field(default_factory=list)
    either: int | str = 0
    anything: Any = None
    pair: tuple[int, str] = (0, "")


@pytest.mark.parametrize(
    ("document", "attribute", "expected"),
    [
        ({"number": 3.0}, "number", 3),
        ({"ratio": 2}, "ratio", 2.0),
        ({"limits": {"a": 1}}, "limits", {"a": 1}),
        ({"limits": {1: 1}}, "limits", {"1": 1}),
        ({"inner": {"name": "x", "count": None}}, "inner", Inner("x")),
        ({"inner": None, "inners": [{"name": "y"}]}, "inners", [Inner("y")]),
        ({"colour": "blue"}, "colour", Colour.BLUE),
        ({"mode": 3}, "mode", 3),
        ({"either": "x"}, "either", "x"),
        ({"anything": {"a": [1, None, {"b": None}]}}, "anything", {"a": [1, None, {}]}),
        ({"pair": [1, "a"]}, "pair", (1, "a")),
    ],
    ids=str,
)
def test_valid_values_are_decoded(document, attribute, expected):
    value, faults = decode({"required": "x", **document}, Everything)
    assert faults == []
    assert getattr(value, attribute) == expected


@pytest.mark.parametrize(
    ("document", "fault"),
    [
        ({"required": None}, "args.required: Required value"),
        ({"number": 0.5}, "args.number: expected an integer, got 0.5"),
        ({"number": True}, "args.number: expected an integer, got true"),
        ({"flag": 1}, "args.flag: expected true or false, got 1"),
        ({"ratio": float("nan")}, "args.ratio: expected a number, got NaN"),
        ({"names": ["a", None]}, "args.names[1]: expected a string, got nothing"),
        ({"names": "a"}, 'args.names: expected a list, got "a"'),
        ({"limits": {"a": "b"}}, 'args.limits.a: expected an integer, got "b"'),
        ({"limits": [1]}, "args.limits: expected a mapping of fields, got a list"),
        ({"inner": {"count": 1}}, "args.inner.name: Required value"),
        (
            {"inners": [{"name": "a"}, {"name": "b", "cuont": 1}]},
            "args.inners[1].cuont: unknown field: did you mean 'count'?",
        ),
        ({"colour": "green"}, 'args.colour: Unsupported value: "green": supported values: "red", "blue"'),
        ({"mode": {}}, 'args.mode: expected one of "hard", "soft", 3, got a mapping'),
        ({"port": 0}, "args.port: expected an integer from 1 to 65535, got 0"),
        ({"few": [1, 2, 3]}, "args.few: Expected `array` of length <= 2"),
        ({"either": []}, "args.either: Expected `int | str`, got `array`"),
        ({"pair": [1, 2]}, "args.pair[1]: Expected `str`, got `int`"),
        ({"number": 2**63}, "args.number: is out of range: 9223372036854775808"),
        ({"names": ["x" * 100, 1]}, "args.names[1]: expected a string, got 1: put it in quotes"),
    ],
    ids=str,
)
def test_errors_have_paths(document, fault):
    value, faults = decode({"required": "x", **document}, Everything, "args")
    assert [str(each) for each in faults] == [fault]
    assert value is None or isinstance(value, Everything)


def test_valid_fields_are_decoded_even_if_others_are_invalid():
    value, faults = decode({"required": "x", "number": "y", "inners": ["z", {"name": "b"}]}, Everything)
    assert len(faults) == 2
    assert (value.number, value.inners) == (0, [Inner(""), Inner("b")])


def test_all_errors_are_reported():
    _, faults = decode({"number": "y", "flag": "z"}, Everything)
    assert len(faults) == 3
