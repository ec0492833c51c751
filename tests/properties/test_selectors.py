"""Random selectors select the device, don't compile, or fail on the device, as the evaluation of their trees does."""

import contextlib

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from plain_selectors import PlainSelector, TooExpensive
from random_selectors import Expressions

from bayplan.core.devices.cel.costs import CostExceeded, Meter
from bayplan.core.devices.cel.declarations import FUNCTIONS
from bayplan.core.devices.cel.selectors import CompileError, DeviceFacts, RuntimeFailure, Selector
from bayplan.core.devices.cel.values import Failure

DEVICE = DeviceFacts.of(
    "d.org",
    False,
    {"s": {"string": "a1"}, "b": {"bool": True}, "i": {"int": 1}, "v": {"version": "1.2.0"}},
    {"m": {"value": "40Gi"}},
)
VALUES = [
    *("1", "-1", "0", "9223372036854775807", "-9223372036854775808", "1u", "18446744073709551615u", "1.5", "-0.0"),
    *("1e300", "double('NaN')", "''", "'a'", "'é€'", "'10.0.0.1'", "'10.0.0.0/8'", "'::1'", "'https://h/p?q=1'"),
    *("'%s%d'", "'%.3f%%'", "'('", "'[a-z]+'", "'1h'", "'1.2.3'", "'10Gi'", "'2020-01-01T00:00:00Z'"),
    *("'Europe/Paris'", "'-01:00'", "b''", "b'\\xff'", "null", "true", "false", "[]", "[1, 2]", "['a', 'b']"),
    *("[[1], [2]]", "[b'a']", "[optional.of(1)]", "{}", "{'a': 1}", "{1: 'a'}", "{1u: [1]}", "{'a': {'b': 1}}"),
    *("duration('1h')", "duration('-1ns')", "timestamp(0)", "timestamp('9999-12-31T23:59:59Z')"),
    *("timestamp('0001-01-01T00:00:00Z')", "optional.none()", "optional.of({'a': 1})", "ip('10.0.0.1')", "ip('::1')"),
    *("cidr('10.0.0.0/8')", "cidr('::/0')", "url('https://h:1/p')", "quantity('1Gi')", "quantity('1').add(1)"),
    *("semver('1.2.3')", "format.uuid()", "int", "device", "device.driver", "device.attributes"),
    *("device.attributes['d.org']", "device.attributes['d.org'].s", "device.attributes['d.org'].v"),
    "device.capacity['d.org'].m",
]
NAMES = sorted(name for name in {name.removeprefix(".") for name in FUNCTIONS} if name.replace(".", "").isalnum())
SIGNS = ["==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "in", "&&", "||"]
LOOPS = ["all", "exists", "exists_one", "filter", "map", "sortBy"]


def _larger(inner):
    arguments = st.lists(inner, max_size=3).map(", ".join)
    return st.one_of(
        st.builds("({} {} {})".format, inner, st.sampled_from(SIGNS), inner),
        st.builds("({} ? {} : {})".format, inner, inner, inner),
        st.builds("{}[{}{}]".format, inner, st.sampled_from(["", "?"]), inner),
        st.builds("{}.{}a".format, inner, st.sampled_from(["", "?"])),
        st.builds("{}.{}(x, {})".format, inner, st.sampled_from(LOOPS), inner | st.just("x")),
        st.builds("{}.{}({})".format, inner, st.sampled_from(NAMES), arguments),
        st.builds("{}({})".format, st.sampled_from(NAMES), arguments),
        st.builds("[{}]".format, arguments),
        st.builds("{{{}: {}}}".format, inner, inner),
    )


_plain = st.sampled_from(VALUES)
expressions = st.recursive(_plain | st.builds("dyn({})".format, _plain), _larger, max_leaves=8)


@settings(max_examples=300)
@given(expressions)
@example("optional.of([1]) in dyn({})")
@example("dyn({'a': 1}).sortBy(x, x)")
def test_any_expression(expression):
    with contextlib.suppress(CompileError, RuntimeFailure):
        assert Selector(f"dyn({expression}) == 1 || true").matches(DEVICE, Meter(10_000))


@settings(max_examples=300)
@given(st.text(alphabet="ab1.\"'\\[]{}()?:&|!=<>+-*/%, \nrxu0é€`", max_size=30))
def test_any_text(text):
    with contextlib.suppress(CompileError, RuntimeFailure):
        Selector(text).matches(DEVICE, Meter(10_000))


DEVICES = [
    DeviceFacts.of(
        "d.org", False, {"i": {"int": i}, "j": {"int": -2}, "s": {"string": text}, "b": {"bool": True}}, None
    )
    for i, text in ((3, "a1"), (0, ""), (2**63 - 1, "long" * 80))
]
LIMIT = 20_000


@settings(max_examples=200)
@given(st.randoms(use_true_random=False), st.integers(2, 4))
def test_written_selectors_give_the_values_and_costs_of_their_trees(random, depth):
    expression = Expressions(random).truth(depth)
    try:
        selector = Selector(expression)
    except CompileError:
        return
    _check(selector, PlainSelector(expression, LIMIT))


INDEX = "device.attributes['d.org'].i"


@pytest.mark.parametrize(
    "expression",
    [
        f"[1, 2].all(x, x / {INDEX} in [])",
        "[-7, 7, 0].exists(x, [-2, 2, 3, 0].all(y, x / y == -3 || x % y == -1))",
        f"[-7, 7].exists(x, x / {INDEX} == 0 && x % {INDEX} == 7)",
        "[9223372036854775807, 1].all(x, [2, 3].all(y, x * y > 0 || x + y > 0))",
        "[-9223372036854775808, 1].all(x, [2, 3].exists(y, x - y < 0))",
        f"[4611686018427387904, 1].all(x, [1, 2].all(y, x * y + {INDEX} > 0))",
        "[1, 2, 3].all(x, [1, 2].all(y, [x, y].exists(z, z == x && [z].all(u, u + y > 0))))",
        "[1, 2].all(x, cel.bind(b, x + 1, [1, 2].all(y, b > y || b == x)))",
        f"[1, 2].all(x, ['a1', 'b'].exists(y, y == {INDEX.replace('.i', '.s')} || string(x) + y == '1a1'))",
        "[1, 2].map(x, [x, 3 - x]).all(x, i, i[0] < i[1] || i[0] == i[1])",
        "[1, 2].filter(x, x > 1).exists_one(x, x == 2) && [1, 2].existsOne(i, v, i == v)",
        "[3, 1, 2].sortBy(x, -x).all(x, x > 0)",
        "[0, 1].all(x, [7, 8][x] > 6) && [0, 1].exists(x, dyn([7])[x] > 7)",
        f"{'[1].all(x, ' * 30}{INDEX} > 0{')' * 30}",
        f"[1, 2].all(x, {' && '.join(f'x + {number} != {INDEX}' for number in range(300))})",
    ],
)
def test_written_selectors_that_are_unlikely_at_random(expression):
    _check(Selector(expression), PlainSelector(expression, LIMIT))


def _check(selector, plain):
    for device in DEVICES:
        meter = Meter(LIMIT)
        try:
            found = selector.matches(device, meter)
        except RuntimeFailure as error:
            found = str(error)
        try:
            value = plain.value(device)
        except (TooExpensive, CostExceeded):
            assert found == "operation cancelled: actual cost limit exceeded"
            continue
        assert found == (value.message if isinstance(value, Failure) else value)
        assert meter.spent == plain.spent
