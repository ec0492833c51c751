"""TopologyPlacementGenerator: all pods of a PodGroup with a topology constraint are to be in one topology domain.

Mirrors plugins/topologyaware/topology_placement.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from lightkube.models.core_v1 import Node

from bayplan.api.pod_groups import POD_GROUPS, spec_of
from bayplan.cluster.domains import Domains
from bayplan.cluster.nodes import Nodes
from bayplan.cluster.pod_groups import pod_group_of
from bayplan.cluster.pod_info import PodInfo
from bayplan.framework import events
from bayplan.framework.events import Action, ClusterEvent, EventHint, Hint
from bayplan.framework.handle import Handle
from bayplan.framework.interface import Gang, Placement, Plugin
from bayplan.framework.status import Status


class TopologyPlacementGenerator(Plugin):
    """Makes a placement of each domain; of that of the pods that are on nodes already, if there are any."""

    name = "TopologyPlacementGenerator"

    def __init__(self, handle: Handle) -> None:
        self._pod_groups = handle.objects(POD_GROUPS)

    def generate_placements(self, gang: Gang, nodes: Nodes) -> Sequence[Placement] | Status | None:
        """The domains in the order of their names, each with its nodes."""
        pod_group = self._pod_groups.get(gang.pod_group)
        key = "" if pod_group is None else spec_of(pod_group).topology_key
        if not key:
            return None
        domains, live = Domains.of(key, nodes).at(nodes), nodes.live
        values = nodes.table.labels(key).values
        codes = {int(code) for code in np.unique(domains[live])} - {0}
        if gang.nodes:
            taken = self._taken(gang, nodes, key)
            if isinstance(taken, Status):
                return taken
            codes = {code for code in codes if values[code] == taken}
        named = sorted((str(values[code]), code) for code in codes)
        return [Placement(name, nodes.at(np.flatnonzero((domains == code) & live))) for name, code in named]

    def _taken(self, gang: Gang, nodes: Nodes, key: str) -> Status | str:
        """The domain of the pods that are on nodes already."""
        domain = ""
        for name in gang.nodes:
            position = nodes.position(name)
            value = None if position is None else nodes.info(position).labels.get(key)
            if value is None:
                return _unclear(f"no topology domain found for pods on node {name}")
            if domain not in {"", value}:
                return _unclear(f"more than 1 domain found for pod group: {domain}, {value}")
            domain = value
        return domain

    def events(self) -> Iterable[EventHint]:
        """A node comes, or moves to another domain; a pod of the group goes, which may have bound it to one."""
        yield EventHint(ClusterEvent(events.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self.after_node_change)
        yield EventHint(ClusterEvent(events.POD, Action.DELETE), after_pod_deletion)

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        """A node helps that is new in a domain."""
        pod_group = self._pod_groups.get(pod_group_of(pod) or "")
        key = "" if pod_group is None else spec_of(pod_group).topology_key
        value = _label(new, key)
        return Hint.QUEUE if key and value is not None and (old is None or _label(old, key) != value) else Hint.SKIP


def after_pod_deletion(pod: PodInfo, old: PodInfo, new: None) -> Hint:
    """A pod that goes helps those of its group."""
    return Hint.QUEUE if pod_group_of(pod) is not None and pod_group_of(pod) == pod_group_of(old) else Hint.SKIP


def _label(node: Node, key: str) -> str | None:
    return ((node.metadata.labels if node.metadata else None) or {}).get(key)


def _unclear(why: str) -> Status:
    return Status.error(f"cannot determine domain for already scheduled pods: {why}")
