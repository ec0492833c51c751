"""Canonical quantities, as kube-apiserver returns them: `0.5` as `500m`, `1024Mi` as `1Gi`."""

from __future__ import annotations

import re
from functools import lru_cache

from bayplan.api import quantity

_SYNTAX = re.compile(r"([+-]?)(\d+(?:\.\d*)?|\.\d+)(Ki|Mi|Gi|Ti|Pi|Ei|[numkMGTPE]|[eE][+-]?\d+)?")


@lru_cache(maxsize=8192)
def canonical(text: str) -> str | None:
    """Returns the canonical form of a quantity, None if the text is not a quantity.

    Mirrors CanonicalizeBytes of apimachinery's pkg/api/resource: no fraction, the largest suffix that allows that.
    """
    match = _SYNTAX.fullmatch(text)
    if match is None:
        return None
    try:
        nanos = quantity.parse(text)
    except quantity.InvalidQuantity:
        return None
    suffix = match[3] or ""
    if nanos and suffix[:1] in {"e", "E"} and len(suffix) > 1 and suffix != "Ei":
        return _with_exponent(nanos)
    return quantity.format_quantity(nanos, binary=suffix.endswith("i"))


def _with_exponent(nanos: int) -> str:
    number, exponent = nanos, -9
    while number % 1000 == 0:
        number //= 1000
        exponent += 3
    return f"{number}e{exponent}" if exponent else f"{number}"
