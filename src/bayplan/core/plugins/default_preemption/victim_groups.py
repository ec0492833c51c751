"""Which pods of groups are evicted together, and with which priority.

The pods of a group are evicted together if its disruptionMode is `all`; of several groups above one another, the
highest one of that mode counts. They have the priority of the root of their tree. Mirrors
framework/preemption/podgrouppreemption.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from bayplan.core.cluster.group_trees import Child, GroupTrees


class VictimGroup(NamedTuple):
    """The pods of a PodGroup as victims. `together`: the group that they are evicted with as a whole, or None."""

    priority: int
    together: Child | None


def victim_group(trees: GroupTrees, key: str) -> VictimGroup | None:
    """Return the pods of a PodGroup as victims; None if it does not exist, or is malformed."""
    specs = list(trees.specs(key))
    if not specs:
        return None
    if trees.path(key).problem:  # whatever is above it is not a tree
        del specs[1:]
    together = next((group for group, spec in reversed(specs) if spec.evicted_together), None)
    return VictimGroup(specs[-1][1].priority or 0, together)


def victim_groups(trees: GroupTrees) -> Mapping[str, VictimGroup]:
    """Return the pods of all PodGroups as victims, by key, without those of malformed ones."""
    found = ((key, victim_group(trees, key)) for key in trees.pod_groups)
    return {key: group for key, group in found if group is not None}
