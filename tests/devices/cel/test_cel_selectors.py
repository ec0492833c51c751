"""Device selectors: matching devices, compile errors, runtime failures and caching."""

import pytest

from bayplan.core.devices.cel import selectors as compiled
from bayplan.core.devices.cel.costs import Meter
from bayplan.core.devices.cel.selectors import CompileError, DeviceFacts, RuntimeFailure, Selector, Selectors

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
!device.capacity['other.org'].cores.isInteger() && sign(quantity('-1')) == -1
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
REJECTED = {
    "device.driver ==": "syntax error at 1:15",
    "": "syntax error",
    "device.vendor == 'x'": "undefined field 'vendor'",
    "true || device.vendor == 'x'": "undefined field 'vendor'",
    "node.name == 'x'": "undeclared reference to 'node'",
    "shout('x')": "undeclared reference to 'shout'",
    "device.driver.shout()": "undeclared reference to 'shout'",
    "device.driver": "must evaluate to bool or the unknown type, not string",
    "1 + 1": "must evaluate to bool or the unknown type, not int",
    "dyn(true)": "must evaluate to bool or the unknown type, not dyn",
    "device.attributes['d.org'].?healthy": "unknown type, not optional_type(google.protobuf.Any)",
    "device.driver == 1": "found no matching overload for '_==_' applied to '(string, int)'",
    "device.driver == null": "no matching overload",
    "device.driver + 1 == 'x'": "no matching overload",
    "device.driver.isLessThan(semver('1.0.0'))": "for 'isLessThan' applied to 'string.(kubernetes.Semver)'",
    "device.capacity['d.org'].memory > quantity('1')": "no matching overload",
    "device.capacity['d.org'].memory.isLessThan(1)": "no matching overload",
    "device['driver'] == 'x'": "no matching overload for '_[_]' applied to '(kubernetes.DRADevice, string)'",
    "!1": "found no matching overload for '!_' applied to '(int)'",
    "device.driver && true": "expected type 'bool' but found 'string'",
    "has(device)": "invalid argument to has() macro",
    "1.exists(x, true)": "syntax error",
    "'a'.exists(x, true)": "cannot be range of a comprehension",
    "device.attributes['d.org'].model.exists(x, true)": "expression of type 'any' cannot be range of a comprehension",
    "[1].exists(1, true)": "argument is not an identifier",
    "[1].all(x, x)": "expected type 'bool' but found 'int'",
    "[1].all(x, y)": "undeclared reference to 'y'",
    "device.attributes['d.org'].model.matches('(')": "invalid matches argument",
}
FAILS = {
    "device.attributes['d.org'].absent == 1": "no such key: absent",
    "device.attributes['x.org'].absent": "no such key: absent",
    "device.attributes['d.org'].model": "CEL result of type string could not be converted to bool",
    "device.attributes['d.org'].model > 1": "no such overload",
    "device.attributes['d.org'].numa": "CEL result of type int could not be converted to bool",
    "device.attributes['d.org'].driverVersion": "CEL result of type kubernetes.Semver could not be converted to bool",
    "device.attributes['d.org'].model && true": "no such overload",
    "device.attributes['d.org'].driverVersion == '1.2.0'": "no such overload",
    "device.attributes['d.org'].numa.isLessThan(semver('1.0.0'))": "no such overload",
    "[1].map(x, 1 / (x - 1)) == [1]": "division by zero",
}


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize("expression", TRUE.strip().splitlines())
def test_selector_matches_device(expression):
    assert Selectors().matches(expression, DEVICE)


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize(("expression", "message"), [each for each in REJECTED.items() if each[1]])
def test_invalid_selector_does_not_compile(expression, message):
    selectors = Selectors()
    for _ in range(2):
        with pytest.raises(CompileError) as caught:
            selectors.matches(expression, DEVICE)
        assert message in str(caught.value)


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize(("expression", "message"), FAILS.items())
def test_selector_fails_for_device(expression, message):
    selectors = Selectors()
    for _ in range(2):
        with pytest.raises(RuntimeFailure) as caught:
            selectors.matches(expression, DEVICE)
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"v": {"version": "one"}}, "attribute v: parse semantic version: 'one' is not a semantic version"),
        ({"l": {"strings": ["a"]}}, "attribute l: unsupported attribute value"),
    ],
)
def test_unreadable_attribute_fails(attributes, message):
    with pytest.raises(RuntimeFailure) as caught:
        Selectors().matches("true", DeviceFacts.of("d.org", False, attributes, None))
    assert str(caught.value).startswith(message)


def test_too_deeply_nested_expression_fails():
    with pytest.raises((CompileError, RuntimeFailure)):
        Selectors().matches("[" * 3000 + "]" * 3000 + " == []", DEVICE)


def test_long_chain_of_operators_is_not_nested():
    assert Selectors().matches(" || ".join(["false"] * 2000 + ["true"]), DEVICE)


@pytest.mark.parametrize("expression", ["device.driver == 'd.org'", "device.attributes['d.org'].absent"])
def test_result_is_cached_for_equal_devices(monkeypatch, expression):
    selectors = Selectors()
    again = DeviceFacts.of("d.org", False, dict(reversed(ATTRIBUTES.items())), {"memory": {"value": "40Gi"}})
    same = DeviceFacts.of("d.org", False, ATTRIBUTES, {"memory": {"value": "40Gi"}})
    results = [_result(selectors, expression, again)]
    monkeypatch.setattr(compiled.Selector, "matches", lambda *_: pytest.fail("evaluated again"))
    results.append(_result(selectors, expression, same))
    assert results[0] == results[1]


