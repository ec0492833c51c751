"""The trees that PodGroups form with the CompositePodGroups above them: an index of parents and children.

A group names its parent in `spec.parentCompositePodGroupName`, in its own namespace. So a tree may be incomplete, too
deep, or no tree at all: `GroupTrees.path` says what is wrong with the groups above a PodGroup. Mirrors
pkg/scheduler/backend/cache/hierarchy.go, and the order of children in pkg/scheduler/backend/queue/workload_forest.go.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

from bayplan.core.api.pod_groups import MOST_LEVELS, CompositeSpec, GroupSpec, composite_spec_of, spec_of
from bayplan.core.cluster.objects import ObjectStore
from bayplan.core.cluster.pod_groups import pod_group_of
from bayplan.core.cluster.pod_info import PodInfo


class Path(NamedTuple):
    """The CompositePodGroups above a PodGroup, by key, from its parent to the root of its tree.

    `problem`: what keeps the root from being known, as a sentence; "" if it is known.
    """

    above: tuple[str, ...] = ()
    problem: str = ""

    @property
    def root(self) -> str:
        """The key of the root; "" if the PodGroup has no parent, or the root isn't known."""
        return self.above[-1] if self.above and not self.problem else ""


class Child(NamedTuple):
    """A group in a CompositePodGroup: its key, and whether it is composite itself."""

    key: str
    composite: bool


_ALONE = Path()


class GroupTrees:
    """The trees of groups. Without `composites`, every PodGroup is a tree of its own, whatever parent it names."""

    def __init__(self, pod_groups: ObjectStore, composites: ObjectStore | None) -> None:
        self.pod_groups = pod_groups
        self.composites: Mapping[str, Any] = {} if composites is None else composites
        self.enabled = composites is not None
        self._children: dict[str, dict[Child, None]] = {}
        """By key of the CompositePodGroup: its groups, whether it exists or not."""
        if composites is not None:
            pod_groups.listen(lambda old, new: self._changed(old, new, composite=False))
            composites.listen(lambda old, new: self._changed(old, new, composite=True))

    def path(self, key: str) -> Path:
        """Return the groups above a PodGroup. An unknown or malformed PodGroup has none."""
        group = self.pod_groups.get(key) if self.enabled else None
        return _ALONE if group is None or not _parent_of(group) else self._above(group, [])

    def _above(self, group: Any, above: list[str]) -> Path:
        """Return the groups above a group, after those in `above`."""
        namespace, name = group["metadata"].get("namespace"), group["metadata"].get("name")
        parent = _parent_of(group)
        while parent:
            composite = f"{namespace}/{parent}"
            names = " -> ".join(dict.fromkeys([name, *(each.partition("/")[2] for each in above)]))
            if composite in above:
                return Path(tuple(above), f"composite pod groups are above themselves: {names} -> {parent}")
            above.append(composite)
            if len(above) >= MOST_LEVELS:
                return Path(tuple(above), f"pod groups are more than {MOST_LEVELS} levels deep: {names} -> {parent}")
            if composite not in self.composites:
                return Path(tuple(above), f'waiting for composite pod group "{parent}" to appear in scheduling queue')
            try:
                parent = self.composite_spec(composite).parentCompositePodGroupName or ""
            except msgspec.ValidationError as error:
                return Path(tuple(above), f"CompositePodGroup {composite} is invalid: {error}")
        return Path(tuple(above))

    def path_of(self, pod: PodInfo) -> Path:
        """Return the groups above the PodGroup of a pod."""
        key = pod_group_of(pod)
        return _ALONE if key is None else self.path(key)

    def children(self, key: str) -> list[Child]:
        """Return the groups in a CompositePodGroup, the oldest one first; those of one age by their keys."""
        return sorted(self.unsorted(key), key=self._age)

    def unsorted(self, key: str) -> Collection[Child]:
        """Return the groups in a CompositePodGroup, in no particular order."""
        return self._children.get(key, {})

    def root_of(self, group: Any, *, composite: bool) -> str:
        """Return the key of the root of the tree that a group is in; "" if it is in none, or the root isn't known."""
        if not self.enabled:
            return ""
        metadata = group["metadata"]
        path = self._above(group, [f"{metadata.get('namespace')}/{metadata.get('name')}"] if composite else [])
        return path.root

    def composite_spec(self, key: str) -> CompositeSpec:
        """Return the spec of a CompositePodGroup. Raises KeyError, and msgspec.ValidationError for a malformed one."""
        return composite_spec_of(self.composites[key])

    def specs(self, key: str) -> Iterator[tuple[Child, GroupSpec]]:
        """Yield a PodGroup and the groups above it with their specs, up to the first one that isn't known or valid."""
        try:
            yield Child(key, composite=False), spec_of(self.pod_groups[key])
            for each in self.path(key).above:
                yield Child(each, composite=True), self.composite_spec(each)
        except (KeyError, msgspec.ValidationError):
            return

    def leaves(self, key: str, levels: int = MOST_LEVELS) -> Iterator[str]:
        """Yield the keys of the PodGroups in a tree, whose root is a CompositePodGroup. `levels`: how many it has."""
        for child in self.children(key) if levels > 1 else ():
            if child.composite:
                yield from self.leaves(child.key, levels - 1)
            else:
                yield child.key

    def _age(self, child: Child) -> tuple[str, Child]:
        group = (self.composites if child.composite else self.pod_groups).get(child.key) or {}
        return (group.get("metadata") or {}).get("creationTimestamp") or "", child

    def _changed(self, old: Any, new: Any, *, composite: bool) -> None:
        for group, there in ((old, False), (new, True)):
            parent = _parent_of(group)
            if not parent:
                continue
            namespace = group["metadata"].get("namespace")
            child, key = Child(f"{namespace}/{group['metadata'].get('name')}", composite), f"{namespace}/{parent}"
            if there:
                self._children.setdefault(key, {})[child] = None
            elif key in self._children:
                self._children[key].pop(child, None)
                if not self._children[key]:
                    del self._children[key]


def _parent_of(group: Any) -> str:
    """The name of the parent of a group; "" if it has none."""
    spec = (group.get("spec") or {}) if group is not None else {}
    parent = spec.get("parentCompositePodGroupName") if isinstance(spec, dict) else None
    return parent if isinstance(parent, str) else ""
