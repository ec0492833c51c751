"""Finds the selectors that may match given labels, without trying all selectors."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from bayplan.api.labels import Requirement
from bayplan.shrinking import shrink

T = TypeVar("T", bound=Hashable)
Anchor = tuple[str | None, ...]
"""(namespace, label key, value), (namespace, label key) or (namespace,). A namespace of None stands for all."""

_MAX_ANCHORS = 64
"""A selector with more combinations of namespace and value is stored under a wider anchor."""


class SelectorIndex(Generic[T]):
    """Items that have a selector, each stored under an anchor that all matching labels contain.

    The anchor comes from the requirement that, at the time, has the fewest items under its anchor.
    """

    def __init__(self) -> None:
        self._at: dict[Anchor, dict[T, None]] = {}
        self._anchors_of: dict[T, Sequence[Anchor]] = {}

    def add(self, item: T, namespaces: Collection[str] | None, requirements: Iterable[Requirement]) -> None:
        """Store an item whose selector has these requirements. `namespaces`: None for all."""
        in_namespaces = namespaces if namespaces is not None and len(namespaces) <= _MAX_ANCHORS else (None,)
        choices = [anchors for each in requirements if (anchors := _anchors(in_namespaces, each))]
        if not choices:
            choices = [[(namespace,) for namespace in in_namespaces]]
        anchors = choices[0] if len(choices) == 1 else min(choices, key=self._crowd)
        self._anchors_of[item] = anchors
        for anchor in anchors:
            self._at.setdefault(anchor, {})[item] = None

    def remove(self, item: T) -> None:
        """Remove an item. Raises KeyError."""
        for anchor in self._anchors_of.pop(item):
            items = self._at[anchor]
            del items[item]
            if items:
                shrink(items)
            else:
                del self._at[anchor]
                shrink(self._at)
        shrink(self._anchors_of)

    def candidates(self, namespace: str, labels: Mapping[str, str]) -> Iterator[T]:
        """Yield the items that may match pods with these labels, each once. All others do not match."""
        for scope in (namespace, None):
            for anchor in anchors_in(scope, labels):
                yield from self._at.get(anchor, ())

    def __len__(self) -> int:
        """Return the number of anchors in use."""
        return len(self._at)

    def _crowd(self, anchors: Sequence[Anchor]) -> int:
        return sum(len(self._at.get(anchor, ())) for anchor in anchors)


def anchors_in(namespace: str | None, labels: Mapping[str, str]) -> Iterator[Anchor]:
    """Yield the anchors that labels contain."""
    yield (namespace,)
    for key, value in labels.items():
        yield namespace, key
        yield namespace, key, value


def narrowest_anchors(namespace: str | None, requirements: Iterable[Requirement]) -> Sequence[Anchor]:
    """Return anchors of which all labels that meet all requirements contain one."""
    choices = [anchors for each in requirements if (anchors := _anchors([namespace], each))]
    return min(choices, key=lambda anchors: (-len(anchors[0]), len(anchors)), default=[(namespace,)])


def _anchors(namespaces: Collection[str | None], requirement: Requirement) -> list[Anchor]:
    """Return anchors of which all labels that meet a requirement contain one; empty if there are none."""
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "in" | "=" | "==" if len(namespaces) * len(values) <= _MAX_ANCHORS:
            return [(namespace, key, value) for namespace in namespaces for value in values]
        case "notin" | "!=" | "!":
            return []
        case _:
            return [(namespace, key) for namespace in namespaces]
