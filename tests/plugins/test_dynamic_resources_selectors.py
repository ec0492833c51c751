"""Device selectors: what expressions say of a device, and what is wrong with those that cannot say anything."""

from __future__ import annotations

import pytest

from bayplan.plugins.dynamic_resources.cel import evaluation
from bayplan.plugins.dynamic_resources.cel.selectors import CompileError, DeviceFacts, RuntimeFailure, Selectors

ATTRIBUTES = {
    "model": {"string": "a100"},
    "healthy": {"bool": True},
    "numa": {"int": 1},
    "driverVersion": {"version": "1.2.0-rc.1"},
    "other.org/lanes": {"int": 16},
}
DEVICE = DeviceFacts.of(
    "d.org", False, ATTRIBUTES, {"memory": {"value": "40Gi"}, "other.org/cores": {"value": "1500m"}}
)

TRUE = """
device.driver == 'd.org'
device.driver.startsWith("d.") && device.driver.endsWith('org') && device.driver.contains('.')
device.driver in ['a', 'd.org']
!device.allowMultipleAllocations
device.attributes['d.org'].healthy
device.attributes["d.org"].model == "a100"
device.attributes['d.org']['numa'] == 1
device.attributes['d.org'].numa == 1.0 && device.attributes['d.org'].numa < 2u
device.attributes['other.org'].lanes >= 16
'd.org' in device.attributes && !('x.org' in device.attributes)
has(device.attributes['d.org'].model) && !has(device.attributes['d.org'].absent)
!has(device.attributes['x.org'].absent)
device.attributes['x.org'].size() == 0
device.attributes.exists(domain, domain == 'other.org')
device.attributes['d.org'].all(name, name != 'absent')
device.attributes['d.org'].exists(name, value, name == 'model' && value == 'a100')
cel.bind(d, device.attributes['d.org'], d.numa == 1 && d.healthy)
device.attributes['d.org'].driverVersion.isLessThan(semver('1.2.0'))
device.attributes['d.org'].driverVersion.isGreaterThan(semver('1.2.0-rc.0'))
device.attributes['d.org'].driverVersion.compareTo(semver('1.2.0-rc.1')) == 0
device.attributes['d.org'].driverVersion.major() == 1 && semver('1.2.3').patch() == 3
semver('v1.02', true) == semver('1.2.0') && isSemver('1.2', true) && !isSemver('1.2')
semver('1.0.0+one') == semver('1.0.0+two')
device.capacity['d.org'].memory.isGreaterThan(quantity('30Gi'))
device.capacity['d.org'].memory == quantity('40960Mi')
device.capacity['d.org'].memory.compareTo(quantity('40Gi').add(1)) == -1
device.capacity['d.org'].memory.sub(quantity('39Gi')).asInteger() == 1073741824
device.capacity['other.org'].cores.asApproximateFloat() == 1.5
!device.capacity['other.org'].cores.isInteger() && quantity('-1').sign() == -1
isQuantity('10Gi') && !isQuantity('much')
device.attributes['d.org'].model.matches('^a[0-9]+$')
'abc 123'.find('[0-9]+') == '123' && '1 a 2'.findAll('[0-9]') == ['1', '2'] && '1 2'.findAll('[0-9]', 1) == ['1']
[1, 2, 2].isSorted() && [1, 2].sum() == 3 && [3, 1].min() == 1 && [3, 1].max() == 3
[1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(7) == -1
[1, 1, 2].distinct() == [1, 2] && [1, 2].reverse() == [2, 1]
sets.contains([1, 2], [2]) && sets.intersects([1], [1, 2]) && sets.equivalent([1, 1], [1])
'abc'.substring(1) == 'bc' && 'abc'.substring(0, 1) == 'a' && 'abc'.charAt(1) == 'b' && 'abc'.indexOf('c') == 2
' a '.trim() == 'a' && 'aB'.upperAscii() == 'AB' && 'aB'.lowerAscii() == 'ab'
'a,b'.split(',') == ['a', 'b'] && ['a', 'b'].join('-') == 'a-b' && 'aa'.replace('a', 'b', 1) == 'ba'
[1, 2, 3].filter(x, x > 1).map(x, x * 2) == [4, 6] && [1, 2].map(x, x > 1, x) == [2]
[1, 2].exists_one(x, x == 1) && [1, 2].all(i, v, v == i + 1)
1 / 0 == 1 || true
!(1 / 0 == 1 && false)
[0, 1].exists(x, 1 / x == 1)
device.attributes['d.org'].numa == 0 ? false : true
dyn('a') != 1 && dyn(1) == 1.0
type(device.attributes['d.org'].numa) == int
{'a': 1}.a == 1 && {'a': 1}['a'] == 1 && 'a' in {'a': 1}
duration('90s') > duration('1m') && timestamp('2026-01-01T00:00:00Z').getFullYear() == 2026
size('abc') == 3 && string(1) == '1' && int('2') == 2
"""
REFUSED = {
    "device.driver ==": "syntax error",
    "": "syntax error",
    "device.vendor == 'x'": "undefined field 'vendor'",
    "true || device.vendor == 'x'": "undefined field 'vendor'",
    "node.name == 'x'": "undeclared reference to 'node'",
    "shout('x')": "undeclared reference to 'shout'",
    "device.driver.shout()": "undeclared reference to 'shout'",
    "device.driver": "must evaluate to bool or the unknown type, not string",
    "1 + 1": "must evaluate to bool or the unknown type, not int",
    "device.driver == 1": "no matching overload for '_eq_' applied to '(string, int)'",
    "device.driver == null": "no matching overload",
    "device.driver + 1 == 'x'": "no matching overload",
    "device.driver.isLessThan(semver('1.0.0'))": "no matching overload for 'isLessThan' applied to '(string, semver)'",
    "device.capacity['d.org'].memory > quantity('1')": "no matching overload",
    "device.capacity['d.org'].memory.isLessThan(1)": "no matching overload",
    "!1": "expected type 'bool' but found 'int'",
    "device.driver && true": "expected type 'bool' but found 'string'",
    "has(device)": "invalid argument to has() macro",
    "1.exists(x, true)": "syntax error",
    "'a'.exists(x, true)": "cannot be range of a comprehension",
    "[1].exists(1, true)": "not an identifier",
    "[1].all(x, x)": None,
    "[1].all(x, y)": "undeclared reference to 'y'",
}
FAILS = {
    "device.attributes['d.org'].absent == 1": "no such member in mapping: 'absent'",
    "device.attributes['x.org'].absent": "no such member in mapping: 'absent'",
    "device.attributes['d.org'].model": "CEL result of type string could not be converted to bool",
    "device.attributes['d.org'].model > 1": "no such overload",
    "device.attributes['d.org'].model && true": "",
    "semver('one') == semver('1.0.0')": "",
    "quantity('much') == quantity('1')": "",
    "device.attributes['d.org'].model.matches('(')": "",
    "1 / 0 == 1": "",
    "[1].map(x, 1 / (x - 1)) == [1]": "",
    "[][0] == 1": "",
    "[].min() == 1": "",
    "'abc'.substring(7) == ''": "",
    "9223372036854775807 + device.attributes['d.org'].numa == 0": "",
    "device.attributes['d.org'].numa.isLessThan(semver('1.0.0'))": "no such overload",
}


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize("expression", TRUE.strip().splitlines())
def test_selected(expression):
    assert Selectors().matches(expression, DEVICE)


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize(("expression", "told"), [each for each in REFUSED.items() if each[1]])
def test_what_does_not_compile(expression, told):
    selectors = Selectors()
    for _ in range(2):
        with pytest.raises(CompileError) as caught:
            selectors.matches(expression, DEVICE)
        assert told in str(caught.value)


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize(("expression", "told"), FAILS.items())
def test_what_fails_on_a_device(expression, told):
    selectors = Selectors()
    for _ in range(2):
        with pytest.raises(RuntimeFailure) as caught:
            selectors.matches(expression, DEVICE)
        assert told in str(caught.value)


