"""What is known of each node's zones: its topology, and what pods took since that the topology doesn't count yet.

A NodeResourceTopology says what was free when the agent on the node last looked. Of the pods that were placed since,
`TopologyCache` knows which ones it lacks. Mirrors the package cache of pkg/noderesourcetopology, with its three kinds:

    PASSTHROUGH ... the topology counts as it is
    DISCARD ....... no pod comes to a node while another one is being bound to it
    OVER_RESERVE .. what is placed is taken from all zones of the node, because nobody knows which zone it gets, until
                    a topology has the fingerprint of the pods that run there

The cache changes with events only, so that the same events lead to the same decisions: a topology is compared with the
pods when it changes, and when they do, and not every few seconds. It is shared by all profiles with equal settings.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from bayplan.plugin import Handle, NodeColumns, ObjectStore, PodInfo
from bayplan_plugins.node_resource_topology.arguments import (
    ALL,
    ENABLED,
    NONE,
    ONLY_EXCLUSIVE,
    SHARED,
    CacheArgs,
    NodeResourceTopologyMatchArgs,
)
from bayplan_plugins.node_resource_topology.columns import ZoneColumns
from bayplan_plugins.node_resource_topology.demand import HeldByContainer, demand_of, held_by
from bayplan_plugins.node_resource_topology.fingerprints import fingerprint
from bayplan_plugins.node_resource_topology.topologies import (
    FINGERPRINT,
    FINGERPRINT_METHOD,
    Amount,
    Amounts,
    Topology,
    read,
)

log = logging.getLogger("bayplan.node_resource_topology")

PASSTHROUGH, DISCARD, OVER_RESERVE = "Passthrough", "DiscardReserved", "OverReserve"
_ONLY_EXCLUSIVE_METHOD = "with-exclusive-resources"


@dataclass(frozen=True, slots=True)
class CacheOf:
    """Makes the cache for some settings; equal ones share it."""

    kind: str
    foreign: str
    method: str
    shared_informer: bool
    follow_settings: bool
    preempting: bool
    handle: Handle = field(compare=False)

    @classmethod
    def of(cls, args: NodeResourceTopologyMatchArgs, handle: Handle) -> CacheOf:
        """Return what the arguments say."""
        cache = args.cache
        if args.discardReservedNodes or args.cacheResyncPeriodSeconds <= 0:
            kind, cache = DISCARD if args.discardReservedNodes else PASSTHROUGH, CacheArgs()
        else:
            kind = OVER_RESERVE
        informer, scope = cache.informerMode == SHARED, cache.resyncScope == ALL
        return cls(
            kind, cache.foreignPodsDetect, cache.resyncMethod, informer, scope, args.preemptionMode == ENABLED, handle
        )

    def __call__(self, topologies: ObjectStore) -> TopologyCache:
        """Make the cache; a function for `ObjectStore.view`."""
        return TopologyCache(self, topologies)


class NodeMemory(msgspec.Struct, omit_defaults=True):
    """What a checkpoint has of a node. `topology`: the one in use, if it isn't the latest."""

    topology: Mapping[str, Any] = {}
    reserved: Mapping[str, Mapping[str, Amount]] = {}
    ran: tuple[HeldByContainer, ...] | None = None
    foreign: bool = False


