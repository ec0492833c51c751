"""NodeResourcesFit: filters out nodes with too few free resources, and scores the others by their utilization.

Amounts are int64 columns in the units of `PodInfo.requested`: millicores of cpu, bytes, or whole units. `strategies.py`
has the scores, `shortages.py` the details of rejections, `resizes.py` the rules for pods that have a node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from lightkube.models.core_v1 import Node
from lightkube.models.resource_v1 import DeviceClass

from bayplan.core.api import quantity, requests
from bayplan.core.api.kinds import DEVICE_CLASS
from bayplan.core.cluster.columns import Int64
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_info import DEFAULT_REQUESTS, PodInfo
from bayplan.core.cluster.resizes import RESIZES_PREEMPT
from bayplan.core.devices.classes import CLASS_PREFIX, explicit_resource
from bayplan.core.framework.events import NODE, POD, Action, ClusterEvent, EventHint, Hint, Topics
from bayplan.core.framework.gangs import Gang, Placement
from bayplan.core.framework.handle import Handle
from bayplan.core.framework.interface import MAX_NODE_SCORE, CycleState, Plugin
from bayplan.core.framework.remedies import Details
from bayplan.core.framework.shortages import rejections
from bayplan.core.framework.status import Status
from bayplan.core.framework.verdicts import Rejections
from bayplan.core.plugins.arguments import NodeResourcesFitArgs
from bayplan.core.plugins.node_resources.devices import DeviceCounts
from bayplan.core.plugins.node_resources.resizes import (
    SCALE_UPS,
    ResizeFit,
    after_scale_up,
    name_of,
    node_of_pod,
    on_own_node,
)
from bayplan.core.plugins.node_resources.shares import amounts, amounts_of_placement, scored_resources
from bayplan.core.plugins.node_resources.shortages import TOO_MANY_PODS, details
from bayplan.core.plugins.node_resources.strategies import most_allocated_of_one, strategy_of
from bayplan.core.versions import DEFAULT_GATES, FeatureGates

N = TypeVar("N", int, Int64)
"""A number, or an array with one for each node."""


_DEFAULT_ARGUMENTS = NodeResourcesFitArgs()


class NodeResourcesFit(Plugin):
    """Mirrors plugins/noderesources/fit.go."""

    name = "NodeResourcesFit"
    arguments = NodeResourcesFitArgs

    def __init__(
        self,
        args: NodeResourcesFitArgs = _DEFAULT_ARGUMENTS,
        handle: Handle | None = None,
        gates: FeatureGates = DEFAULT_GATES,
    ) -> None:
        self._devices = DeviceCounts(handle, gates) if handle is not None else None
        self._nominations = handle.nominations if handle is not None else Nominations()
        self._resizes = gates.enabled(RESIZES_PREEMPT)
        self._ignored = frozenset(args.ignoredResources)
        self._ignored_groups = frozenset(args.ignoredResourceGroups)
        self._resources = [(resource.name, resource.weight) for resource in args.scoringStrategy.resources]
        self._strategy = strategy_of(args.scoringStrategy)

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Store what the pod requests, without ignored resources."""
        request = fit_request(pod).items()
        cycle.data[self.name] = {name: amount for name, amount in request if amount and not self._ignores(name)}

    def filter_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Rejections | None:
        """Reject nodes that have too little of a resource left. The status has a reason for each such resource."""
        amounts = nodes.allocatable, nodes.requested
        shortages = list(self._shortages(cycle, nodes.pod_count, nodes.allowed_pods, *amounts))
        return rejections(shortages) if any(lacking.any() for _, lacking, _, _ in shortages) else None

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Reject one node."""
        amounts = node.allocatable_of, node.requested_of
        reasons, unresolvable = [], False
        for reason, lacking, has, amount in self._shortages(cycle, node.pod_count, node.allowed_pods, *amounts):
            if lacking:
                reasons.append(reason)
                unresolvable |= has < amount
        if not reasons:
            return None
        return Status.unresolvable(*reasons) if unresolvable else Status.unschedulable(*reasons)

    def _shortages(
        self, cycle: CycleState, pods: N, allowed: N, allocatable: Callable[[str], N], requested: Callable[[str], N]
    ) -> Iterator[tuple[str, Any, N, int]]:
        """Yield a reason, whether it is one, what the node has in all, and what the pod requests of that.

        For one node, these are numbers, and for many they are arrays.
        """
        request: Mapping[str, int] = cycle.data[self.name]
        yield TOO_MANY_PODS, pods >= allowed, allowed, 0
        for name, amount in request.items():
            has = allocatable(name)
            lacking = has - requested(name) < amount
            yield f"Insufficient {name}", lacking & (has > 0) if self.may_be_devices(name) else lacking, has, amount

    def pre_score(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Store the requests that scoring uses."""
        cycle.data[self.name, "score"] = scoring_request(pod)

    def score_nodes(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> Int64:
        """Score the nodes with the pod on them, by the configured strategy."""
        request = cycle.data.get((self.name, "score")) or scoring_request(pod)
        scored = scored_resources(self._resources, request, nodes, self._devices, nonzero=True)
        return self._strategy.of_all(scored, len(nodes))

    def score(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> int:
        """Score one node."""
        request = cycle.data.get((self.name, "score")) or scoring_request(pod)
        return self._strategy.of_one(amounts(self._resources, request, node, self._devices, nonzero=True))

    def score_placement(self, gang: Gang, placement: Placement, placed: Sequence[PodInfo]) -> int:
        """Score a placement by the utilization of its nodes as a whole: the higher, the better."""
        return most_allocated_of_one(amounts_of_placement(self._resources, self._sums(placed), placement.nodes))

    def placement_bound(self, gang: Gang, placement: Placement) -> int | None:
        """Return the score with all members, which the placement doesn't get if they request more than it has.

        Resources that only some pods request are scored for these alone, so that the score has no such bound.
        """
        if any(requests.is_scalar(name) for name, _ in self._resources):
            return None
        requested = gang.data.get((self.name, "all"))
        if requested is None:
            requested = gang.data[self.name, "all"] = self._sums(gang.members)
        amounts = amounts_of_placement(self._resources, requested, placement.nodes)
        too_many = any(each.requested > each.allocatable for each in amounts)
        return MAX_NODE_SCORE if too_many else most_allocated_of_one(amounts)

    def _sums(self, pods: Iterable[PodInfo]) -> dict[str, int]:
        """What the pods request together of the resources that are scored."""
        sums = {name: 0 for name, _ in self._resources}
        for pod in pods:
            requested = scoring_request(pod)
            for name in sums:
                sums[name] += requested.get(name, 0)
        return sums

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """What the node lacks."""
        request: Mapping[str, int] = cycle.data[self.name]
        if node is None:
            return None
        wanted = {
            name: amount
            for name, amount in request.items()
            if node.allocatable_of(name) or not self.may_be_devices(name)
        }
        return details(pod, wanted, node, self._nominations)

    def room_for(self, pod: PodInfo, nodes: Nodes) -> Int64:
        """How many more pods like this one each node has resources for."""
        room: Int64 = nodes.allowed_pods - nodes.pod_count
        for name, amount in fit_request(pod).items():
            if amount and not self._ignores(name):
                has = nodes.allocatable(name)
                left = np.minimum(room, (has - nodes.requested(name)) // amount)
                room = np.where(has > 0, left, room) if self.may_be_devices(name) else left
        at_least_none: Int64 = np.maximum(room, 0)
        return at_least_none

    def events(self) -> Iterable[EventHint]:
        """Register deletions and scale-downs of pods, more resources of nodes, and changes of device classes."""
        gone = ClusterEvent(POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
        more = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
        if self._resizes:
            yield EventHint(gone, on_own_node(after_pod_event, node_of_pod), _REDUCED)
            yield EventHint(ClusterEvent(POD, Action.UPDATE_POD_SCALE_UP), after_scale_up, SCALE_UPS)
            yield EventHint(more, on_own_node(self.after_node_change, name_of))
        else:
            yield EventHint(gone, after_pod_event, _REDUCED)
            yield EventHint(more, self.after_node_change)
        yield EventHint(ClusterEvent(DEVICE_CLASS.kind, Action.ADD | Action.UPDATE), after_device_class_change)

    def helped_on(self, event: ClusterEvent, old: Any, new: Any) -> str | None:
        """The node of a deleted pod."""
        return old.node_name or None if event.resource == POD and new is None else None

    def for_resizes(self) -> ResizeFit:
        """Compare the room of a pod's own node with what its resize adds."""
        return ResizeFit(self, self._nominations)

    def sign(self, pod: PodInfo) -> Hashable:
        """The requests that Filter and Score use."""
        return pod.of_spec(NodeResourcesFit, _signature)

    def after_node_change(self, pod: PodInfo, old: Node | None, new: Node) -> Hint:
        """Requeue as the function `after_node_change` does. Devices may provide extended resources."""
        return after_node_change(pod, old, new, self.may_be_devices)

    def rests_on(self, pod: PodInfo, nodes: Nodes) -> Hashable:
        """Results for pods that request resources backed by devices are not shared."""
        return None if self._devices is not None and self._devices.back_any(pod.requested) else ()

    def may_be_devices(self, name: str) -> bool:
        """Whether devices may provide a resource that a node does not have. DynamicResources filters such nodes."""
        return self._devices is not None and "/" in name and self._devices.back(name)

    def _ignores(self, name: str) -> bool:
        if not requests.is_extended(name):
            return False
        return name in self._ignored or name.partition("/")[0] in self._ignored_groups


def _signature(pod: PodInfo) -> Hashable:
    if _has_resources_in_status(pod) or pod.spec.resources is not None:
        return tuple(sorted(fit_request(pod).items())), tuple(sorted(scoring_request(pod).items()))
    return tuple(sorted(pod.requested.items())), pod.nonzero_cpu, pod.nonzero_memory


def fit_request(pod: PodInfo) -> Mapping[str, int]:
    """Return the requests of a pending pod: those of its spec, whatever its status reports."""
    if _has_resources_in_status(pod):
        return requests.counted(requests.pod_requests(pod.object))
    return pod.requested


def scoring_request(pod: PodInfo) -> Mapping[str, int]:
    """Return the requests that scoring uses: with defaults and, as upstream, without pod-level resources."""
    if pod.spec.resources is not None or _has_resources_in_status(pod):
        return requests.counted(requests.pod_requests(pod.object, pod_level=False, missing=DEFAULT_REQUESTS))
    return {**pod.requested, requests.CPU: pod.nonzero_cpu, requests.MEMORY: pod.nonzero_memory}


def after_pod_event(pod: PodInfo, old: PodInfo, new: PodInfo | None) -> Hint:
    """Requeue for a pod that leaves its (nominated) node, or that reduces a request which the pending pod has too."""
    if new is None:
        return Hint.QUEUE if old.node_name or old.nominated_node_name else Hint.SKIP
    if new.uid == pod.uid:
        return Hint.QUEUE
    if not new.node_name:
        return Hint.SKIP
    reduced = any(
        amount and old.requested.get(name, 0) > new.requested.get(name, 0) for name, amount in pod.requested.items()
    )
    return Hint.QUEUE if reduced else Hint.SKIP


def _reduced(old: PodInfo, new: PodInfo | None) -> Collection[Hashable] | None:
    """Return the pod that was scaled down, and the resources that it requests less of; None if it is gone."""
    if new is None:
        return None
    return [new.uid, *(name for name, amount in old.requested.items() if amount > new.requested.get(name, 0))]


_REDUCED = Topics(lambda pod: (pod.uid, *pod.requested), _reduced)


def after_node_change(
    pod: PodInfo, old: Node | None, new: Node, may_be_devices: Callable[[str], bool] = lambda _: False
) -> Hint:
    """Requeue for a node that is new or has more than before, and that the pod fits on if it is empty.

    `may_be_devices`: whether devices may provide a resource that the node does not have.
    """
    request = {name: amount for name, amount in fit_request(pod).items() if amount}
    has, pods = _capacity(new)
    delegated = {name for name in request if not has.get(name, 0) and may_be_devices(name)}
    if pods < 1 or any(amount > has.get(name, 0) for name, amount in request.items() if name not in delegated):
        return Hint.SKIP
    if old is None or delegated:
        return Hint.QUEUE
    had, had_pods = _capacity(old)
    grew = pods > had_pods or any(has.get(name, 0) > had.get(name, 0) for name in request)
    return Hint.QUEUE if grew else Hint.SKIP


def after_device_class_change(pod: PodInfo, old: DeviceClass | None, new: DeviceClass) -> Hint:
    """Requeue for a class that newly offers an extended resource which the pod requests."""
    offered = explicit_resource(new)
    if old is not None and explicit_resource(old) == offered:
        return Hint.SKIP
    names = {offered} if offered else set()
    if old is None and new.metadata is not None:
        names.add(f"{CLASS_PREFIX}{new.metadata.name}")
    return Hint.SKIP if names.isdisjoint(fit_request(pod)) else Hint.QUEUE


def _has_resources_in_status(pod: PodInfo) -> bool:
    status = pod.object.status
    return status is not None and bool(
        status.containerStatuses or status.initContainerStatuses or status.resources is not None
    )


def _capacity(node: Node) -> tuple[Mapping[str, int], int]:
    """Return a node's allocatable resources and its maximum number of pods."""
    amounts = requests.parse_amounts(node.status.allocatable if node.status else None)
    return requests.counted(amounts), quantity.value(amounts.get(requests.PODS, 0))
