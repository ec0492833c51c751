"""balance: how evenly a cluster is used, what is left where it is of no use, and what still fits.

Shares are read from the columns of the node table (`utilization.py`). What fits is found by the scheduler (`room.py`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Group as Lines
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from bayplan.answers.insight.answers import Answer, plural
from bayplan.answers.insight.pools import pool_of, zone_of
from bayplan.answers.insight.questions.room import (
    LargestGang,
    LargestPod,
    largest_gang,
    largest_pods,
    ordinary,
    requests_text,
    typical,
)
from bayplan.answers.insight.questions.utilization import Usage, amounts, free, quantity_text, resources_of, utilization
from bayplan.answers.insight.tables import grouped
from bayplan.answers.simulation.world import World
from bayplan.core.api.requests import PODS
from bayplan.core.cluster.pod_info import PodInfo

CORDONED = "cordoned"


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """The utilization of a node, or of the nodes of a zone or a pool."""

    name: str
    nodes: int
    usages: tuple[Usage, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the utilization as in docs/insight.md."""
        usages = {usage.resource: round(usage.share, 4) for usage in self.usages if usage.allocatable}
        return {"name": self.name, "nodes": self.nodes, "shares": usages}


@dataclass(frozen=True, slots=True)
class Stranded:
    """What is free of a resource on nodes that a typical pod does not fit on for another reason.

    `because`: the number of these nodes by the reason: the other resource, or `cordoned`.
    """

    resource: str
    amount: int
    free: int
    because: Mapping[str, int]

    @property
    def text(self) -> str:
        """The amount, and why nothing can use it."""
        whys = [
            f"{plural(count, 'node')} {CORDONED}" if why == CORDONED else f"no {why} left on {plural(count, 'node')}"
            for why, count in self.because.items()
        ]
        return f"{quantity_text(self.resource, self.amount)} of {quantity_text(self.resource, self.free)} free: " + (
            ", ".join(whys)
        )


@dataclass(frozen=True, slots=True)
class Balance(Answer):
    """The utilization of a cluster with the pods that have a node; pending pods do not count.

    `typical`: the median requests of its pods. `zones` and `pools`: empty if no node has such a label. `nodes`: the
    fullest first. `shown`: nodes in the table; 0 for all.
    """

    cluster: tuple[Usage, ...]
    zones: tuple[GroupUsage, ...]
    pools: tuple[GroupUsage, ...]
    nodes: tuple[GroupUsage, ...]
    stranded: tuple[Stranded, ...]
    typical: Mapping[str, int]
    largest: tuple[LargestPod, ...]
    gang: LargestGang
    shown: int = 20

    def rows(self) -> list[dict[str, Any]]:
        """Return one row per node, with the shares of its resources."""
        return [
            {"node": node.name, **{usage.resource: usage.share for usage in node.usages if usage.allocatable}}
            for node in self.nodes
        ]

    def render(self, *, wide: bool = False) -> RenderableType:
        """Return the utilization by resource, zone, pool and node, what is stranded, and what still fits."""
        table = Table("RESOURCE", "REQUESTED", "SINGLE NODES", "DEVIATION", box=None, pad_edge=False)
        for usage in self.cluster:
            if usage.allocatable:
                spread = f"{usage.lowest:.0%} to {usage.highest:.0%}"
                table.add_row(usage.resource, usage.text, spread, f"{usage.deviation * 100:.0f} points")
        parts: list[RenderableType] = [Text(plural(len(self.nodes), "node"), style="bold"), table]
        for title, groups in (("ZONE", self.zones), ("POOL", self.pools)):
            if groups:
                parts += [Text(), _groups_table(title, groups)]
        shown = self.nodes if wide or not self.shown else self.nodes[: self.shown]
        parts += [Text(), _groups_table("NODE", shown)]
        if len(shown) < len(self.nodes):
            parts.append(Text(f"... and {plural(len(self.nodes) - len(shown), 'more node')}"))
        if self.stranded:
            parts += [Text(), Text(f"stranded, for a typical pod with {requests_text(self.typical)}", style="bold")]
            parts += [Text(f"  {each.resource}: {each.text}") for each in self.stranded]
        parts += [Text(), Text("largest pods that still fit", style="bold")]
        parts += [Text(f"  {_mix(each)}: {_fits(each)}") for each in self.largest]
        gang = self.gang
        count = f"{gang.members:,} on {plural(gang.nodes, 'node')}" if gang.complete else f"at least {gang.members:,}"
        parts += [Text(), Text(f"largest gang of {gang.pod}: {count}", style="bold")]
        if gang.message:
            parts.append(Text(f"  the next one: {gang.message}"))
        return Lines(*parts)


