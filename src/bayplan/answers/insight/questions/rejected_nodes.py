"""The nodes that plugins rejected, by plugin and reasons, with what the reasons are about."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from rich.table import Table

from bayplan.answers.insight.answers import listed
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.tables import table
from bayplan.answers.simulation.world import World
from bayplan.core.framework.verdicts import Diagnosis

_DETAILS = 5
"""The most details of a group of nodes."""


@dataclass(frozen=True, slots=True)
class RejectedNodes:
    """The nodes that a plugin rejected for the same reasons.

    `details`: what the reasons are about, such as a taint, with the number of nodes; empty where nodes differ too much.
    """

    plugin: str
    reasons: tuple[str, ...]
    nodes: tuple[str, ...]
    details: tuple[tuple[str, int], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the group as in docs/insight.md."""
        return fields_of(self) | {"details": [{"text": text, "nodes": count} for text, count in self.details]}

    @property
    def text(self) -> str:
        """The reasons with their details: "node(s) had untolerated taint(s): a=b:NoSchedule (60), c:NoExecute (3)"."""
        details = ", ".join(f"{text} ({count:,})" if len(self.details) > 1 else text for text, count in self.details)
        return f"{', '.join(self.reasons)}{f': {details}' if details else ''}"


def rejected_nodes(world: World, diagnosis: Diagnosis) -> tuple[RejectedNodes, ...]:
    """Return the rejected nodes by plugin and reasons, the largest group first."""
    found: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    nodes = world.state.nodes
    covered = np.zeros(len(nodes), dtype=np.bool_)
    if diagnosis.verdicts is not None:
        covered[diagnosis.verdicts.nodes.rows] = True
        for position, status in diagnosis.verdicts.rejected():
            key = (status.plugin, status.reasons)
            found.setdefault(key, []).append(diagnosis.verdicts.nodes.name(position))
    if diagnosis.absent is not None:
        others = [nodes.name(position) for position in np.flatnonzero(nodes.live & ~covered).tolist()]
        if others:
            blamed = diagnosis.narrowed_by or diagnosis.unschedulable_plugins
            plugin = diagnosis.absent.plugin or " ".join(sorted(blamed))
            found.setdefault((plugin, diagnosis.absent.reasons), []).extend(others)
    groups = [RejectedNodes(plugin, reasons, tuple(sorted(names))) for (plugin, reasons), names in found.items()]
    return tuple(sorted(groups, key=lambda group: (-len(group.nodes), group.plugin, group.reasons)))


def detailed(groups: Sequence[RejectedNodes], texts: Mapping[tuple[str, str], str]) -> tuple[RejectedNodes, ...]:
    """Add details to groups of one reason: what follows the reason in the texts of their nodes."""
    found = []
    for group in groups:
        start = f"{', '.join(group.reasons)}: "
        full = Counter(texts.get((node, group.plugin), "") for node in group.nodes)
        details = [(text.removeprefix(start), count) for text, count in full.most_common() if text.startswith(start)]
        fits = len(group.reasons) == 1 and len(details) == len(full) <= _DETAILS
        found.append(replace(group, details=tuple(details) if fits else ()))
    return tuple(found)


def rejections_table(groups: Sequence[RejectedNodes], *, wide: bool, limit: int = 0) -> Table:
    """Return a table of rejected nodes. `wide` shows all names. `limit`: the most rows; 0 for all."""

    def row(group: RejectedNodes) -> Sequence[str]:
        names = listed(group.nodes, len(group.nodes) if wide else 5)
        return f"{len(group.nodes):,}", group.plugin, group.text, names

    return table(("NODES", "PLUGIN", "REASONS", "NAMES"), groups, row, limit)
