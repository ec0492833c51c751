"""The plugin that makes a provisioning request a gang, and reports the outcome of its attempt."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from bayplan.core.cluster.pod_info import PodInfo
from bayplan.core.framework.events import EventHint
from bayplan.core.framework.gangs import Gang, GangOutcome
from bayplan.core.framework.interface import Answer, CycleState
from bayplan.core.framework.resizes import OnlyPlaces


class RequestsAsGangs(Protocol):
    """What the plugin asks about requests."""

    def gang_of(self, pod: PodInfo) -> Gang | None:
        """The request of a pod that stands for a place, as a gang."""

    def decided(self, gang: Gang, outcome: GangOutcome, message: str) -> None:
        """An attempt of a request has ended."""


class ProvisioningRequests(OnlyPlaces):
    """Places all pods of a request, or none."""

    name = "ProvisioningRequests"

    def __init__(self, requests: RequestsAsGangs) -> None:
        self._requests = requests

    def gang_of(self, pod: PodInfo) -> Gang | None:
        """Return all pods of the request."""
        return self._requests.gang_of(pod)

    def gang_decided(self, gang: Gang, outcome: GangOutcome, message: str) -> None:
        """Report the outcome."""
        self._requests.decided(gang, outcome, message)

    def permit(self, cycle: CycleState, pod: PodInfo, node_name: str) -> Answer:
        """Let every pod pass: they are placed together, or not at all."""
        return None

    def events(self) -> Iterable[EventHint]:
        """Register nothing: the plugins that reject pods of a request know what helps."""
        return ()
