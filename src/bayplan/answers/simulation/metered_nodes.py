"""MeteredNodes: the nodes of a cluster over time, with what they cost and how much of them is requested."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bayplan.core.api.well_known_labels import ZONE

PriceOf = Callable[[Mapping[str, str]], float | None]
"""The price of a node with some labels for an hour; None if it isn't known."""


class Size(NamedTuple):
    """What a pod of a workload requests, or what is allocatable on a node: millicores and bytes."""

    cpu: int = 0
    memory: int = 0


@dataclass(frozen=True, slots=True)
class Utilization:
    """Shares of what is allocatable: what pods of workloads request, and what is stranded.

    CPU is stranded as far as a node has more of it free than memory, each as a share of the node: pods of its
    proportions can't use it. Memory likewise. None where there is no node.
    """

    cpu: float | None = None
    memory: float | None = None
    stranded_cpu: float | None = None
    stranded_memory: float | None = None

    @classmethod
    def of(cls, sums: Sequence[float]) -> Utilization:
        """The shares of sums over nodes, which `MeteredNodes.sums` returns; they may be of many moments."""
        cpu, memory, used_cpu, used_memory, stranded_cpu, stranded_memory = sums
        if not cpu or not memory:
            return NO_UTILIZATION
        return cls(used_cpu / cpu, used_memory / memory, stranded_cpu / cpu, stranded_memory / memory)


NO_UTILIZATION = Utilization()


@dataclass(slots=True)
class _Node:
    zone: str
    price: float | None
    room: Size
    pods: int = 0
    cpu: int = 0
    memory: int = 0


class MeteredNodes:
    """Nodes and the pods of workloads on them. `pass_time` adds up what there is, for as long as it is so.

    Attributes:
        empty: how many have no pods. most: how many there were at the same time, at the most.
        cost: so far, of those with a known price; `cost_per_hour`: now. None if none has had a price.
        node_seconds, empty_seconds, unpriced_seconds: of all, of the empty ones, and of those without a price.
    """

    def __init__(self, price_of: PriceOf) -> None:
        self._price_of = price_of
        self._by_name: dict[str, _Node] = {}
        self._zones: set[str] = set()
        self._priced = False
        self._per_hour = self._cost = 0.0
        self._unpriced = 0
        self.empty = self.most = 0
        self.node_seconds = self.empty_seconds = self.unpriced_seconds = 0.0

    def __len__(self) -> int:
        return len(self._by_name)

    @property
    def cost(self) -> float | None:
        """What they have cost."""
        return self._cost if self._priced else None

    @property
    def cost_per_hour(self) -> float | None:
        """What they cost now."""
        return self._per_hour if self._priced else None

    @property
    def zoned(self) -> bool:
        """Whether there have been nodes in more than one zone."""
        return len(self._zones) > 1

    def pass_time(self, seconds: float) -> None:
        """Nothing changes for some seconds."""
        self.node_seconds += seconds * len(self._by_name)
        self.empty_seconds += seconds * self.empty
        self.unpriced_seconds += seconds * self._unpriced
        self._cost += seconds * self._per_hour / 3600

    def add(self, name: str, labels: Mapping[str, str], room: Size) -> None:
        """Count a node. One that is counted already is ignored."""
        if name in self._by_name:
            return
        node = self._by_name[name] = _Node(labels.get(ZONE, ""), self._price_of(labels), room)
        self._zones.add(node.zone)
        self.empty += 1
        self.most = max(self.most, len(self._by_name))
        self._per_hour += node.price or 0.0
        self._unpriced += node.price is None
        self._priced |= node.price is not None

    def remove(self, name: str) -> None:
        """Stop counting a node, whose pods are gone. An unknown one is ignored."""
        node = self._by_name.pop(name, None)
        if node is not None:
            self.empty -= node.pods == 0
            self._per_hour -= node.price or 0.0
            self._unpriced -= node.price is None
            if not self._by_name:
                self._per_hour = 0.0  # what is left is rounding

    def place(self, name: str, size: Size) -> str | None:
        """Count a pod on a node. Returns the node's zone, "" without one; None for an unknown node."""
        node = self._by_name.get(name)
        if node is None:
            return None
        self.empty -= node.pods == 0
        node.pods += 1
        node.cpu += size.cpu
        node.memory += size.memory
        return node.zone

    def free(self, name: str, size: Size) -> str | None:
        """Stop counting a pod on a node. Returns what `place` returns."""
        node = self._by_name.get(name)
        if node is None:
            return None
        node.pods -= 1
        node.cpu -= size.cpu
        node.memory -= size.memory
        self.empty += node.pods == 0
        return node.zone

    def sums(self) -> tuple[float, ...]:
        """Over all nodes: their CPU and memory, what is requested of each, and what is stranded of each."""
        cpu = memory = used_cpu = used_memory = stranded_cpu = stranded_memory = 0.0
        for node in self._by_name.values():
            cpu += node.room.cpu
            memory += node.room.memory
            used_cpu += node.cpu
            used_memory += node.memory
            free_cpu = max(1 - node.cpu / node.room.cpu, 0.0) if node.room.cpu else 0.0
            free_memory = max(1 - node.memory / node.room.memory, 0.0) if node.room.memory else 0.0
            stranded_cpu += max(free_cpu - free_memory, 0.0) * node.room.cpu
            stranded_memory += max(free_memory - free_cpu, 0.0) * node.room.memory
        return cpu, memory, used_cpu, used_memory, stranded_cpu, stranded_memory
