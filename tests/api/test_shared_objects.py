import gc
import weakref

import pytest

from bayplan.core.api.sharing import CAPACITY, LONGEST, shared, shared_while_used


class Parsed:
    def __init__(self, text):
        self.text = text


parse = shared(Parsed)


def test_equal_texts_share_a_value():
    assert parse("a") is parse("a")
    assert parse("a") is not parse("b")


def test_long_texts_are_not_kept():
    value = weakref.ref(parse("x" * (LONGEST + 1)))
    gc.collect()
    assert value() is None


def test_long_texts_share_a_value_while_something_uses_it():
    @shared_while_used
    def parse(text, context):
        return Parsed((text, context))

    short, long = b"x", b"x" * (LONGEST + 1)
    assert parse(short, "a") is parse(short, "a")
    value = parse(long, "a")
    assert parse(bytes(long), "a") is value
    assert parse(long, "b").text == (long, "b")
    assert parse(long[1:] + b"y", "a").text == (long[1:] + b"y", "a")
    gone = weakref.ref(value)
    del value
    gc.collect()
    assert gone() is None


def test_the_oldest_values_are_given_back():
    first = weakref.ref(parse("first"))
    for number in range(CAPACITY):
        parse(f"other-{number}")
    gc.collect()
    assert first() is None


def test_errors_are_not_kept():
    attempts = []

    @shared
    def fails(text):
        attempts.append(text)
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="bad"):
            fails("bad")
    assert attempts == ["bad", "bad"]
