"""The pods in trees of groups: how much of a tree exists, how much of it is placed, and the gang that it is.

A CompositePodGroup needs some of its groups (`minGroupCount`; without a gang policy, one of them), and a PodGroup in a
tree some of its pods (`minCount`; at least one). Mirrors plugins/gangscheduling/hierarchy_tracker.go, and getMinCount
in plugins/gangscheduling/gangscheduling.go.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec

from bayplan.core.api.pod_groups import MOST_LEVELS, spec_of
from bayplan.core.cluster.group_trees import Child, GroupTrees
from bayplan.core.cluster.pod_groups import PodsByGroup
from bayplan.core.framework.gangs import Gang

_UNKNOWN = 10**9
"""The number of pods or groups that a malformed group needs: it never has them."""


class Forest:
    """The trees, with the pods in them. `whole`: see `Gang`."""

    def __init__(self, trees: GroupTrees, members: PodsByGroup, *, whole: bool) -> None:
        self._trees = trees
        self._members = members
        self._whole = whole

    def ready_groups(self, root: str) -> int:
        """Return how many groups of a CompositePodGroup have the pods that they need, placed ones included."""
        return self._count(Child(root, composite=True), self._exists)

    def is_ready(self, root: str) -> bool:
        """Return whether a CompositePodGroup has the groups that it needs, with enough pods."""
        return self._enough(Child(root, composite=True), self._exists)

    def is_placed(self, group: Child) -> bool:
        """Return whether enough pods of a group have a node or are permitted."""
        return self._enough(group, self._is_assigned)

    def least(self, group: Child) -> int:
        """Return how many pods or groups a group needs."""
        try:
            if group.composite:
                return max(self._trees.composite_spec(group.key).least, 1)
            return max(spec_of(self._trees.pod_groups[group.key]).least, 1)
        except (KeyError, msgspec.ValidationError):
            return _UNKNOWN

    def gang(self, root: str) -> Gang:
        """Return the gang that a tree is. At least one of its pending pods has to be placed."""
        return replace(self._gang(Child(root, composite=True), MOST_LEVELS), needed=1)

    def _gang(self, group: Child, levels: int) -> Gang:
        if not group.composite:
            return gang_of_pods(group.key, self._members, self.least(group), whole=self._whole)
        children = self._trees.children(group.key) if levels > 1 else ()
        groups = tuple(self._gang(each, levels - 1) for each in children)
        return Gang(
            group.key.partition("/")[2],
            tuple(pod for each in groups for pod in each.members),
            needed=0,
            placed=sum(each.placed for each in groups),
            nodes=tuple(dict.fromkeys(node for each in groups for node in each.nodes)),
            together=True,
            gated=tuple(pod for each in groups for pod in each.gated),
            whole=self._whole,
            groups=groups,
            groups_needed=self.least(group),
            composite=group.key,
        )

    def _enough(self, group: Child, pods_of: Callable[[str], int], levels: int = MOST_LEVELS) -> bool:
        least = self.least(group)
        return (self._count(group, pods_of, least, levels) if group.composite else pods_of(group.key)) >= least

    def _count(
        self, group: Child, pods_of: Callable[[str], int], least: int = _UNKNOWN, levels: int = MOST_LEVELS
    ) -> int:
        """Count the groups of a CompositePodGroup that have enough pods, up to `least` of them."""
        found = 0
        for each in self._trees.unsorted(group.key) if levels > 1 else ():
            found += self._enough(each, pods_of, levels - 1)
            if found >= least:
                break
        return found

    def _exists(self, key: str) -> int:
        return self._members.number(key)

    def _is_assigned(self, key: str) -> int:
        return self._members.number_assigned(key)


def gang_of_pods(key: str, members: PodsByGroup, least: int, *, whole: bool) -> Gang:
    """Return the gang that a PodGroup is, which needs `least` pods on nodes."""
    assigned = members.assigned(key)
    return Gang(
        key.partition("/")[2],
        tuple(other for other in members[key].pending if other.uid not in assigned),
        needed=max(least - len(assigned), 0),
        placed=len(assigned),
        nodes=members.nodes(key),
        together=True,
        pod_group=key,
        gated=tuple(members[key].gated),
        whole=whole,
    )