@pytest.mark.parametrize(
    ("attributes", "told"),
    [
        ({"v": {"version": "one"}}, "attribute v: parse semantic version: 'one' is not a semantic version"),
        ({"l": {"strings": ["a"]}}, "attribute l: unsupported attribute value"),
    ],
)
def test_attributes_that_cannot_be_read(attributes, told):
    with pytest.raises(RuntimeFailure) as caught:
        Selectors().matches("true", DeviceFacts.of("d.org", False, attributes, None))
    assert str(caught.value).startswith(told)


def test_what_costs_too_much(monkeypatch):
    monkeypatch.setattr(evaluation, "MAX_COST", 1000)
    digits = "[0,1,2,3,4,5,6,7,8,9]"
    expression = f"{digits}.all(a, {digits}.all(b, {digits}.all(c, a + b + c >= 0)))"
    with pytest.raises(RuntimeFailure, match="cost limit exceeded"):
        Selectors().matches(expression, DEVICE)


def test_an_expression_that_is_nested_too_deeply():
    with pytest.raises((CompileError, RuntimeFailure)):
        Selectors().matches("(" * 3000 + "true" + ")" * 3000, DEVICE)


def test_equal_devices_are_asked_about_once(monkeypatch):
    selectors = Selectors()
    again = DeviceFacts.of("d.org", False, dict(reversed(ATTRIBUTES.items())), {"memory": {"value": "40Gi"}})
    same = DeviceFacts.of("d.org", False, ATTRIBUTES, {"memory": {"value": "40Gi"}})
    assert selectors.matches("device.driver == 'd.org'", again)
    monkeypatch.setattr(selectors, "_evaluate", lambda *_: pytest.fail("asked again"))
    assert selectors.matches("device.driver == 'd.org'", same)
