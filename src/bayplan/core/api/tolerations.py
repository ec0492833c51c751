"""Taints and tolerations. Mirrors api/core/v1/toleration.go.

A taint is a tuple of key, value and effect, and can be the value of a column. Lt and Gt count where their gate is on.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from lightkube.models import core_v1

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
"""The key of the taint of cordoned nodes."""

BELOW, ABOVE = "Lt", "Gt"
"""The operators that compare numbers."""

Taint = tuple[str, str, str]
"""(key, value, effect)"""

_CANONICAL = re.compile(r"0|-?[1-9][0-9]*")


class Toleration(NamedTuple):
    """A toleration as a value. An empty key or effect matches any; an empty operator means Equal."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Whether the toleration tolerates a taint. Where Lt and Gt don't apply, ask only those that are `heeded`."""
        if not self.concerns(taint):
            return False
        if self.compares:
            limit, value = canonical_integer(self.value), canonical_integer(taint[1])
            if limit is None or value is None:
                return False
            return value < limit if self.operator == BELOW else value > limit
        return self.operator == "Exists" or (self.operator in {"", "Equal"} and self.value == taint[1])

    @property
    def compares(self) -> bool:
        """Whether the toleration compares numbers."""
        return self.operator in {BELOW, ABOVE}

    def comparison(self, taint: Taint) -> str:
        """Why a toleration that `compares` numbers doesn't tolerate the one of a taint: `5 is not below 3`."""
        for text in (taint[1], self.value):
            if canonical_integer(text) is None:
                return f"{text!r} is not an integer"
        return f"{taint[1]} is not {'below' if self.operator == BELOW else 'above'} {self.value}"

    def concerns(self, taint: Taint) -> bool:
        """Whether the toleration has the key and the effect of a taint, or any."""
        key, _, effect = taint
        return self.effect in {"", effect} and self.key in {"", key}


Tolerations = tuple[Toleration, ...]


def parse(tolerations: Iterable[core_v1.Toleration] | None) -> Tolerations:
    """The tolerations of a pod's spec as values."""
    return tuple(
        [
            Toleration(toleration.key or "", toleration.operator or "", toleration.value or "", toleration.effect or "")
            for toleration in tolerations or ()
        ]
    )


def heeded(tolerations: Tolerations, *, comparisons: bool) -> Tolerations:
    """The tolerations that count. Without `comparisons`, those with Lt and Gt don't.

    `comparisons`: the feature gate TaintTolerationComparisonOperators.
    """
    if comparisons or not any(each.compares for each in tolerations):
        return tolerations
    return tuple(each for each in tolerations if not each.compares)


def canonical_integer(text: str) -> int | None:
    """The number that a text is in its canonical form and in 64 bits; None for any other text."""
    if len(text) > 20 or not _CANONICAL.fullmatch(text):
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


def tolerate(tolerations: Tolerations, taint: Taint) -> bool:
    """Whether any of the tolerations tolerates a taint."""
    return any(toleration.tolerates(taint) for toleration in tolerations)


def taint_text(taint: Taint) -> str:
    """The taint as kubectl writes it: key=value:effect."""
    key, value, effect = taint
    return f"{key}={value}:{effect}" if value else f"{key}:{effect}"


def untolerated(tolerations: Tolerations, taints: Iterable[Taint]) -> list[Taint]:
    """The NoSchedule and NoExecute taints that are not tolerated."""
    return [taint for taint in taints if taint[2] in {NO_SCHEDULE, NO_EXECUTE} and not tolerate(tolerations, taint)]


def tolerate_scheduling(tolerations: Tolerations, taints: Iterable[Taint]) -> bool:
    """Whether all NoSchedule and NoExecute taints are tolerated."""
    return all(taint[2] not in {NO_SCHEDULE, NO_EXECUTE} or tolerate(tolerations, taint) for taint in taints)


def tolerated_seconds(taints: Iterable[core_v1.Taint], tolerations: Sequence[core_v1.Toleration]) -> float:
    """For how many seconds all taints are tolerated: 0 if one isn't tolerated, infinity without a limit."""
    seconds = math.inf
    values = parse(tolerations)
    for taint in taints:
        identity = (taint.key, taint.value or "", taint.effect)
        matching = [one for one, value in zip(tolerations, values, strict=True) if value.tolerates(identity)]
        if not matching:
            return 0.0
        limits = [one.tolerationSeconds for one in matching if one.tolerationSeconds is not None]
        seconds = min([seconds, *(max(limit, 0) for limit in limits)])
    return seconds
