"""Functions and macros of selectors: a valid case for each overload, and failures."""

# ruff: noqa: E501 - an expression is easier to read on one line

import pytest

from bayplan.core.devices.cel.declarations import FUNCTIONS
from bayplan.core.devices.cel.library import IMPLEMENTATIONS
from bayplan.core.devices.cel.selectors import CompileError, DeviceFacts, RuntimeFailure, Selectors

SELECTORS = Selectors()
DEVICE = DeviceFacts.of(
    "d.org",
    False,
    {
        "model": {"string": "a100"},
        "healthy": {"bool": True},
        "numa": {"int": 1},
        "firmware": {"version": "1.2.0-rc.1"},
        "address": {"string": "10.0.0.7"},
    },
    {"memory": {"value": "40Gi"}},
)
HOURS = "timestamp('2026-03-04T05:06:07.089Z')"

TRUE = {
    "logic": """
        true && !false || false
        (1 < 2 ? 'a' : 'b') == 'a'
        1 != 2 && dyn(1) != 'a' && null == null && dyn('a') != null
        [1, 2] == [1, 2] && {'a': [1]} == {'a': [1]} && [1] != [2] && {'a': 1} != {'b': 1} && [1] != [1, 2]
        optional.of(1) == optional.of(1) && optional.none() != optional.of(1) && b'a' == b'\\x61'
    """,
    "arithmetic": """
        1 + 2 == 3 && 1u + 2u == 3u && 1.5 + 1.5 == 3.0 && 'a' + 'b' == 'ab' && b'a' + b'b' == b'ab'
        [1] + [2] == [1, 2] && [] + [1] == [1]
        5 - 7 == -2 && 7u - 5u == 2u && 1.5 - 1.0 == 0.5
        3 * 4 == 12 && 3u * 4u == 12u && 1.5 * 2.0 == 3.0
        7 / -2 == -3 && 7u / 2u == 3u && 1.0 / 2.0 == 0.5 && 1.0 / 0.0 == double('Infinity') && -7 / 2 == -3
        -7 % 3 == -1 && 7 % -3 == 1 && 7u % 3u == 1u
        -(1) == -1 && -(1.5) == -1.5 && -(device.capacity['d.org'].size()) == -1
        -9223372036854775808 < 0 && 18446744073709551615u > 0u && 0x10 == 16 && 0xFFu == 255u && 1e3 == 1000.0
    """,
    "order": """
        1 < 2 && 1u < 2u && 1.0 < 2.0 && 'a' < 'b' && b'a' < b'b' && false < true
        1 < 1.5 && 1 < 2u && 1u < 1.5 && 1u < 2 && 0.5 < 1 && 0.5 < 1u && -1 < 0u
        2 > 1 && 2u > 1u && 2.0 > 1.0 && 'b' > 'a' && b'b' > b'a' && true > false
        2 > 1.5 && 2 > 1u && 2u > 1.5 && 2u > 1 && 1.5 > 1 && 1.5 > 1u
        1 <= 1 && 1u <= 1u && 1.0 <= 1.0 && 'a' <= 'a' && b'a' <= b'a' && true <= true
        1 <= 1.0 && 1 <= 1u && 1u <= 1.0 && 1u <= 1 && 1.0 <= 1 && 1.0 <= 1u
        1 >= 1 && 1u >= 1u && 1.0 >= 1.0 && 'a' >= 'a' && b'a' >= b'a' && true >= true
        1 >= 1.0 && 1 >= 1u && 1u >= 1.0 && 1u >= 1 && 1.0 >= 1 && 1.0 >= 1u
        duration('1s') < duration('2s') && duration('2s') > duration('1s')
        duration('1s') <= duration('1s') && duration('1s') >= duration('1s')
        timestamp(1) < timestamp(2) && timestamp(2) > timestamp(1)
        timestamp(1) <= timestamp(1) && timestamp(1) >= timestamp(1)
        'é' > 'z' && '\\U00010000' > '\\uffff'
    """,
    "elements": """
        [1, 2][1] == 2 && [1, 2][dyn(1u)] == 2 && [1, 2][dyn(1.0)] == 2 && {'a': 1}['a'] == 1 && {1: 'a'}[1] == 'a'
        {1: 'a'}[dyn(1.0)] == 'a' && {1u: 'a'}[dyn(1)] == 'a' && {true: 1}[true] == 1
        1 in [1, 2] && !(3 in [1, 2]) && 'a' in {'a': 1} && !('b' in {'a': 1}) && dyn(1.0) in [1]
        device.attributes['d.org'].model in ['h100', 'a100'] && !(device.driver in []) && [1] in [[1], [2]]
        size('añb') == 3 && 'ab'.size() == 2 && size(b'abc') == 3 && b'ab'.size() == 2
        size([1]) == 1 && [1, 2].size() == 2 && size({'a': 1}) == 1 && {}.size() == 0
    """,
    "conversions": """
        type(1) == int && type(1u) == uint && type(1.0) == double && type('a') == string && type(b'a') == bytes
        type([]) == list && type({}) == map && type(null) == null_type && type(true) == bool && type(int) == type
        type(duration('1s')) == google.protobuf.Duration && type(timestamp(1)) == google.protobuf.Timestamp
        type(ip('::1')) == net.IP && type(cidr('::/0')) == net.CIDR && type(optional.none()) == optional_type
        bool(true) && bool('true') && bool('1') && !bool('F')
        bytes(b'a') == b'a' && bytes('é') == b'\\303\\251'
        double(1.5) == 1.5 && double(1) == 1.0 && double(1u) == 1.0 && double('1.5e3') == 1500.0 && double('-Inf') < 0.0
        duration(duration('1s')) == duration('1s') && duration(1000000000) == duration('1s')
        duration('1h2m3.5s') == duration('3723500ms') && duration('-1us') == duration('-1000ns')
        int(1) == 1 && int(1.9) == 1 && int(-1.9) == -1 && int('-7') == -7 && int(7u) == 7 && int(duration('1s')) == 1000000000
        int(timestamp('1970-01-01T00:01:00Z')) == 60
        string('a') == 'a' && string(true) == 'true' && string(b'a') == 'a' && string(1) == '1' && string(1u) == '1'
        string(1.5) == '1.5' && string(1000000.0) == '1e+06' && string(0.00001) == '1e-05' && string(123.0) == '123'
        string(double('NaN')) == 'NaN' && string(double('Infinity')) == '+Inf' && string(100000.5) == '100000.5'
        string(duration('90s')) == '90s' && string(duration('2us')) == '0.000002s' && string(duration('1500ms')) == '1.5s'
        string(timestamp('2026-01-02T03:04:05.120Z')) == '2026-01-02T03:04:05.12Z'
        string(timestamp('2026-01-02T03:04:05+01:30')) == '2026-01-02T03:04:05+01:30'
        timestamp(timestamp(1)) == timestamp(1) && timestamp(60) == timestamp('1970-01-01T00:01:00Z')
        uint(1u) == 1u && uint(1.9) == 1u && uint(1) == 1u && uint('7') == 7u
        string(ip('::0001')) == '::1' && string(cidr('10.0.0.0/8')) == '10.0.0.0/8'
    """,
    "strings": """
        'abc'.contains('b') && 'abc'.startsWith('ab') && 'abc'.endsWith('bc')
        'abc'.matches('^a.c$') && matches('abc', 'b') && !'abc'.matches('^b')
        'tacocat'.charAt(3) == 'o' && 'tacocat'.charAt(7) == '' && '©αT'.charAt(1) == 'α'
        'tacocat'.indexOf('ac') == 1 && 'tacocat'.indexOf('a', 3) == 5 && 'ab'.indexOf('c') == -1 && 'ab'.indexOf('a', 9) == -1
        'tacocat'.indexOf('') == 0 && 'tacocat'.indexOf('', 3) == 3
        'tacocat'.lastIndexOf('at') == 5 && 'tacocat'.lastIndexOf('a', 3) == 1 && ''.lastIndexOf('x') == -1
        'tacocat'.lastIndexOf('') == 7 && 'tacocat'.lastIndexOf('a', 9) == -1
        'TacoCÆt'.lowerAscii() == 'tacocÆt' && 'tacoCÆt'.upperAscii() == 'TACOCÆT'
        '12 days 12'.replace('12', '1') == '1 days 1' && 'aa'.replace('a', 'b', 1) == 'ba' && 'aa'.replace('a', 'b', -1) == 'bb'
        'ab'.replace('', '_') == '_a_b_'
        'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c'] && 'a'.split(',', 0) == []
        'abc'.split('') == ['a', 'b', 'c'] && 'abc'.split('', 2) == ['a', 'bc']
        'tacocat'.substring(4) == 'cat' && 'tacocat'.substring(0, 4) == 'taco' && 'a'.substring(1) == ''
        ' \\f\\ttrim\\u2003 '.trim() == 'trim'
        strings.quote('a"b\\n') == '"a\\\\"b\\\\n"'
        ['a', 'b'].join() == 'ab' && ['a', 'b'].join('-') == 'a-b' && [].join('x') == ''
        'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]') == ''
        '1 a 2'.findAll('[0-9]') == ['1', '2'] && '1 2 3'.findAll('[0-9]', 2) == ['1', '2']
    """,
    "formatting": """
        '%s is %d%%'.format(['it', 5]) == 'it is 5%' && ''.format([]) == ''
        '%.3f %f'.format([1.2345, 2.5]) == '1.234 2.500000' && '%f'.format([1234567.5]) == '1,234,567.500000'
        '%.6e'.format([1052.032911275]) == '1.052033\\u202f\\u00d7\\u202f10\\u2070\\u00b3'
        '%b %b %o'.format([5, true, 11]) == '101 1 13' && '%x %X %x'.format([30, 'Hi', b'hi']) == '1e 4869 6869'
        '%s'.format([[1, 'a', 1.5, null, b'b', duration('1s')]]) == '[1, "a", 1.500000, null, b"b", duration("1s")]'
        '%s'.format([{'b': 1, 'a': true}]) == '{"a":true, "b":1}' && '%s %s'.format([null, type(1)]) == 'null int'
        '%f %e'.format(['NaN', '-Infinity']) == 'NaN -∞'
    """,
    "time": f"""
        {HOURS}.getFullYear() == 2026 && {HOURS}.getFullYear('+14:00') == 2026
        {HOURS}.getMonth() == 2 && {HOURS}.getMonth('UTC') == 2
        {HOURS}.getDayOfYear() == 62 && {HOURS}.getDayOfYear('UTC') == 62
        {HOURS}.getDayOfMonth() == 3 && {HOURS}.getDayOfMonth('America/New_York') == 3
        {HOURS}.getDate() == 4 && {HOURS}.getDate('-06:00') == 3
        {HOURS}.getDayOfWeek() == 3 && {HOURS}.getDayOfWeek('-06:00') == 2
        {HOURS}.getHours() == 5 && {HOURS}.getHours('02:30') == 7 && duration('90m').getHours() == 1
        {HOURS}.getMinutes() == 6 && {HOURS}.getMinutes('02:30') == 36 && duration('90s').getMinutes() == 1
        {HOURS}.getSeconds() == 7 && {HOURS}.getSeconds('UTC') == 7 && duration('-1500ms').getSeconds() == -1
        {HOURS}.getMilliseconds() == 89 && {HOURS}.getMilliseconds('UTC') == 89 && duration('1.5s').getMilliseconds() == 1500
        timestamp(10) + duration('5s') == timestamp(15) && duration('5s') + timestamp(10) == timestamp(15)
        duration('1s') + duration('2s') == duration('3s') && duration('3s') - duration('1s') == duration('2s')
        timestamp(10) - duration('5s') == timestamp(5) && timestamp(10) - timestamp(4) == duration('6s')
    """,
    "lists": """
        [1, 2, 2].isSorted() && [1u, 2u].isSorted() && [1.0, 2.0].isSorted() && ['a', 'b'].isSorted() && ![2, 1].isSorted()
        [false, true].isSorted() && [b'a'].isSorted() && [timestamp(1)].isSorted() && [duration('1s')].isSorted()
        [1, 2].sum() == 3 && [1u, 2u].sum() == 3u && [1.5, 2.0].sum() == 3.5 && [duration('1s')].sum() == duration('1s')
        [1, 3, 2].max() == 3 && [1u].max() == 1u && [1.0].max() == 1.0 && ['a', 'b'].max() == 'b' && [b'a'].max() == b'a'
        [true].max() && [timestamp(1)].max() == timestamp(1) && [duration('1s')].max() == duration('1s')
        [3, 1].min() == 1 && [1u].min() == 1u && [1.0].min() == 1.0 && ['a', 'b'].min() == 'a' && [b'a'].min() == b'a'
        ![true, false].min() && [timestamp(1)].min() == timestamp(1) && [duration('1s')].min() == duration('1s')
        [1, 2, 2].indexOf(2) == 1 && [1, 2, 2].lastIndexOf(2) == 2 && [1].indexOf(7) == -1 && [1].lastIndexOf(7) == -1
        [1, 2, 3, 4].slice(1, 3) == [2, 3] && [1].slice(1, 1) == []
        [[1], [2, 3]].flatten() == [1, 2, 3] && dyn([1, 2]).flatten() == [1, 2] && [[[1]]].flatten(2) == [1]
        [3, 1, 2].sort() == [1, 2, 3] && ['b', 'a'].sort() == ['a', 'b'] && [2u, 1u].sort() == [1u, 2u] && [].sort() == []
        [2.0, 1.0].sort() == [1.0, 2.0] && [true, false].sort() == [false, true] && [b'b', b'a'].sort() == [b'a', b'b']
        [duration('2s'), duration('1s')].sort()[0] == duration('1s') && [timestamp(2), timestamp(1)].sort()[0] == timestamp(1)
        [-3, 1, -5].sortBy(e, -(e * e)) == [-5, -3, 1] && lists.range(3).sortBy(e, -e) == [2, 1, 0]
        [1, 2].sortBy(e, 5u - uint(e)) == [2, 1] && [1, 2].sortBy(e, -double(e)) == [2, 1] && [1, 2].sortBy(e, e < 2) == [2, 1]
        ['ab', 'c'].sortBy(e, e.size()) == ['c', 'ab'] && ['b', 'a'].sortBy(e, e) == ['a', 'b'] && ['b', 'a'].sortBy(e, bytes(e)) == ['a', 'b']
        [2, 1].sortBy(e, duration(e * 1000)) == [1, 2] && [2, 1].sortBy(e, timestamp(e)) == [1, 2]
        lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1] && [1, 1, 2].distinct() == [1, 2]
        sets.contains([1, 2], [2, 2]) && !sets.contains([1], [1, 2]) && sets.equivalent([1, 1], [1]) && sets.intersects([1], [1, 2])
        device.attributes['d.org'].model.includes('a100') && [1, 2].includes(2) && !device.driver.includes('x')
    """,
    "optionals": """
        optional.of(1).value() == 1 && optional.of(1).hasValue() && !optional.none().hasValue()
        !optional.ofNonZeroValue(0).hasValue() && !optional.ofNonZeroValue('').hasValue() && optional.ofNonZeroValue(1).hasValue()
        !optional.ofNonZeroValue([]).hasValue() && !optional.ofNonZeroValue({}).hasValue() && !optional.ofNonZeroValue(null).hasValue()
        !optional.ofNonZeroValue(duration('0s')).hasValue() && optional.ofNonZeroValue(ip('::')).hasValue()
        optional.none().orValue(7) == 7 && optional.of(1).orValue(7) == 1
        optional.none().or(optional.of(2)).value() == 2 && optional.of(1).or(optional.of(2)).value() == 1
        {'a': 1}.?a.value() == 1 && !{'a': 1}.?b.hasValue() && {'a': {'b': 1}}.?a.b.value() == 1
        {'a': 1}[?'a'].value() == 1 && [1, 2][?1].value() == 2 && ![1][?5].hasValue() && ![1][?-1].hasValue()
        optional.of([1])[0].value() == 1 && optional.of([1])[?3].orValue(0) == 0
        optional.of({'a': 1})['a'].value() == 1 && optional.of({'a': 1})[?'b'].orValue(0) == 0
        [1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue() && ![].last().hasValue()
        optional.unwrap([optional.of(1), optional.none()]) == [1] && [optional.none(), optional.of(2)].unwrapOpt() == [2]
        optional.of(2).optMap(x, x * 2).value() == 4 && !optional.none().optMap(x, x).hasValue()
        {'a': {'b': 1}}.?a.optFlatMap(x, x.?b).value() == 1
        [?optional.none(), 1, ?optional.of(2)] == [1, 2] && {?'a': optional.none(), ?'b': optional.of(1)} == {'b': 1}
        device.attributes['d.org'].?healthy.orValue(false) && !device.attributes['d.org'].?absent.hasValue()
        device.attributes[?'x.org'].?absent.orValue('none') == 'none' && device.?driver.value() == 'd.org'
        device.attributes['d.org'].?model.optMap(m, m.startsWith('a')).orValue(false)
        has(device.attributes['d.org'].model) && !has({}.a) && has({'a': 1}.a) && !has({'a': {}}.?a.b)
    """,
    "macros": """
        [1, 2].all(x, x > 0) && ![1, 2].all(x, x > 1) && [].all(x, false) && {'a': 1}.all(k, k == 'a')
        [1, 2].exists(x, x > 1) && ![].exists(x, true) && [0, 1].exists(x, 1 / x == 1)
        [1, 2].exists_one(x, x == 1) && [1, 2].existsOne(x, x == 1) && ![1, 1].existsOne(x, x == 1)
        [1, 2].map(x, x * 2) == [2, 4] && [1, 2].map(x, x > 1, x) == [2] && {'a': 1}.map(k, k) == ['a']
        [1, 2].filter(x, x > 1) == [2] && {'a': 1}.filter(k, true) == ['a']
        [1, 2].all(i, v, v == i + 1) && {'a': 1}.all(k, v, k == 'a' && v == 1)
        [1, 2].exists(i, v, v == 2 && i == 1) && [1, 2].existsOne(i, v, i == 0) && {'a': 1}.exists_one(k, v, v == 1)
        [1, 2].transformList(i, v, i + v) == [1, 3] && [1, 2].transformList(i, v, v > 1, v) == [2]
        {'a': 1}.transformMap(k, v, v + 1) == {'a': 2} && {'a': 1, 'b': 2}.transformMap(k, v, v > 1, v) == {'b': 2}
        ['a', 'b'].transformMap(i, v, v) == {0: 'a', 1: 'b'}
        {'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'} && [1, 2].transformMapEntry(i, v, v > 1, {v: i}) == {2: 1}
        cel.bind(d, device.attributes['d.org'], d.numa == 1 && d.healthy) && cel.bind(x, 1, cel.bind(y, x + 1, y)) == 2
        [[1], [2]].all(x, x.all(x, x > 0)) && [1].map(x, [x].map(x, x + 1)) == [[2]]
    """,
    "quantities": """
        quantity('1Gi') == quantity('1024Mi') && isQuantity('20M') && !isQuantity('20Mo') && sign(quantity('-2')) == -1
        quantity('50Mi').isGreaterThan(quantity('50M')) && quantity('50M').isLessThan(quantity('50Mi'))
        quantity('200M').compareTo(quantity('0.2G')) == 0 && quantity('1').compareTo(quantity('2')) == -1
        quantity('50.703k').asApproximateFloat() == 50703.0 && quantity('50k').asInteger() == 50000
        quantity('80Gi').isInteger() && quantity('9999Gi').isInteger() && !quantity('100Ti').isInteger()
        !quantity('1.5Gi').isInteger() && !quantity('1000m').isInteger() && quantity('1.5k').asInteger() == 1500
        quantity('1').sub(-9223372036854775808).asInteger() == -9223372036854775807
        !quantity('1.5Gi').add(quantity('1')).isInteger() && quantity('0m').add(2).isInteger()
        quantity('50').isInteger() && !quantity('1500m').isInteger() && quantity('50k').add(quantity('20')) == quantity('50020')
        quantity('50k').add(20) == quantity('50020') && quantity('50k').sub(quantity('20')) == quantity('49980')
        quantity('50k').sub(-20) == quantity('50020') && device.capacity['d.org'].memory.isGreaterThan(quantity('39Gi'))
    """,
    "versions": """
        semver('1.2.3') == semver('1.2.3+build') || semver('1.2.3') != semver('1.2.3-rc')
        semver('v1.02', true) == semver('1.2.0') && isSemver('1.2.3-a.1+b') && !isSemver('v1.0.0') && isSemver('v1', true)
        semver('1.0.0').isLessThan(semver('1.1.0')) && semver('1.10.0').isGreaterThan(semver('1.9.0'))
        semver('1.0.0-alpha.1').compareTo(semver('1.0.0-alpha.beta')) == -1 && semver('1.0.0').compareTo(semver('1.0.0-rc')) == 1
        semver('1.2.3').major() == 1 && semver('1.2.3').minor() == 2 && semver('1.2.3').patch() == 3
        device.attributes['d.org'].firmware.isLessThan(semver('1.2.0')) && !device.attributes['d.org'].firmware.includes('x')
    """,
    "network": """
        ip('10.0.0.1').family() == 4 && ip('::1').family() == 6 && ip('::1') == ip('0::1') && ip('::1') != ip('::2')
        ip.isCanonical('2001:db8::abcd') && !ip.isCanonical('2001:DB8::ABCD') && isIP('10.0.0.1') && !isIP('10.0.0') && !isIP('fe80::1%eth0')
        ip('0.0.0.0').isUnspecified() && ip('127.0.0.1').isLoopback() && ip('::1').isLoopback() && !ip('10.0.0.1').isLoopback()
        ip('224.0.0.1').isLinkLocalMulticast() && ip('ff02::1').isLinkLocalMulticast() && !ip('224.0.1.1').isLinkLocalMulticast()
        ip('169.254.0.1').isLinkLocalUnicast() && ip('fe80::1').isLinkLocalUnicast()
        ip('10.0.0.1').isGlobalUnicast() && !ip('255.255.255.255').isGlobalUnicast() && !ip('ff00::1').isGlobalUnicast()
        cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').containsIP(ip('10.1.2.3')) && !cidr('10.0.0.0/8').containsIP('::1')
        cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && !cidr('10.1.0.0/16').containsCIDR(cidr('10.0.0.0/8'))
        cidr('10.1.2.3/8').ip() == ip('10.1.2.3') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8') && cidr('::/64').prefixLength() == 64
        isCIDR('10.0.0.0/8') && !isCIDR('10.0.0.0/33') && !isCIDR('10.0.0.0') && !isCIDR('::ffff:10.0.0.1/100')
        cidr('10.0.0.0/24').containsIP(ip(device.attributes['d.org'].address))
    """,
    "urls": """
        url('https://user@example.com:80/a%20b/?k=1&k=2&l=x+y').getScheme() == 'https'
        url('https://example.com:80/').getHost() == 'example.com:80' && url('https://example.com:80/').getHostname() == 'example.com'
        url('https://[::1]:80/').getHost() == '[::1]:80' && url('https://[::1]:80/').getHostname() == '::1' && url('/a').getHost() == ''
        url('https://example.com:80/').getPort() == '80' && url('https://example.com/').getPort() == ''
        url('https://h/a%20b/').getEscapedPath() == '/a%20b/' && url('https://h/with space/').getEscapedPath() == '/with%20space/'
        url('https://h/?k=1&k=2&l=x+y').getQuery() == {'k': ['1', '2'], 'l': ['x y']} && url('https://h').getQuery() == {}
        isURL('https://h/p?q#f') && isURL('/absolute') && !isURL('relative') && !isURL('') && !isURL('http://bad host/') && !isURL('https://h:x/')
        url('https://h/a') == url('https://h/a') && url('https://h/a') != url('https://h/b') && isURL('mailto:a@b')
    """,
    "formats": """
        !format.dns1123Label().validate('a-1').hasValue() && format.dns1123Label().validate('a.b').value() == ['must not contain dots']
        !format.dns1123Subdomain().validate('a.b').hasValue() && format.dns1123Subdomain().validate('A').hasValue()
        !format.dns1035Label().validate('a1').hasValue() && format.dns1035Label().validate('1a').hasValue()
        !format.qualifiedName().validate('a.b/C').hasValue() && format.qualifiedName().validate('a/b/c').hasValue()
        !format.dns1123LabelPrefix().validate('a-').hasValue() && !format.dns1123SubdomainPrefix().validate('a.b-').hasValue()
        !format.dns1035LabelPrefix().validate('a-').hasValue() && !format.labelValue().validate('').hasValue()
        format.labelValue().validate('-').hasValue() && format.named('labelValue').value() == format.labelValue()
        !format.uri().validate('https://h').hasValue() && format.uri().validate('h').hasValue()
        !format.uuid().validate('123e4567-e89b-12d3-a456-426614174000').hasValue() && format.uuid().validate('1').hasValue()
        !format.byte().validate('aGVsbG8=').hasValue() && format.byte().validate('a').value() == ['invalid base64']
        !format.date().validate('2024-02-29').hasValue() && format.date().validate('2023-02-29').value() == ['invalid date']
        !format.datetime().validate('2021-01-01T00:00:00Z').hasValue() && format.datetime().validate('2021-01-01T24:00:00Z').hasValue()
        format.named('dns1123Label').hasValue() && !format.named('none').hasValue()
    """,
}

