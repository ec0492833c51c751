"""Random selectors select the device, don't compile, or fail on the device; nothing else happens."""

from __future__ import annotations

import contextlib

from hypothesis import example, given, settings
from hypothesis import strategies as st

from bayplan.devices.cel.costs import Meter
from bayplan.devices.cel.declarations import FUNCTIONS
from bayplan.devices.cel.selectors import CompileError, DeviceFacts, RuntimeFailure, Selector

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


@settings(max_examples=300, deadline=None)  # the first expression builds the parser
@given(expressions)
@example("optional.of([1]) in dyn({})")
@example("dyn({'a': 1}).sortBy(x, x)")
def test_any_expression(expression):
    with contextlib.suppress(CompileError, RuntimeFailure):
        assert Selector(f"dyn({expression}) == 1 || true").matches(DEVICE, Meter(10_000))


@settings(max_examples=300, deadline=None)  # the first expression builds the parser
@given(st.text(alphabet="ab1.\"'\\[]{}()?:&|!=<>+-*/%, \nrxu0é€`", max_size=30))
def test_any_text(text):
    with contextlib.suppress(CompileError, RuntimeFailure):
        Selector(text).matches(DEVICE, Meter(10_000))
