"""ClusterMeter: what a cluster costs and how its pods fare, over time. It meters simulations and records alike.

Calls come in the order of time, in seconds from 0. CPU is in millicores, memory in bytes, prices are per hour. The
memory that it takes doesn't grow with the length: quantiles are sketched, and curves have a fixed number of points.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from bayplan.answers.simulation.metered_nodes import NO_UTILIZATION, MeteredNodes, PriceOf, Size, Utilization
from bayplan.answers.simulation.metered_pods import MeteredPods, ServiceSpread, Spread, Waits

_POINTS = 500
"""How many points a curve has."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A moment of a curve: seconds since the start, nodes, nodes without pods of workloads, and pods without a node.

    `cost_per_hour`: of all nodes whose price is known; None if there are none.
    """

    seconds: float
    nodes: int
    empty: int
    pending: int
    cost_per_hour: float | None
    utilization: Utilization = NO_UTILIZATION


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


class ClusterMeter:
    """Meters what it is told, in the order of time, from 0 to `length` seconds. Its memory doesn't grow with that."""

    def __init__(self, length: float, price_of: PriceOf = lambda _: None) -> None:
        self._length = length
        self._now = 0.0
        self._nodes = MeteredNodes(price_of)
        self._pods = MeteredPods()
        self._spread = ServiceSpread()
        self._sizes: dict[str, Size] = {}
        """What the pods on nodes were counted with, by their keys."""
        self._step = max(length / _POINTS, 1e-3)
        self._samples = 0
        self._sums = [0.0] * 6
        """Of all samples: see `MeteredNodes.sums`."""
        self._curve: list[CurvePoint] = []

    def _go_to(self, at: float) -> None:
        """Let time pass."""
        while (moment := self._samples * self._step) < at and self._samples <= _POINTS:
            self._sample(moment)
            self._samples += 1
        if at > self._now:
            self._nodes.pass_time(at - self._now)
            self._now = at

    def _sample(self, at: float) -> None:
        nodes, sums = self._nodes, self._nodes.sums()
        self._sums = [one + other for one, other in zip(self._sums, sums, strict=True)]
        counts = len(nodes), nodes.empty, len(self._pods.pending)
        self._curve.append(CurvePoint(round(at, 3), *counts, nodes.cost_per_hour, Utilization.of(sums)))
        self._spread.sample()

    # What happens

    def node_added(self, at: float, name: str, labels: Mapping[str, str], room: Size) -> None:
        """A node was added. One that exists already is ignored."""
        self._go_to(at)
        self._nodes.add(name, labels, room)

    def node_removed(self, at: float, name: str) -> None:
        """A node was removed, after its pods. An unknown one is ignored."""
        self._go_to(at)
        self._nodes.remove(name)

    def pod_arrived(self, at: float, key: str) -> None:
        """A pod was created without a node."""
        self._go_to(at)
        self._pods.pending[key] = None

    def pod_bound(self, at: float, key: str, node: str, service: str, wait: float | None, size: Size) -> None:
        """A pod has got its node. `service`: what it belongs to; "" for a pod that is never spread. `wait`: in seconds;
        None for one that no scheduler decided about.
        """
        self._go_to(at)
        self._pods.got_node(key, wait)
        zone = self._nodes.place(node, size)
        if zone is None:
            return
        self._sizes[key] = size
        if service and zone:
            self._spread.add(service, zone)

    def pod_left(self, at: float, key: str, node: str, service: str) -> None:
        """A pod is gone. `node`: "" if it never had one."""
        self._go_to(at)
        if not node:
            self._pods.left_without_node(key)
            return
        zone = self._nodes.free(node, self._sizes.pop(key, Size()))
        if zone:
            self._spread.remove(service, zone)

    def evicted(self, at: float, reason: str) -> None:
        """A pod was evicted."""
        self._go_to(at)
        self._pods.evictions[reason] += 1

    def summary(self) -> Summary:
        """End, and return what was metered. Pods that have no node by then are never placed."""
        self._go_to(self._length)
        self._sample(self._length)
        nodes, pods = self._nodes, self._pods
        for key in list(pods.pending):
            pods.left_without_node(key)
        length = self._length or 1.0
        widest, median_share = self._spread.widest() if nodes.zoned else (None, None)
        return Summary(
            nodes=nodes.node_seconds / length,
            most_nodes=nodes.most,
            node_hours=nodes.node_seconds / 3600,
            empty_nodes=nodes.empty_seconds / length,
            cost=nodes.cost,
            unpriced_node_hours=nodes.unpriced_seconds / 3600,
            placed=pods.placed,
            waits=pods.waits,
            evictions=dict(sorted(pods.evictions.items())),
            never_placed=pods.never_placed,
            unplaced=tuple(pods.unplaced),
            widest=widest,
            utilization=Utilization.of(self._sums),
            curve=tuple(self._curve),
            median_share=median_share,
        )
