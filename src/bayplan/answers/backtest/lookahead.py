"""Lookahead: what has to be known of a history before it is simulated, and what it recorded.

A pod's run time is known only at its end, but the simulation needs it at its arrival. So a history is read twice: here,
and then as it happens (`stream.py`). What it recorded is metered on the way, for calibration.
"""

from __future__ import annotations

import math
from array import array
from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec

from bayplan.answers.backtest.delays import RecordedDelays
from bayplan.answers.backtest.needs import UNREADABLE, Kin, RecordedNeeds, RecordedPod
from bayplan.answers.backtest.node_pools import NodePool, PoolKey, key_of_document
from bayplan.answers.backtest.pods import PodMaker
from bayplan.answers.history.ends import DISRUPTIONS, ENDS_BY_ITSELF, PREEMPTIONS
from bayplan.answers.history.events import NodeAdded, NodeChanged, NodeRemoved, PodArrived, PodBound, PodEnded
from bayplan.answers.history.reading import History
from bayplan.answers.simulation.measures import room_of, size_of
from bayplan.answers.simulation.meter import ClusterMeter, Summary
from bayplan.answers.simulation.metered_nodes import PriceOf, Size
from bayplan.core.api.kinds import CSI_NODE, NODE, POD, RESOURCE_SLICE

Json = Mapping[str, Any]


class Lookahead:
    """Reads a history once. Memory: what exists at one time, 8 bytes for every pod, and the victims of preemption.

    Attributes:
        runs: by the number of an arrival, the seconds that the pod runs until it ends by itself; NaN for others. What
            the history doesn't say, because the pod was evicted before, is what similar pods do.
        initial_runs: the same for the pods that were there at the start, by uid.
        pools: the groups of nodes.
        schedulers: how many pods each scheduler name has.
        delays: how long bindings, terminations and replacements took.
        needs: which pods have replaced which.
        bindings: how many pods got a node.
        longest_grace: the longest grace period of any pod, in seconds.
        recorded: what a meter shows of the history.
        odd: objects that can't be read, one line each.
    """

    def __init__(self, history: History, price_of: PriceOf) -> None:
        self.runs = array("d")
        self.initial_runs: dict[str, float] = {}
        self.pools: dict[PoolKey, NodePool] = {}
        self.schedulers: Counter[str] = Counter()
        self.bindings = 0
        self.longest_grace = 0.0
        self.odd: list[str] = []
        self._begin = history.begin
        self.delays = RecordedDelays()
        self.needs = RecordedNeeds(self.delays)
        self._seen: dict[str, RecordedPod] = {}
        self._node_pool: dict[str, NodePool] = {}
        self._daemons_for: dict[str, NodePool] = {}
        """By node: the pool whose example it is."""
        self._meter = ClusterMeter(history.length.total_seconds(), price_of)
        self._pods = PodMaker()
        self._read_start(history)
        for event in history.events():
            self._read(event)
        self.needs.settle(self._seen.values(), history.length.total_seconds(), self._note_runs)
        self._seen.clear()
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
            pod = self._arrived(document, history.begin, key, uid, -1, 0.0)
            service = pod.kin.service
            if node:
                pod.bound, pod.node = 0.0, node
            if service is not None and node:
                self._meter.pod_bound(0.0, key, node, service, None, pod.size)
            elif service is not None:
                self._meter.pod_arrived(0.0, key)
            if service is None and node:
                self._keep_daemon(node, document)

    def _arrived(self, document: Json, created: Any, key: str, uid: str, index: int, at: float) -> RecordedPod:
        self.schedulers[document["spec"].get("schedulerName") or "default-scheduler"] += 1
        try:
            pod = self._pods.make(document, created)
        except ValueError as error:
            self.odd.append(f"{error}; the pod is left out")
            kin, size = UNREADABLE, Size()
        else:
            kin, size = Kin.of(pod), size_of(pod)
        target = target_of(document) if kin.service is None else ""
        found = self._seen[uid] = RecordedPod(key, uid, index, at, kin, size, target)
        self.needs.arrived(found)
        self.longest_grace = max(self.longest_grace, kin.grace)
        return found

    def _read(self, event: object) -> None:
        match event:
            case PodArrived(time, key, uid, document, _, runs):
                at = self._seconds(time)
                pod = self._arrived(document, time, key, uid, len(self.runs), at)
                pod.runs = runs
                self.runs.append(math.nan if runs is None else runs)
                if pod.kin.service is not None:
                    self._meter.pod_arrived(at, key)
                elif pod.target in self._daemons_for:
                    self._keep_daemon(pod.target, document)
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
        pod = self._seen.get(uid)
        if pod is None or pod.bound is not None:
            return
        pod.bound, pod.node = at, node
        if pod.kin.service is not None:
            self.bindings += 1
            wait = None if pod.index < 0 else max(at - pod.arrived, 0.0)
            if wait is not None:
                self.delays.waited(wait)
            self._meter.pod_bound(at, key, node, pod.kin.service, wait, pod.size)

    def _ended(self, at: float, key: str, uid: str, reason: str) -> None:
        pod = self._seen.pop(uid, None)
        if pod is None:
            return
        by_itself = reason in ENDS_BY_ITSELF
        if by_itself and pod.bound is not None:
            self._note_runs(pod, at - pod.bound)
        self.needs.ended(pod, at, preempted=reason in PREEMPTIONS, by_itself=by_itself)
        if pod.kin.service is not None:
            if reason in DISRUPTIONS:
                self._meter.evicted(at, DISRUPTIONS[reason])
            self._meter.pod_left(at, key, pod.node, pod.kin.service)

    def _note_runs(self, pod: RecordedPod, seconds: float | None) -> None:
        if pod.index >= 0:
            self.runs[pod.index] = math.nan if seconds is None else seconds
        elif seconds is not None:
            self.initial_runs[pod.uid] = seconds

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
