"""Whether a kubelet admits a pod that was bound to its node, by its own accounting.

Mirrors pkg/kubelet/lifecycle/predicate.go. It shares no code with the scheduler, so that it detects the scheduler's
mistakes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from bayplan.core.api import tolerations
from bayplan.core.api.quantity import InvalidQuantity
from bayplan.core.api.requests import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    PODS,
    counted,
    is_extended,
    parse_amounts,
    pod_requests,
)
from bayplan.core.api.selectors import RequiredNodeAffinity
from bayplan.core.api.served import Node, Pod
from bayplan.core.devices.extended_claims import resources_from_devices

HostPort = tuple[str, str, int]
"""(address, protocol, port)"""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - compared with, not bound to


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod isn't admitted: the reason and the message of its status."""

    reason: str
    message: str


@dataclass(slots=True)
class Accounting:
    """The resources that the pods on one node use: cpu in millicores, all others in whole units."""

    used: dict[str, int] = field(default_factory=dict)
    pods: dict[str, tuple[dict[str, int], tuple[HostPort, ...]]] = field(default_factory=dict)
    """Requests and host ports by uid."""

    def add(self, pod: Pod) -> None:
        """Add a pod, or update its requests if it was added before."""
        self.remove(pod.metadata.uid)
        requests = requests_of(pod)
        self.pods[pod.metadata.uid] = (requests, host_ports(pod))
        for name, amount in requests.items():
            self.used[name] = self.used.get(name, 0) + amount

    def remove(self, uid: str) -> None:
        """Remove a deleted or terminated pod."""
        requests, _ = self.pods.pop(uid, ({}, ()))
        for name, amount in requests.items():
            self.used[name] -= amount

    def requests(self, uid: str) -> dict[str, int] | None:
        """The requests that count for a pod; None for an unknown pod."""
        promised = self.pods.get(uid)
        return promised[0] if promised is not None else None

    def check(self, node: Node, pod: Pod) -> Rejection | None:
        """Why the pod can't be admitted; None if it can."""
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
                continue  # other components handle extended resources that the node doesn't have
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
    """A pod's requests of its node, without the extended resources that come from a device claim."""
    by_devices = resources_from_devices(pod)
    return {name: amount for name, amount in counted(pod_requests(pod)).items() if name not in by_devices}


def host_ports(pod: Pod) -> tuple[HostPort, ...]:
    """The host ports of a pod."""
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
