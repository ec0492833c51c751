"""scale-up: how many nodes of which pool would be enough for what is pending, or for manifests.

The pool that helps the most pods grows first, then the next one (`node_search.py`). It asks for what would be enough;
what an autoscaler would do over time is `bayplan.answers.simulation.models.autoscaler`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.answers.insight.answers import INTERRUPTED, Answer, Progress, Stopped, listed, plural, silent
from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.insight.questions.change import Change, make
from bayplan.answers.insight.questions.hanging import all_force_deleted
from bayplan.answers.insight.questions.new_objects import add_objects, given
from bayplan.answers.insight.questions.node_groups import NodeGroup, node_groups
from bayplan.answers.insight.questions.node_search import NodeSearch, PoolLimits, PoolNodes
from bayplan.answers.insight.questions.utilization import quantity_text
from bayplan.answers.insight.tables import grouped, table
from bayplan.answers.simulation.owners import workload_of
from bayplan.answers.simulation.world import World
from bayplan.answers.snapshots.documents import identify
from bayplan.core.api.kinds import POD
from bayplan.core.api.requests import CPU, MEMORY, PODS
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.expansion.expansion import Expansion
from bayplan.foundations.collector import collector_paused

_ROUNDS = 5
"""The most pools that are combined."""


@dataclass(frozen=True, slots=True)
class RoomByForce:
    """What the force deletion of the pods that hang would do, which costs no new node.

    `pods`: those that are placed with it alone. `enough`: the new nodes that are enough for the others then.
    """

    change: Change
    pods: tuple[str, ...]
    enough: tuple[PoolNodes, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return it as in docs/insight.md."""
        return {"change": self.change.text, "delete": list(self.change.delete), **fields_of(self, "change")}

    def text(self, wanted: int) -> str:
        """Return the change, and how many of the wanted pods it places."""
        number = plural(wanted, "pod") if len(self.pods) == wanted else f"{len(self.pods):,} of {plural(wanted, 'pod')}"
        then = f"; then {_nodes(self.enough)} would be enough" if self.enough else ""
        return f"without a new node, for {number}: {self.change.text}{then}"


