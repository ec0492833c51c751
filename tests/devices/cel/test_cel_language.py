"""The syntax and the types of selectors."""

# ruff: noqa: E501 - an expression is easier to read on one line

import pytest

from bayplan.core.devices.cel.checking import check
from bayplan.core.devices.cel.parsing import parse
from bayplan.core.devices.cel.selectors import CompileError, DeviceFacts, Selectors

SELECTORS = Selectors()
DEVICE = DeviceFacts.of("d.org", False, {"namespace": {"string": "x"}, "index": {"int": 1}}, None)

TRUE = [
    *r"""
1 + 2 * 3 == 7 && (1 + 2) * 3 == 9 && 7 - 2 - 1 == 4 && 3-1 == 2 && -1 < 0 && - 1 < 0 && --1 == 1 && !!true
true ? true : false ? false : true
true || false && false
1 == 1 == true
0x1F == 31 && -0x10 == -16 && 1e3 == 1000.0 && .5 == 0.5 && 1.5e-1 == 0.15 && -1.5 < 0.0 && 0xfu == 15u && 7U == 7u
"a" == 'a' && r'\d' == '\\d' && R"\d" == '\\d' && '\x41\u0042\U00000043\104' == 'ABCD' && '' == "" && 'é' == '\u00e9'
'\a\b\f\n\r\t\v\\\'\"\?\`' == "\x07\x08\x0c\x0a\x0d\x09\x0b\x5c\x27\x22\x3f\x60"
b'\xff' == b'\377' && b'é' == b'\xc3\xa9' && br'\x' == b'\\x' && B"a" == b'a' && b'\n' == b'\x0a'
[1, 2,].size() == 2 && {'a': 1,}.size() == 1 && [,].size() == 0 && {,}.size() == 0 && [] == [] && {} == {}
device.attributes['d.org'].namespace == 'x' && device.attributes['d.org'].index == 1
true // all of this is left out: && false
.device.driver == 'd.org' && .size('a') == 1
[?optional.of(1), ?optional.none()] == [1] && {?'a': optional.of(1)}.?a.value() == 1
{'a': [1]}.?a[0].value() == 1 && device.attributes[?'d.org'].?index.hasValue()
""".strip().splitlines(),
    "'''a\nb''' == 'a\\nb' && r'''\\n\n''' == '\\\\n\\n'",
    "true\n  // not this\n  && true",
]

REJECTED = {
    "namespace == 1": "reserved identifier: namespace",
    "as(1)": "reserved identifier: as",
    "device.in == 1": "undefined field 'in'",
    "device.`driver` == ''": "syntax error",
    "9223372036854775808 == 1": "invalid int literal",
    "-9223372036854775809 == 1": "invalid int literal",
    "0x1" + "0" * 50 + " == 1": "invalid int literal",
    "18446744073709551616u == 1u": "invalid uint literal",
    "-1u == 1u": "invalid uint literal",
    "-0u == 0u": "invalid uint literal",
    "1e999 == 1.0": "invalid double literal",
    r"'\ud800' == ''": "invalid unicode code point",
    r"b'\u00e9' == b''": "unable to unescape string",
    "int{} == 1": "'int' is not a message type",
    "device{} == 1": "'device' is not a message type",
    "google.protobuf.Nope{value: 1} == 1": "undeclared reference to 'google.protobuf.Nope'",
    "size(1){} == 1": "syntax error: unexpected '{'",
    "has(1)": "invalid argument to has() macro",
    "has(device.?driver)": "invalid argument to has() macro",
    "[1].map(1, true) == []": "argument is not an identifier",
    "[1].filter(x.y, true) == []": "argument is not an identifier",
    "[1].all(__result__, true)": "iteration variable overwrites accumulator variable",
    "[1].all(i, i, true)": "duplicate variable name: i",
    "[1].transformList(1, v, v) == []": "argument must be a simple name",
    "cel.bind(1, 2, true)": "cel.bind() variable names must be simple identifiers",
    "device.bind(x, 1, true)": "undeclared reference to 'x'",
    "optional.of(1).optMap(1, 2).hasValue()": "optMap() variable name must be a simple identifier",
    "optional.of(1).optFlatMap(1, 2).hasValue()": "optFlatMap() variable name must be a simple identifier",
    "'a'.sortBy(e, e) == []": "sortBy can only be applied to a list, identifier, comprehension, call or select expression",
    "[?1] == [1]": "expected type 'optional_type(int)' but found 'int'",
    "{?'a': 1} == {'a': 1}": "expected type 'optional_type(int)' but found 'int'",
    "device.?nope.hasValue()": "undefined field 'nope'",
    "device.driver.?x.hasValue()": "type 'string' does not support field selection",
    "optional.of('a').x.hasValue()": "type 'string' does not support field selection",
    "[1].transformMap(i, v, nope) == {}": "undeclared reference to 'nope'",
    "true ? 1 : 'a'": "found no matching overload for '_?_:_' applied to '(bool, int, string)'",
    "1 == 1.0": "found no matching overload for '_==_' applied to '(int, double)'",
    "[[1], [2]].flatten(1, 2) == []": "no matching overload for 'flatten' applied to 'list(list(int)).(int, int)'",
}

TYPES = {
    "[1, 2]": "list(int)",
    "[]": "list(dyn)",
    "{'a': [1u]}": "map(string, list(uint))",
    "[1].map(x, x + 1)": "list(int)",
    "device.attributes": "map(string, map(string, google.protobuf.Any))",
    "device.attributes['d'].x": "google.protobuf.Any",
    "device.attributes['d'].?x.orValue('a')": "google.protobuf.Any",
    "device.capacity['d'].?x": "optional_type(kubernetes.Quantity)",
    "[optional.of(1), optional.none()]": "list(optional_type(int))",
    "[1].transformMap(i, v, string(v))": "map(int, string)",
    "type(1)": "type(int)",
    "dyn(1)": "dyn",
    "null": "null_type",
    "cel.bind(x, 1u, [x])": "list(uint)",
    "url('x').getQuery()": "map(string, list(string))",
    "['a'].sortBy(e, e)": "list(string)",
    "{'a': 1}.?a": "optional_type(int)",
    "timestamp(1) - timestamp(0)": "google.protobuf.Duration",
}


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize("expression", TRUE)
def test_valid_expression_is_true(expression):
    assert SELECTORS.matches(expression, DEVICE)


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize(("expression", "message"), REJECTED.items())
def test_invalid_expression_is_rejected(expression, message):
    with pytest.raises(CompileError) as caught:
        SELECTORS.matches(expression, DEVICE)
    assert message in str(caught.value)


@pytest.mark.parametrize(("expression", "found"), TYPES.items())
def test_type_of_expression(expression, found):
    assert check(parse(expression)).declared == found
