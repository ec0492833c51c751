"""How the bay plan groups nodes: by zone, or by any label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from bayplan.answers.insight.pools import INSTANCE_TYPES, POOLS
from bayplan.core.api.well_known_labels import ZONE
from bayplan.faces.ui.filters import UnknownName

MOST_GROUPS = 100
"""The most groups to show on their own; the others are one group."""
_FIRST = (*POOLS, ZONE, *INSTANCE_TYPES)


@dataclass(frozen=True, slots=True)
class Grouping:
    """A label key, and by value: the title of its group. The nodes without the label have the value None."""

    key: str
    titles: Mapping[str | None, str]
    others: str

    def of(self, labels: Mapping[str, str]) -> str:
        """Return the title of the group of a node with these labels."""
        return self.titles.get(labels.get(self.key), self.others)


def grouping(nodes: Iterable[Mapping[str, str]], key: str) -> Grouping:
    """Return the groups of nodes, given by their labels, by a label key. "" is the zone.

    Raises UnknownName if no node has the label; the zone may be missing.
    """
    labels = list(nodes)
    chosen = key or ZONE
    counts = Counter(label.get(chosen) for label in labels)
    if key and not counts.keys() - {None}:
        raise UnknownName("node with the label", key, "by", {name for label in labels for name in label})
    largest = sorted(counts, key=lambda value: (-counts[value], value or ""))[:MOST_GROUPS]
    lacking = f"without {key}" if key else "no zone"
    titles = {value: lacking if value is None else value or f"{chosen} is empty" for value in largest}
    return Grouping(chosen, titles, f"{len(counts) - len(largest):,} other values of {chosen}")


def varying_keys(nodes: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the label keys by which nodes can be grouped: pools, the zone and instance types first.

    Those are keys whose values differ among nodes, but not from node to node, as host names do.
    """
    labels = list(nodes)
    values: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for label in labels:
        counts.update(label.keys())
        for key, value in label.items():
            values.setdefault(key, set()).add(value)

    def groups(key: str) -> int:
        return len(values[key]) + (counts[key] < len(labels))

    found = sorted(key for key in values if 1 < groups(key) <= max(len(labels) // 2, 2))
    return [key for key in _FIRST if key in found] + [key for key in found if key not in _FIRST]