FAILS = {
    "{dyn(1): 1, dyn(device.attributes['d.org'].healthy): 1} == {}": "keys of a map are of different types",
    "9223372036854775807 + device.attributes['d.org'].numa == 0": "integer overflow",
    "0u - uint(device.capacity.size()) == 0u": "unsigned integer overflow",
    "-(-9223372036854775808 + device.capacity.size() - 1) == 0": "integer overflow",
    "9223372036854775807 * device.capacity.size() * 2 == 0": "integer overflow",
    "1 / 0 == 1": "division by zero",
    "1 % 0 == 1": "modulus by zero",
    "dyn(1) + 'a' == 'a'": "no such overload",
    "dyn(true) + dyn(true) == true": "no such overload: _+_",
    "dyn(1) < 'a'": "no such overload",
    "double('NaN') < 1.0": "NaN values cannot be ordered",
    "!dyn('a')": "no such overload",
    "dyn('a') && true": "no such overload",
    "dyn('a') ? true : false": "no such overload",
    "dyn('abc').all(x, x == 'a')": "got 'types.String', expected iterable type",
    "dyn(1).all(i, v, true)": "got 'types.Int', expected iterable type",
    "[1][5] == 1": "index out of bounds: 5",
    "[1][dyn('a')] == 1": "unsupported index type 'string' in list",
    "[1][dyn(1.5)] == 1": "unsupported index value 1.5 in list",
    "{'a': 1}['b'] == 1": "no such key: b",
    "dyn(1).a == 1": "no such key: a",
    "{'a': 1}[device.attributes['d.org'].firmware] == 1": "invalid qualifier type: kubernetes.Semver",
    "1 in dyn('a')": "no such overload",
    "size(dyn(1)) == 1": "no such overload: size",
    "int(device.attributes['d.org'].healthy) == 1": "no such overload: int(bool)",
    "int(device.driver) == 1": "type conversion error from 'string' to 'int'",
    "int(1e30 * double(device.capacity.size())) == 1": "integer overflow",
    "uint(-device.capacity.size()) == 1u": "unsigned integer overflow",
    "bool(device.driver)": "type conversion error from 'string' to 'bool'",
    "double(device.driver) == 1.0": "type conversion error from 'string' to 'double'",
    "duration(device.driver) == duration('1s')": "type conversion error from 'string' to 'google.protobuf.Duration'",
    "timestamp(device.driver) == timestamp(1)": "type conversion error from 'string' to 'google.protobuf.Timestamp'",
    "timestamp(253402300799) + duration('1s') > timestamp(1)": "timestamp overflow",
    "timestamp(1).getHours('Nowhere/City') == 1": "unknown time zone Nowhere/City",
    "'abc'.charAt(7) == ''": "index out of range: 7",
    "'abc'.substring(7) == ''": "index out of range: 7",
    "'abc'.substring(2, 1) == ''": "invalid substring range. start: 2, end: 1",
    "'abc'.indexOf('a', -1) == 0": "index out of range: -1",
    "'abc'.lastIndexOf('a', -1) == 0": "index out of range: -1",
    "dyn(1).contains('a')": "no such overload",
    "dyn('a').charAt(dyn('b')) == ''": "no such overload: charAt(string, string)",
    "[dyn(1)].join() == ''": "no such overload: join(list)",
    "dyn(1).matches('a')": "no such overload: matches",
    "'a'.find('(' + device.driver) == ''": "Illegal regex: error parsing regexp: missing closing ): `(d.org",
    "'%d'.format([dyn('a')]) == ''": "error during formatting: %d cannot write a value of type string",
    "[].min() == 1": "min called on empty list",
    "[].max() == 1": "max called on empty list",
    "[1].slice(0, 2) == []": "cannot slice(0, 2), list is length 1",
    "[1].slice(1, 0) == []": "cannot slice(1, 0), start index must be less than or equal to end index",
    "[1].slice(-1, 0) == []": "cannot slice(-1, 0), negative indexes not supported",
    "[dyn([1])].flatten(-1) == []": "level must be non-negative",
    "[dyn(1), dyn('a')].sort() == []": "list elements must have the same type",
    "dyn([[1]]).sort() == []": "no such overload: sort(list)",
    "lists.range(2000000).size() == 1": "operation cancelled: actual cost limit exceeded",
    "optional.none().value() == 1": "optional.none() dereference",
    "[1, 1].transformMapEntry(i, v, {v: i}) == {}": "insert failed: key 1 already exists",
    "quantity('much') == quantity('1')": "'much' is not a quantity",
    "quantity('') == quantity('1')": "'' is not a quantity",
    "quantity('10Mo') == quantity('1')": "'10Mo' is not a quantity",
    "quantity('10Mm') == quantity('1')": "'10Mm' is not a quantity",
    "quantity('.') == quantity('1')": "'.' is not a quantity",
    "quantity('1500m').asInteger() == 1": "cannot convert value to integer",
    "quantity('2') == quantity('1').add(1)": "no such overload",
    "semver('one') == semver('1.0.0')": "is not a semantic version",
    "semver('') == semver('1.0.0')": "is not a semantic version",
    "semver('a.0.0') == semver('1.0.0')": "is not a semantic version",
    "semver('1.01.0') == semver('1.0.0')": "is not a semantic version",
    "semver('1.0.') == semver('1.0.0')": "is not a semantic version",
    "semver('1.0.18446744073709551616') == semver('1.0.0')": "a number does not fit into 64 bits",
    "semver('1.0.0-') == semver('1.0.0')": "is not a semantic version",
    "semver('1.0.0-01') == semver('1.0.0')": "is not a semantic version",
    "semver('1.0.0-a_b') == semver('1.0.0')": "is not a semantic version",
    "semver('1.0.0+') == semver('1.0.0')": "is not a semantic version",
    "semver('1.0.0+a_b') == semver('1.0.0')": "is not a semantic version",
    "semver('1-rc', true) == semver('1.0.0')": "short version cannot contain PreRelease/Build meta data",
    "device.attributes['d.org'].firmware == '1.2.0'": "no such overload",
    "device.attributes['d.org'].numa.isLessThan(semver('1.0.0'))": "no such overload: isLessThan(int, kubernetes.Semver)",
    "ip(device.driver) == ip('::1')": 'IP Address "d.org" parse error during conversion from string',
    "ip('::ffff:1.2.3.4') == ip('::1')": 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed',
    "ip('fe80::1%eth0') == ip('::1')": 'IP address "fe80::1%eth0" with zone value is not allowed',
    "cidr('10.0.0.0/') == cidr('::/0')": 'netip.ParsePrefix("10.0.0.0/"): bad bits after slash: ""',
    "url('relative').getHost() == ''": 'parse "relative": invalid URI for request',
    "url('https://h:x/').getHost() == ''": 'invalid port ":x" after host',
}

