"""Lookahead: what has to be known of a history before it is replayed, and what it recorded."""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from bayplan.api.kinds import CSI_NODE, NODE, POD, RESOURCE_SLICE
from bayplan.backtest.node_pools import NodePool, PoolKey, key_of_document
from bayplan.backtest.pods import PodMaker
from bayplan.history.ends import DISRUPTIONS, ENDS_BY_ITSELF
from bayplan.history.events import NodeAdded, NodeChanged, NodeRemoved, PodArrived, PodBound, PodEnded
from bayplan.history.reading import History
from bayplan.simulation.measures import room_of, size_of
from bayplan.simulation.meter import ClusterMeter, PriceOf, Size, Summary
from bayplan.simulation.owners import belongs_to

Json = Mapping[str, Any]


@dataclass(slots=True)
class _Seen:
    """A pod that has not ended yet. `index`: its number among the arrivals; -1 for one that was there at the begin."""

    index: int
    arrived: float
    service: str | None
    size: Size
    bound: float | None = None
    node: str = ""


class Lookahead:
    """Reads a history once. Memory: what exists at one time, and 8 bytes for every pod.

    Attributes:
        runs: by the number of an arrival, the seconds that the pod ran until it ended by itself; NaN for others.
        initial_runs: the same for the pods that were there at the begin, by uid.
        pools: the groups of nodes.
        schedulers: how many pods each scheduler name has.
        bindings: how many pods got a node.
        recorded: what a meter shows of the history.
        odd: objects that can't be read, one line each.
    """

    def __init__(self, history: History, price_of: PriceOf) -> None:
        self.runs = array("d")
        self.initial_runs: dict[str, float] = {}
        self.pools: dict[PoolKey, NodePool] = {}
        self.schedulers: Counter[str] = Counter()
        self.bindings = 0
        self.odd: list[str] = []
        self._begin = history.begin
        self._seen: dict[str, _Seen] = {}
        self._node_pool: dict[str, NodePool] = {}
        self._daemons_for: dict[str, NodePool] = {}
        """By node: the pool whose example it is."""
        self._meter = ClusterMeter(history.length.total_seconds(), price_of)
        self._pods = PodMaker()
        self._read_start(history)
        for event in history.events():
            self._read(event)
        self.recorded: Summary = self._meter.summary()

    def _read_start(self, history: History) -> None:
        documents = history.start().documents
        nodes = {name: msgspec.json.decode(raw) for name, raw in documents.get(NODE, {}).items()}
        for name in sorted(nodes):
            self._add_node(0.0, name, nodes[name])
        for kind in (CSI_NODE, RESOURCE_SLICE):
            for name, raw in sorted(documents.get(kind, {}).items()):
                document = msgspec.json.decode(raw)
                node = name if kind is CSI_NODE else (document.get("spec") or {}).get("nodeName", "")
                if node in self._daemons_for:
                    self._daemons_for[node].attached.append((kind, document))
        for key, raw in sorted(documents.get(POD, {}).items()):
            document = msgspec.json.decode(raw)
            uid, node = document["metadata"].get("uid", key), document["spec"].get("nodeName", "")
            service, size = self._service(document, history.begin)
            self._seen[uid] = _Seen(-1, 0.0, service, size, 0.0 if node else None, node)
            self.schedulers[document["spec"].get("schedulerName") or "default-scheduler"] += 1
            if service is not None and node:
                self._meter.pod_bound(0.0, key, node, service, None, size)
            elif service is not None:
                self._meter.pod_arrived(0.0, key)
            if service is None and node:
                self._keep_daemon(node, document)

    def _service(self, document: Json, created: Any) -> tuple[str | None, Size]:
        """What a pod belongs to, and what it requests."""
        try:
            pod = self._pods.make(document, created)
        except ValueError as error:
            self.odd.append(f"{error}; the pod is left out")
            return "", Size()
        return belongs_to(pod), size_of(pod)

    def _read(self, event: object) -> None:
        match event:
            case PodArrived(time, key, uid, document, _, runs):
                at = self._seconds(time)
                service, size = self._service(document, time)
                self._seen[uid] = _Seen(len(self.runs), at, service, size)
                self.runs.append(math.nan if runs is None else runs)
                self.schedulers[document["spec"].get("schedulerName") or "default-scheduler"] += 1
                if service is not None:
                    self._meter.pod_arrived(at, key)
                elif (node := target_of(document)) in self._daemons_for:
                    self._keep_daemon(node, document)
            case PodBound(time, key, uid, node):
                self._bound(self._seconds(time), key, uid, node)
            case PodEnded(time, key, uid, reason):
                self._ended(self._seconds(time), key, uid, reason)
            case NodeAdded(time, name, document) | NodeChanged(time, name, document):
                self._add_node(self._seconds(time), name, document)
            case NodeRemoved(time, name):
                self._meter.node_removed(self._seconds(time), name)
                self._daemons_for.pop(name, None)
                pool = self._node_pool.pop(name, None)
                if pool is not None:
                    pool.number -= 1
                    pool.changed = True

    def _bound(self, at: float, key: str, uid: str, node: str) -> None:
        seen = self._seen.get(uid)
        if seen is None or seen.bound is not None:
            return
        seen.bound, seen.node = at, node
        if seen.service is not None:
            self.bindings += 1
            wait = None if seen.index < 0 else max(at - seen.arrived, 0.0)
            self._meter.pod_bound(at, key, node, seen.service, wait, seen.size)

    def _ended(self, at: float, key: str, uid: str, reason: str) -> None:
        seen = self._seen.pop(uid, None)
        if seen is None:
            return
        if reason in ENDS_BY_ITSELF and seen.bound is not None:
            if seen.index < 0:
                self.initial_runs[uid] = at - seen.bound
            else:
                self.runs[seen.index] = at - seen.bound
        if seen.service is not None:
            if reason in DISRUPTIONS:
                self._meter.evicted(at, DISRUPTIONS[reason])
            self._meter.pod_left(at, key, seen.node, seen.service)

    def _add_node(self, at: float, name: str, document: Json) -> None:
        room = room_of((document.get("status") or {}).get("allocatable"))
        self._meter.node_added(at, name, (document.get("metadata") or {}).get("labels") or {}, room)
        key = key_of_document(document)
        if key is None or name in self._node_pool:
            return
        pool = self.pools.get(key)
        if pool is None:
            pool = self.pools[key] = NodePool(key, document)
            self._daemons_for[name] = pool
        self._node_pool[name] = pool
        pool.number += 1
        pool.most = max(pool.most, pool.number)
        pool.changed |= at > 0

    def _keep_daemon(self, node: str, document: Json) -> None:
        pool = self._daemons_for.get(node)
        if pool is not None and len(pool.daemons) < _MOST_DAEMONS:
            pool.daemons.append(document)

    def _seconds(self, time: Any) -> float:
        return float((time - self._begin).total_seconds())


_MOST_DAEMONS = 100
"""More pods of DaemonSets than these come one after the other, on one node."""


def target_of(document: Json) -> str:
    """Return the node that a pod of a DaemonSet is made for; "" if the pod doesn't say."""
    affinity = ((document["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    ) or {}
    for term in affinity.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            if field.get("key") == "metadata.name" and field.get("values"):
                return str(field["values"][0])
    return ""
