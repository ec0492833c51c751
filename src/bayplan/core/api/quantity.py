"""Kubernetes quantities as exact integers.

Amounts are billionths of a unit (nano-units), the finest resolution in Kubernetes, so sums are exact and only the final
conversion rounds. Mirrors apimachinery's pkg/api/resource/quantity.go.
"""

from __future__ import annotations

import re
from functools import lru_cache

NANO = 10**9
"""Nano-units in one unit."""

LARGEST = 2**63 - 1
"""The largest amount that the scheduler counts, in whole units or in thousandths."""

_LONGEST = 1000
"""Characters of a quantity. Python refuses to convert very long numbers."""
_NUMBER = r"([+-]?)([0-9]+(?:\.[0-9]*)?|\.[0-9]+)"
# An exponent of more than 27 is larger than any valid quantity, and 10**exponent must stay small.
_SUFFIX = r"(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?0*(?:1?[0-9]|2[0-7]))?"
PATTERN = rf"^(?=.{{1,{_LONGEST}}}$){_NUMBER}{_SUFFIX}\Z"
"""A regular expression for the quantities that `parse` takes."""
_SYNTAX = re.compile(PATTERN)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_DECIMAL_SUFFIXES = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


class InvalidQuantity(ValueError):
    """A malformed quantity."""

    def __init__(self, text: object) -> None:
        super().__init__(
            f"{text!r} is not a quantity: expected a number with an optional suffix, as in 500m, 2 or 1.5Gi"
        )


@lru_cache(maxsize=8192)
def parse(text: str) -> int:
    """The quantity in nano-units; finer fractions are rounded away from zero. Raises InvalidQuantity."""
    match = _SYNTAX.match(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidQuantity(text)
    prefix, number, suffix = match[1], match[2], match[3] or ""
    whole, _, fraction = number.partition(".")
    digits = int((whole + fraction) or "0")
    if suffix in _BINARY:
        numerator, denominator = digits * NANO << _BINARY[suffix], 10 ** len(fraction)
    else:
        exponent = 9 - len(fraction) + (_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:]))
        numerator, denominator = digits * 10 ** max(exponent, 0), 10 ** max(-exponent, 0)
    nanos: int = -(-numerator // denominator)
    return -nanos if prefix == "-" else nanos


def is_integer(text: str) -> bool:
    """Whether upstream keeps a quantity as a 64-bit integer, rather than as a decimal number or with a scale.

    It does so for few digits only, and never for a fraction with a binary suffix (1.5Gi). Raises InvalidQuantity.
    """
    match = _SYNTAX.match(text)
    if match is None:
        raise InvalidQuantity(text)
    whole, _, fraction = match[2].partition(".")
    digits, suffix = whole.lstrip("0") or "0", match[3] or ""
    if suffix in _BINARY:
        return not fraction and len(digits) + _BINARY[suffix] * 3 // 10 < 15
    scale = (_DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])) - len(fraction)
    return len(digits + fraction) <= 18 and scale >= 0 and int(digits + fraction) * 10**scale <= LARGEST


def value(nanos: int) -> int:
    """Whole units, rounded up, saturated to 64 bits."""
    return saturated(-(-nanos // NANO))


def milli_value(nanos: int) -> int:
    """Thousandths of a unit, rounded up, saturated to 64 bits."""
    return saturated(-(-nanos // 10**6))


def saturated(amount: int) -> int:
    """The signed 64-bit integer that is nearest to an amount."""
    return amount if abs(amount) <= LARGEST else max(-(2**63), min(amount, LARGEST))


def format_quantity(nanos: int, *, binary: bool) -> str:
    """The canonical form of a number of billionths. `binary`: with a suffix like Mi where one fits."""
    if nanos == 0:
        return "0"
    if binary and abs(nanos) >= 1024 * NANO and nanos % NANO == 0:
        return _in_steps(nanos // NANO, 1024, _BINARY_SUFFIXES)
    return _in_steps(nanos, 1000, _DECIMAL_SUFFIXES)


def _in_steps(number: int, step: int, suffixes: tuple[str, ...]) -> str:
    index = 0
    while number % step == 0 and index < len(suffixes) - 1:
        number //= step
        index += 1
    return f"{number}{suffixes[index]}"