REFUSED = {
    "{'a': 1}[dyn(null)] == 1": "program instantiation failed: invalid qualifier type: null_type",
    "'a'.reverse() == 'a'": "found no matching overload for 'reverse' applied to 'string.()'",
    "math.abs(1) == 1": "undeclared reference to 'math'",
    "jsonpatch.escapeKey('a') == 'a'": "undeclared reference to 'jsonpatch'",
    "base64.encode(b'a') == 'a'": "undeclared reference to 'base64'",
    "quantity('1').sign() == 1": "found no matching overload for 'sign' applied to 'kubernetes.Quantity.()'",
    "[[]].sum() == 1": "found no matching overload for 'sum' applied to 'list(list(dyn)).()'",
    "int(dyn(true)) == 1": "program instantiation failed: no such overload: int(bool)",
    "int('x') == 1": "program instantiation failed: type conversion error from 'string' to 'int'",
    "'a'.find('(') == ''": "program instantiation failed: error parsing regexp: missing closing ): `(`",
    "duration('x') == duration('1s')": "program instantiation failed: type conversion error from 'string' to 'google.protobuf.Duration'",
    "timestamp('x') == timestamp(1)": "program instantiation failed: type conversion error from 'string' to 'google.protobuf.Timestamp'",
    "'a'.matches('(')": "invalid matches argument",
    "'%d'.format(['a']) == ''": "error during formatting: %d cannot write a value of type string",
    "'%s'.format([ip('::1')]) == ''": "%s cannot write a value of type net.IP",
    "'%s'.format([device.attributes['d'].a]) == ''": "%s cannot write a value of type google.protobuf.Any",
    "'%d'.format([device.attributes['d'].a]) == ''": "%d cannot write a value of type google.protobuf.Any",
    "'%s'.format([[1, {'a': device.attributes['d'].a}]]) == ''": "%s cannot write a value of type google.protobuf.Any",
    "'%s'.format([1, 2]) == ''": "too many arguments supplied to string.format (expected 1, got 2)",
    "'%s'.format([]) == ''": "index 0 out of range",
    "'%'.format([1]) == ''": "unexpected end of string",
    "'%q'.format([1]) == ''": 'unrecognized formatting clause "q"',
    "'%.f'.format([1.0]) == ''": "error while converting precision to integer",
    "[1, 'a'].size() == 2": "expected type 'int' but found 'string'",
    "[1, dyn('a')].size() == 2": "expected type 'int' but found 'dyn'",
    "{'a': 1, 'b': 1.0}.size() == 2": "expected type 'int' but found 'double'",
    "{'a': 1, 1: 1}.size() == 2": "expected type 'string' but found 'int'",
}


