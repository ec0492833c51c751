"""Taints and tolerations. Mirrors api/core/v1/toleration.go."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from lightkube.models import core_v1

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"

UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
"""The key of the taint of cordoned nodes."""

Taint = tuple[str, str, str]
"""(key, value, effect)"""


class Toleration(NamedTuple):
    """A toleration as a value. An empty key or effect matches any; an empty operator means Equal."""

    key: str
    operator: str
    value: str
    effect: str

    def tolerates(self, taint: Taint) -> bool:
        """Whether the toleration tolerates a taint. Lt and Gt tolerate nothing: their feature gate is off in 1.36."""
        key, value, effect = taint
        if self.effect and self.effect != effect:
            return False
        if self.key and self.key != key:
            return False
        return self.operator == "Exists" or (self.operator in {"", "Equal"} and self.value == value)


Tolerations = tuple[Toleration, ...]


def parse(tolerations: Iterable[core_v1.Toleration] | None) -> Tolerations:
    """The tolerations of a pod's spec as values."""
    return tuple(
        [
            Toleration(toleration.key or "", toleration.operator or "", toleration.value or "", toleration.effect or "")
            for toleration in tolerations or ()
        ]
    )


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
