"""How much of the nodes is requested, by resource."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.table import Table

from bayplan.answers.insight.json_values import fields_of
from bayplan.answers.simulation.world import World
from bayplan.core.api.requests import CPU, MEMORY, PODS, amount_text
from bayplan.core.cluster.nodes import Nodes

Positions = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Usage:
    """The requests for one resource on some nodes, in millicores of cpu or base units; `pods` is a resource, too.

    `lowest`, `highest` and `deviation`: of the shares of the single nodes that have the resource.
    """

    resource: str
    requested: int
    allocatable: int
    lowest: float = 0.0
    highest: float = 0.0
    deviation: float = 0.0

    @property
    def share(self) -> float:
        """The requested part, 0 to 1 (or more, if nodes are overcommitted)."""
        return self.requested / self.allocatable if self.allocatable else 0.0

    @property
    def text(self) -> str:
        """The requested part of the allocatable amount, for people."""
        if not self.allocatable:
            return "-"
        amounts = f"{quantity_text(self.resource, self.requested)}/{quantity_text(self.resource, self.allocatable)}"
        return f"{self.share:.0%} ({amounts})"

    def to_dict(self) -> dict[str, Any]:
        """Return the usage as in docs/insight.md."""
        found = {**fields_of(self), "share": self.share}
        return {key: round(value, 4) if isinstance(value, float) else value for key, value in found.items()}


def resources_of(world: World) -> list[str]:
    """Return the resources that some node has: cpu, memory and pods first."""
    table = world.state.nodes.table
    others = sorted(name for name in table.resources if name not in {CPU, MEMORY} and table.allocatable_range(name)[1])
    return [CPU, MEMORY, PODS, *others]


def amounts(nodes: Nodes, resource: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return what is allocatable and what is requested of a resource, by position."""
    if resource == PODS:
        return nodes.allowed_pods, nodes.pod_count
    return nodes.allocatable(resource), nodes.requested(resource)


def free(world: World) -> dict[str, NDArray[np.int64]]:
    """Return what is free of each resource, by position; nothing on rows without a node."""
    nodes, found = world.state.nodes, {}
    for resource in resources_of(world):
        allocatable, requested = amounts(nodes, resource)
        found[resource] = np.where(nodes.live, np.maximum(allocatable - requested, 0), 0)
    return found


def utilization(world: World, positions: Positions | None = None) -> tuple[Usage, ...]:
    """Return the usage of each resource on the nodes at some positions; by default, on all nodes."""
    nodes = world.state.nodes
    chosen = np.flatnonzero(nodes.live) if positions is None else positions
    return tuple(_usages(nodes, chosen, resources_of(world)))


def _usages(nodes: Nodes, positions: Positions, resources: Sequence[str]) -> Iterator[Usage]:
    for resource in resources:
        allocatable, requested = (column[positions] for column in amounts(nodes, resource))
        having = allocatable > 0
        shares = requested[having] / allocatable[having]
        if not shares.size:
            yield Usage(resource, int(requested.sum()), 0)
            continue
        spread = float(shares.min()), float(shares.max()), float(shares.std())
        yield Usage(resource, int(requested.sum()), int(allocatable.sum()), *spread)


def quantity_text(resource: str, amount: int) -> str:
    """Return an amount with at most three digits before its suffix, such as `1.5Ti`, `12` cpus or `110` pods."""
    if resource == MEMORY or resource.startswith(("hugepages-", "ephemeral-storage")):
        for suffix, size in (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20)):
            if amount >= size:
                return f"{_short(amount / size)}{suffix}"
    if resource == CPU and amount >= 1000:
        return _short(amount / 1000)
    return amount_text(resource, amount)


def _short(value: float) -> str:
    return f"{value:,.1f}".removesuffix(".0")


def before_and_after(before: Sequence[Usage], after: Sequence[Usage], titles: Sequence[str]) -> RenderableType:
    """Return a table of two utilizations."""
    table = Table("RESOURCE", *titles, "SINGLE NODES", box=None, pad_edge=False, header_style="bold")
    olds, news = ({usage.resource: usage for usage in usages} for usages in (before, after))
    for resource in dict.fromkeys((*olds, *news)):
        old, new = (usages.get(resource, Usage(resource, 0, 0)) for usages in (olds, news))
        if old.allocatable or new.allocatable:
            table.add_row(resource, old.text, new.text, f"{_range(old)} -> {_range(new)}")
    return table


def _range(usage: Usage) -> str:
    return f"{usage.lowest:.0%} to {usage.highest:.0%}"
