"""`percentageOfNodesToScore`: in big clusters, plugins that are called node by node stop at enough feasible nodes.

Whole-table plugins filter all nodes in the time that a loop takes for a few, so a profile of only these never stops
early. Mirrors findNodesThatPassFilters and numFeasibleNodesToFind (pkg/scheduler/schedule_one.go).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayplan.core.cluster.nodes import Nodes
from bayplan.core.framework.profile import Profile
from bayplan.core.framework.verdicts import Verdicts

MIN_FEASIBLE_NODES = 100
"""The least number of feasible nodes to search for."""
MIN_PERCENTAGE = 5
_LEAST_AT_ONCE = 64
"""The least number of nodes that are filtered together: for fewer, whole-table plugins cost as much."""


@dataclass(slots=True)
class Rotation:
    """The position among the live nodes where filtering starts for the next pod, so that all nodes get a turn."""

    start: int = 0


def enough_nodes(profile: Profile, total: int) -> int:
    """How many feasible nodes are enough for a pod of this profile, out of `total`.

    All of them, if no plugin is called node by node, or if verdicts are kept for the next pod of the same signature.
    """
    return feasible_nodes_to_find(profile, total) if profile.looks_at_each_node else total


def feasible_nodes_to_find(profile: Profile, total: int) -> int:
    """How many feasible nodes kube-scheduler looks for, out of `total`. Mirrors numFeasibleNodesToFind."""
    if total <= MIN_FEASIBLE_NODES:
        return total
    percentage = profile.percentage_of_nodes_to_score or max(50 - total // 125, MIN_PERCENTAGE)
    return min(total, max(total * percentage // 100, MIN_FEASIBLE_NODES))


def filter_enough(
    look: Callable[[Nodes], Verdicts], profile: Profile, nodes: Nodes, rotation: Rotation | None
) -> Verdicts:
    """Filter nodes with `look` until enough are feasible. The other nodes are neither feasible nor rejected.

    Without a rotation, all nodes are filtered.
    """
    if rotation is None or not profile.looks_at_each_node:
        return look(nodes)
    live = np.flatnonzero(nodes.live)
    enough = enough_nodes(profile, len(live))
    if enough >= len(live):
        return look(nodes)
    order = np.roll(live, -(rotation.start % len(live)))
    verdicts = Verdicts(nodes)
    verdicts.feasible_mask[:] = False
    found = looked_at = 0
    while found < enough and looked_at < len(order):
        positions = order[looked_at : looked_at + max(enough - found, _LEAST_AT_ONCE)]
        part = look(nodes.at(positions))
        verdicts.replace(positions, part)
        feasible = part.feasible()
        if found + len(feasible) > enough:  # the last one that is needed ends it
            end = int(feasible[enough - found - 1]) + 1
            verdicts.codes[positions[end:]], verdicts.feasible_mask[positions[end:]] = 0, False
            positions, feasible = positions[:end], feasible[: enough - found]
        found += len(feasible)
        looked_at += len(positions)
    rotation.start = (rotation.start + looked_at) % len(live)
    return verdicts