def _result(selectors, expression, device):
    try:
        return selectors.matches(expression, device)
    except RuntimeFailure as failure:
        return str(failure)


def test_expression_is_compiled_once(monkeypatch):
    selectors = Selectors()
    selectors.matches("device.driver == 'd.org'", DEVICE)
    monkeypatch.setattr("bayplan.core.devices.cel.parsing.parse", lambda *_: pytest.fail("compiled again"))
    assert not selectors.matches("device.driver == 'd.org'", DeviceFacts.of("e.org", False, None, None))


def test_facts_of_different_devices_differ():
    one = DeviceFacts.of("d.org", False, {"a": {"int": 1}}, None)
    others = [
        DeviceFacts.of("e.org", False, {"a": {"int": 1}}, None),
        DeviceFacts.of("d.org", True, {"a": {"int": 1}}, None),
        DeviceFacts.of("d.org", False, {"a": {"string": "1"}}, None),
        DeviceFacts.of("d.org", False, {"a": {"int": 1}}, {"a": {"value": "1"}}),
    ]
    assert one not in others
    assert {one, *others} == {one, *others, DeviceFacts.of("d.org", False, {"a": {"int": 1}}, None)}
    assert one != "d.org"
    assert "d.org" in repr(one)


def _evaluations(monkeypatch):
    """The devices for which an expression is evaluated from now on."""
    seen, matches = [], compiled.Selector.result

    def recorded(self, device, *meter):
        seen.append(device)
        return matches(self, device, *meter)

    monkeypatch.setattr(compiled.Selector, "result", recorded)
    return seen


@pytest.mark.parametrize(
    ("expression", "evaluations"),
    [
        ("[1, 2].all(x, x > 0)", 1),
        ("device.driver == 'd.org'", 1),
        ("device.attributes['d.org'].same == 1", 1),
        ("cel.bind(d, device.attributes['d.org'], d.same == 1)", 1),
        ("[1].all(x, has(device.attributes['d.org'].same))", 1),
        ("[1].all(device, device == 1)", 1),
        ("device.attributes['d.org'].own >= 0", 4),
        ("device.attributes['d.org'].all(name, name != '')", 4),
        ("[device].size() == 1", 4),
        ("cel.bind(d, device, d.attributes['d.org'].own >= 0)", 4),
    ],
)
def test_devices_share_results_if_the_expression_reads_the_same_of_them(monkeypatch, expression, evaluations):
    selectors, seen = Selectors(), _evaluations(monkeypatch)
    for own in range(4):
        attributes = {"same": {"int": 1}, "own": {"int": own}}
        assert selectors.matches(expression, DeviceFacts.of("d.org", False, attributes, None))
    assert len(seen) == evaluations


def test_values_of_different_types_are_not_the_same_reading():
    selectors = Selectors()
    for value, wanted in (({"bool": True}, True), ({"int": 1}, False), ({"string": "1"}, False)):
        device = DeviceFacts.of("d.org", False, {"a": value}, None)
        assert selectors.matches("type(device.attributes['d.org'].a) == bool", device) is wanted


@pytest.mark.parametrize(
    "expression",
    [
        "[1, 2].all(x, [3, 4].all(y, x < y)) && device.attributes['d.org'].own >= 0",
        "[1, 2].all(x, device.attributes['d.org'].same == 1) && device.attributes['d.org'].own >= 0",
        "[1, 2, 3].all(x, device.attributes['d.org'].own >= 0 && device.attributes['d.org'].own < x + 4)",
        "[1, 2].all(x, device.attributes['d.org'].absent == 1 || device.attributes['d.org'].own >= 0)",
        "cel.bind(d, device.attributes['d.org'], [1].all(x, d.same == 1) && [1].all(x, d.same == 1) && d.own >= 0)",
    ],
)
def test_values_that_are_used_again_cost_the_same(expression):
    selector, costs = Selector(expression), set()
    for own in range(4):
        device, meter = DeviceFacts.of("d.org", False, {"same": {"int": 1}, "own": {"int": own}}, None), Meter()
        assert selector.matches(device, meter)
        costs.add(meter.spent)
    assert len(costs) == 1


class Late(Exception):
    """Ends an evaluation."""


def test_checkpoint_ends_an_evaluation_which_is_not_cached():
    numbers = f"[{', '.join(map(str, range(100)))}]"
    expression, late = f"{numbers}.all(x, {numbers}.all(y, x + y >= 0))", [Late]

    def during():
        if late:
            raise late.pop()

    selectors = Selectors(during=during)
    with pytest.raises(Late):
        selectors.matches(expression, DEVICE)
    assert selectors.matches(expression, DEVICE)


@pytest.mark.parametrize(
    "body", ["l.filter(y, false).size() > 0", "l.exists_one(y, false)", "l.map(y, false, 1) != []"]
)
def test_checkpoint_ends_loops_whose_rounds_cost_nothing(body):
    calls = []

    def during():
        calls.append(1)
        if len(calls) == 3:
            raise Late

    expression = f"cel.bind(l, lists.range(1000), l.filter(x, {body}).size() == 0)"
    meter = Meter(checkpoint=during)
    with pytest.raises(Late):
        Selector(expression).matches(DEVICE, meter)
    assert meter.spent < 10_000


def test_results_are_kept_before_other_work_has_its_turn():
    def after():
        raise Late

    selectors = Selectors(after=after)
    with pytest.raises(Late):
        selectors.matches("true", DEVICE)
    assert selectors.matches("true", DEVICE)