def balance(world: World, most: int, pod: Mapping[str, Any] | None = None, shown: int = 20) -> Balance:
    """Return how a cluster is used, and what fits. `most`: the largest gang that is tried. `pod`: that of the gang."""
    nodes, pods = world.state.nodes, ordinary(world)
    positions = np.flatnonzero(nodes.live).tolist()
    labels = {position: nodes.info(position).labels for position in positions}

    def by_label(name_of: Callable[[Mapping[str, str]], str]) -> tuple[GroupUsage, ...]:
        members = grouped((name_of(each), position) for position, each in labels.items())
        if set(members) <= {""}:
            return ()
        return tuple(
            GroupUsage(name or "none", len(those), utilization(world, np.array(those)))
            for name, those in sorted(members.items())
        )

    return Balance(
        cluster=utilization(world),
        zones=by_label(zone_of),
        pools=by_label(pool_of),
        nodes=tuple(_by_node(world, positions)),
        stranded=tuple(_stranded(world, pods)),
        typical=typical(pods),
        largest=largest_pods(world, pods),
        gang=largest_gang(world, most, pod),
        shown=shown,
    )


def _by_node(world: World, positions: Sequence[int]) -> Iterator[GroupUsage]:
    """The utilization of single nodes, the fullest first: those with the highest share of any resource but pods."""
    nodes, resources = world.state.nodes, resources_of(world)
    columns = {resource: amounts(nodes, resource) for resource in resources}
    found = []
    for position in positions:
        usages = [
            Usage(resource, int(requested[position]), int(allocatable[position]))
            for resource, (allocatable, requested) in columns.items()
        ]
        fullness = max((usage.share for usage in usages if usage.resource != PODS), default=0.0)
        found.append((-fullness, nodes.name(position), tuple(usages)))
    for _, name, shares in sorted(found, key=lambda each: each[:2]):
        yield GroupUsage(name, 1, shares)


def _stranded(world: World, pods: Sequence[PodInfo]) -> Iterator[Stranded]:
    nodes = world.state.nodes
    left = free(world)
    for resource, amount in left.items():
        if resource == PODS or not amount.any():
            continue
        needed = {PODS: 1, **typical(pods, resource)}
        having = amount >= needed.get(resource, 1)
        lacking = {name: having & (left[name] < need) for name, need in needed.items() if name != resource}
        lacking[CORDONED] = having & nodes.unschedulable
        useless = np.any(list(lacking.values()), axis=0)
        if useless.any():
            because = Counter({why: int(which.sum()) for why, which in lacking.items() if which.any()})
            yield Stranded(resource, int(amount[useless].sum()), int(amount.sum()), dict(because.most_common()))


def _groups_table(title: str, groups: Sequence[GroupUsage]) -> Table:
    resources = [usage.resource for usage in groups[0].usages] if groups else []
    used = [number for number, _ in enumerate(resources) if any(group.usages[number].allocatable for group in groups)]
    single = title == "NODE"
    columns = [title, *([] if single else ["NODES"]), *(resources[number] for number in used)]
    table = Table(*columns, box=None, pad_edge=False)
    for group in groups:
        texts = [f"{group.usages[number].share:.0%}" if group.usages[number].allocatable else "-" for number in used]
        table.add_row(group.name, *([] if single else [f"{group.nodes:,}"]), *texts)
    return table


def _mix(pod: LargestPod) -> str:
    return "in typical proportions" if pod.mix == "typical" else f"most {pod.mix}"


def _fits(pod: LargestPod) -> str:
    if pod.node is None:
        return f"none with {requests_text(pod.requests)}" if pod.requests else "none"
    return f"{requests_text(pod.requests)} -> {pod.node}"
