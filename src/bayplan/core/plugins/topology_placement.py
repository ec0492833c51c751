"""TopologyPlacementGenerator: places all pods of a PodGroup with a topology constraint in one topology domain.

Mirrors plugins/topologyaware/topology_placement.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lightkube.models.core_v1 import Node

from bayplan.core.api.pod_groups import COMPOSITES, POD_GROUPS, GroupSpec, spec_of
from bayplan.core.cluster.domains import Domains
from bayplan.core.cluster.group_trees import GroupTrees
from bayplan.core.cluster.nodes import Nodes
from bayplan.core.cluster.pod_groups import pod_group_of
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework import events
from bayplan.core.framework.events import Action, ClusterEvent, EventHint, Hint
from bayplan.core.framework.gangs import Gang, Placement
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.hints import labels_of
from bayplan.core.framework.resizes import OnlyPlaces
from bayplan.core.framework.status import Status
from bayplan.core.versions import DEFAULT_GATES, FeatureGates


class TopologyPlacementGenerator(OnlyPlaces):
    """Generates one placement per domain. If pods of the gang are on nodes already, only their domain is used."""

    name = "TopologyPlacementGenerator"

    def __init__(self, handle: Handle, gates: FeatureGates = DEFAULT_GATES) -> None:
        composites = handle.objects(COMPOSITES) if gates.enabled("CompositePodGroup") else None
        self._trees = GroupTrees(handle.objects(POD_GROUPS), composites)

    def generate_placements(self, gang: Gang, nodes: Nodes) -> Sequence[Placement] | Status | None:
        """Return the domains with their nodes, sorted by name."""
        spec: GroupSpec | None = None
        if gang.composite in self._trees.composites:
            spec = self._trees.composite_spec(gang.composite)
        elif gang.pod_group in self._trees.pod_groups:
            spec = spec_of(self._trees.pod_groups[gang.pod_group])
        key = "" if spec is None else spec.topology_key
        if not key:
            return None
        values = nodes.table.labels(key).values
        domains = {str(values[code]): found for code, found in Domains.of(key, nodes).positions(nodes).items()}
        if gang.nodes:
            current = self._current_domain(gang, nodes, key)
            if isinstance(current, Status):
                return current
            domains = {current: domains[current]} if current in domains else {}
        return [Placement(name, nodes.at(domains[name]), key) for name in sorted(domains)]

    def _current_domain(self, gang: Gang, nodes: Nodes, key: str) -> Status | str:
        """Return the domain of the gang's pods that are on nodes already; an error if it is not unique."""
        domain = ""
        for name in gang.nodes:
            position = nodes.position(name)
            value = None if position is None else nodes.info(position).labels.get(key)
            if value is None:
                return _undetermined(f"no topology domain found for pods on node {name}")
            if domain not in {"", value}:
                return _undetermined(f"more than 1 domain found for pod group: {domain}, {value}")
            domain = value
        return domain

    def events(self) -> Iterable[EventHint]:
        """Register new nodes, changes of labels, and deletions of pods, which may have restricted the domain."""
        yield EventHint(ClusterEvent(events.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), self.after_node_change)
        yield EventHint(ClusterEvent(events.POD, Action.DELETE), self.after_pod_deletion)

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        """Requeue for a node that joins a domain, of the pod's group or of one above it."""
        before, now = labels_of(old), labels_of(new)
        keys = (spec.topology_key for _, spec in self._trees.specs(pod_group_of(pod) or ""))
        return Hint.QUEUE if any(key and key in now and before.get(key) != now[key] for key in keys) else Hint.SKIP

    def after_pod_deletion(self, pod: PodInfo, old: PodInfo, new: None) -> Hint:
        """Requeue the pods of the deleted pod's group, and of its tree."""
        key, other = pod_group_of(pod), pod_group_of(old)
        if key is None or other is None:
            return Hint.SKIP
        root = self._trees.path(key).root
        return Hint.QUEUE if key == other or (root and root == self._trees.path(other).root) else Hint.SKIP


def _undetermined(why: str) -> Status:
    return Status.error(f"cannot determine domain for already scheduled pods: {why}")