class TopologyCache:
    """The topologies of all nodes, and what isn't in them. `columns` has the same as arrays."""

    def __init__(self, settings: CacheOf, topologies: ObjectStore) -> None:
        self.kind = settings.kind
        self._settings = settings
        self._latest: dict[str, Topology] = {}
        self._counted: dict[str, Topology] = {}
        """The topology of each node that is in use: the latest one that counts the pods there, or the first one."""
        self.ran: dict[str, tuple[HeldByContainer, ...]] = {}
        """By node: what the pods that its topology counts hold; unknown for one never compared with its pods."""
        self.reserved: dict[str, dict[str, Amounts]] = {}
        """By node and UID: what placed pods took that the topology doesn't count."""
        self.taken: dict[str, dict[str, int]] = {}
        """By node and resource: the sum of that."""
        self._foreign: set[str] = set()
        """Nodes to which another scheduler brought pods that their topology doesn't count."""
        self._own: set[str] = set()
        self._pods: dict[str, dict[str, PodInfo]] = {}
        """By node and UID: the pods there."""
        self._problems: dict[str, str] = {}
        self._lacking = False
        """Whether the log says that a topology has no fingerprint."""
        self.columns = ZoneColumns(self)
        self._rows = NodeColumns(settings.handle.nodes, self.columns.fill, self.columns.resize)
        self.rows = self._rows.rows
        if self.kind == OVER_RESERVE:
            settings.handle.objects("Pod").listen(self._pod_changed)
        topologies.listen(self._topology_changed)

    def own(self, scheduler_name: str) -> None:
        """Count the pods of a scheduler name as placed here."""
        self._own.add(scheduler_name)
        for node in list(self._foreign):
            if not any(map(self._is_foreign, self._pods.get(node, {}).values())):
                self._foreign.discard(node)
                self._rows.changed(node)

    def topology(self, node: str) -> Topology | None:
        """Return the topology of a node that is in use; None where there is none, or none that can be used."""
        found = self._counted.get(node)
        return None if found is None or found.problem else found

    def left(self, node: str, topology: Topology) -> Sequence[Amounts]:
        """Return what each zone of a node has left, without what pods took that the topology doesn't count."""
        taken = self.taken.get(node)
        if not taken:
            return [zone.available for zone in topology.zones]
        return [
            {name: max(has - taken.get(name, 0), 0) for name, has in zone.available.items()} for zone in topology.zones
        ]

    def fresh(self, node: str) -> bool:
        """Return whether pods may come to a node."""
        if self.kind == DISCARD:
            return node not in self.reserved or node not in self._counted
        return node not in self._foreign

    def topologies(self) -> Mapping[str, Topology]:
        """The topologies in use, by node."""
        return self._counted

    # Pods that are placed here

    def reserve(self, node: str, pod: PodInfo) -> None:
        """Count a pod on a node, until the topology does."""
        if self.kind == DISCARD:
            self._take(node, pod.uid, {})
        elif self.kind == OVER_RESERVE and node in self._counted:
            self._forget(node, pod.uid)
            self._take(node, pod.uid, demand_of(pod).whole)
        self._rows.stale(node)

    def _take(self, node: str, uid: str, amounts: Amounts) -> None:
        self.reserved.setdefault(node, {})[uid] = amounts
        taken = self.taken.setdefault(node, {})
        for name, amount in amounts.items():
            taken[name] = taken.get(name, 0) + amount

    def release(self, node: str, pod: PodInfo) -> None:
        """Count a pod no more; one that isn't counted is ignored."""
        self._forget(node, pod.uid)

    def bound(self, node: str, pod: PodInfo) -> None:
        """Note that a pod is bound."""
        if self.kind == DISCARD:
            self._forget(node, pod.uid)

    def _forget(self, node: str, uid: str) -> None:
        pods = self.reserved.get(node)
        if pods is None or uid not in pods:
            return
        amounts, taken = pods.pop(uid), self.taken.get(node, {})
        for name, amount in amounts.items():
            taken[name] -= amount
        if not pods:
            del self.reserved[node]
            self.taken.pop(node, None)
        self._rows.changed(node)

    # Checkpoints

    def checkpoint(self) -> dict[str, NodeMemory]:
        """Return what is known of nodes beyond their latest topologies."""
        found = {}
        for node in {**self._counted, **self.reserved}:
            used = self._counted.get(node)
            former = {} if used is None or used is self._latest[node] else dict(used.document)
            reserved, foreign = self.reserved.get(node, {}), node in self._foreign
            found[node] = NodeMemory(former, reserved, self.ran.get(node), foreign)
        return found

    def restore(self, checkpoint: Any) -> None:
        """Know what `checkpoint` returned. Raises ValueError."""
        known = msgspec.convert(checkpoint, dict[str, NodeMemory])
        topologies = {
            node: read(each.topology) for node, each in known.items() if each.topology and node in self._latest
        }
        problems = [f"the topology of node {node}: {each.problem}" for node, each in topologies.items() if each.problem]
        if problems:
            raise ValueError(problems[0])
        self._counted = self._latest | topologies
        for kept in (self.ran, self.reserved, self.taken, self._foreign):
            kept.clear()
        for node, each in known.items():
            for uid, amounts in each.reserved.items():
                self._take(node, uid, amounts)
            if each.ran is not None:
                self.ran[node] = each.ran
            if each.foreign:
                self._foreign.add(node)
        for node in {**self._counted, **known}:
            self._rows.changed(node)

    # Events

    def _topology_changed(self, old: Any, new: Any) -> None:
        name = (old if new is None else new)["metadata"].get("name", "")
        if new is None:
            for known in (self._latest, self._counted, self.ran, self.reserved, self.taken, self._problems):
                known.pop(name, None)
            self._foreign.discard(name)
            self._rows.changed(name)
            return
        found = self._latest[name] = read(new)
        self._tell(name, found)
        before = self._counted.get(name)
        if self.kind != OVER_RESERVE or before is None or before.problem:
            self._counted[name] = found
            if any(map(self._is_foreign, self._pods.get(name, {}).values())):
                self._foreign.add(name)
        elif found.problem or (self._settings.follow_settings and found.settings != before.settings):
            self._use(name)
        self._rows.changed(name)
        self._compare(name)

    def _pod_changed(self, old: PodInfo | None, new: PodInfo | None) -> None:
        if old is not None and new is not None and (old.node_name, old.uid) == (new.node_name, new.uid):
            if old.node_name:
                self._pods[old.node_name][old.uid] = new
            if not old.node_name or self._runs(old) == self._runs(new):
                return
        else:
            if old is not None and old.node_name:
                self._pods.get(old.node_name, {}).pop(old.uid, None)
                self._forget(old.node_name, old.uid)
            if new is not None and new.node_name:
                self._pods.setdefault(new.node_name, {})[new.uid] = new
        for pod in filter(None, (old, new)):
            node = pod.node_name
            if node not in self._counted:
                continue
            if node not in self._foreign and self._is_foreign(pod):
                self._foreign.add(node)
                self._rows.changed(node)
            self._compare(node)

    def _compare(self, node: str) -> None:
        """Use the latest topology of a node if it counts the pods that run there."""
        latest = self._latest.get(node)
        if self.kind != OVER_RESERVE or latest is None or not latest.fingerprint:
            return
        if latest is self._counted.get(node) and node not in self._foreign and not self._may_count(node):
            return
        running = [pod for pod in self._pods.get(node, {}).values() if self._runs(pod)]
        if self._settings.handle.as_recorded(self.fingerprint_of(latest, running) == latest.fingerprint):
            self._use(node, running)

    def fingerprint_of(self, topology: Topology, running: Iterable[PodInfo]) -> str:
        """Return the fingerprint that a topology has if it counts these pods."""
        resources = topology.resources if self.only_exclusive(topology) else None
        told = [pod for pod in running if resources is None or demand_of(pod).exclusive(resources)]
        return fingerprint((pod.namespace, pod.name) for pod in told)

    def _may_count(self, node: str) -> bool:
        """Return whether a topology that is in use already may be found to count more pods than is known."""
        return node in self.reserved or (self._settings.preempting and node not in self.ran)

    def _use(self, node: str, running: list[PodInfo] | None = None) -> None:
        """Use the latest topology of a node. `running`: the pods that it counts."""
        self._counted[node] = self._latest[node]
        self._foreign.discard(node)
        self.ran.pop(node, None)
        if running is not None:
            self.ran[node] = held_by(running, self._counted[node].resources) if self._settings.preempting else ()
            for pod in running:
                self._forget(node, pod.uid)
        self._rows.changed(node)

    def _runs(self, pod: PodInfo) -> bool:
        """Return whether an agent on the node counts a pod."""
        return pod.phase == "Running" if self._settings.shared_informer else pod.phase != "Pending"

    def only_exclusive(self, topology: Topology) -> bool:
        """Return whether the fingerprint counts only pods that hold resources of a zone for themselves."""
        method = self._settings.method
        if FINGERPRINT not in topology.attributes or method == ALL:
            return False
        return method == ONLY_EXCLUSIVE or topology.attributes.get(FINGERPRINT_METHOD) == _ONLY_EXCLUSIVE_METHOD

    def _is_foreign(self, pod: PodInfo) -> bool:
        mode = self._settings.foreign
        if mode == NONE or not pod.node_name or pod.scheduler_name in self._own:
            return False
        topology = self._counted.get(pod.node_name)
        return mode == ALL or (topology is not None and demand_of(pod).exclusive(topology.resources))

    def _tell(self, name: str, topology: Topology) -> None:
        """Log once what is wrong with the topology of a node."""
        problem = topology.problem
        if problem:
            problem = f"NodeResourceTopology {name} can't be used: {problem}. Its node is not checked"
        elif topology.ignored:
            ignored = ", ".join(topology.ignored)
            problem = f"NodeResourceTopology {name}: ignored zones {ignored}; expected names from node-0 to node-63"
        elif self.kind == OVER_RESERVE and not topology.fingerprint and not self._lacking:
            self._lacking = True
            log.warning("NodeResourceTopology %s has no fingerprint of pods: no later version of it is used", name)
        if problem and self._problems.get(name) != problem:
            log.warning("%s", problem)
        self._problems[name] = problem
