"""NodeResourcesFit for pods whose resize waits for room on their node: what the resize adds must fit there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

from lightkube.models.core_v1 import Node

from bayplan.core.api import requests
from bayplan.core.cluster.nodes import NodeInfo, Nodes
from bayplan.core.cluster.nominations import Nominations
from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.cluster.resizes import resize_deferred
from bayplan.core.framework.events import Hint, HintFunction, Topics
from bayplan.core.framework.interface import CycleState, Plugin
from bayplan.core.framework.remedies import Details
from bayplan.core.framework.status import Status
from bayplan.core.plugins.node_resources.shortages import TOO_MANY_PODS, details

_NATIVE = (requests.CPU, requests.MEMORY, requests.EPHEMERAL_STORAGE)


class WholeFit(Protocol):
    """NodeResourcesFit, as far as it is the same for pods with and without a node."""

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Store what the pod requests."""

    def may_be_devices(self, name: str) -> bool:
        """Whether devices may provide a resource that a node does not have."""


class ResizeFit(Plugin):
    """Mirrors fitsRequest of 1.37 for pods with a node (plugins/noderesources/fit.go).

    The node counts the pod with the larger of what it has and what it wants. So usually the resize adds nothing to
    that, and the node is overcommitted instead. As upstream, the pod itself counts among the pods of a full node.
    """

    name = "NodeResourcesFit"

    def __init__(self, fit: WholeFit, nominations: Nominations) -> None:
        self._fit = fit
        self._nominations = nominations

    def pre_filter(self, cycle: CycleState, pod: PodInfo, nodes: Nodes) -> None:
        """Store what the pod requests in all."""
        self._fit.pre_filter(cycle, pod, nodes)

    def filter(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Status | None:
        """Reject a node with too little room. The status has a reason for each resource that it lacks."""
        reasons, unresolvable = [], False
        if node.pod_count >= node.allowed_pods:
            reasons.append(TOO_MANY_PODS)
            unresolvable = node.allowed_pods < 1
        for name, amount, more in self._growth(cycle, pod, node):
            has = node.allocatable_of(name)
            if more > has - node.requested_of(name):
                reasons.append(f"Insufficient {name}")
                unresolvable |= (amount if name in _NATIVE else more) > has
        if not reasons:
            return None
        return Status.unresolvable(*reasons) if unresolvable else Status.unschedulable(*reasons)

    def explain(self, cycle: CycleState, pod: PodInfo, node: NodeInfo | None) -> Details | None:
        """What the node lacks."""
        if node is None:
            return None
        return details(pod, {name: more for name, _, more in self._growth(cycle, pod, node)}, node, self._nominations)

    def _growth(self, cycle: CycleState, pod: PodInfo, node: NodeInfo) -> Iterator[tuple[str, int, int]]:
        """Yield each resource of the pod's with what it requests in all, and what the node doesn't count yet."""
        request: Mapping[str, int] = cycle.data[self.name]
        counted: Mapping[str, int] = next((each.requested for each in node.pods if each.uid == pod.uid), {})
        for name, amount in request.items():
            more = max(amount - counted.get(name, 0), 0)
            if name not in _NATIVE and (
                not more or (self._fit.may_be_devices(name) and node.allocatable_of(name) <= 0)
            ):
                continue
            yield name, amount, more


def after_scale_up(pod: PodInfo, old: PodInfo, new: PodInfo) -> Hint:
    """Requeue a deferred resize for a larger request of the same pod, and for one of another pod on its node.

    The latter as upstream, although that leaves less room.
    """
    if not resize_deferred(pod) or (new.uid != pod.uid and new.node_name != pod.node_name):
        return Hint.SKIP
    return Hint.QUEUE


SCALE_UPS = Topics(lambda pod: (pod.node_name,) if pod.node_name else (), lambda _old, new: (new.node_name,))


def on_own_node(hint: HintFunction, node_of: Callable[[Any], str]) -> HintFunction:
    """Skip what happens on other nodes for pods whose resize is deferred. `node_of` the object of the event."""

    def narrowed(pod: PodInfo, old: Any, new: Any) -> Hint:
        if resize_deferred(pod) and node_of(old if new is None else new) != pod.node_name:
            return Hint.SKIP
        return hint(pod, old, new)

    return narrowed


def node_of_pod(pod: PodInfo) -> str:
    """Where a pod is."""
    return pod.node_name


def name_of(node: Node) -> str:
    """The name of a node."""
    return (node.metadata.name if node.metadata is not None else None) or ""