def _lines(table):
    return [(name, line.strip()) for name, text in table.items() for line in text.strip().splitlines()]


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize("expression", [pytest.param(line, id=f"{name}: {line}") for name, line in _lines(TRUE)])
def test_expression_is_true(expression):
    assert SELECTORS.matches(expression, DEVICE)


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize(("expression", "message"), FAILS.items())
def test_evaluation_fails(expression, message):
    with pytest.raises(RuntimeFailure) as caught:
        SELECTORS.matches(expression, DEVICE)
    assert message in str(caught.value)


@pytest.mark.feature("DynamicResources: selectors")
@pytest.mark.parametrize(("expression", "message"), REFUSED.items())
def test_compilation_fails(expression, message):
    with pytest.raises(CompileError) as caught:
        SELECTORS.matches(expression, DEVICE)
    assert message in str(caught.value)


_EVALUATED = {"_?_:_", "_[_]", "_[?_]", ".or", ".orValue", "cel.@mapInsert"}


def test_every_function_has_a_case():
    written = "\n".join(line for _, line in _lines(TRUE))
    names = {name.removeprefix(".") for name in FUNCTIONS if name.replace(".", "").isalnum()}
    assert {name for name in names if f"{name}(" not in written} == set()


def test_every_function_is_implemented():
    declared = {name.removeprefix(".") for name in set(FUNCTIONS) - _EVALUATED}
    assert declared == set(IMPLEMENTATIONS)
