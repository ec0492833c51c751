"""LeastNUMANodes: prefers nodes where a pod needs few zones, and zones that are near to each other.

Mirrors least_numa.go: the smallest sets of zones that have enough together are tried first. Of these, the nearest one
is taken. It is for every policy of the Topology Manager.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from bayplan.plugin import MAX_NODE_SCORE
from bayplan_plugins.node_resource_topology.columns import NO_COST, Bool, Int64, ZonesView
from bayplan_plugins.node_resource_topology.demand import ZoneDemand
from bayplan_plugins.node_resource_topology.topologies import Amounts

MOST_SETS = 4096
"""The most sets of zones that are tried for a request. A pod that fits into none of them counts as one that doesn't
fit: with many zones there are too many sets."""


@dataclass(slots=True)
class NeededZones:
    """For each node: the zones that a request needs, as a mask (zones, nodes), and whether none are nearer."""

    zones: Bool
    nearest: Bool

    @property
    def count(self) -> Int64:
        """How many zones are needed."""
        count: Int64 = np.count_nonzero(self.zones, axis=0)
        return count


def scores(view: ZonesView, demand: ZoneDemand) -> Int64:
    """Return the scores of nodes; 0 for those where the pod doesn't fit, or that aren't known."""
    total = np.zeros(len(view.nodes), dtype=np.int64)
    relevant = view.known & view.fresh
    for pod_scope in (True, False):
        which = relevant & (view.pod_scope == pod_scope)
        requests = [demand.whole] if pod_scope else [wanted.amounts for wanted in demand.containers]
        for zones in np.unique(view.zones[which]).tolist():
            positions = np.flatnonzero(which & (view.zones == zones))
            total[positions] = ZoneGroup(view, zones, positions, demand).score(requests, take=not pod_scope)
    return total


class ZoneGroup:
    """Nodes with equally many zones."""

    def __init__(self, view: ZonesView, zones: int, positions: Int64, demand: ZoneDemand) -> None:
        self._zones = zones
        self._number = len(positions)
        self._most = view.most[positions]
        self._costs = view.costs(zones)[:, :, positions]
        self._has: dict[str, Int64] = {}
        names = {*demand.whole, *(name for wanted in demand.containers for name in wanted.amounts)}
        for resource in names:
            available = view.available(resource)
            if available is not None:
                self._has[resource] = available[:zones, positions]

    def score(self, requests: list[Amounts], *, take: bool) -> Int64:
        """Return the score of each node for requests, one after the other. `take`: whether each takes what it gets."""
        most = np.zeros(self._number, dtype=np.int64)
        nearest, fits = np.ones(self._number, dtype=np.bool_), np.ones(self._number, dtype=np.bool_)
        for request in requests:
            asks = self.lists_any(request)
            found = self.least(request, asks)
            needed = found.count
            fits &= ~asks | (needed > 0)
            nearest &= ~asks | found.nearest
            most = np.maximum(most, np.where(asks, needed, 0))
            if take:
                self._take(request, found.zones)
        score = normalized(most, nearest, self._most)
        return np.where(fits, np.where(most == 0, MAX_NODE_SCORE, score), 0)

    def lists_any(self, request: Amounts) -> Bool:
        """Return whether a zone of the node lists any of the requested resources."""
        listed = np.zeros(self._number, dtype=np.bool_)
        for resource in request.keys() & self._has.keys():
            listed |= (self._has[resource] >= 0).any(axis=0)
        return listed

    def least(self, request: Amounts, left: Bool) -> NeededZones:
        """Return the smallest sets of zones that have enough. `left`: the nodes to look at."""
        found = NeededZones(
            np.zeros((self._zones, self._number), dtype=np.bool_), np.zeros(self._number, dtype=np.bool_)
        )
        left, tried = left & self._enough(request, range(self._zones), listed=False), 0
        for size in range(1, self._zones + 1):
            sets = list(combinations(range(self._zones), size))
            tried += len(sets)
            if not left.any() or tried > MOST_SETS:
                break
            distances = np.array([self.distance(each) for each in sets])
            nearest = np.minimum(distances.min(axis=0), NO_COST * size * size)
            best = np.full(self._number, (NO_COST + 1) * size * size, dtype=np.int64)
            for zones, distance in zip(sets, distances, strict=True):
                better = left & (distance < best) & self._enough(request, zones)
                if better.any():
                    best = np.where(better, distance, best)
                    found.zones[:, better] = False
                    found.zones[np.ix_(np.array(zones), np.flatnonzero(better))] = True
            done = found.zones.any(axis=0) & left
            found.nearest[done] = (best == nearest)[done]
            left &= ~done
        return found

    def distance(self, zones: tuple[int, ...]) -> Int64:
        """Return the sum of the distances within a set of zones: sets of one size compare like their averages."""
        distance: Int64 = self._costs[np.ix_(np.array(zones), np.array(zones))].sum(axis=(0, 1))
        return distance

    def _enough(self, request: Amounts, zones: tuple[int, ...] | range, *, listed: bool = True) -> Bool:
        """Return whether zones have enough together. `listed`: whether each zone has to list every resource."""
        enough = np.ones(self._number, dtype=np.bool_)
        for resource, amount in request.items():
            has = self._has.get(resource)
            if has is None:
                return np.zeros(self._number, dtype=np.bool_)
            some = has[list(zones)]
            if listed:
                enough &= (some >= 0).all(axis=0)
            if amount > 0:
                enough &= np.maximum(some, 0).sum(axis=0) >= amount
        return enough

    def _take(self, request: Amounts, zones: Bool) -> None:
        """Take what a request needs from the first of its zones, then from the next ones."""
        for resource, amount in request.items():
            if resource not in self._has:
                continue
            has = self._has[resource].copy()
            missing = np.full(self._number, amount, dtype=np.int64)
            for zone in range(self._zones):
                taken = np.where(zones[zone], np.minimum(np.maximum(has[zone], 0), missing), 0)
                has[zone] -= taken
                missing -= taken
            self._has[resource] = has


def normalized(needed: Int64, nearest: Bool, most: Int64) -> Int64:
    """Return the scores of nodes where that many zones are needed. `most`: the most that the node can combine."""
    step = MAX_NODE_SCORE // most
    scores: Int64 = np.maximum(MAX_NODE_SCORE - needed * step + np.where(nearest, step // 2, 0), 0)
    return scores
