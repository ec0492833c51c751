"""Label and field selectors in their text form."""

import pytest

from bayplan.core.api.labels import (
    InvalidSelector,
    label_key_errors,
    label_value_errors,
    parse_field_selector,
    parse_label_selector,
)

LABELS = {"app": "web", "tier": "front", "size": "10", "empty": ""}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("app=web", True),
        ("app==web,tier=front", True),
        ("app=web,tier=back", False),
        ("app!=web", False),
        ("other!=web", True),
        ("app", True),
        ("other", False),
        ("!other", True),
        ("!app", False),
        ("app in (db, web)", True),
        ("app notin (db,web)", False),
        ("other notin (db)", True),
        ("other in (db)", False),
        ("size>9", True),
        ("size<10", False),
        ("app>1", False),
        ("other>1", False),
        ("empty=", True),
        ("empty in ()", True),
        ("app in (,web)", True),
        ("  app = web , tier", True),
        ("app=in", False),
        ("example.com/app!=x", True),
    ],
)
def test_label_selectors(selector, matches):
    assert parse_label_selector(selector).matches(LABELS) is matches


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        ("zone in z1", "unable to parse requirement: found 'z1' expected: '('"),
        ("a=b,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("a b", "found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a=b c", "found 'c', expected: ',' or 'end of string'"),
        ("a in (b", "found '', expected: ',', or identifier"),
        ("a in (b c)", "found 'c', expected: ',' or ')'"),
        ("!", "found '', expected: identifier"),
        ("a=(", "found '(', expected: identifier"),
        ("a>b", "for 'Gt', 'Lt' operators, the value must be an integer"),
        ("a_/b=c", "prefix part"),
        ("a=-b", "a valid label must be an empty string"),
    ],
)
def test_invalid_label_selector(selector, message):
    with pytest.raises(InvalidSelector) as caught:
        parse_label_selector(selector)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        ("", True),
        ("a=1", True),
        ("a==1,b=", True),
        ("a!=1", False),
        ("missing=", True),
        ("missing!=x", True),
        (r"c=x\,y\=z", True),
    ],
)
def test_field_selectors(selector, matches):
    fields = {"a": "1", "b": "", "c": "x,y=z"}
    assert parse_field_selector(selector, lambda _: True).matches(fields) is matches


@pytest.mark.parametrize(
    ("selector", "message"),
    [("colour=red", "field label not supported: colour"), ("a", "invalid selector: 'a'; can't understand 'a'")],
)
def test_invalid_field_selector(selector, message):
    with pytest.raises(InvalidSelector, match=message):
        parse_field_selector(selector, lambda field: field == "a")


def test_required_value_of_a_field():
    selector = parse_field_selector("a=1,b!=2", lambda _: True)
    assert (selector.exact("a"), selector.exact("b")) == ("1", None)


@pytest.mark.parametrize("key", ["a", "A-b_c.d", "example.com/a", "a" * 63])
def test_label_keys(key):
    assert label_key_errors(key) == ()


@pytest.mark.parametrize("key", ["", "-a", "a b", "/a", "example.com/", "a/b/c", "Example.com/a", "a" * 64])
def test_invalid_label_key(key):
    assert label_key_errors(key)


@pytest.mark.parametrize(("value", "valid"), [("", True), ("a.b", True), ("a b", False), ("a" * 64, False)])
def test_label_values(value, valid):
    assert (label_value_errors(value) == ()) is valid
