"""Places replicas of a pod one after the other, with the decisions of attempts, but without making the attempts.

The plugins with shared results score only the node that got the last replica. The others, such as PodTopologySpread,
have scores that change on many nodes with every replica: they score one node of each class of nodes with equal scores.
Pods with claims, their own spread constraints or affinity terms (but for anti-affinity between nodes), and profiles
with other plugins in the binding cycle, are attempted one by one. A test compares the chosen nodes with those of
attempts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bayplan.answers.simulation.world import World
from bayplan.core.api.kinds import POD
from bayplan.core.cluster.columns import Int64, Rows, grown
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.slots import Slots
from bayplan.core.framework.calling import call
from bayplan.core.framework.capabilities import ReplicaScores
from bayplan.core.framework.profile import Point, implements
from bayplan.core.framework.runner import run_pre_score, run_score
from bayplan.core.framework.status import PluginError
from bayplan.core.framework.verdicts import Verdicts
from bayplan.core.sharing import SharedRun
from bayplan.core.sharing.rows import SharedRows

_BINDING = (Point.PRE_ENQUEUE, Point.RESERVE, Point.PERMIT, Point.PRE_BIND)
_OWN_PLUGINS = "bayplan.core.plugins."
"""The package of the plugins that do nothing at these points for pods without gates, claims and gangs."""
_INFEASIBLE = -1
_MIN_CLASSES = 64


class Replicas:
    """Places replicas of a pod until none is feasible. Make it with `of`; the world must not change otherwise."""

    def __init__(self, world: World, pod: PodInfo, run: SharedRun, rows: SharedRows) -> None:
        self._world = world
        self._pod = pod
        self._run = run
        self._rows = rows
        self._all_own = all(map(_is_own, run.profile.every()))
        self._unshared: Sequence[Any] = rows.split.unshared.at(Point.SCORE)
        self._classes = _Classes(len(world.state.nodes))
        self._feasible: Rows | None = None
        self._shared: Int64 = np.full(len(world.state.nodes), _INFEASIBLE)
        """By row: the sum of the shared scores."""
        self._last: int | None = None
        """The row of the last replica."""

    @classmethod
    def of(cls, world: World, pod: PodInfo, other: PodInfo) -> Replicas | None:
        """Return None where replicas must be attempted one by one. `pod` and `other`: two of them, not in the world.

        That is so for pods with claims, gangs or affinity terms (but for anti-affinity between nodes), where plugins
        that aren't Bayplan's take part in binding, and until there is an attempt whose results can be reused.
        """
        key = world.sharing_key(pod) if pod.scheduler_name in world.profiles and not pod.node_name else None
        if key is None or world.sharing_key(other) != key:
            return None
        profile = world.profiles[pod.scheduler_name]
        binding = [plugin for point in _BINDING for plugin in profile.at(point)]
        run = world.shared_run(pod) if all(map(_is_own, binding)) else None
        if run is None or run.rows.filters_apart(run.cycle):
            return None
        unshared = run.rows.split.unshared.at(Point.SCORE)
        return cls(world, pod, run, run.rows) if all(implements(each, ReplicaScores) for each in unshared) else None

    def place(self, name: str, uid: str) -> str | None:
        """Place a replica, and return its node. None if it must be attempted instead; nothing changes then."""
        try:
            row = self._choose()
        except PluginError:
            return None
        if row is None:
            return None
        node = self._world.state.table.names[row]
        replica = self._pod.replica(name, uid, node)
        self._world.change(POD, replica.key, replica)
        scored = self._feasible is not None  # while only one node is feasible, PreScore does not run
        for plugin in self._unshared if scored else ():
            if plugin.name not in self._run.cycle.skip_score:
                plugin.count_replica(self._run.cycle, replica, row)
        self._last = row
        return node

    def _choose(self) -> int | None:
        """Return the row for the next replica. Raises PluginError."""
        nodes, rows, cycle = self._world.state.nodes, self._rows, self._run.cycle
        # What Bayplan's own plugins rest on doesn't depend on replicas.
        if not self._all_own and self._world.key_of(self._pod) != self._run.key:
            return None
        if not rows.refresh(self._pod, nodes, call):
            return None
        verdicts = rows.verdicts
        feasible = verdicts.feasible()
        if len(feasible) <= 1:
            return feasible.item(0) if len(feasible) else None
        self._classify(nodes, verdicts)
        live = self._classes.live()
        total = self._classes.shared[live]
        for scores in run_score(rows.split.unshared, cycle, self._pod, nodes.at(self._classes.example[live])).values():
            total += scores
        return int(self._world.rng.choice(self._classes.rows(live[total == total.max()])))

    def _classify(self, nodes: Nodes, verdicts: Verdicts) -> None:
        """Update the classes of the rows that changed."""
        cycle, feasible = self._run.cycle, verdicts.feasible()
        chosen = nodes if len(feasible) == len(nodes) else nodes.at(feasible)
        if feasible is not self._feasible:
            run_pre_score(self._rows.split.unshared, cycle, self._pod, chosen)
            self._feasible = feasible
        shared = self._rows.shared_total(cycle, self._pod, chosen, verdicts.feasible_mask)
        if len(feasible) < len(nodes):
            every = np.full(len(nodes), _INFEASIBLE)
            every[feasible] = shared
            shared = every
        changed = shared != self._shared
        if self._last is not None:
            changed[self._last] = True
        self._shared, rows = shared, changed.nonzero()[0]
        columns = [shared[rows]]
        for plugin in self._unshared:
            if plugin.name not in cycle.skip_score:
                columns += plugin.replica_kinds(cycle, nodes.at(rows))
        for row, *kind in zip(rows.tolist(), *(column.tolist() for column in columns), strict=True):
            self._classes.put(row, tuple(kind))


def _is_own(plugin: object) -> bool:
    return type(plugin).__module__.startswith(_OWN_PLUGINS)


class _Classes:
    """Classes of feasible rows. Class 0 has the rows that are not feasible.

    `example`: by class, one of its rows. `shared`: by class, the sum of the shared scores of each of its rows.
    """

    def __init__(self, size: int) -> None:
        self.example: Rows = np.zeros(_MIN_CLASSES, dtype=np.intp)
        self.shared: Int64 = np.zeros(_MIN_CLASSES, dtype=np.int64)
        self._class_of: Rows = np.zeros(size, dtype=np.intp)
        self._count: Int64 = np.zeros(_MIN_CLASSES, dtype=np.int64)
        self._by_kind: dict[tuple[int, ...], int] = {}
        self._kinds: dict[int, tuple[int, ...]] = {}
        self._slots = Slots()
        self._slots.claim()

    def live(self) -> Rows:
        """Return the classes that have rows."""
        live: Rows = self._count.nonzero()[0]
        return live

    def rows(self, classes: Rows) -> Rows:
        """Return the rows of some classes, ascending."""
        wanted = np.zeros(len(self._count), dtype=np.bool_)
        wanted[classes] = True
        rows: Rows = wanted[self._class_of].nonzero()[0]
        return rows

    def put(self, row: int, kind: tuple[int, ...]) -> None:
        """Move a row to the class of a kind: the shared score, or _INFEASIBLE, and what other scores depend on."""
        old: int = self._class_of.item(row)
        new = 0 if kind[0] == _INFEASIBLE else self._by_kind.get(kind)
        if new == old:
            return
        if new is None:
            new = self._make(kind, row)
        self._class_of[row] = new
        if new:
            self._count[new] += 1
        if old:
            self._leave(old, row)

    def _make(self, kind: tuple[int, ...], row: int) -> int:
        new = self._slots.claim()
        if new == len(self._count):
            self.example, self.shared, self._count = (
                grown(column, 2 * new) for column in (self.example, self.shared, self._count)
            )
        self._by_kind[kind], self._kinds[new] = new, kind
        self.example[new], self.shared[new] = row, kind[0]
        return new

    def _leave(self, old: int, row: int) -> None:
        self._count[old] -= 1
        if not self._count[old]:
            del self._by_kind[self._kinds.pop(old)]
            self._slots.release(old)
        elif self.example[old] == row:
            self.example[old] = (self._class_of == old).argmax()
