"""Node groups: what an autoscaler may add."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from lightkube.models.core_v1 import Node

from bayplan.core.api.kinds import Kind

NewObjects = Iterable[tuple[Kind, str, Any]]
"""Kind, key and object: a node first, with what belongs to it and the pods of DaemonSets on it."""


@dataclass(frozen=True, slots=True, eq=False)
class ScaledGroup:
    """Equal nodes, of one zone as a rule.

    `make`: returns a new node of a name, with what belongs to it. `has`: whether a node is one of the group. `price`:
    of a node for an hour; None if it isn't known. `delay`: the seconds until a new node is ready.
    """

    name: str
    make: Callable[[str], NewObjects]
    has: Callable[[Node], bool]
    minimum: int = 0
    maximum: int = 1000
    price: float | None = None
    delay: float = 60.0