@dataclass(frozen=True, slots=True)
class ScaleUp(Answer):
    """How many nodes of which pools would be enough.

    `wanted`: how many pods lack a node. `before`: how many pending pods of the cluster come before those of manifests.
    `enough`: the pools, together enough for all pods that can be placed, the one that helps most pods first. `alone`:
    what each pool would do by itself, the best first. `left`: the pods that stay pending whatever pool grows, with the
    reason. `workloads`: those of these pods. `limited`: those that a pool would help if it might grow.
    `where`: what lacks nodes, for messages. `forced`: what to do first, because it costs less; None if pods don't hang,
    or their end helps no pod.
    """

    where: str
    wanted: int
    before: int
    enough: tuple[PoolNodes, ...]
    alone: tuple[PoolNodes, ...]
    left: Mapping[str, str]
    workloads: Mapping[str, str] = field(default_factory=dict)
    shown: int = 20
    interrupted: bool = False

    limited: frozenset[str] = frozenset()
    forced: RoomByForce | None = None

    @property
    def fits(self) -> bool | None:
        """Whether all pods would be placed; None if the question was interrupted before that was known."""
        return None if self.interrupted else not self.left

    @property
    def passes(self) -> bool:
        """Whether all pods would be placed."""
        return bool(self.fits)

    @property
    def next_steps(self) -> Sequence[str]:
        """The nodes to add."""
        pools = [f"add {_nodes([each])}" for each in self.enough]
        return pools if self.forced is None else [self.forced.text(self.wanted), *pools]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer as in docs/insight.md."""
        left = [{"pod": pod, "message": message} for pod, message in self.left.items()]
        return {"fits": self.fits, **fields_of(self, "where", "workloads", "limited"), "left": left}

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per pool, by itself."""
        return [
            {"pool": each.pool, "like": each.like, "nodes": each.nodes, "pods": len(each.pods), **each.adds}
            for each in self.alone
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return a sentence, what each pool would do, and the pods that no pool helps."""
        parts: list[RenderableType] = [Text(self._headline(), style="bold")]
        if self.forced is not None:
            parts.append(Text(self.forced.text(self.wanted)))
        if self.alone:
            parts += [Text(), self._table(wide=wide)]
        causes = grouped((message, pod) for pod, message in self.left.items())
        if causes:
            reached = any(pod in self.limited for pod in self.left)
            what = "these stay pending" if reached else "no pool helps"
            parts += [Text(), Text("not known yet" if self.interrupted else what, style="bold")]
        for message, pods in causes.items():
            names = Counter(self.workloads.get(pod) or pod for pod in pods)
            texts = [f"{plural(number, 'pod')} of {name}" if number > 1 else name for name, number in names.items()]
            parts.append(Text(f"  {listed(texts, len(texts) if wide else 5)}: {message}"))
        if self.interrupted:
            parts.append(Text(INTERRUPTED, style="bold"))
        return Lines(*parts)

    def _headline(self) -> str:
        if not self.wanted and self.interrupted:
            return INTERRUPTED
        if not self.wanted:
            return f"all pods of {self.where} have a node or would get one now"
        placed = self.wanted - len(self.left)
        if not self.enough and self.interrupted:
            return f"{INTERRUPTED}: it isn't known how many nodes {plural(self.wanted, 'pod')} of {self.where} need"
        if not self.enough:
            why = "the limit of nodes is reached" if self.limited else "no new node of any pool helps"
            return f"{plural(self.wanted, 'pod')} of {self.where} would stay pending: {why}"
        number = plural(placed, "pod") if placed == self.wanted else f"{placed:,} of {plural(self.wanted, 'pod')}"
        before = f", after {plural(self.before, 'pending pod')} of the cluster" if self.before else ""
        return f"{_nodes(self.enough)} would be enough for {number} of {self.where}{before}"

    def _table(self, *, wide: bool) -> Table:
        resources = [name for name in dict.fromkeys(name for each in self.alone for name in each.adds) if name != PODS]

        def row(each: PoolNodes) -> Sequence[str]:
            zones = ", ".join(f"{zone}: {number}" for zone, number in each.zones.items() if zone)
            adds = (quantity_text(name, each.adds[name]) if each.adds.get(name) else "-" for name in resources)
            numbers = f"{each.nodes:,}", zones or "-", f"{len(each.pods):,}"
            cost = ("-" if each.cost is None else f"{each.cost:,.2f}",) if priced else ()
            return each.pool or "-", each.instance_type or "-", each.like, *numbers, *adds, *cost

        priced = any(each.cost is not None for each in self.alone)
        headers = ("POOL", "TYPE", "LIKE", "NODES", "ZONES", "PODS", *resources, *(("$/HOUR",) if priced else ()))
        return table(headers, self.alone, row, 0 if wide else self.shown)


def _nodes(pools: Sequence[PoolNodes]) -> str:
    return " and ".join(f"{plural(each.nodes, 'node')} {_of(each)}" for each in pools)


def _of(nodes: PoolNodes) -> str:
    zones = [zone for zone in nodes.zones if zone]
    where = f" in {zones[0]}" if len(zones) == 1 else ""
    return (f"of pool {nodes.pool}" if nodes.pool else f"like {nodes.like}") + where


def scale_up(
    world: World,
    expansion: Expansion | None = None,
    *,
    pools: Sequence[str] = (),
    matches: Callable[[PodInfo], bool] = lambda _: True,
    limits: PoolLimits = PoolLimits(),  # noqa: B008 - immutable
    shown: int = 20,
    progress: Progress = silent,
) -> ScaleUp:
    """Find the fewest new nodes with which the pending pods that match, or those of an expansion, are placed.

    Nothing is preempted. `pools`: the pools that may grow; by default, all. `limits`: how far they may, and
    their prices: then the cheapest of those that help as many pods is chosen. `progress` may raise Stopped.
    """
    with world.what_if(), collector_paused():
        waiting = world.in_queue_order(world.pending.values())
        new = [] if expansion is None else list(_added(world, expansion))
        where = "the manifests" if expansion is not None else "the cluster"
        lost = {pod.key: given(world, pod).message for pod in new if not pod.node_name and pod.key not in world.pending}
        ordered = [pod.key for pod in [*waiting, *(pod for pod in new if pod.key in world.pending)]]
        asked = {pod.key for pod in new} if expansion is not None else {pod.key for pod in waiting if matches(pod)}
        search = NodeSearch(world, ordered, asked, limits, progress)
        alone: list[PoolNodes] = []
        enough: list[PoolNodes] = []
        forced, interrupted = None, False
        groups = [group for group in node_groups(world) if not pools or group.pool in pools]
        try:
            search.begin()
            forced = _by_force(world, search, NodeSearch(world, ordered, asked, limits, progress), groups)
            for nodes in _enough(search, groups, alone):
                enough.append(nodes)  # noqa: PERF402 - what is known when it is interrupted
        except Stopped:
            interrupted = True
        reasons = search.messages | search.limited
        left = lost | {key: reason for key, reason in reasons.items() if key in search.left}
        workloads = {key: workload_of(pod) for key in left if (pod := world.pod(key)) is not None}
        wanted = len(search.messages) + len(lost)
        before = len(waiting) if expansion is not None else 0
        limited = frozenset(search.limited).intersection(left)
        return ScaleUp(
            where, wanted, before, tuple(enough), tuple(alone), left, workloads, shown, interrupted, limited, forced
        )


def _by_force(world: World, search: NodeSearch, rest: NodeSearch, groups: Sequence[NodeGroup]) -> RoomByForce | None:
    """What the end of the pods that hang would do. `rest`: looks for the nodes that are needed then."""
    change = all_force_deleted(world)
    if change is None:
        return None
    with world.what_if():
        make(world, change)
        pods = search.place()
        if not pods:
            return None
        rest.begin()
        return RoomByForce(change, pods, tuple(_enough(rest, groups, [])))


def _enough(search: NodeSearch, groups: Sequence[NodeGroup], alone: list[PoolNodes]) -> Iterator[PoolNodes]:
    """Yield the nodes of pools that are enough together. `alone` gets what each pool would do by itself."""
    found = {group: nodes for group in groups if (nodes := search.fewest(group)) is not None}
    alone += sorted(found.values(), key=_best_first)
    for _ in range(_ROUNDS):
        if not found:
            return
        group = min(found, key=lambda each: _best_first(found[each]))
        yield found[group]
        search.keep(group)
        found = {
            each: nodes
            for each in groups
            if search.left and each is not group and (nodes := search.fewest(each)) is not None
        }


def _added(world: World, expansion: Expansion) -> Iterator[PodInfo]:
    """Add the objects of an expansion to the world, and yield its pods; those that exist already are not added."""
    add_objects(world, expansion.objects)
    for document in expansion.pods:
        _, key, raw = identify(document)
        if world.pod(key) is None:
            world.add(POD, key, raw)
        pod = world.pod(key)
        if pod is not None:
            yield pod


def _best_first(nodes: PoolNodes) -> tuple[int, float, int, int, int, str]:
    """Most pods first, then the cheapest, then the least that is added, then the fewest nodes."""
    cost = math.inf if nodes.cost is None else nodes.cost
    return -len(nodes.pods), cost, nodes.adds.get(CPU, 0), nodes.adds.get(MEMORY, 0), nodes.nodes, nodes.like
