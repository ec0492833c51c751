"""Finds the fewest new nodes of a group with which pending pods are placed, by placing them.

More or fewer nodes are tried until one less isn't enough. Pods that no new node of the group accepts, and pods that no
number of nodes helps, are left out of these trials. What was enough for a group is tried first for another one of the
same size. Nothing is preempted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from bayplan.answers.insight.answers import Progress, plural
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.limits import MOST_NEW_NODES
from bayplan.answers.insight.questions.node_groups import NewNode, NodeGroup, new_nodes
from bayplan.answers.simulation.results import Fate, Result
from bayplan.answers.simulation.simulation import Simulation
from bayplan.answers.simulation.world import World
from bayplan.core.api.requests import CPU, MEMORY
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.status import PluginError

_TIES = 3
"""How often nodes that seem to be enough are tried, each time with another choice among nodes with equal scores."""


@dataclass(frozen=True, slots=True)
class PoolNodes:
    """New nodes of one pool: as few as were found to be enough for all pods that they can help.

    `zones`: their number by zone. `like`: a node that they are like. `adds`: what they have for pods, by resource, in
    millicores of cpu or base units. `pods`: those that are placed with them, and weren't without. `cost`: their dollars
    for an hour; None if that isn't known.
    """

    pool: str
    instance_type: str
    like: str
    zones: Mapping[str, int]
    adds: Mapping[str, int]
    pods: tuple[str, ...]
    cost: float | None = None

    @property
    def nodes(self) -> int:
        """The number of new nodes."""
        return sum(self.zones.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the nodes as in docs/insight.md."""
        return {"nodes": self.nodes, **fields_of(self)}


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """The most new nodes of a pool, and the price of a node with some labels; None if that isn't known."""

    most: int = MOST_NEW_NODES
    price_of: Callable[[Mapping[str, str]], float | None] = lambda _: None


