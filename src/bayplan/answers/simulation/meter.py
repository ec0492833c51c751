"""ClusterMeter: what a cluster costs and how its pods fare, over time. It meters simulations and records alike.

Calls come in the order of time, in seconds from 0. CPU is in millicores, memory in bytes, prices are per hour. The
memory that it takes doesn't grow with the length: quantiles are sketched, and curves have a fixed number of points.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from bayplan.answers.simulation.quantiles import DurationSketch

_POINTS = 500
"""How many points a curve has."""
_FEW = 3
"""A service with fewer pods than these is in one zone often enough."""
_SHOWN = 20

PriceOf = Callable[[Mapping[str, str]], float | None]
"""The price of a node with some labels for an hour; None if it isn't known."""

ZONE = "topology.kubernetes.io/zone"


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


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A moment of a curve: seconds since the begin, nodes, nodes without pods of workloads, and pods without a node.

    `cost_per_hour`: of all nodes whose price is known; None if there are none.
    """

    seconds: float
    nodes: int
    empty: int
    pending: int
    cost_per_hour: float | None
    utilization: Utilization = Utilization()


@dataclass(frozen=True, slots=True)
class Waits:
    """How long pods waited for their node, in seconds; None if none got one."""

    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Spread:
    """How unevenly a service is spread over zones: the largest share of its pods in one zone, on average over time."""

    service: str
    share: float


@dataclass(frozen=True, slots=True)
class Summary:
    """What a meter shows at the end.

    `nodes`, `empty_nodes`: averages over time. `cost`: of the nodes with a known price; None if there are none.
    `unpriced_node_hours`: those of the others. `placed`: how many pods got a node. `evictions`: by reason.
    `never_placed`: how many pods never got a node, `unplaced` names some of them. `widest`: the service whose pods are
    the most in one zone, and `median_share`: the share of the median one; None if there is only one zone.
    `utilization`: on average over time. `curve`: over time.
    """

    nodes: float
    most_nodes: int
    node_hours: float
    empty_nodes: float
    cost: float | None
    unpriced_node_hours: float
    placed: int
    waits: Waits
    evictions: Mapping[str, int]
    never_placed: int
    unplaced: tuple[str, ...]
    widest: Spread | None
    utilization: Utilization
    curve: tuple[CurvePoint, ...]
    median_share: float | None = None

    @property
    def evicted(self) -> int:
        """How many pods were evicted, for any reason."""
        return sum(self.evictions.values())


@dataclass(slots=True)
class _Node:
    zone: str
    price: float | None
    room: Size
    pods: int = 0
    cpu: int = 0
    memory: int = 0


@dataclass(slots=True)
class _Service:
    zones: Counter[str] = field(default_factory=Counter)
    shares: float = 0.0
    samples: int = 0


class ClusterMeter:
    """Meters what it is told, in the order of time, from 0 to `length` seconds. Its memory doesn't grow with that."""

    def __init__(self, length: float, price_of: PriceOf = lambda _: None) -> None:
        self._length = length
        self._price_of = price_of
        self._step = max(length / _POINTS, 1e-3)
        self._samples = 0
        self._now = 0.0
        self._nodes: dict[str, _Node] = {}
        self._services: dict[str, _Service] = {}
        self._zones: set[str] = set()
        self._empty = self._unpriced = self._most = 0
        self._rate = 0.0
        """What all nodes cost in an hour."""
        self._priced = False
        self._node_seconds = self._empty_seconds = self._unpriced_seconds = self._cost = 0.0
        self._pending: dict[str, None] = {}
        """The keys of the pods without a node."""
        self._waits = DurationSketch()
        self._sizes: dict[str, Size] = {}
        """What the pods on nodes were counted with."""
        self._placed = self._never = 0
        self._unplaced: list[str] = []
        self._evictions: Counter[str] = Counter()
        self._sums = [0.0] * 6
        """Of all samples: see `_sums`."""
        self._curve: list[CurvePoint] = []

    def _go_to(self, at: float) -> None:
        """Let time pass."""
        while (moment := self._samples * self._step) < at and self._samples <= _POINTS:
            self._sample(moment)
            self._samples += 1
        seconds = at - self._now
        if seconds > 0:
            self._node_seconds += seconds * len(self._nodes)
            self._empty_seconds += seconds * self._empty
            self._unpriced_seconds += seconds * self._unpriced
            self._cost += seconds * self._rate / 3600
            self._now = at

    def _sample(self, at: float) -> None:
        rate = self._rate if self._priced else None
        sums = _sums(self._nodes.values())
        self._sums = [one + other for one, other in zip(self._sums, sums, strict=True)]
        self._curve.append(
            CurvePoint(round(at, 3), len(self._nodes), self._empty, len(self._pending), rate, _shares(sums))
        )
        for service in self._services.values():
            pods = service.zones.total()
            if pods >= _FEW:
                service.shares += max(service.zones.values()) / pods
                service.samples += 1

    # What happens

    def node_added(self, at: float, name: str, labels: Mapping[str, str], room: Size) -> None:
        """A node was added. One that exists already is ignored."""
        self._go_to(at)
        if name in self._nodes:
            return
        node = self._nodes[name] = _Node(labels.get(ZONE, ""), self._price_of(labels), room)
        self._zones.add(node.zone)
        self._empty += 1
        self._most = max(self._most, len(self._nodes))
        self._rate += node.price or 0.0
        self._unpriced += node.price is None
        self._priced |= node.price is not None

    def node_removed(self, at: float, name: str) -> None:
        """A node was removed, after its pods. An unknown one is ignored."""
        self._go_to(at)
        node = self._nodes.pop(name, None)
        if node is not None:
            self._empty -= node.pods == 0
            self._rate -= node.price or 0.0
            self._unpriced -= node.price is None
            if not self._nodes:
                self._rate = 0.0  # what is left is rounding

    def pod_arrived(self, at: float, key: str) -> None:
        """A pod was created without a node."""
        self._go_to(at)
        self._pending[key] = None

    def pod_bound(self, at: float, key: str, node: str, service: str, wait: float | None, size: Size) -> None:
        """A pod has got its node. `service`: what it belongs to; "" for a pod that is never spread. `wait`: in seconds;
        None for one that no scheduler decided about.
        """
        self._go_to(at)
        self._pending.pop(key, None)
        if wait is not None:
            self._waits.add(wait)
            self._placed += 1
        known = self._nodes.get(node)
        if known is None:
            return
        self._sizes[key] = size
        self._empty -= known.pods == 0
        known.pods += 1
        known.cpu += size.cpu
        known.memory += size.memory
        if service and known.zone:
            self._services.setdefault(service, _Service()).zones[known.zone] += 1

    def pod_left(self, at: float, key: str, node: str, service: str) -> None:
        """A pod is gone. `node`: "" if it never had one."""
        self._go_to(at)
        if not node:
            self._pending.pop(key, None)
            self._was_never_placed(key)
            return
        size = self._sizes.pop(key, Size())
        known = self._nodes.get(node)
        if known is None:
            return
        known.pods -= 1
        known.cpu -= size.cpu
        known.memory -= size.memory
        self._empty += known.pods == 0
        of_service = self._services.get(service)
        if of_service is not None and known.zone:
            of_service.zones[known.zone] -= 1
            if not of_service.zones.total() and not of_service.samples:
                del self._services[service]

    def evicted(self, at: float, reason: str) -> None:
        """A pod was evicted."""
        self._go_to(at)
        self._evictions[reason] += 1

    def _was_never_placed(self, key: str) -> None:
        self._never += 1
        if len(self._unplaced) < _SHOWN:
            self._unplaced.append(key)

    def summary(self) -> Summary:
        """End, and return what was metered. Pods that have no node by then are never placed."""
        self._go_to(self._length)
        self._sample(self._length)
        for key in list(self._pending):
            self._was_never_placed(key)
        self._pending.clear()
        length = self._length or 1.0
        spreads = [Spread(name, each.shares / each.samples) for name, each in self._services.items() if each.samples]
        return Summary(
            nodes=self._node_seconds / length,
            most_nodes=self._most,
            node_hours=self._node_seconds / 3600,
            empty_nodes=self._empty_seconds / length,
            cost=self._cost if self._priced else None,
            unpriced_node_hours=self._unpriced_seconds / 3600,
            placed=self._placed,
            waits=Waits(*(self._waits.quantile(share) for share in (0.5, 0.95, 0.99))),
            evictions=dict(sorted(self._evictions.items())),
            never_placed=self._never,
            unplaced=tuple(self._unplaced),
            widest=max(spreads, key=lambda each: (each.share, each.service), default=None)
            if len(self._zones) > 1
            else None,
            utilization=_shares(self._sums),
            curve=tuple(self._curve),
            median_share=statistics.median(each.share for each in spreads)
            if spreads and len(self._zones) > 1
            else None,
        )


def _sums(nodes: Iterable[_Node]) -> tuple[float, ...]:
    """Over nodes: their CPU and memory, what is requested of each, and what is stranded of each."""
    cpu = memory = used_cpu = used_memory = stranded_cpu = stranded_memory = 0.0
    for node in nodes:
        cpu += node.room.cpu
        memory += node.room.memory
        used_cpu += node.cpu
        used_memory += node.memory
        free_cpu = max(1 - node.cpu / node.room.cpu, 0.0) if node.room.cpu else 0.0
        free_memory = max(1 - node.memory / node.room.memory, 0.0) if node.room.memory else 0.0
        stranded_cpu += max(free_cpu - free_memory, 0.0) * node.room.cpu
        stranded_memory += max(free_memory - free_cpu, 0.0) * node.room.memory
    return cpu, memory, used_cpu, used_memory, stranded_cpu, stranded_memory


def _shares(sums: Sequence[float]) -> Utilization:
    cpu, memory, used_cpu, used_memory, stranded_cpu, stranded_memory = sums
    if not cpu or not memory:
        return Utilization()
    return Utilization(used_cpu / cpu, used_memory / memory, stranded_cpu / cpu, stranded_memory / memory)
