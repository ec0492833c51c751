"""`percentageOfNodesToScore`: on big clusters, plugins that are asked node by node look for enough nodes only.

Whole-table plugins look at all nodes in the time that a loop takes for a few, so that a profile of these alone never
stops early. Mirrors findNodesThatPassFilters and numFeasibleNodesToFind (pkg/scheduler/schedule_one.go).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayplan.cluster.nodes import Nodes
from bayplan.framework.profile import Profile
from bayplan.framework.verdicts import Verdicts

MIN_FEASIBLE_NODES = 100
"""So many feasible nodes are looked for in any case."""
MIN_PERCENTAGE = 5
_LEAST_AT_ONCE = 64
"""Nodes that are looked at together at least: for fewer, whole-table plugins cost as much."""


@dataclass(slots=True)
class Rotation:
    """Where the next pod begins to look, so that all nodes get their turn: a position among those that exist."""

    start: int = 0


def enough_nodes(profile: Profile, total: int) -> int:
    """How many feasible nodes are enough for a pod of this profile, out of `total`.

    All, where no plugin is asked node by node, or where answers are kept for the next pod of the same signature.
    """
    if not profile.looks_at_each_node or total <= MIN_FEASIBLE_NODES:
        return total
    percentage = profile.percentage_of_nodes_to_score or max(50 - total // 125, MIN_PERCENTAGE)
    return max(total * percentage // 100, MIN_FEASIBLE_NODES)


def filter_enough(
    look: Callable[[Nodes], Verdicts], profile: Profile, nodes: Nodes, rotation: Rotation | None
) -> Verdicts:
    """What `look` says of as many nodes as it takes; those that were not looked at neither stand nor were turned down.

    Without a rotation all nodes are looked at.
    """
    there = np.flatnonzero(nodes.live)
    enough = enough_nodes(profile, len(there))
    if rotation is None or enough >= len(there):
        return look(nodes)
    order = np.roll(there, -(rotation.start % len(there)))
    verdicts = Verdicts(nodes)
    verdicts.feasible_mask[:] = False
    found = looked_at = 0
    while found < enough and looked_at < len(order):
        positions = order[looked_at : looked_at + max(enough - found, _LEAST_AT_ONCE)]
        said = look(nodes.at(positions))
        verdicts.replace(positions, said)
        feasible = said.feasible()
        if found + len(feasible) > enough:  # the last one that is needed ends it
            end = int(feasible[enough - found - 1]) + 1
            verdicts.codes[positions[end:]], verdicts.feasible_mask[positions[end:]] = 0, False
            positions, feasible = positions[:end], feasible[: enough - found]
        found += len(feasible)
        looked_at += len(positions)
    rotation.start = (rotation.start + looked_at) % len(there)
    return verdicts