class NodeSearch:
    """Tries new nodes in a world. Nothing is preempted.

    `ordered`: the keys of the pending pods in the order in which they are placed; `asked`: those that are asked about.
    `limits`: how far pools may grow, and what that costs.

    Attributes:
        messages: why the pods that are asked about lack a node at first.
        left: those of these pods that still lack one.
        limited: those that lack one because a pool may not get more nodes, with that reason.
    """

    def __init__(
        self, world: World, ordered: Sequence[str], asked: set[str], limits: PoolLimits, progress: Progress
    ) -> None:
        self.messages: dict[str, str] = {}
        self.left: AbstractSet[str] = frozenset()
        self.limited: dict[str, str] = {}
        self._pending: Mapping[str, Result] = {}
        self._world = world
        self._ordered = ordered
        self._asked = asked
        self._most = limits.most
        self._price_of = limits.price_of
        self._progress = progress
        self._made: dict[NodeGroup, list[NewNode]] = {}
        self._chosen: dict[NodeGroup, Sequence[NewNode]] = {}
        self._used: Counter[str] = Counter()
        """How many nodes each pool got."""
        self._found: dict[Hashable, int] = {}
        """How many nodes were enough, by their size and the pods that they help: a good guess for another pool."""

    def begin(self) -> None:
        """Find out which pods lack a node as the cluster is."""
        self._look()
        self.messages = {key: result.message for key, result in self._pending.items() if key in self._asked}

    def place(self) -> tuple[str, ...]:
        """Place the pending pods where they can be. Returns those that are asked about and lacked a node."""
        pending = self._schedule().pending
        return tuple(sorted(self.left - pending.keys()))

    def keep(self, group: NodeGroup) -> None:
        """Add the nodes that were found for a group to the world, for the searches that follow."""
        self._used[group.pool] += len(self._chosen[group])
        for each in self._chosen[group]:
            each.add_to(self._world)
        self._made.clear()
        self._found.clear()
        self._look()

    def _look(self) -> None:
        self._pending = self._try(()).pending
        self.left = self._pending.keys() & self._asked

    def fewest(self, group: NodeGroup) -> PoolNodes | None:
        """Return the fewest nodes of a group that place all pods that they can; None if they place none.

        If these are more than the pool may get, as many as it may, and `limited` has the pods that lack more.
        """
        self._progress(f"trying nodes {_name(group)}: {plural(len(self.left), 'pod')} without a node")
        helped, is_certain = self._helped_by(group)
        tried = len(self._ordered) - len(self._without(helped))  # those that need no new node may go there, too
        plenty = min(tried * len(group.like), max(MOST_NEW_NODES, self._most))
        if helped & self.left and not is_certain:
            helped -= self._try(self._first(group, plenty), self._without(helped)).pending.keys()
        number = self._enough(group, helped, plenty) if helped & self.left else 0
        if number is None:
            helped -= self._try(self._first(group, plenty), self._without(helped)).pending.keys()
            number = self._enough(group, helped, plenty) if helped & self.left else 0
        if not number:
            return None
        limit = self._most - self._used[group.pool]
        if number <= limit:
            return self._result(group, self._first(group, number), 0, self._without(helped))
        return self._limited_to(group, helped, limit, number)

    def _limited_to(self, group: NodeGroup, helped: AbstractSet[str], limit: int, number: int) -> PoolNodes | None:
        """The answer for as many nodes as the pool may still get, where more would be enough."""
        hopeless = self._without(helped)
        pending = self._try(self._first(group, limit), hopeless).pending.keys() & self._asked
        more = f"{plural(number, 'node')} more would be" if self._used[group.pool] else f"{number:,} would be"
        for key in pending & helped:
            what = f"the limit of {plural(self._most, 'node')} {_name(group)} is reached: {more} enough"
            self.limited.setdefault(key, what)
        if not limit or not (self.left & helped) - pending:
            return None
        return self._result(group, self._first(group, limit), len(pending), hopeless)

    def _without(self, helped: AbstractSet[str]) -> frozenset[str]:
        """The pods that stay pending whatever the group gets."""
        return frozenset(self._pending.keys() - helped)

    def _enough(self, group: NodeGroup, helped: AbstractSet[str], plenty: int) -> int | None:
        """The number of nodes of a group that are enough for these pods; None if `plenty` are not."""
        hopeless = self._without(helped)
        alike = self._size(group), frozenset(helped)
        known = self._found.get(alike)
        if known is not None and self._is_enough(self._first(group, known), 0, hopeless):
            return known
        least, high = 0, min(self._least(group, helped), plenty)
        while not self._is_enough(self._first(group, high), 0, hopeless):
            if high == plenty:
                return None
            least, high = high, min(2 * high - least + 1, plenty)
        if least == 0 and high > 1 and not self._is_enough(self._first(group, high - 1), 0, hopeless):
            least = high - 1
        while least + 1 < high:
            middle = (least + high) // 2
            if self._is_enough(self._first(group, middle), 0, hopeless):
                high = middle
            else:
                least = middle
        while high < plenty and not self._is_enough_whatever_ties(self._first(group, high), 0, hopeless):
            high += 1
        self._found[alike] = high
        return high

    def _result(
        self, group: NodeGroup, nodes: Sequence[NewNode], target: int, hopeless: frozenset[str]
    ) -> PoolNodes | None:
        """The answer for nodes that are enough, without those that get no pod."""
        trial = self._try(nodes, hopeless)
        used = [node for node in nodes if node.name in trial.used]
        if used and len(used) < len(nodes) and self._is_enough_whatever_ties(used, target, hopeless, first=0):
            nodes, trial = used, self._try(used, hopeless)
        self._chosen[group] = nodes
        adds: Counter[str] = Counter()
        prices: list[float | None] = []
        for each in nodes:
            info = self._world.state.nodes.info(group.like[each.zone])
            adds.update({CPU: info.allocatable_of(CPU), MEMORY: info.allocatable_of(MEMORY)})
            prices.append(self._price_of(info.labels))
            adds.update({name: amount for name, amount in info.allocatable.items() if "/" in name and amount})
        pods = tuple(sorted(self.left - trial.pending.keys() - hopeless))
        zones = Counter(each.zone for each in nodes)
        like = self._world.state.nodes.name(next(iter(group.like.values())))
        cost = None if None in prices else round(sum(filter(None, prices)), 6)
        return PoolNodes(group.pool, group.instance_type, like, dict(sorted(zones.items())), dict(adds), pods, cost)

    def _first(self, group: NodeGroup, number: int) -> Sequence[NewNode]:
        """The first new nodes of a group."""
        made = self._made.setdefault(group, [])
        if len(made) < number:
            made[:] = islice(new_nodes(self._world, group), number)
        return made[:number]

    def _size(self, group: NodeGroup) -> Hashable:
        info = self._world.state.nodes.info(next(iter(group.like.values())))
        return tuple(sorted(info.allocatable.items())), len(group.like)

    def _least(self, group: NodeGroup, helped: Iterable[str]) -> int:
        """How many nodes have what the pods request in total."""
        info, total = self._world.state.nodes.info(next(iter(group.like.values()))), Counter[str]()
        pods = [self._world.pending[key] for key in helped]
        for pod in pods:
            total.update(pod.requested)
        needed = [
            -(-amount // info.allocatable_of(name)) for name, amount in total.items() if info.allocatable_of(name)
        ]
        return max([1, -(-len(pods) // max(info.allowed_pods, 1)), *needed])

    # Trials

    def _helped_by(self, group: NodeGroup) -> tuple[set[str], bool]:
        """The pods that a new node in some zone of a group accepts, and whether that is certain for all of them.

        One of each kind is tried, alone. It isn't certain for pods that depend on others.
        """
        helped, known, world = set[str](), dict[Hashable, bool](), self._world
        is_certain = True
        nodes = self._first(group, len(group.like))
        with world.what_if():
            for node in nodes:
                node.add_to(world)
            rows = [world.state.table.row_of[node.name] for node in nodes]
            for key in self._pending:
                pod = world.pending[key]
                kind = world.sharing_key(pod) if world.decided_by_node(pod) else None
                if kind is None:
                    helped.add(key)  # members of gangs, and pods that depend on others: only a trial of all shows it
                    is_certain = False
                    continue
                if kind not in known:
                    self._progress(f"{plural(len(known), 'kind')} of pods tried on one node")
                    known[kind] = self._accepts(pod, rows)
                if known[kind]:
                    helped.add(key)
        return helped, is_certain

    def _accepts(self, pod: PodInfo, rows: Sequence[int]) -> bool:
        try:
            plan = self._world.attempt(self._world.unit_of(pod), preempt=False)
        except PluginError:
            return False
        return any(np.isin(rows, decision.feasible).any() for decision in plan.decisions if decision.pod.uid == pod.uid)

    def _is_enough(self, nodes: Sequence[NewNode], target: int, hopeless: frozenset[str], ties: int = 0) -> bool:
        """Whether no more than `target` pods that are asked about stay pending, besides the hopeless ones."""
        return len(self._try(nodes, hopeless, target, ties).pending.keys() & self._asked) <= target

    def _is_enough_whatever_ties(
        self, nodes: Sequence[NewNode], target: int, hopeless: frozenset[str], first: int = 1
    ) -> bool:
        return all(self._is_enough(nodes, target, hopeless, ties) for ties in range(first, _TIES))

    def _try(
        self, nodes: Iterable[NewNode], hopeless: frozenset[str] = frozenset(), most: int | None = None, ties: int = 0
    ) -> _Trial:
        """Schedule with new nodes, and undo it: see `_schedule`."""
        with self._world.what_if():
            for node in nodes:
                node.add_to(self._world)
            return self._schedule(hopeless, most, ties)

    def _schedule(self, hopeless: frozenset[str] = frozenset(), most: int | None = None, ties: int = 0) -> _Trial:
        """Place the pending pods, but for the hopeless ones.

        Ends early once more than `most` of those asked about have no node. `ties`: another choice among nodes with
        equal scores.
        """
        world = self._world
        world.rng.seed(ties)
        keys = (key for key in self._ordered if key not in hopeless)
        pods = [pod for key in keys if (pod := world.pending.get(key)) is not None]
        found = Simulation(world, preempt=False, together=True).schedule(
            pods,
            lambda done: self._progress(f"{done:,} of {plural(len(pods), 'pod')} tried"),
            enough=_TooMany(world, self._asked, most) if most is not None else lambda _: False,
        )
        pending = {key: result for key, result in found.items() if not result.placed}
        return _Trial(pending, frozenset(result.node for result in found.values() if result.node))


def _name(group: NodeGroup) -> str:
    return f"of pool {group.pool}" if group.pool else f"of type {group.instance_type or 'unknown'}"


@dataclass(frozen=True, slots=True)
class _Trial:
    """The pods that have no node, and the nodes that got pods."""

    pending: Mapping[str, Result]
    used: frozenset[str]


class _TooMany:
    """Whether more pods than `most` stay pending for certain, whatever pods are placed after them."""

    def __init__(self, world: World, asked: set[str], most: int) -> None:
        self._world = world
        self._asked = asked
        self._most = most
        self._lost: set[str] = set()
        self._certain: dict[Hashable, bool] = {}

    def __call__(self, result: Result) -> bool:
        key = result.pod.key
        kind = self._world.sharing_key(result.pod) if result.fate is Fate.PENDING and key in self._asked else None
        if kind is None:
            return False
        failure = kind, result.plugins
        if failure not in self._certain:
            depends_on = self._world.failure_depends_on(result.pod, result.plugins)
            self._certain[failure] = depends_on is not None
        if self._certain[failure]:
            self._lost.add(key)
        return len(self._lost) > self._most
