"""The reasons and messages of conditions. The reasons are those that users of cluster-autoscaler know."""

from __future__ import annotations

from bayplan.core.api.provisioning import is_provisioned, request_of
from bayplan.core.cluster.pod_info import PodInfo

FOUND = "CapacityIsFound"
NOT_FOUND = "CapacityIsNotFound"
FAILED_TO_CHECK = "FailedToCheckCapacity"
FAILED_TO_CREATE_PODS = "FailedToCreatePods"
TIME_EXPIRED = "CapacityReservationTimeExpired"

ACCEPTED = "The scheduler answers this request."
EXPIRED = "The time is over for which room was held."
NOT_AGAIN = "The devices that were held are not free after a restart:"
NOT_IN_TIME = "No room was found in the time that ValidUntilSeconds gives."


def found(count: int, until: str) -> str:
    """Room was found."""
    return f"There is room for {_pods(count)}. It is held until {until}."


def node_deleted(name: str, lost: int) -> str:
    """Room was lost with its node."""
    return f"Node {name} was deleted, on which room for {_pods(lost)} was held."


def preempted(preemptor: PodInfo) -> str:
    """Room went to a pod of higher priority."""
    if is_provisioned(preemptor):
        return f"The room went to ProvisioningRequest {request_of(preemptor)}, which has a higher priority."
    return f"The room went to pod {preemptor.key}, which has a higher priority."


def _pods(count: int) -> str:
    return "1 pod" if count == 1 else f"{count} pods"
