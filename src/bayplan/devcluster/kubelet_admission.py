"""Whether a kubelet takes a pod that has been bound to its node, by its own books.

Mirrors pkg/kubelet/lifecycle/predicate.go. Computed here and not borrowed from the scheduler, whose mistakes it is
there to find.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bayplan.api import tolerations
from bayplan.api.quantity import InvalidQuantity
from bayplan.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, counted, is_extended, parse_amounts, pod_requests
from bayplan.api.selectors import RequiredNodeAffinity
from bayplan.devcluster.controllers.served import Node, Pod
from bayplan.devices.extended_claims import resources_from_devices

HostPort = tuple[str, str, int]
"""(address, protocol, port)"""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod is not taken: its status's reason, and the sentence in its message."""

    reason: str
    message: str


@dataclass(slots=True)
class Books:
    """What the pods on one node have been promised: cpu in thousandths, all else in whole units."""

    used: dict[str, int] = field(default_factory=dict)
    pods: dict[str, tuple[dict[str, int], tuple[HostPort, ...]]] = field(default_factory=dict)
    """Requests and host ports by uid."""

    def enter(self, pod: Pod) -> None:
        """The pod is on the node from now on; with its present requests, if it was already."""
        self.strike(pod.metadata.uid)
        requests = requests_of(pod)
        self.pods[pod.metadata.uid] = (requests, host_ports(pod))
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def strike(self, uid: str) -> None:
        """The pod is gone or has ended."""
        requests, _ = self.pods.pop(uid, ({}, ()))
        for name, amount in requests.items():
            self.used[name] -= amount

    def requests(self, uid: str) -> dict[str, int] | None:
        """What the pod has been promised."""
        promised = self.pods.get(uid)
        return promised[0] if promised is not None else None

    def judge(self, node: Node, pod: Pod) -> Rejection | None:
        """Why the pod cannot be taken, or None."""
        try:
            wanted = requests_of(pod)
        except InvalidQuantity as error:
            return Rejection("UnexpectedAdmissionError", f"Unexpected error: {error}")
        return self._lacks_resources(node, pod, wanted) or self._mismatches(node, pod)

    def _lacks_resources(self, node: Node, pod: Pod, wanted: dict[str, int]) -> Rejection | None:
        amounts = parse_amounts(node.status.allocatable if node.status else None)
        capacity = counted(amounts)
        most_pods = amounts.get(PODS, 0) // 10**9
        others = len(self.pods) - (pod.metadata.uid in self.pods)
        if others + 1 > most_pods:
            return _out_of(PODS, 1, others, most_pods)
        own, _ = self.pods.get(pod.metadata.uid, ({}, ()))
        for name in (CPU, MEMORY, EPHEMERAL_STORAGE, *(wanted.keys() - {CPU, MEMORY, EPHEMERAL_STORAGE})):
            amount = wanted.get(name, 0)
            if not amount or (is_extended(name) and name not in capacity):
                continue  # an extended resource that the node does not have is the cluster's business
            used = self.used.get(name, 0) - own.get(name, 0)
            if amount > capacity.get(name, 0) - used:
                return _out_of(name, amount, used, capacity.get(name, 0))
        return None

    def _mismatches(self, node: Node, pod: Pod) -> Rejection | None:
        if not RequiredNodeAffinity.of(pod.spec).matches(node.metadata.labels or {}, node.metadata.name):
            return _predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector")
        ports = host_ports(pod)
        if ports and any(
            _conflict(one, taken) for _, others in self.pods.values() for taken in others for one in ports
        ):
            return _predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports")
        tolerated = tolerations.parse(pod.spec.tolerations)
        for taint in (node.spec.taints if node.spec else None) or ():
            identity = (taint.key, taint.value or "", taint.effect)
            if taint.effect == tolerations.NO_EXECUTE and not tolerations.tolerate(tolerated, identity):
                return _predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate")
        return None


def requests_of(pod: Pod) -> dict[str, int]:
    """What a pod takes of its node; not the extended resources that a claim on devices gives it."""
    by_devices = resources_from_devices(pod)
    return {name: amount for name, amount in counted(pod_requests(pod)).items() if name not in by_devices}


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The ports of the node that a pod takes."""
    containers: Iterable[object] = (*pod.spec.containers, *(pod.spec.initContainers or ()))
    return tuple(
        (port.hostIP or ANY_ADDRESS, port.protocol or "TCP", port.hostPort)
        for container in containers
        for port in getattr(container, "ports", None) or ()
        if port.hostPort
    )


def _conflict(one: HostPort, other: HostPort) -> bool:
    return one[1:] == other[1:] and (one[0] == other[0] or ANY_ADDRESS in {one[0], other[0]})


def _out_of(name: str, wanted: int, used: int, capacity: int) -> Rejection:
    message = f"Node didn't have enough resource: {name}, requested: {wanted}, used: {used}, capacity: {capacity}"
    return Rejection(f"OutOf{name}", message)


def _predicate(name: str, description: str) -> Rejection:
    return Rejection(name, f"Predicate {name} failed: {description}")
