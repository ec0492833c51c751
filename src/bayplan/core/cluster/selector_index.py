"""Finds the selectors that may match given labels, without trying all selectors.

The reverse of the pod index (`pod_index.py`). When a pod comes or goes, only the selector groups and affinity terms
that may match it are counted anew, even if there are 100,000 of them.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from bayplan.core.api.labels import Requirement
from bayplan.foundations.shrinking import shrink

T = TypeVar("T", bound=Hashable)
Anchor = tuple[str | None, ...]
"""(namespace, label key, value), (namespace, label key) or (namespace,). A namespace of None stands for all."""

_Only = tuple[T]

_MAX_ANCHORS = 64
"""A selector with more combinations of namespace and value is stored under a wider anchor."""


class SelectorIndex(Generic[T]):
    """Items that have a selector, each stored under an anchor that all matching labels contain.

    The anchor comes from the requirement that, at the time, has the fewest items under its anchor.
    """

    def __init__(self) -> None:
        self._at: dict[Anchor, dict[T, None] | _Only[T]] = {}
        """By anchor: its items in the order in which they were added. There may be 100,000 anchors of one item each."""

    def add(self, item: T, namespaces: Collection[str] | None, requirements: Iterable[Requirement]) -> None:
        """Store an item whose selector has these requirements. `namespaces`: None for all."""
        choices = _choices(namespaces, requirements)
        for anchor in choices[0] if len(choices) == 1 else min(choices, key=self._crowd):
            items = self._at.get(anchor, ())
            if not items:
                self._at[anchor] = (item,)
            elif isinstance(items, dict):
                items[item] = None
            else:
                self._at[anchor] = {items[0]: None, item: None}

    def remove(self, item: T, namespaces: Collection[str] | None, requirements: Iterable[Requirement]) -> None:
        """Remove an item, which was added with the same arguments. Raises ValueError if there is no such item."""
        choices = _choices(namespaces, requirements)
        stored = [anchors for anchors in choices if all(item in self._at.get(anchor, ()) for anchor in anchors)]
        for anchor in max(stored, key=len):  # others are a part of these
            items = self._at[anchor]
            if isinstance(items, dict) and len(items) > 1:
                del items[item]
                shrink(items)
            else:
                del self._at[anchor]
        shrink(self._at)

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
    """Return anchors, one of them in any labels that meet all requirements."""
    choices = [anchors for each in requirements if (anchors := _anchors([namespace], each))]
    return min(choices, key=lambda anchors: (-len(anchors[0]), len(anchors)), default=[(namespace,)])


def _choices(namespaces: Collection[str] | None, requirements: Iterable[Requirement]) -> list[list[Anchor]]:
    """Return the anchors that each requirement offers; at least one choice."""
    within = namespaces if namespaces is not None and len(namespaces) <= _MAX_ANCHORS else (None,)
    choices = [anchors for each in requirements if (anchors := _anchors(within, each))]
    return choices or [[(namespace,) for namespace in within]]


def _anchors(namespaces: Collection[str | None], requirement: Requirement) -> list[Anchor]:
    """Return anchors, one of them in any labels that meet a requirement; empty if there are none."""
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case "in" | "=" | "==" if len(namespaces) * len(values) <= _MAX_ANCHORS:
            return [(namespace, key, value) for namespace in namespaces for value in values]
        case "notin" | "!=" | "!":
            return []
        case _:
            return [(namespace, key) for namespace in namespaces]
